"""Connections that outlive a task: Spark's Python workers are used again for task after task.

A cluster is lent to one user at a time. The process id is part of the key, as workers are forked and a child must not
use its parent's sockets.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.client.blocking import BlockingCluster, ClusterSettings

_idle: dict[tuple[int, ClusterSettings], BlockingCluster] = {}


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
