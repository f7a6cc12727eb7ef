"""A compacted topic full of old values: its segments, to be compacted again and again by whoever is measured."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from bench.load import create_topic, run
from bench.node import penstock_command
from bench.process import BrokerProcess, Command
from penstock.log.checkpoint import CorruptCheckpointError, read_offsets
from penstock.log.disk import Disk
from penstock.log.names import CLEANED_OFFSETS, LOG_SUFFIX

TOPIC: Final = "table"
TIMES_WRITTEN: Final = 10
"""Each key, in the mean."""
SEGMENTS: Final = 10
NEVER, ALWAYS = "1.0", "0.0"
"""Shares of a log that must be dirty."""
BATCHES: Final = {"linger.ms": 20, "batch.size": 16_384}
"""As large as a producer of Kafka makes them."""


class DirtyLog:
    """The closed segments of one partition. What may be compacted ends at `end_offset` and has so many bytes."""

    def __init__(self, directory: Path, megabytes: int) -> None:
        self.directory = directory
        self.settings = {
            "cleanup.policy": "compact",
            "segment.bytes": str(megabytes * 1_000_000 // SEGMENTS),
            "min.cleanable.dirty.ratio": NEVER,
        }

    @property
    def _segments(self) -> list[Path]:
        return sorted(self.directory.glob(f"*{LOG_SUFFIX}"))

    @property
    def end_offset(self) -> int:
        return int(self._segments[-1].name.removesuffix(LOG_SUFFIX))

    @property
    def size_bytes(self) -> int:
        return sum(path.stat().st_size for path in self._segments[:-1])

    def give(self, command: Command, directory: Path, topics: Sequence[str]) -> None:
        """Let a broker make topics in its directory; then put these segments into the place of their empty ones.

        Nobody writes into closed segments, so that all topics have the same ones; the other files are copied.
        """
        directory.mkdir(parents=True, exist_ok=True)
        broker = BrokerProcess(command, directory, {})
        try:
            for topic in topics:
                create_topic(broker.address, topic, config=self.settings)
        finally:
            broker.stop()
        closed = self._segments[:-1]
        for topic in topics:
            target = directory / "data" / f"{topic}-0"
            for old in target.glob("0*"):
                old.unlink()
            for path in self.directory.glob("0*"):
                put = os.link if path in closed else shutil.copy2
                put(path, target / path.name)
        os.sync()  # so that nobody is measured beside its being written


@contextmanager
def dirty_log(megabytes: int, size: int) -> Iterator[DirtyLog]:
    """A partition with so many MB of records of so many bytes."""
    directory = Path(tempfile.mkdtemp(prefix="penstock-dirty-"))
    try:
        log = DirtyLog(directory / "data" / f"{TOPIC}-0", megabytes)
        records = megabytes * 1_000_000 // size
        node = BrokerProcess(penstock_command, directory, {})
        try:
            create_topic(node.address, TOPIC, config=log.settings)
            run("produce", node.address, TOPIC, records=records, size=size, keys=records // TIMES_WRITTEN, **BATCHES)
        finally:
            node.stop()
        yield log
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def let_clean(address: str, topic: str) -> None:
    """From now on anything that is dirty is enough."""
    entry = ConfigEntry("min.cleanable.dirty.ratio", ALWAYS, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": address})
    admin.incremental_alter_configs([resource])[resource].result(60)


def cleaned_to(broker: BrokerProcess, topic: str) -> int:
    """Up to where the topic is compacted."""
    try:
        return read_offsets(Disk(), str(broker.directory / "data" / CLEANED_OFFSETS)).get((topic, 0), 0)
    except (CorruptCheckpointError, OSError):  # Kafka begins with a file that is empty
        return 0
