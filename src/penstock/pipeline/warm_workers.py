"""Spark's daemon of Python workers, with the workers' imports done before it forks them.

Spark imports in each worker, as a module that starts threads must not be there before a fork. What is named here starts
none but that of pyarrow's allocator, which knows of forks: with the writer come pyarrow and numpy, which Spark tells to
have one thread, but no numba. In a driver with many queries the workers that plan the first batch of each have the
reader beforehand, as planners of streams do (`warm_planners`).
"""

import gc
import os
import sys
from importlib import import_module
from typing import Final

from pyspark import daemon

from penstock.pipeline import ask_planners

PLANS: Final = "pyspark.sql.worker.plan_data_source_read"
READER: Final = "penstock.pipeline.datasource.limited_reader"
BEFORE_THE_FORK: Final = (
    "pyspark.worker",
    "pyspark.sql.datasource",
    "penstock.pipeline.datasource.writer",
    "penstock.pipeline.options.source",
)


def import_all() -> None:
    """What was imported stays out of the collector's way, so that the workers share its pages.

    Each has random numbers of its own: those of numpy would go on from the same place in all, where it has begun with
    them on its import.
    """
    for name in BEFORE_THE_FORK:
        import_module(name)
    if (random := sys.modules.get("numpy.random")) is not None:
        os.register_at_fork(after_in_child=random.seed)
    gc.freeze()


def before_planning() -> tuple[str, ...]:
    """What such workers have beforehand."""
    return (PLANS, READER) if ask_planners.PLACE in os.environ and sys.argv[1:] == [PLANS] else ()


if __name__ == "__main__":
    for module in before_planning():
        import_module(module)
    import_all()
    daemon.manager()
