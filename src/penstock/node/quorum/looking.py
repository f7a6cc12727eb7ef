"""A look at the metadata that a node has on its disk, before anything there is touched: could it take part with that?

A start that is refused leaves the directories as they were. So what cannot be read is found out before this node votes
or writes anything. Records of partitions are most of a log and are only looked at for their type and version: what
they say is read when they are committed.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from penstock.log.disk import Disk
from penstock.log.partition_log import PartitionLog
from penstock.metadata.features import SUPPORTED_FEATURES
from penstock.metadata.image import ClusterImage
from penstock.metadata.record_frames import UnsupportedMetadataError, check_frame, decode_record
from penstock.metadata.records import (
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from penstock.metadata.security import SECURITY_RECORDS
from penstock.metadata.snapshot import (
    decode_snapshot,
    parse_snapshot_name,
    record_values,
    snapshot_name,
    snapshot_values,
)
from penstock.metadata.transaction import MetadataTransaction
from penstock.node.quorum.state_file import StateFile
from penstock.node.quorum.stored_log import read_whole
from penstock.protocol.errors import DecodeError
from penstock.protocol.records import iterate_batches
from penstock.protocol.value import Value

SLICE_BYTES: Final = 64 * 1024
"""Looked at before the event loop gets to do something else."""

KAFKAS_BOOTSTRAP: Final = "bootstrap.checkpoint"
"""In the log directory: what Kafka's storage tool wrote before Kafka 4.4, for a cluster to begin with."""

_FRAME_BYTES: Final = 3
_ONE_BYTE: Final = 0x80
_MOST = (PartitionRecord.record_type, PartitionChangeRecord.record_type)
_APPLIED = (FeatureLevelRecord, ConfigRecord, RegisterBrokerRecord, UnregisterBrokerRecord, *SECURITY_RECORDS)
"""Records that may be refused for what they say, and whose configs count."""


class Seen(Value):
    """`image` has features, configs, brokers, users, rights and quotas; nothing else."""

    image: ClusterImage
    bootstrap: Sequence[MetadataRecord] = ()
    """What Kafka formatted the directory with, if nothing was written to the metadata log since."""


class Look:
    def __init__(self, name: str) -> None:
        """`name` is that of the metadata log's directory."""
        self._name = name
        self.image = ClusterImage()
        self._transaction = MetadataTransaction()
        self._known: set[bytes] = set()
        """The beginnings of records that need no further look."""

    def check_features(self) -> None:
        """Raises UnsupportedMetadataError for a level that is unknown here: the controller would refuse this broker."""
        for name, level in self.image.features.items():
            known = SUPPORTED_FEATURES.get(name)
            if known is not None and not known.lowest <= level <= known.newest:
                levels = f"known are {known.lowest} to {known.newest}"
                what = f"{self._name}: the cluster is at level {level} of {name}, {levels}"
                raise UnsupportedMetadataError(what, self.image.metadata_version)

    def take_bootstrap(self, disk: Disk, path: str) -> Sequence[MetadataRecord]:
        """What the directory was formatted with, which no log says yet. Raises DecodeError, OSError."""
        content = disk.read_file(path)
        try:
            records = [] if content is None else list(decode_snapshot(content))
        except DecodeError as error:
            raise DecodeError(f"{path}: {error}") from error
        for record in records:
            if isinstance(record, SECURITY_RECORDS):
                self.image.apply(record)
        return records

    def check(self, values: Iterable[bytes]) -> None:
        """Raises DecodeError, and UnsupportedMetadataError for what this release cannot keep."""
        try:
            for value in values:
                begins = value[:_FRAME_BYTES]
                if begins in self._known:
                    continue
                if check_frame(value) in _MOST:
                    if max(begins) < _ONE_BYTE:  # each number of the frame is one
                        self._known.add(begins)
                    continue
                for record in self._transaction.take([decode_record(value)]):
                    if isinstance(record, _APPLIED):
                        self.image.apply(record)
        except UnsupportedMetadataError as error:
            raise UnsupportedMetadataError(f"{self._name}: {error.what}", self.image.metadata_version) from error


async def look(disk: Disk, directory: str, log: PartitionLog | None) -> Seen:
    """Raises QuorumStateError, DecodeError, KafkaError, OSError."""
    StateFile(disk, directory).read()
    seen = Look(directory.rpartition("/")[2])
    snapshots = [key for name in disk.names(directory) if (key := parse_snapshot_name(name)) is not None]
    end_offset = 0
    if snapshots:
        end_offset = max(snapshots)[0]
        name = snapshot_name(*max(snapshots))
        try:
            for values in snapshot_values(disk.read_file(f"{directory}/{name}") or b""):
                seen.check(values)
                await asyncio.sleep(0)
        except UnsupportedMetadataError:
            raise
        except DecodeError as error:
            raise DecodeError(f"{directory.rpartition('/')[2]}/{name}: {error}") from error
    offset = end_offset if log is None else max(end_offset, log.log_start_offset)
    while log is not None and offset < log.log_end_offset:
        batches = read_whole(log, offset, SLICE_BYTES)
        for position, header in iterate_batches(batches):
            if not header.is_control:
                seen.check(record_values(batches, position, header))
            offset = header.last_offset + 1
        await asyncio.sleep(0)
    bootstrap: Sequence[MetadataRecord] = ()
    if end_offset == 0 and (log is None or log.log_end_offset == 0):
        bootstrap = seen.take_bootstrap(disk, f"{directory.rpartition('/')[0]}/{KAFKAS_BOOTSTRAP}")
    seen.check_features()
    return Seen(seen.image, bootstrap)
