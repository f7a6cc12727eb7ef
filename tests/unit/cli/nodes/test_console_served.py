"""`penstock console` while it serves: what it says, and when it ends."""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner
from tests.stand_in import stand_in

from penstock.cli.nodes import console, start_worker
from penstock.console.serving.passwords import is_hashed
from penstock.console.serving.settings import NotServedError
from penstock.protocol.secret import Secret
from penstock.work.connect.distributed.worker import DistributedWorker


class Told:
    """Of a logger: the levels that it was given."""

    def __init__(self) -> None:
        self.levels: list[tuple[str, int]] = []

    def logger(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(setLevel=lambda level: self.levels.append((name, level)))


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    found = Told()
    stands = stand_in(logging, getLogger=found.logger)
    monkeypatch.setattr(console, "logging", stands)
    monkeypatch.setattr(console, "begin_logging", lambda level: found.levels.append(("", level)))
    return found


def played(monkeypatch: pytest.MonkeyPatch, *, error: str | None = None) -> list[object]:
    """What happens to the server."""
    happens: list[object] = []

    @asynccontextmanager
    async def server(settings: object) -> AsyncIterator[SimpleNamespace]:
        if error is not None:
            raise NotServedError(error)
        happens.append(settings)
        yield SimpleNamespace(url="http://here")
        happens.append("ended")

    async def end(*, until_eof: bool) -> None:
        happens.append(until_eof)

    def run(work: Coroutine[Any, Any, None]) -> None:
        with pytest.raises(StopIteration):
            work.send(None)

    monkeypatch.setattr("penstock.console.serving.server.ConsoleServer", server)
    monkeypatch.setattr(console, "_end", end)
    monkeypatch.setattr(console, "run", run)
    return happens


@pytest.mark.parametrize("until_eof", [True, False])
def test_it_says_where_it_is(
    until_eof: bool, told: Told, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    happens = played(monkeypatch)
    settings: Any = SimpleNamespace(bootstrap_servers="h:1")
    console._serve(settings, until_eof=until_eof)
    assert happens == [settings, until_eof, "ended"]
    assert capsys.readouterr().out.splitlines() == [
        "console at http://here of the cluster at h:1",
        f"  to stop  Ctrl-C, or kill {os.getpid()}",
    ]
    assert told.levels == [("", logging.WARNING), ("penstock.console.audit", logging.INFO)]


def test_why_it_does_not_serve(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    played(monkeypatch, error="the port is taken")
    monkeypatch.setattr(console, "run", asyncio.run)
    settings: Any = SimpleNamespace(bootstrap_servers="h:1")
    with pytest.raises(click.ClickException, match="the port is taken"):
        console._serve(settings, until_eof=False)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_it(number: signal.Signals) -> None:
    ending = asyncio.create_task(console._end(until_eof=False))
    await asyncio.sleep(0)
    assert not ending.done()
    signal.raise_signal(number)
    await ending


async def test_the_end_of_its_input_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    reads, writes = os.pipe()
    monkeypatch.setattr(console, "sys", SimpleNamespace(stdin=SimpleNamespace(fileno=lambda: reads)))
    ending = asyncio.create_task(console._end(until_eof=True))
    os.write(writes, b"ab")
    for _ in range(10):
        await asyncio.sleep(0)
    assert not ending.done()
    os.close(writes)
    await ending
    assert not asyncio.get_running_loop().remove_reader(reads), "nobody waits for it any more"
    os.close(reads)


@pytest.mark.parametrize("name", ["ada", "a.b-c"])
def test_a_line_for_a_file_of_users(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def ask(question: str) -> str:
        asked.append(question)
        return "secret"

    monkeypatch.setattr(console, "ask_password", ask)
    done = CliRunner().invoke(console.command, ["--make-user", name])
    user, _, password = done.output.rstrip("\n").partition("=")
    assert (done.exit_code, user, asked, is_hashed(Secret(password))) == (0, name, [name], True)


@pytest.mark.parametrize("name", ["", *(f"a{it}b" for it in "=:# \\\t\n")])
def test_names_that_the_file_could_not_hold(name: str) -> None:
    done = CliRunner().invoke(console.command, ["--make-user", name])
    assert (done.exit_code, "a name has no blank" in done.output) == (2, True)


# -- a worker beside a node --------------------------------------------------------------------------------------------


async def test_a_worker_says_where_it_is_until_it_is_stopped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    happens: list[object] = []

    @asynccontextmanager
    async def running(kind: object, config: dict[str, str]) -> AsyncIterator[SimpleNamespace]:
        happens.append((kind, config))
        try:
            yield SimpleNamespace(server=SimpleNamespace(urls=["http://one", "http://two"]))
        finally:
            happens.append("ended")

    monkeypatch.setattr("penstock.work.connect.rest.running.RunningWorker", running)
    task = asyncio.create_task(start_worker.run_beside(("0.0.0.0", 9), 8083))
    for _ in range(10):
        await asyncio.sleep(0)
    assert happens == [(DistributedWorker, start_worker.worker_config(("0.0.0.0", 9), 8083))]
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert happens[1:] == ["ended"]
    assert capsys.readouterr() == ("  worker      http://one (`penstock connect`)\n", "")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError("the port is taken"), "there is no worker: the port is taken\n"),
        (ModuleNotFoundError("no x"), "there is no worker: no x: pip install 'penstock[work]'\n"),
    ],
)
async def test_why_there_is_no_worker(
    error: Exception, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr("penstock.work.connect.rest.running.RunningWorker", fails)
    await start_worker.run_beside(("h", 9), 8083)
    assert capsys.readouterr() == ("", words)
