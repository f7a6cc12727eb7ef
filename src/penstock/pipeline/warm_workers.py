"""Spark's daemon of Python workers, with the workers' imports done before it forks them.

Spark imports in each worker, as a module that starts threads must not be there before a fork. What is named here starts
none: no pyarrow, no numpy, no numba.
"""

import gc
from importlib import import_module
from typing import Final

from pyspark import daemon

BEFORE_THE_FORK: Final = ("pyspark.worker", "penstock.client.blocking", "penstock.pipeline.options.source")


def import_all() -> None:
    """What was imported stays out of the collector's way, so that the workers share its pages."""
    for name in BEFORE_THE_FORK:
        import_module(name)
    gc.freeze()


if __name__ == "__main__":
    import_all()
    daemon.manager()
