"""A node that does not start says so to whoever would watch it, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from tests.slices.measured import full_node
from tests.slices.monitor import WatchedNode


def test_a_node_that_does_not_start_tells_why_and_leaves_nothing(tmp_path: Path) -> None:
    run_callback, sockets = asyncio.Handle._run, _open_sockets()
    (no_directory := tmp_path / "file").touch()
    with pytest.raises(Exception, match=str(no_directory)), full_node(str(no_directory), 1, counts_lines=False):
        pass
    assert asyncio.Handle._run is run_callback
    assert _open_sockets() == sockets
    assert gc.isenabled()


def test_a_module_that_is_read_where_it_is_first_needed_is_not_counted() -> None:
    node = WatchedNode({})
    for module in ("colorsys", "nothing_that_there_is"):
        sys.modules.pop(module, None)

    def needs_modules() -> None:
        import colorsys  # noqa: F401

        with suppress(ImportError):
            import nothing_that_there_is  # type: ignore[import-not-found]  # noqa: F401
        counted()

    def counted() -> None:
        pass

    node._slice(asyncio.Handle(needs_modules, (), node._loop))
    node._loop.close()
    assert {code.co_name for code in node._lines} >= {"needs_modules", "counted"}
    assert not [code for code in node._lines if "importlib" in code.co_filename or "colorsys" in code.co_filename]


def _open_sockets() -> set[int]:
    return {one.fileno() for one in gc.get_objects() if isinstance(one, socket.socket)} - {-1}
