"""A node that does not start says so to whoever would watch it, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import socket
from pathlib import Path

import pytest
from tests.slices.measured import full_node


def test_a_node_that_does_not_start_tells_why_and_leaves_nothing(tmp_path: Path) -> None:
    run_callback, sockets = asyncio.Handle._run, _open_sockets()
    (no_directory := tmp_path / "file").touch()
    with pytest.raises(Exception, match=str(no_directory)), full_node(str(no_directory), 1, counts_lines=False):
        pass
    assert asyncio.Handle._run is run_callback
    assert _open_sockets() == sockets
    assert gc.isenabled()


def _open_sockets() -> set[int]:
    return {one.fileno() for one in gc.get_objects() if isinstance(one, socket.socket)} - {-1}
