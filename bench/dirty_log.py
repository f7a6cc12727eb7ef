"""A compacted topic full of old values: its segments, to be compacted again and again by whoever is measured."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.load import Settings, produce
from bench.node import penstock_command, running, scratch
from bench.process import BrokerProcess, Command
from bench.segments import active_offset, cleaned_to, segments
from bench.topics import create_topic, set_config

TOPIC: Final = "table"
TIMES_WRITTEN: Final = 10
"""Each key, in the mean."""
SEGMENTS: Final = 10
DIRTY_SHARE: Final = "min.cleanable.dirty.ratio"
NEVER, ALWAYS = "1.0", "0.0"
"""Shares of a log that must be dirty."""
BATCHES: Final[Settings] = {"linger.ms": 20, "batch.size": 16_384}
"""As large as a producer of Kafka makes them."""


class DirtyLog:
    """The closed segments of one partition. What may be compacted ends at `end_offset` and has so many bytes."""

    def __init__(self, directory: Path, megabytes: int) -> None:
        self.directory = directory
        size = str(megabytes * 1_000_000 // SEGMENTS)
        self.settings = {"cleanup.policy": "compact", "segment.bytes": size, DIRTY_SHARE: NEVER}

    @property
    def end_offset(self) -> int:
        return active_offset(self.directory)

    @property
    def size_bytes(self) -> int:
        return sum(path.stat().st_size for path in segments(self.directory)[:-1])

    def give(self, command: Command, directory: Path, topics: Sequence[str]) -> None:
        """Let a broker make topics in its directory; then put these segments into the place of their empty ones.

        Nobody writes into closed segments, so that all topics have the same ones; the other files are copied.
        """
        with running(command, directory) as broker:
            for topic in topics:
                create_topic(broker.address, topic, config=self.settings)
        closed = segments(self.directory)[:-1]
        for topic in topics:
            target = directory / "data" / f"{topic}-0"
            for old in target.glob("0*"):
                old.unlink()
            for path in self.directory.glob("0*"):
                put = os.link if path in closed else shutil.copy2
                put(path, target / path.name)
        os.sync()  # so that nobody is measured beside its being written

    def read_in(self, broker: BrokerProcess, topic: str) -> None:
        """Have the broker read what it was given, by one more record."""
        produce(broker.address, topic, 1, 100, {}, keys=1)

    def let_clean(self, broker: BrokerProcess, topic: str) -> None:
        """From now on anything that is dirty is enough."""
        set_config(broker.address, topic, DIRTY_SHARE, ALWAYS)

    def is_clean(self, broker: BrokerProcess, topic: str) -> bool:
        return cleaned_to(broker.directory / "data" / f"{topic}-0") >= self.end_offset


@contextmanager
def dirty_log(megabytes: int, size: int) -> Iterator[DirtyLog]:
    """A partition with so many MB of records of so many bytes."""
    with scratch() as directory:
        log = DirtyLog(directory / "data" / f"{TOPIC}-0", megabytes)
        records = megabytes * 1_000_000 // size
        with running(penstock_command, directory) as node:
            create_topic(node.address, TOPIC, config=log.settings)
            produce(node.address, TOPIC, records, size, BATCHES, keys=records // TIMES_WRITTEN)
        yield log
