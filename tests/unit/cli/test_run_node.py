"""What `penstock start` does with a node: it serves until a signal comes, or until it says that it cannot go on."""

import asyncio
import gc
import os
import signal
import sys
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tests.stand_in import stand_in

from penstock.cli import start as cli_start
from penstock.cli.start import _end, _run, command
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.node.assembly import start
from penstock.node.assembly.start import RunningNode


def config(directory: Path, **settings: str) -> BrokerConfig:
    return BrokerConfig.embedded(
        {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(directory)}
        | {key.replace("_", "."): value for key, value in settings.items()}
    )


@pytest.fixture
async def nodes(monkeypatch: pytest.MonkeyPatch) -> "asyncio.Queue[RunningNode]":
    """The nodes that are started, when they serve."""
    started: asyncio.Queue[RunningNode] = asyncio.Queue()
    start_node = start.start_node

    async def watched(*arguments: object, **named: object) -> RunningNode:
        node = await start_node(*arguments, **named)  # type: ignore[arg-type]
        started.put_nowait(node)
        return node

    monkeypatch.setattr(start, "start_node", watched)
    return started


@pytest.fixture(autouse=True)
def interpreter() -> Iterator[None]:
    """What a node sets for its whole process is put back."""
    threshold, switch_s, callbacks = gc.get_threshold(), sys.getswitchinterval(), list(gc.callbacks)
    yield
    gc.set_threshold(*threshold)
    gc.callbacks[:] = callbacks
    sys.setswitchinterval(switch_s)


def test_neither_threads_nor_the_collector_hold_a_node_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[tuple[float, int]] = []

    def run(_: asyncio.Runner, node: Coroutine[object, object, None]) -> None:
        found.append((sys.getswitchinterval(), gc.get_threshold()[2]))
        node.close()

    monkeypatch.setattr(asyncio.Runner, "run", run)
    CliRunner().invoke(command, ["--set", f"log.dirs={tmp_path}"], catch_exceptions=False)
    ((switch_s, full_collection_every),) = found
    assert switch_s < 0.001
    assert full_collection_every >= 100


async def test_a_node_that_cannot_go_on_is_stopped_and_the_command_fails(
    tmp_path: Path, nodes: "asyncio.Queue[RunningNode]"
) -> None:
    running = asyncio.ensure_future(_run(config(tmp_path), until_eof=False, beside={}, watched=lambda: list))
    node = await nodes.get()
    node.failed.set_result(OSError("the disk is gone"))
    with pytest.raises(click.ClickException, match="node 1 had to stop: the disk is gone"):
        await running
    assert (tmp_path / ".kafka_cleanshutdown").exists(), "what could be written down was"


async def test_a_signal_stops_a_node_cleanly(tmp_path: Path, nodes: "asyncio.Queue[RunningNode]") -> None:
    running = asyncio.ensure_future(_run(config(tmp_path), until_eof=False, beside={}, watched=lambda: list))
    node = await nodes.get()
    asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGTERM)
    await running
    assert not node.failed.done()


async def test_a_signal_ends_a_node_that_still_waits_for_a_controller(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=4L6g3nShT-eMCtK--X86sw\nnode.id=1\n")
    alone = config(
        tmp_path,
        process_roles="broker",
        controller_listener_names="CONTROLLER",
        controller_quorum_voters="2@127.0.0.1:1",
    )
    running = asyncio.ensure_future(_run(alone, until_eof=False, beside={}, watched=lambda: list))
    while not (tmp_path / "__cluster_metadata-0").exists():
        await asyncio.sleep(0)
    signal.raise_signal(signal.SIGTERM)
    await asyncio.wait_for(running, 30)


def test_last_words_that_hang_as_well_keep_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log may be a file of the disk that hangs, or the thread that hangs may have its lock."""
    never, codes, before = threading.Event(), list[int](), set(threading.enumerate())
    monkeypatch.setattr(cli_start.logger, "error", lambda *_: never.wait())
    monkeypatch.setattr(cli_start, "TELLING_S", 0)
    monkeypatch.setattr(cli_start, "os", stand_in(os, _exit=codes.append))
    _end(config(tmp_path))
    never.set()
    for thread in set(threading.enumerate()) - before:
        thread.join()
    assert codes == [1]
