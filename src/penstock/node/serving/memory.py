"""What a node asks of its interpreter and its C library: to hold the event loop briefly, and to keep little memory.

glibc keeps freed memory until it is told to trim. That is done when a thousand connections are gone, by a thread. And
it gives threads arenas of their own, up to eight for each processor, of which each keeps what was freed in it: 5 MB in
all behind hostile requests, which threads take apart. A node's threads share one: they hold the interpreter's lock
while they allocate, but for a few that unpack.

The collector has little to do there: what a node lets go of, as a connection or a topic, is freed at once. A look at
all that a large node has would hold the event loop for a second, so it looks at what is new, and that is frozen then.
"""

import ctypes
import gc
import os
import sys

SWITCH_S = 0.0001
"""How long a thread keeps the interpreter from the event loop whenever that returns from a system call.

Python's own 5 ms are 20 in a round trip: select, recv, write and send each let the thread in. Under all attacks at
once a round trip's p99 is 16 ms with 0.5 ms, 14 with this and 13 with half of this, while all that threads do takes 8 %
longer with this than with 0.5 ms, and 17 % with half of this.
"""
COLLECTIONS = (700, 5, 2)
"""Python's own numbers, but that it looks at everything each time that some ten thousand objects more stay. That is
no more than these, and a few milliseconds, however large the node is, as what has stayed is frozen then.
"""
BESIDE_OTHERS = (700, 10, 1000)
"""Nothing is frozen later where another's code is in the process, which may leave circles: the collector looks at all
objects a hundred times more seldom than Python's own 10, as hundreds of thousands of them are 50 ms."""
EVERYTHING = 2
"""The generation of what is not frozen and has stayed."""

AT_START = (100_000, 10, 1000)
"""A start makes very many objects that stay: the collector would look at each of them, and find nothing."""

M_ARENA_MAX = -8
"""Of glibc's mallopt."""
ARENAS = 2
"""With one, threads that unpack and the event loop wait for each other: under all attacks at once a round trip took
twice as long, and what is given back late came to 30 MB more, in two runs of five. With eight it is 6 MB more.
"""


def share_memory() -> None:
    """Let all threads have their memory from two arenas, unless MALLOC_ARENA_MAX says otherwise. To be called before
    there are threads, in a process that is a node and nothing else.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None and "MALLOC_ARENA_MAX" not in os.environ and not _is_tuned():
        mallopt(M_ARENA_MAX, ARENAS)


def _is_tuned() -> bool:
    return "glibc.malloc.arena_max" in os.environ.get("GLIBC_TUNABLES", "")


def hold_briefly() -> None:
    """Let neither threads nor the collector hold the event loop for long, from the start on.

    For a process that is a node and nothing else, as it concerns all threads.
    """
    gc.set_threshold(*AT_START)
    sys.setswitchinterval(SWITCH_S)


def keep_for_good(*, as_it_grows: bool) -> None:
    """The node has started. What is there now (modules, declarations, metadata) stays: the collector need not look at
    it again. `as_it_grows`: nor at what stays later. What a node lets go of leaves no circle, so that it is freed by
    itself (`tests/wire/test_no_circles.py`); the code of others, as a worker beside the node has it, may leave some.

    For a process that is a node: in another's process it would keep what is not ours.
    """
    gc.collect()
    gc.freeze()
    if as_it_grows:
        gc.collect()  # Python waits until what is new is a quarter of what such a look has left: of nothing now
        gc.callbacks.append(_keep_what_is_left)
    gc.set_threshold(*(COLLECTIONS if as_it_grows else BESIDE_OTHERS))


def _keep_what_is_left(phase: str, info: dict[str, int]) -> None:
    if phase == "stop" and info["generation"] == EVERYTHING:
        gc.freeze()


def give_back_memory() -> None:
    """Return free memory to the system where its C library knows how; a thread may do it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
