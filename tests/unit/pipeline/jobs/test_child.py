"""Processes that live as long as a worker may keep them; no Spark, but real processes."""

import asyncio
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.pipeline.jobs import child as child_module
from penstock.pipeline.jobs import guardian
from penstock.pipeline.jobs.child import MARGIN_S, GuardedProcess

LIMIT_S = 60
PARENT = """
import json, subprocess, sys
grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
print(json.dumps({"grandchild": grandchild.pid}), flush=True)
print("given:", sys.stdin.read(), flush=True)
grandchild.wait()
"""


class Running:
    """A process that has a process of its own."""

    def __init__(self, program: str = PARENT) -> None:
        self.until_s = math.inf
        self.events: list[dict[str, Any]] = []
        self.lines: list[str] = []
        self.child = GuardedProcess([sys.executable, "-c", program], "words", lambda: self.until_s, self)

    def event(self, said: dict[str, Any]) -> None:
        self.events.append(said)

    def line(self, line: str) -> None:
        self.lines.append(line)

    async def grandchild(self) -> int:
        await until(lambda: bool(self.lines))
        return int(self.events[0]["grandchild"])


async def until(condition: Any) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await asyncio.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is busy with other things may take long over what takes no time."""
    monkeypatch.setattr(child_module, "LAST_LINES_S", LIMIT_S)


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    if not Path("/proc/self/stat").exists():
        pytest.skip("it looks for processes in /proc")
    running = Running()
    yield running
    await running.child.stop()


async def test_it_gets_its_input_and_ends_in_good_order(running: Running) -> None:
    grandchild = await running.grandchild()
    assert running.lines == ["given: words"]
    assert is_alive(grandchild)
    await running.child.stop()
    assert running.child.exit_code == -signal.SIGTERM
    await until(lambda: not is_alive(grandchild))


PRINTS_ANYTHING = """
import os, sys
for line in (b'{"exit": "soon"}', b'{"refused": 1}', b'[' * 100_000, b'\\xff\\xfe', b'x' * 40):
    os.write(1, line + b"\\n")
os.write(1, b'{"last": 1}\\n')
sys.stdin.read()
"""


async def test_whatever_it_prints_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would wait without end for room to print."""

    def event(self: Running, said: dict[str, Any]) -> None:
        if "refused" in said:
            raise KeyError("rows")
        self.events.append(said)

    monkeypatch.setattr(Running, "event", event)
    monkeypatch.setattr(child_module, "MOST_OF_A_LINE", 30)
    running = Running(PRINTS_ANYTHING)
    await until(lambda: bool(running.events))
    assert running.events == [{"last": 1}]
    assert running.lines[:2] == ['{"exit": "soon"}', '{"refused": 1}']
    assert running.lines[-3:] == ["\ufffd\ufffd", "x" * 30, "x" * 10]
    assert len("".join(running.lines[2:-3])) == 100_000
    await running.child.stop()


LEAVES_FILES = """
import sys, tempfile
file = tempfile.NamedTemporaryFile(delete=False)
print(file.name, flush=True)
sys.stdin.read()
import time
time.sleep(1000)
"""


@pytest.mark.parametrize("ends_by", ["stop", "time", "the worker's death"])
async def test_its_temporary_files_go_with_it(ends_by: str) -> None:
    running = Running(LEAVES_FILES)
    await until(lambda: bool(running.lines))
    file = Path(running.lines[0])
    assert file.is_relative_to(running.child.folder)
    if ends_by == "stop":
        await running.child.stop()
    elif ends_by == "time":
        running.until_s = time.monotonic()
        running.child.renew()
    else:  # what it would say is at its end
        assert running.child._process.stdin is not None
        running.child._process.stdin.close()
    await until(lambda: not running.child.is_alive and not running.child.folder.exists())


async def test_all_of_it_ends_when_its_time_is_over_though_nobody_says_so(running: Running) -> None:
    grandchild = await running.grandchild()
    running.until_s = time.monotonic() + MARGIN_S + 0.2
    running.child.renew()
    await until(lambda: not is_alive(grandchild))
    await until(lambda: not running.child.is_alive)
    assert running.child.exit_code is None


