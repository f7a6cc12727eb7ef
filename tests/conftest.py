"""How property tests draw: the same each time, so that a run fails by what was changed, and never by a busy machine.

`make soak` draws anew, and more.
"""

import asyncio
import gc
import os
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from penstock.testing.ports import ReservedPort

settings.register_profile("same", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.register_profile("soak", settings.get_profile("same"), derandomize=False, max_examples=300)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


GROUPS: Final = {"tests/spark/": "spark", "tests/cluster/test_pipeline_jobs.py": "spark", "tests/slices/": "slices"}
"""What shares a session of Spark, or a node with very much in it, is run by one process."""


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """Groups by the paths of tests: with pytest 9.2 the marks of xdist say nothing, and each process had a Spark."""

    def _split_scope(self, nodeid: str) -> str:
        return next((group for path, group in GROUPS.items() if nodeid.startswith(path)), None) or _unit_of(nodeid)


def _unit_of(nodeid: str) -> str:
    """Tests that share what their file makes once, a node most often, are run by one process, in their order."""
    path = nodeid.partition("::")[0]
    return path if _shares(path) else nodeid


@cache
def _shares(path: str) -> bool:
    return 'scope="module"' in Path(path).read_text()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling:
    return GroupScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that wait (clusters, clients) and tests that reckon (simulations) take turns, file by file.

    In the order of their folders the processors would be idle first, and crowded later.
    """
    items.sort(key=lambda item: crc32(item.nodeid.partition("::")[0].encode()))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What collecting makes stays: some 850,000 objects that need not be looked at again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def _threads_end_with_their_test() -> Iterator[None]:
    """A client that a failed test leaves behind would write into the logs of all that come later."""
    before = set(threading.enumerate())
    yield
    left = [thread for thread in set(threading.enumerate()) - before if _is_of_a_test(thread)]
    assert not left, "end them in a `finally` or a `with`"


LARGE_FILES: Final = (".log", ".deleted", ".log.cleaned", ".log.swap", ".checkpoint")
_removed_by_a_loop: list[str] = []


def _note_removal(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("os.remove", "os.rename") and asyncio._get_running_loop() is not None:
        path = str(arguments[event == "os.rename"])  # a rename removes what has that name
        if path.endswith(LARGE_FILES) and "/src/penstock/" in sys._getframe(1).f_code.co_filename:
            with suppress(OSError):
                _removed_by_a_loop.extend([path] * (os.path.getsize(path) > 0))


sys.addaudithook(_note_removal)


@pytest.fixture(autouse=True)
def _segments_are_removed_by_threads() -> Iterator[None]:
    """One of a gigabyte takes up to a second, and on an event loop everybody waits for that."""
    _removed_by_a_loop.clear()
    yield
    assert not _removed_by_a_loop, "rename it, and schedule its removal"


@pytest.fixture
def reserve_port() -> Iterator[Callable[[], int]]:
    """Gives ports of the loopback address on which nobody listens, except who is told of them."""
    with ExitStack() as held:

        def reserve() -> int:
            reserved = ReservedPort()
            held.callback(reserved.release)
            reserved.make_way()
            return reserved.port

        yield reserve


def _is_of_a_test(thread: threading.Thread) -> bool:
    """Helpers, such as a proxy that several tests share, end their threads when they end."""
    module = str(getattr(getattr(thread, "_target", None), "__module__", ""))
    return module.startswith("tests.") and module.rpartition(".")[2].startswith("test_")
