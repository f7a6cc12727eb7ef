"""`penstock start --nodes`: what is said while nodes come up, end and are stopped. The processes are played."""

import asyncio
import io
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import click
import pytest
from tests.stand_in import stand_in

from penstock import __version__
from penstock.cli.nodes import start_nodes
from penstock.cli.nodes.local_nodes import LocalCluster, LocalNode
from penstock.cli.nodes.start_nodes import Child, Nodes
from penstock.testing.layout import OWN_KEYS
from penstock.testing.quorum_view import IN_THE_CLEAR

UP = "  to stop     Ctrl-C, or kill 7"
LOGGED = "2030-01-01 00:00:00,000 WARNING of peers"


class Process:
    """Says what it is told to say, and ends when it is told to, by itself or by a signal."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdout = self._lines()
        self.sent: list[signal.Signals] = []
        self._said: asyncio.Queue[bytes | None] = asyncio.Queue()

    def say(self, *lines: str) -> None:
        for line in lines:
            self._said.put_nowait(f"{line}\n".encode())

    def end(self, code: int) -> None:
        self.returncode = code
        self._said.put_nowait(None)

    async def _lines(self) -> AsyncIterator[bytes]:
        while (line := await self._said.get()) is not None:
            yield line

    async def wait(self) -> int:
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        self.sent.append(number)


class Played:
    """The processes by the number of their node, and what each of them was begun with."""

    def __init__(self) -> None:
        self.processes: list[Process] = []
        self.words: list[tuple[str, ...]] = []
        self.named: list[dict[str, Any]] = []

    async def begin(self, *words: str, **named: Any) -> Process:
        self.words.append(words)
        self.named.append(named)
        self.processes.append(Process(100 + len(self.processes) + 1))
        return self.processes[-1]


async def at_once(function: Callable[..., object], *arguments: object) -> object:
    return function(*arguments)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    found = Played()
    monkeypatch.setattr(
        start_nodes, "asyncio", stand_in(asyncio, create_subprocess_exec=found.begin, to_thread=at_once)
    )
    monkeypatch.setattr(start_nodes, "known_brokers", lambda address, way: {1, 2, 3})
    return found


def cluster_of(count: int, place: Path, clients: Path | None = None) -> LocalCluster:
    nodes = tuple(
        LocalNode(n, place / f"node-{n}", (f"PLAINTEXT://h:{n}", f"CONTROLLER://h:{n}0"), place / f"{n}")
        for n in range(1, count + 1)
    )
    return LocalCluster("its id", place, nodes, (), clients)


async def until(holds: Callable[[], object]) -> None:
    for _ in range(2_000):
        if holds():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never holds")


async def begun(nodes: Nodes, played: Played, count: int) -> "asyncio.Task[bool]":
    running = asyncio.create_task(nodes.run(["--more"], {"A": "1"}))
    await until(lambda: len(played.processes) == count)
    return running


async def serving(nodes: Nodes, played: Played, count: int, said: Callable[[], str]) -> "asyncio.Task[bool]":
    """All are up, and what was said of that is taken away."""
    running = await begun(nodes, played, count)
    for one in played.processes:
        one.say(UP)
    await until(lambda: "to stop" in said())
    return running


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    return lambda: capsys.readouterr().out


async def test_each_node_is_a_process_of_its_own(played: Played, tmp_path: Path) -> None:
    running = await begun(Nodes(cluster_of(2, tmp_path)), played, 2)
    for one in played.processes:
        one.end(1)
    assert not await running
    for number, (words, named) in enumerate(zip(played.words, played.named, strict=True), 1):
        fixed = (sys.executable, "-m", "penstock", "start", str(tmp_path / f"node-{number}"), "--until-eof", "--more")
        assert words == fixed
        assert named == {
            "stdin": asyncio.subprocess.PIPE,
            "stdout": asyncio.subprocess.PIPE,
            "stderr": asyncio.subprocess.STDOUT,
            "env": {"A": "1"},
            "limit": 1 << 20,
            "process_group": 0,
        }


@pytest.mark.parametrize("clients", [None, Path("their")])
async def test_a_cluster_says_where_it_is_and_stops(
    clients: Path | None, played: Played, tmp_path: Path, said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways: list[object] = []

    def know_each_other(address: str, way: object) -> set[int]:
        ways.append((address, way))
        return {1, 2}

    monkeypatch.setattr(start_nodes, "way_of", lambda file: f"as {file}")
    monkeypatch.setattr(start_nodes, "known_brokers", know_each_other)
    nodes = Nodes(cluster_of(2, tmp_path, clients))
    running = await begun(nodes, played, 2)
    for one in played.processes:
        one.say("Penstock 1", LOGGED, UP)
    shown = ""

    def is_announced() -> bool:
        nonlocal shown
        shown += said()
        return "to stop" in shown

    await until(is_announced)
    files = [] if clients is None else ["  clients     their/app/client.properties (for --command-config; or admin's)"]
    assert shown.splitlines() == [
        f"Penstock {__version__}, cluster its id of 2 nodes",
        "  node 1      PLAINTEXT://h:1, CONTROLLER://h:10, pid 101",
        "  node 2      PLAINTEXT://h:2, CONTROLLER://h:20, pid 102",
        "  bootstrap   h:1,h:2",
        *files,
        f"  data in     {tmp_path}",
        f"  to stop     Ctrl-C, or kill {os.getpid()}",
    ]
    way = IN_THE_CLEAR if clients is None else "as their/admin/client.properties"
    assert ways == [("h:1", way), ("h:2", way)]
    played.processes[0].say("stopping", "  indented", "stopped", "Penstock 2", "hello", LOGGED)
    for count in (1, 2):
        signal.raise_signal(signal.SIGTERM)
        await until(lambda count=count: len(played.processes[1].sent) == count)  # type: ignore[misc]
    for one in played.processes:
        assert one.sent == [signal.SIGTERM, signal.SIGKILL]
        one.end(0)
    assert await running
    assert sorted(said().splitlines()) == sorted(["stopping", "node 1: hello", f"node 1: {LOGGED}", "stopped"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_stops_all(number: signal.Signals, played: Played, tmp_path: Path, said: Any) -> None:
    running = await serving(Nodes(cluster_of(3, tmp_path)), played, 3, said)
    signal.raise_signal(number)
    await until(lambda: len(played.processes[2].sent) == 1)
    assert [one.sent for one in played.processes] == [[signal.SIGTERM]] * 3
    for one in played.processes:
        one.end(-15)
    assert await running
    assert said() == "stopping\nstopped\n"


async def test_who_does_not_start_ends_all_and_what_it_logged_is_told(
    played: Played, tmp_path: Path, said: Any
) -> None:
    running = await begun(Nodes(cluster_of(2, tmp_path)), played, 2)
    played.processes[0].say(UP)
    played.processes[1].say(LOGGED, "Error: no")
    await until(lambda: said() == "node 2: Error: no\n")
    played.processes[1].end(1)
    await until(lambda: played.processes[0].sent)
    assert played.processes[0].sent == [signal.SIGTERM]
    assert played.processes[1].sent == []
    played.processes[0].end(0)
    assert not await running
    assert said() == f"{LOGGED}\nnode 2 did not start\nstopping\n"


async def test_a_node_that_ends_is_told_of_and_the_others_go_on(played: Played, tmp_path: Path, said: Any) -> None:
    running = await serving(Nodes(cluster_of(3, tmp_path)), played, 3, said)
    for number, code, words in (
        (2, -9, "was killed by SIGKILL; the others go on"),
        (1, 0, "was stopped; the other one goes on"),
        (3, 7, "ended with exit code 7; no node is left"),
    ):
        played.processes[number - 1].end(code)
        line = f"node {number} (pid {100 + number}) {words}; to start it again: penstock start {tmp_path}/node-{number}"
        await until(lambda line=line: said() == f"{line}\n")  # type: ignore[misc]
    assert not await running
    assert [one.sent for one in played.processes] == [[], [], []]


async def test_a_signal_before_a_process_is_there_waits_for_it(tmp_path: Path, played: Played) -> None:
    child = Child(cluster_of(1, tmp_path).nodes[0])
    assert not child.is_running
    child.send(signal.SIGTERM)
    running = asyncio.create_task(child.run([], {}))
    await until(lambda: played.processes)
    await until(lambda: played.processes[0].sent)
    assert child.is_running
    assert not child.ready.is_set()
    played.processes[0].end(3)
    assert await running == 3
    assert (child.ready.is_set(), child.serves, child.is_running) == (True, False, False)
    child.send(signal.SIGKILL)
    assert played.processes[0].sent == [signal.SIGTERM]


async def test_all_have_to_know_all_that_run(
    played: Played, tmp_path: Path, said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    known = [{1}, {1, 2, 9}, {2}, {1, 2}]

    def look(address: str, way: object) -> set[int]:
        asked.append(address)
        return known[len(asked) - 1]

    monkeypatch.setattr(start_nodes, "known_brokers", look)
    monkeypatch.setattr(start_nodes, "PAUSE_S", 0)
    running = await serving(Nodes(cluster_of(2, tmp_path)), played, 2, said)
    assert asked == ["h:1", "h:1", "h:2", "h:2"]
    for one in played.processes:
        one.end(0)
    assert not await running


@pytest.mark.parametrize("is_terminal", [True, False])
async def test_a_line_that_changes_is_for_terminals(
    is_terminal: bool, played: Played, tmp_path: Path, said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    error = io.StringIO()
    monkeypatch.setattr(error, "isatty", lambda: is_terminal, raising=False)
    monkeypatch.setattr(start_nodes, "sys", stand_in(sys, stderr=error))
    monkeypatch.setattr(start_nodes, "say_in_place", shown.append)
    running = await begun(Nodes(cluster_of(2, tmp_path)), played, 2)
    await until(lambda: shown or not is_terminal)
    played.processes[1].say(UP)
    await until(lambda: len(shown) == 2 or not is_terminal)
    played.processes[0].say(UP)
    await until(lambda: "to stop" in said())
    for one in played.processes:
        one.end(0)
    assert not await running
    steps = ["0 of 2 are up", "1 of 2 are up", "waiting until each knows the others"]
    expected = [f"starting 2 nodes: {step}" for step in steps] + [""] * 4
    assert shown == (expected if is_terminal else [])


# -- the console beside them -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("clients", [None, Path("their")])
async def test_a_console_is_beside_them(
    clients: Path | None, played: Played, tmp_path: Path, said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside: list[object] = []

    async def run_beside(servers: str, port: int, options: list[str]) -> None:
        beside.extend((servers, port, options))
        try:
            await asyncio.Event().wait()
        finally:
            beside.append("ended")

    monkeypatch.setattr(start_nodes, "run_beside", run_beside)
    monkeypatch.setattr(start_nodes, "way_of", lambda file: None)
    running = await begun(Nodes(cluster_of(2, tmp_path, clients), 8085), played, 2)
    for one in played.processes:
        one.say(UP)
    await until(lambda: len(beside) == 3)
    users = tmp_path / "console-users.properties"
    options = [] if clients is None else ["--command-config", "their/admin/client.properties", "--users", str(users)]
    assert beside == ["h:1,h:2", 8085, options]
    told = [] if clients is None else [f"  console     for admin, with the password in {users}"]
    assert [line for line in said().splitlines() if line.startswith("  console")] == told
    assert users.exists() == (clients is not None)
    if clients is not None:
        assert users.read_text().startswith("admin=")
    for one in played.processes:
        one.end(0)
    assert not await running
    assert beside[3:] == ["ended"]


# -- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[object]:
    """What was asked for, and with what the nodes were run."""
    found: list[object] = []

    class Port:
        def make_way(self) -> None:
            found.append("makes way")

    def local(directory: Path, count: int, port: int | None, *, secure: bool) -> LocalCluster:
        found.append((directory, count, port, secure))
        return cluster_of(count, tmp_path).replace(ports=(Port(), Port()))

    class Run(Nodes):
        async def run(self, arguments: Any, environment: Any) -> bool:
            found.append((self._console_port, list(arguments), environment))
            return bool(arguments[1] == "info")

    monkeypatch.setattr(start_nodes, "local_cluster", local)
    monkeypatch.setattr(start_nodes, "Nodes", Run)
    monkeypatch.setattr(
        start_nodes,
        "os",
        stand_in(os, environ={"PENSTOCK_NODE_ID": "3", "PENSTOCK_LOG_DIRS": "/x", "PENSTOCK_NUM_PARTITIONS": "2"}),
    )
    return found


def test_what_nodes_are_started_with(made: list[object], tmp_path: Path) -> None:
    start_nodes.start_nodes(2, tmp_path, 7, ["a=1", "b=2"], "info", secure=True, console_port=5)
    assert made == [
        (tmp_path, 2, 7, True),
        "makes way",
        "makes way",
        (5, ["--log-level", "info", "--set", "a=1", "--set", "b=2"], {"PENSTOCK_NUM_PARTITIONS": "2"}),
    ]


def test_where_not_all_was_well_the_command_fails(made: list[object], tmp_path: Path) -> None:
    with pytest.raises(click.exceptions.Exit) as caught:
        start_nodes.start_nodes(1, tmp_path, None, [], "error", secure=False)
    assert caught.value.exit_code == 1
    assert made[0] == (tmp_path, 1, None, False)
    assert made[-1] == (None, ["--log-level", "error"], {"PENSTOCK_NUM_PARTITIONS": "2"})


@pytest.mark.parametrize("key", OWN_KEYS)
def test_what_differs_from_node_to_node_is_not_said_for_all(key: str, made: list[object], tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match=f"--set {key}: it differs from node to node"):
        start_nodes.start_nodes(1, tmp_path, None, ["a=1", f"{key}=x"], "info", secure=False)
    assert made == []
