"""Spark's daemon of Python workers, with the workers' imports done before it forks them.

Spark imports in each worker, as a module that starts threads must not be there before a fork. What is named here starts
none but that of pyarrow's allocator, which knows of forks.

Workers of tasks have the writer beforehand, and with it pyarrow and numpy, which Spark tells to have one thread, and
the messages of its first requests; no numba. What plans does without these: each kind of plan has a daemon of its own.
In a driver with many queries the workers that plan the first batch of each have the reader, as planners of streams do
(`warm_planners`).
"""

import gc
import os
import sys
from importlib import import_module
from typing import Final

from pyspark import daemon

from penstock.client.blocking.connection import make_ready
from penstock.pipeline import ask_planners
from penstock.protocol.requests.api import ApiKey

PLANS: Final = "pyspark.sql.worker.plan_data_source_read"
READER: Final = "penstock.pipeline.datasource.limited_reader"
TASKS: Final = "pyspark.worker"
WRITER: Final = "penstock.pipeline.datasource.writer"
BEFORE_THE_FORK: Final = (
    TASKS,
    "encodings.idna",  # of the names of brokers
    "pyspark.sql.datasource",
    "penstock.client.blocking.produce",
    "penstock.client.blocking.transactions",
    "penstock.pipeline.options.sink",
    "penstock.pipeline.options.source",
)
ASKED: Final = (ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.PRODUCE)
"""What a new worker asks of brokers with its first rows."""


def import_all() -> None:
    """What was imported stays out of the collector's way, so that the workers share its pages.

    Each has random numbers of its own: those of numpy would go on from the same place in all, where it has begun with
    them on its import.
    """
    for name in (*BEFORE_THE_FORK, *for_its_kind()):
        import_module(name)
    if sys.argv[1:] == [TASKS]:
        make_ready(*ASKED)
    if (random := sys.modules.get("numpy.random")) is not None:
        os.register_at_fork(after_in_child=random.seed)
    gc.freeze()


def for_its_kind() -> tuple[str, ...]:
    """What the workers of such a daemon have beforehand as well."""
    kind = sys.argv[1:]
    if kind == [TASKS]:
        return (WRITER,)
    return (PLANS, READER) if kind == [PLANS] and ask_planners.PLACE in os.environ else ()


if __name__ == "__main__":
    import_all()
    daemon.manager()
