"""What nodes in this process let go of and do not free by themselves: only the collector would."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Find = Callable[[], list[str]]


@contextmanager
def without_collector() -> Iterator[Find]:
    """Nothing is collected within. Has what finds, and forgets, circles of our own objects that nobody reaches."""
    gc.disable()
    gc.collect()
    gc.freeze()  # what was there before is not looked at
    try:
        yield _found
    finally:
        gc.unfreeze()
        gc.enable()


def _found() -> list[str]:
    """Their classes; declarations that are made twice are no objects of ours."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
    finally:
        gc.set_debug(0)
    kinds = Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.garbage)
    gc.garbage.clear()
    gc.collect()
    return sorted(kind for kind in kinds if kind.startswith("penstock."))
