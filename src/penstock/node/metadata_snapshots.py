"""Snapshots of the metadata log: `.checkpoint` files beside it, so that a start need not read the whole past (KIP-630).

A snapshot is due when enough bytes were committed since the last one, or when it is old and anything was committed at
all. It is written beside the running node and counts when it is whole on the disk; then older ones are removed.
"""

import asyncio
import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.log.disk import Disk
from penstock.metadata.records import MetadataRecord
from penstock.metadata.snapshot import decode_snapshot, encode_snapshot, parse_snapshot_name, snapshot_name
from penstock.protocol.errors import DecodeError

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SnapshotLimits:
    """When a snapshot is due, with Kafka's defaults; an interval of 0 is none."""

    max_bytes_between: int = 20 * 1024 * 1024
    max_interval_ms: int = 3_600_000


@dataclass(frozen=True, slots=True)
class LoadedSnapshot:
    """What a snapshot holds: all that the log's records before `end_offset` made."""

    end_offset: int
    leader_epoch: int
    records: list[MetadataRecord]


class MetadataSnapshots:
    """The snapshots in one directory."""

    def __init__(self, disk: Disk, directory: str, limits: SnapshotLimits, now_ms: int) -> None:
        self._disk = disk
        self._directory = directory
        self._limits = limits
        self._bytes_since = 0
        self._last_ms = now_ms
        self._writing: asyncio.Future[None] | None = None

    def load(self) -> LoadedSnapshot | None:
        """The newest snapshot; None if there is none. DecodeError, which names the file, if it is damaged."""
        names = self._names()
        if not names:
            return None
        path = os.path.join(self._directory, names[-1])
        try:
            records = list(decode_snapshot(self._disk.read_file(path) or b""))
        except DecodeError as error:
            raise DecodeError(f"{path}: {error}") from error
        end_offset, leader_epoch = parse_snapshot_name(names[-1]) or (0, 0)
        return LoadedSnapshot(end_offset, leader_epoch, records)

    def note(self, size_bytes: int) -> None:
        """So much more was committed."""
        self._bytes_since += size_bytes

    def is_due(self, now_ms: int) -> bool:
        """Whether a snapshot should be written now."""
        if self._writing is not None or not self._bytes_since:
            return False
        interval_ms = self._limits.max_interval_ms
        is_old = 0 < interval_ms <= now_ms - self._last_ms
        return is_old or self._bytes_since >= self._limits.max_bytes_between

    def write(
        self, records: Iterable[MetadataRecord], *, end_offset: int, leader_epoch: int, now_ms: int
    ) -> asyncio.Future[None]:
        """Begins to write a snapshot of these records, which are taken at once; the future is done when it counts.

        A snapshot that cannot be written is a warning: the log still holds everything.
        """
        content = b"".join(encode_snapshot(records, leader_epoch=leader_epoch, last_timestamp_ms=now_ms, now_ms=now_ms))
        self._bytes_since, self._last_ms = 0, now_ms
        name = snapshot_name(end_offset, leader_epoch)
        loop = asyncio.get_running_loop()
        self._writing = loop.run_in_executor(None, self._replace, name, content)
        self._writing.add_done_callback(self._written)
        return self._writing

    async def close(self) -> None:
        """Waits for a snapshot that is being written."""
        if self._writing is not None:
            await asyncio.wait([self._writing])

    def _names(self) -> list[str]:
        return [name for name in self._disk.names(self._directory) if parse_snapshot_name(name) is not None]

    def _replace(self, name: str, content: bytes) -> None:
        self._disk.replace_file(os.path.join(self._directory, name), content, durable=True)
        for older in self._names():
            if older < name:
                self._disk.remove(os.path.join(self._directory, older))

    def _written(self, writing: asyncio.Future[None]) -> None:
        self._writing = None
        error = None if writing.cancelled() else writing.exception()
        if error is not None:
            logger.warning("no snapshot of the metadata log could be written to %s: %s", self._directory, error)
