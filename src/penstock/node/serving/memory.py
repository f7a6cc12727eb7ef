"""Memory after a burst: what ten thousand connections took goes back to the system when they are gone.

asyncio's transports refer to themselves, so they are freed by the garbage collector only; and glibc keeps freed memory
until it is told to trim. Both are done after a burst, not in the course of things.
"""

from __future__ import annotations

import ctypes
import gc


def keep_for_good() -> None:
    """What is there now (modules, declarations) stays: the collector need not look at it again.

    For a process that is a node and nothing else: in another's process it would keep what is not ours.
    """
    gc.collect()
    gc.freeze()


def give_back_memory() -> None:
    """Free garbage, and return free memory to the system where its C library knows how."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
