"""What `penstock start` makes of its options, what it says, and who hears of signals; nodes are played."""

import asyncio
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.stand_in import stand_in

from penstock import __version__
from penstock.cli import start
from penstock.cli.nodes import start_console, start_nodes, start_worker
from penstock.metadata.configs.broker_config import BrokerConfig

CONTROLLER = (
    "node.id=7\nprocess.roles=controller\ncontroller.listener.names=CONTROLLER\nlisteners=CONTROLLER://127.0.0.1:0\n"
    "controller.quorum.voters=7@127.0.0.1:9093\n"
)


BROKER = (
    "node.id=7\nprocess.roles=broker\ncontroller.listener.names=CONTROLLER\ncontroller.quorum.voters=8@127.0.0.1:9093\n"
)


class Begun:
    """What was begun, and with what."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    async def run(self, config: BrokerConfig, **named: Any) -> None:
        self.calls.append((config.node_id, named["until_eof"], named["beside"], named["watched"].func.__name__))

    def nodes(self, *given: Any, **named: Any) -> None:
        self.calls.append((*given, named))


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Begun:
    found = Begun()
    monkeypatch.setattr(start, "_run", found.run)
    monkeypatch.setattr(start_nodes, "start_nodes", found.nodes)
    monkeypatch.setattr(start, "begin_logging", lambda level: found.calls.append(level))
    monkeypatch.setattr(start, "hold_briefly", lambda: found.calls.append("held briefly"))
    monkeypatch.setattr(start, "share_memory", lambda: found.calls.append("shared"))
    return found


def invoked(path: Path, *words: str) -> Result:
    (path / "controller").write_text(f"{CONTROLLER}log.dirs={path}/c\n")
    return CliRunner().invoke(start.command, [word.replace("PATH", str(path)) for word in words])


PREPARED = ["held briefly", "shared"]


@pytest.mark.parametrize(
    ("words", "level", "rest"),
    [
        ([], "WARNING", (1, False, {}, "_end_in_time")),
        (["--log-level", "debug", "--until-eof"], "DEBUG", (1, True, {}, "_end_in_time")),
        (["--worker"], "WARNING", (1, False, {"worker": 8083}, "_end_in_time")),
        (["--worker", "--worker-port", "5"], "WARNING", (1, False, {"worker": 5}, "_end_in_time")),
        (["--worker-port", "5", "--console-port", "6"], "WARNING", (1, False, {}, "_end_in_time")),
        (["--console"], "WARNING", (1, False, {"console": 8085}, "_end_in_time")),
        (
            ["--console", "--console-port", "6", "--worker"],
            "WARNING",
            (1, False, {"console": 6, "worker": 8083}, "_end_in_time"),
        ),
    ],
)
def test_a_node_is_run_as_options_say(words: list[str], level: str, rest: object, begun: Begun, tmp_path: Path) -> None:
    done = invoked(tmp_path, "--set", "log.dirs=PATH/d", *words)
    assert (done.exit_code, done.output) == (0, "")
    assert begun.calls == [level, *PREPARED, rest]


def test_a_controller_runs_alone(begun: Begun, tmp_path: Path) -> None:
    assert invoked(tmp_path, "PATH/controller").exit_code == 0
    assert begun.calls[-1] == (7, False, {}, "_end_in_time")


@pytest.mark.parametrize(
    ("words", "given", "named"),
    [
        (["--nodes", "3"], (3, Path("penstock-data"), None, (), "warning"), {"secure": False, "console_port": None}),
        (
            [
                *("--nodes", "1", "--directory", "d", "--port", "0", "--secure", "--console", "--set", "a=b"),
                *("--log-level", "info", "--worker-port", "5"),
            ],
            (1, Path("d"), 0, ("a=b",), "info"),
            {"secure": True, "console_port": 8085},
        ),
        (
            ["--nodes", "99", "--port", "55000", "--console-port", "7"],
            (99, Path("penstock-data"), 55_000, (), "warning"),
            {"secure": False, "console_port": None},
        ),
    ],
)
def test_several_nodes(words: list[str], given: tuple[Any, ...], named: Any, begun: Begun, tmp_path: Path) -> None:
    assert invoked(tmp_path, *words).exit_code == 0
    assert begun.calls == [(*given, named)]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("--nodes 2 PATH/controller", "give either FILE, for one node, or --nodes"),
        ("--nodes 2 --worker", "give either --worker, for one node, or --nodes"),
        ("--nodes 0", "Invalid value for '--nodes': 0 is not in the range 1<=x<=99."),
        ("--nodes 100", "Invalid value for '--nodes': 100 is not in the range 1<=x<=99."),
        ("--nodes 2 --port 55001", "Invalid value for '--port': 55001 is not in the range 0<=x<=55000."),
        ("--nodes 2 --port -1", "Invalid value for '--port': -1 is not in the range 0<=x<=55000."),
        ("--worker --worker-port -1", "Invalid value for '--worker-port': -1 is not in the range 0<=x<=65535."),
        ("--worker --worker-port 65536", "Invalid value for '--worker-port': 65536 is not in the range 0<=x<=65535."),
        ("--console --console-port -1", "Invalid value for '--console-port': -1 is not in the range 0<=x<=65535."),
        (
            "--console --console-port 65536",
            "Invalid value for '--console-port': 65536 is not in the range 0<=x<=65535.",
        ),
        ("--directory d", "--directory and --port go with --nodes; for one node set log.dirs and listeners"),
        ("--port 0", "--directory and --port go with --nodes; for one node set log.dirs and listeners"),
        ("--secure", "--secure goes with --nodes; `penstock security init` makes the files of other nodes"),
        ("PATH/controller --worker", "--worker needs a node that is a broker"),
        ("PATH/controller --console", "--console needs a node that is a broker"),
        ("PATH/controller --console --worker", "--worker needs a node that is a broker"),
    ],
)
def test_options_that_do_not_go_together(words: str, why: str, begun: Begun, tmp_path: Path) -> None:
    done = invoked(tmp_path, *words.split())
    assert (done.exit_code, " ".join(done.output.partition("Error: ")[2].split())) == (2, why)
    assert begun.calls == []


def test_what_is_wrong_with_settings_is_told(begun: Begun, tmp_path: Path) -> None:
    done = invoked(tmp_path, "--set", "log.dirs=PATH/d", "--set", "num.partitions=x")
    assert (done.exit_code, done.output) == (
        1,
        "Error: num.partitions: 'x' is not allowed; expected an int of at least 1\n",
    )
    done = invoked(tmp_path, "--set", "nothing")
    assert (done.exit_code, begun.calls) == (1, [])


def test_a_place_where_there_is_nothing_yet_is_told_of(begun: Begun, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(BROKER)
    told = (
        f"warning: no log directory of {tmp_path}/file was formatted ({tmp_path}/a, {tmp_path}/b): this starts as a "
        "new node; if it had data before, is its disk mounted?\n"
    )
    words = ("PATH/file", "--set", "log.dirs=PATH/a,PATH/b", "--set", "listeners=PLAINTEXT://127.0.0.1:0")
    done = invoked(tmp_path, *words)
    assert (done.stdout, told in done.stderr) == ("", True)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=7\n")
    assert "formatted" not in invoked(tmp_path, *words).stderr
    assert len(begun.calls) == 8


def test_warnings_go_to_the_standard_error(begun: Begun, tmp_path: Path) -> None:
    done = invoked(tmp_path, "--set", "log.dirs=PATH/d", "--set", "no.such.key=1")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.startswith("warning: ")
    assert "no.such.key" in done.stderr


def test_what_a_node_says_of_itself(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    endpoints = [
        SimpleNamespace(listener=name, host="h", port=port) for name, port in (("PLAINTEXT", 1), ("CONTROLLER", 2))
    ]
    node: Any = SimpleNamespace(endpoints=endpoints, log_dirs=[str(tmp_path / "a"), "b"], cluster_id="its id")
    start._announce(BrokerConfig.embedded({"node.id": "7"}), node)
    assert capsys.readouterr().out.splitlines() == [
        f"Penstock {__version__}, node 7 of cluster its id",
        "  listens on  PLAINTEXT://h:1, CONTROLLER://h:2",
        f"  data in     {tmp_path}/a, {Path('b').absolute()}",
        f"  to stop     Ctrl-C, or kill {os.getpid()}",
    ]


def waited_for(**more: Any) -> Any:
    state = {"is_running": True, "hears_leader": False, "leader_id": 3, "quorum": SimpleNamespace(ids=[1, 2])} | more
    return SimpleNamespace(quorum=SimpleNamespace(**state))


async def test_what_a_node_waits_for_is_said_less_and_less_often(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nobody = SimpleNamespace(ids=[])
    seen = [None, SimpleNamespace(quorum=None), waited_for(is_running=False, hears_leader=True)]
    seen += [waited_for(), waited_for(quorum=nobody), waited_for(hears_leader=True)]
    parts: list[Any] = []
    pauses: list[float] = []
    said: list[str] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        said.append(capsys.readouterr().out)
        if len(pauses) > len(seen):
            raise asyncio.CancelledError
        now = seen[len(pauses) - 1]
        parts[:] = [] if now is None else [now]

    monkeypatch.setattr(start, "asyncio", stand_in(asyncio, sleep=sleep))
    with pytest.raises(asyncio.CancelledError):
        await start._tell_of_waiting(BrokerConfig.embedded({"node.id": "7"}), parts)
    assert pauses == [3, 6, 12, 24, 48, 96, 192]
    waits = "it waits for the active controller, and controllers need a majority of"
    assert said == [
        *("", "", "", ""),
        f"node 7 does not serve yet: {waits} 1, 2 to run\n",
        f"node 7 does not serve yet: {waits} them to run\n",
        "node 7 does not serve yet: controller 3 is active, and has not let it in\n",
    ]


@pytest.mark.parametrize("ports", [{}, {"worker": 1}, {"console": 2}, {"console": 2, "worker": 1}])
async def test_what_runs_beside_a_node(ports: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, object] = {}

    async def worker(broker: object, port: int) -> None:
        found["worker"] = (broker, port)

    async def console(server: str, port: int) -> None:
        found["console"] = (server, port)

    monkeypatch.setattr(start_worker, "run_beside", worker)
    monkeypatch.setattr(start_console, "run_beside", console)
    node: Any = SimpleNamespace(endpoints=[SimpleNamespace(host="0.0.0.0", port=9), SimpleNamespace(host="h", port=8)])
    tasks = start._start_beside(node, ports)
    await asyncio.gather(*tasks)
    expected = {"worker": (("0.0.0.0", 9), 1), "console": ("127.0.0.1:9", 2)}
    assert (len(tasks), found) == (len(ports), {name: expected[name] for name in ports})


@pytest.mark.parametrize(("is_ready", "state"), [(True, b"READY=1"), (False, b"STOPPING=1")])
def test_who_waits_for_the_node_is_told(
    is_ready: bool, state: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(start, "os", stand_in(os, environ={}))
    start._tell_service_manager(is_ready=is_ready)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(str(tmp_path / "s"))
        told.setblocking(False)
        monkeypatch.setattr(start, "os", stand_in(os, environ={"NOTIFY_SOCKET": str(tmp_path / "s")}))
        start._tell_service_manager(is_ready=is_ready)
        assert told.recv(99) == state
        with pytest.raises(BlockingIOError):
            told.recv(99)


# -- the end -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    for end in ends:
        os.set_blocking(end, False)
    yield ends
    for end in ends:
        os.close(end)


async def test_the_end_of_the_input_stops_a_node(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    removed: list[int] = []
    loop: Any = SimpleNamespace(remove_reader=removed.append)
    stop = asyncio.Event()
    monkeypatch.setattr(start, "sys", SimpleNamespace(stdin=SimpleNamespace(fileno=lambda: pipe[0])))
    os.write(pipe[1], b"ab")
    start._stop_at_eof(loop, stop)
    assert (os.read(pipe[0], 9), removed, stop.is_set()) == (b"b", [], False)
    empty = os.open(os.devnull, os.O_RDONLY)
    monkeypatch.setattr(start, "sys", SimpleNamespace(stdin=SimpleNamespace(fileno=lambda: empty)))
    start._stop_at_eof(loop, stop)
    os.close(empty)
    assert (removed, stop.is_set()) == ([empty], True)


async def test_the_first_of_two_is_waited_for() -> None:
    stop = asyncio.Event()
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    before = asyncio.all_tasks()
    waiting = asyncio.create_task(start._first_of(future, stop))
    await asyncio.sleep(0)
    assert not waiting.done()
    future.set_result(1)
    await waiting
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before, "nobody waits for the other one"
    stop.set()
    await start._first_of(asyncio.get_running_loop().create_future(), stop)


class EndedError(Exception):
    pass


@pytest.mark.parametrize(
    ("heard", "waits", "passed_on", "end"),
    [
        ([15, None], [None, 5.0], [15], "at its time"),
        ([0, None], [None, 5.0], [], "at its time"),
        ([2, 15], [None, 5.0], [2], 143),
        ([15, 2], [None, 5.0], [15], 130),
        ([0, 2], [None, 5.0], [], 130),
        ([2, 0, None], [None, 5.0, 4.0], [2], "at its time"),
        ([0, 0, None], [None, 5.0, 4.0], [], "at its time"),
        ([17, 17, 15, None], [None, None, None, 5.0], [17, 17, 15], "at its time"),
        ([15, 17, None], [None, 5.0, 4.0], [15, 17], "at its time"),
        ([15, *[17] * 6, None], [None, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0, 0.0], [15, *[17] * 6], "at its time"),
    ],
)
def test_who_hears_of_signals_first(
    heard: list[int | None],
    waits: list[float | None],
    passed_on: list[int],
    end: object,
    pipe: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each time that it has heard, a second has gone; five are what a node has."""
    found: list[float | None] = []
    ended: list[object] = []
    left = iter(heard)

    def select(read: list[int], write: list[int], other: list[int], wait: float | None) -> tuple[list[int], ...]:
        found.append(wait)
        number = next(left)
        monkeypatch.setattr(start, "time", stand_in(time, monotonic=lambda: 100.0 + len(found) - 1))
        if number is None:
            return [], [], []
        numbers.append(number)
        return read, [], []

    def end_process(code: int) -> None:
        ended.append(code)
        raise EndedError

    numbers: list[int] = []
    monkeypatch.setattr(start, "select", SimpleNamespace(select=select))
    monkeypatch.setattr(start, "os", stand_in(os, read=lambda end, size: bytes([numbers.pop(0)]), _exit=end_process))
    monkeypatch.setattr(start, "_end", lambda config: ended.append("at its time"))
    config = BrokerConfig.embedded({"shutdown.timeout.ms": "5000"})
    try:
        start._hear(-1, pipe[1], config)
    except EndedError:
        pass
    assert (list(os.read(pipe[0], 99)) if passed_on else [], ended) == (passed_on, [end])
    assert found == waits


