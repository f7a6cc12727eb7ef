"""A console and a worker beside a node: with what they are begun, and what is said when there is none."""

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.stand_in import stand_in

from penstock.cli.nodes import start_console
from penstock.cli.nodes.start_console import reachable, run_beside, write_users
from penstock.cli.nodes.start_worker import worker_config


@pytest.mark.parametrize(
    ("host", "where"),
    [("0.0.0.0", "127.0.0.1:9"), ("::", "127.0.0.1:9"), ("", "127.0.0.1:9"), ("10.0.0.1", "10.0.0.1:9"), ("h", "h:9")],
)
def test_where_a_listener_is_reached_from_here(host: str, where: str) -> None:
    assert reachable(host, 9) == where
    assert worker_config((host, 9), 8083)["bootstrap.servers"] == where


def test_a_workers_settings() -> None:
    found = worker_config(("h", 9), 8083)
    assert (found["group.id"], found["listeners"]) == ("connect", "http://127.0.0.1:8083")
    for store in ("config", "offset", "status"):
        assert found[f"{store}.storage.topic"] == f"connect-{store}"
        assert found[f"{store}.storage.replication.factor"] == "-1"
    assert len(found) == 9


def test_a_password_is_drawn_once_and_for_nobody_elses_eyes(tmp_path: Path) -> None:
    write_users(tmp_path / "users", "admin")
    text = (tmp_path / "users").read_text()
    assert re.fullmatch(r"admin=[A-Za-z0-9_-]{20}\n", text)
    assert (tmp_path / "users").stat().st_mode & 0o777 == 0o600
    write_users(tmp_path / "users", "admin")
    assert (tmp_path / "users").read_text() == text
    write_users(tmp_path / "others", "admin")
    assert (tmp_path / "others").read_text() != text


class Process:
    """Ends by itself with `code`, or when it is told to, or never."""

    def __init__(self, code: int | None, *, hangs: bool = False, is_gone: bool = False) -> None:
        self.returncode = code
        self.told: list[str] = []
        self._hangs, self._is_gone = hangs, is_gone
        self._ended = asyncio.Event()
        if code is not None:
            self._ended.set()

    async def wait(self) -> int | None:
        self.told.append("wait")
        await self._ended.wait()
        return self.returncode

    def terminate(self) -> None:
        self.told.append("terminate")
        if self._is_gone:
            raise ProcessLookupError
        if not self._hangs:
            self.returncode = -15
            self._ended.set()


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The next process, and then the words that it was begun with."""
    found: list[Any] = []

    async def begin(*words: str, stdin: int) -> Process:
        assert stdin == asyncio.subprocess.PIPE
        found.append(words)
        process: Process = found[0]
        return process

    monkeypatch.setattr(start_console, "asyncio", stand_in(asyncio, create_subprocess_exec=begin))
    monkeypatch.setattr(start_console, "STOP_S", 0.01)
    return found


async def test_a_console_that_ends_is_told_of(begun: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    begun.append(Process(3))
    await run_beside("h:9", 8085, ["--users", "f"])
    fixed = ("console", "--bootstrap-server", "h:9", "--listen", "127.0.0.1:8085", "--until-eof", "--users", "f")
    assert begun[1] == (sys.executable, "-m", "penstock", *fixed)
    words = "the console ended with exit code 3; to start it again: penstock console\n"
    assert capsys.readouterr() == ("", words)
    assert begun[0].told == ["wait"]


@pytest.mark.parametrize("more", [{}, {"hangs": True}, {"hangs": True, "is_gone": True}])
async def test_it_ends_with_the_nodes(
    begun: list[Any], more: dict[str, bool], capsys: pytest.CaptureFixture[str]
) -> None:
    begun.append(Process(None, **more))
    task = asyncio.create_task(run_beside("h:9", 8085))
    while len(begun) < 2 or not begun[0].told:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert begun[0].told == ["wait", "terminate", "wait"]
    assert capsys.readouterr() == ("", "")