ECHO = "import sys\nfor line in sys.stdin:\n    print(line, flush=True)\n"


async def test_what_comes_when_its_time_is_over_is_not_begun(running: Running, tmp_path: Path) -> None:
    """Its worker stood still behind its look at the clock."""
    program = f"open({str(tmp_path / 'begun')!r}, 'w')"
    late = GuardedProcess([sys.executable, "-I", "-S", "-c", program], "", lambda: -math.inf, running)
    await until(lambda: not late.is_alive)
    assert not (tmp_path / "begun").exists()


async def test_its_guardian_is_told_an_earlier_time_than_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another worker may have the task from then on: by then all of it has ended."""
    (tmp_path / "echo.py").write_text(ECHO)
    monkeypatch.setattr(guardian, "__file__", str(tmp_path / "echo.py"))
    running = Running()
    running.until_s = 1e9
    running.child.renew()
    await until(lambda: len(running.events) == 2)
    assert [event["until"] for event in running.events] == [math.inf, 1e9 - MARGIN_S]
    assert MARGIN_S > 0
    running.until_s = -math.inf
    await running.child.stop()


async def test_what_belongs_to_others_is_killed_at_once() -> None:
    stubborn = Running("import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + PARENT)
    grandchild = await stubborn.grandchild()
    stubborn.until_s = -math.inf
    await stubborn.child.stop()
    assert not stubborn.child.is_alive
    await until(lambda: not is_alive(grandchild))


SLOW = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: print("draining", flush=True))
print("begun", flush=True)
signal.pause()
signal.pause()
"""


async def test_one_that_ends_slowly_is_told_that_it_may_go_on_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Running(SLOW)
    await until(lambda: slow.lines == ["begun"])
    slow.until_s = time.monotonic() + MARGIN_S + LIMIT_S
    told: list[float] = []
    renew = slow.child.renew

    def noted() -> None:
        slow.until_s += 1
        renew()
        told.append(slow.until_s)

    monkeypatch.setattr(slow.child, "renew", noted)
    stopping = asyncio.create_task(slow.child.stop())
    await until(lambda: slow.lines == ["begun", "draining"] and len(told) > 1)
    assert slow.child.is_alive
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert not slow.child.is_alive


async def test_its_exit_code_and_last_words_are_known() -> None:
    ended = Running("import sys\nprint('last words', file=sys.stderr)\nraise SystemExit(3)")
    await until(lambda: not ended.child.is_alive)
    await ended.child.last_words()
    assert (ended.child.exit_code, ended.lines) == (3, ["last words"])
    await ended.child.stop()


async def test_it_ends_with_who_has_started_it(tmp_path: Path) -> None:
    """The end of the pipe is all that a worker that was killed leaves behind."""
    command = [sys.executable, "-I", "-S", str(guardian.__file__), sys.executable, "-c", PARENT]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True, cwd=tmp_path
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write('{"until": Infinity, "input": ""}\n')
    process.stdin.flush()
    grandchild = int(process.stdout.readline().partition(":")[2].strip(" }\n"))
    process.stdin.close()
    assert process.wait(LIMIT_S) == -signal.SIGKILL
    await until(lambda: not is_alive(grandchild))
    process.stdout.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


@pytest.mark.parametrize(("looks", "waits_s"), [(1, 0), (4, 0.3), (10**6, guardian.GONE_WITHIN_S)])
def test_whether_a_group_is_gone_is_looked_at_now_and_then(
    monkeypatch: pytest.MonkeyPatch, looks: int, waits_s: float
) -> None:
    now_s, seen = [0.0], []

    def look(group: int) -> bool:
        seen.append(group)
        return len(seen) < min(looks, 1_000)

    def sleep(by_s: float) -> None:
        now_s[0] += by_s

    monkeypatch.setattr(guardian, "_is_there", look)
    monkeypatch.setattr(guardian, "time", SimpleNamespace(monotonic=lambda: now_s[0], sleep=sleep))
    guardian.wait_until_gone(7)
    assert waits_s <= round(now_s[0], 6) <= waits_s + guardian.LOOK_EVERY_S
