"""Start and stop: real ports, one clear line for what a user can mend, directories that are left clean."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.node.assembly.start import RunningNode, StartError, start_node
from penstock.node.partitions.upkeep import Upkeep
from penstock.node.serving.server import Server
from penstock.protocol.messages.metadata import MetadataRequest, MetadataResponse
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import decode_response, encode_request


def config(directory: Path, **settings: str) -> BrokerConfig:
    defaults = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(directory)}
    return BrokerConfig.embedded(defaults | {key.replace("_", "."): value for key, value in settings.items()})


async def metadata(node: RunningNode) -> MetadataResponse:
    """What a client learns on its first connection."""
    reader, writer = await asyncio.open_connection(node.endpoints[0].host, node.endpoints[0].port)
    writer.write(encode_request(MetadataRequest(topics=None), 12, 1, "test"))
    size = int.from_bytes(await reader.readexactly(4), "big")
    _, response = decode_response(ApiKey.METADATA, 12, await reader.readexactly(size))
    writer.close()
    assert isinstance(response, MetadataResponse)
    return response


async def test_port_0_is_advertised_as_the_port_it_became(tmp_path: Path) -> None:
    node = await start_node(config(tmp_path))
    try:
        (broker,) = (await metadata(node)).brokers
        assert (broker.node_id, broker.host, broker.port) == (1, "127.0.0.1", node.endpoints[0].port)
        assert broker.port > 0
    finally:
        await node.stop()


async def test_metrics_of_a_node_to_which_nothing_has_happened_are_served(
    tmp_path: Path, reserve_port: Callable[[], int]
) -> None:
    """All of them, so that none needs something to have happened."""
    port = reserve_port()
    node = await start_node(config(tmp_path, penstock_metrics_listener=f"127.0.0.1:{port}"))
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.close()
    finally:
        await node.stop()


async def test_it_is_the_same_cluster_after_a_restart(tmp_path: Path) -> None:
    ids = []
    for _ in range(2):
        node = await start_node(config(tmp_path))
        ids.append((await metadata(node)).cluster_id)
        await node.stop()
        assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert ids[0] == ids[1]
    assert f"cluster.id={ids[0]}" in (tmp_path / "meta.properties").read_text()


async def test_each_start_is_a_new_broker_epoch(tmp_path: Path) -> None:
    epochs = []
    for _ in range(2):
        node = await start_node(config(tmp_path))
        epochs.append(node.broker.broker_epoch)
        await node.stop()
    assert epochs[0] < epochs[1]


async def test_a_taken_port(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(StartError, match=f"cannot listen on {address} .*in use.*set listeners"):
            await start_node(config(tmp_path, listeners=address))
    assert not list(tmp_path.iterdir())


async def test_a_directory_that_another_process_uses(tmp_path: Path) -> None:
    node = await start_node(config(tmp_path))
    try:
        with pytest.raises(StartError, match="another process uses the log directory"):
            await start_node(config(tmp_path))
    finally:
        await node.stop()


async def test_a_directory_of_another_node(tmp_path: Path) -> None:
    await (await start_node(config(tmp_path))).stop()
    with pytest.raises(StartError, match=r"belongs to node[.]id 1, this node has node[.]id 2"):
        await start_node(config(tmp_path, node_id="2"))
    # Nothing was changed: the right node starts as before.
    await (await start_node(config(tmp_path))).stop()


async def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(StartError, match="cannot use the log directory"):
        await start_node(config(tmp_path / "file" / "data"))


async def test_a_failed_start_gives_everything_back(tmp_path: Path, reserve_port: Callable[[], int]) -> None:
    (tmp_path / "file").write_text("not a directory")
    address = f"PLAINTEXT://127.0.0.1:{reserve_port()}"
    with pytest.raises(StartError):
        await start_node(config(tmp_path / "file" / "data", listeners=address))
    await (await start_node(config(tmp_path / "data", listeners=address))).stop()


def at_work() -> set[asyncio.Task[object]]:
    """The tasks beside the test's own."""
    return asyncio.all_tasks() - {asyncio.current_task()}


@pytest.mark.parametrize("part", [Server, Upkeep])
async def test_a_part_that_cannot_stop_keeps_no_directory(
    part: type[Server | Upkeep], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = part.stop

    async def broken(self: Server | Upkeep) -> None:
        await stop(self)  # type: ignore[arg-type]
        raise RuntimeError("broken")

    node = await start_node(config(tmp_path))
    with monkeypatch.context() as patched:
        patched.setattr(part, "stop", broken)
        with pytest.raises(RuntimeError, match="broken"):
            await node.stop()
    assert not at_work()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    await (await start_node(config(tmp_path))).stop()


async def test_a_start_that_fails_at_the_end_leaves_nothing_at_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("broken")

    with monkeypatch.context() as patched:
        patched.setattr(Server, "listen", broken)
        with pytest.raises(RuntimeError, match="broken"):
            await start_node(config(tmp_path))
    assert not at_work()
    await (await start_node(config(tmp_path))).stop()
