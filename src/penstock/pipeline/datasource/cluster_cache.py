"""Connections that outlive a task: Spark's Python workers are used again for task after task.

A cluster is lent to one user at a time. The process id is part of the key, as workers are forked and a child must not
use its parent's sockets.
"""

import os
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from penstock.client.blocking import BlockingCluster, ClusterSettings

MOST_IDLE: Final = 16
"""Of other settings each: a process that goes on for long meets ever new ones, as passwords change."""

_idle: OrderedDict[tuple[int, ClusterSettings], BlockingCluster] = OrderedDict()
"""Who was lent last is the last."""


@contextmanager
def borrowed_cluster(settings: ClusterSettings) -> Iterator[BlockingCluster]:
    """For the time of a task; the cluster is closed instead of kept if the task fails."""
    key = (os.getpid(), settings)
    cluster = _idle.pop(key, None) or BlockingCluster(settings)
    try:
        yield cluster
    except BaseException:
        cluster.close()
        raise
    kept = _idle.setdefault(key, cluster)
    if kept is not cluster:
        cluster.close()
    if len(_idle) > MOST_IDLE:
        _idle.popitem(last=False)[1].close()
