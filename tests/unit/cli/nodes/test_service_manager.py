import socket
from pathlib import Path

import pytest

from penstock.cli.nodes.service_manager import READY, STOPPING, tell


@pytest.mark.parametrize("is_file", [True, False])
def test_a_state_arrives(tmp_path: Path, is_file: bool) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        address = str(tmp_path / "notify") if is_file else f"@{tmp_path}"
        manager.bind(address if is_file else f"\0{address[1:]}")
        tell(address, READY, "STATUS=well")
        assert manager.recv(100) == b"READY=1\nSTATUS=well"


def test_nobody_there_is_no_error(tmp_path: Path) -> None:
    tell(str(tmp_path / "gone"), STOPPING)


def test_a_manager_that_reads_nothing_holds_nobody(tmp_path: Path) -> None:
    """Its socket has no room any more: what it is told then is lost."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.setblocking(False)
        for _ in range(10_000):
            tell(str(tmp_path / "notify"), READY)
        kept = 0
        while _has_more(manager):
            kept += 1
        assert 0 < kept < 10_000


def _has_more(manager: socket.socket) -> bool:
    try:
        return manager.recv(100) == b"READY=1"
    except BlockingIOError:
        return False
