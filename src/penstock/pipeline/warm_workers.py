"""Spark's daemon of Python workers, with the workers' imports done before it forks them.

Spark imports in each worker, as a module that starts threads must not be there before a fork. What is named here starts
none: no pyarrow, no numpy, no numba. In a driver with many queries the workers that plan the first batch of each have
the reader beforehand, as planners of streams do (`warm_planners`).
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
    "penstock.client.blocking.produce",
    "penstock.client.blocking.transactions",
    "penstock.pipeline.options.sink",
    "penstock.pipeline.options.source",
)


def import_all() -> None:
    """What was imported stays out of the collector's way, so that the workers share its pages."""
    for name in BEFORE_THE_FORK:
        import_module(name)
    gc.freeze()


def before_planning() -> tuple[str, ...]:
    """What such workers have beforehand."""
    return (PLANS, READER) if ask_planners.PLACE in os.environ and sys.argv[1:] == [PLANS] else ()


if __name__ == "__main__":
    for module in before_planning():
        import_module(module)
    import_all()
    daemon.manager()