async def test_a_node_that_stops_says_so_and_waits_for_no_second_signal(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    set_to: list[object] = []
    loop = asyncio.get_running_loop()
    for number in start.STOP_SIGNALS:
        loop.add_signal_handler(number, list)
    stands = stand_in(signal, signal=lambda number, action: set_to.append((number, action)))
    monkeypatch.setattr(start, "signal", stands)
    start._stops(pipe[1])
    assert os.read(pipe[0], 9) == b"\0"
    assert set_to == [(signal.SIGINT, signal.SIG_DFL), (signal.SIGTERM, signal.SIG_DFL)]
    assert not any(loop.remove_signal_handler(number) for number in start.STOP_SIGNALS)


def test_a_thread_hears_of_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Any] = []
    ends: list[int] = []

    def set_wakeup_fd(end: int) -> int:
        ends.append(end)
        return 77

    class Thread:
        def __init__(self, **named: Any) -> None:
            begun.append(named)

        def start(self) -> None:
            begun.append("started")

    monkeypatch.setattr(start, "signal", stand_in(signal, set_wakeup_fd=set_wakeup_fd))
    monkeypatch.setattr(start, "threading", stand_in(threading, Thread=Thread))
    config = BrokerConfig.embedded({})
    stops: Any = start._end_in_time(config)
    (tells,) = ends
    named, started = begun
    heard = named["args"][0]
    try:
        assert named == {"target": start._hear, "args": (heard, 77, config), "name": "stop", "daemon": True}
        assert (started, stops.func, stops.args) == ("started", start._stops, (tells,))
        assert not os.get_blocking(tells)
        os.write(tells, b"x")
        assert os.read(heard, 9) == b"x"
    finally:
        os.close(tells)
        os.close(heard)
