"""The directories of a node that was stopped, what may happen to them, and the node that starts on them again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from penstock.client.connection import Connection, connect
from penstock.client.settings import ClientSettings
from penstock.log.names import LOCK
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.node.assembly.start import RunningNode, start_node
from penstock.protocol.address import Address
from penstock.protocol.batch import read_header
from penstock.protocol.records import Record, encode_batch

METADATA = "__cluster_metadata-0"
FIRST_LOG = f"{METADATA}/00000000000000000000.log"


def config(tmp_path: Path, **settings: str) -> BrokerConfig:
    """However busy the machine is, a broker is not taken for dead."""
    defaults = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": f"{tmp_path}/p1,{tmp_path}/p2",
        "broker.session.timeout.ms": "600000",
    }
    return BrokerConfig.embedded(defaults | {key.replace("_", "."): value for key, value in settings.items()})


def files(tmp_path: Path) -> dict[str, bytes]:
    """What lies in the two log directories: names and bytes."""
    return {
        str(path.relative_to(tmp_path)): b"" if path.is_dir() or path.name == LOCK else path.read_bytes()
        for path in sorted(tmp_path.rglob("*"))
    }


def stop_a_node(tmp_path: Path) -> None:
    """Leave the directories of a node that was stopped cleanly; in the first one lies the metadata log."""

    async def run() -> None:
        node = await start_node(config(tmp_path))
        await node.stop()

    asyncio.run(run())
    for number in (1, 2):  # as Apache Kafka writes it
        (tmp_path / f"p{number}" / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":0}')
    (tmp_path / "p2" / "orders-0").mkdir()
    (tmp_path / "p2" / "orders-0" / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAEw")


def append(*values: bytes) -> Callable[[Path], None]:
    """Metadata records are committed that another release wrote, or the disk changed."""

    def damage(tmp_path: Path) -> None:
        path = tmp_path / "p1" / FIRST_LOG
        content, position, last = path.read_bytes(), 0, None
        while position < len(content):
            last = read_header(content, position)
            position += last.size_in_bytes
        assert last is not None
        batch = encode_batch(
            [Record(timestamp_ms=last.max_timestamp, value=value) for value in values],
            base_offset=last.last_offset + 1,
            partition_leader_epoch=last.partition_leader_epoch,
        )
        path.write_bytes(content + batch)

    return damage


@asynccontextmanager
async def running(tmp_path: Path, **settings: str) -> AsyncIterator[tuple[RunningNode, Connection]]:
    """A node on these directories, and a connection to it."""
    node = await start_node(config(tmp_path, **settings))
    connection = await connect(Address("127.0.0.1", node.endpoints[0].port), ClientSettings())
    try:
        yield node, connection
    finally:
        await connection.close()
        await node.stop()
