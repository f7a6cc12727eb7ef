"""What `penstock start` does with a node: it serves until a signal comes, or until it says that it cannot go on."""

import asyncio
import signal
from pathlib import Path

import click
import pytest

from penstock.cli.start import _run
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.node import start
from penstock.node.start import RunningNode


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


async def test_a_node_that_cannot_go_on_is_stopped_and_the_command_fails(
    tmp_path: Path, nodes: "asyncio.Queue[RunningNode]"
) -> None:
    running = asyncio.ensure_future(_run(config(tmp_path), until_eof=False))
    node = await nodes.get()
    node.failed.set_result(OSError("the disk is gone"))
    with pytest.raises(click.ClickException, match="node 1 had to stop: the disk is gone"):
        await running
    assert (tmp_path / ".kafka_cleanshutdown").exists(), "what could be written down was"


async def test_a_signal_stops_a_node_cleanly(tmp_path: Path, nodes: "asyncio.Queue[RunningNode]") -> None:
    running = asyncio.ensure_future(_run(config(tmp_path), until_eof=False))
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
    running = asyncio.ensure_future(_run(alone, until_eof=False))
    while not (tmp_path / "__cluster_metadata-0").exists():
        await asyncio.sleep(0)
    signal.raise_signal(signal.SIGTERM)
    await asyncio.wait_for(running, 30)
