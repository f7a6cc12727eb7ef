"""A storage group whose log is gone at a majority of its voters goes on from a replica that has it. All of this is done
while the nodes are stopped: `penstock storage-groups recover`.

A report says what the disks of one node have. The replica that goes on becomes the only voter, by a record of its own
log: its node leads then, commits all that its log has, and gives the others their votes as they come. So it must have
all that any replica has applied, batch for batch: what another one has more of a partition, it would never take back.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from uuid import UUID

from penstock.log.directories.directory import LogDirectories
from penstock.log.partition_log import PartitionLog
from penstock.node.quorum.state_file import StateFile
from penstock.node.quorum.stored_log import StoredLog, read_whole
from penstock.node.quorum.stored_snapshots import StoredSnapshots
from penstock.node.storage_groups.replica_id import read_replica_id
from penstock.protocol.batch import read_header
from penstock.protocol.control.records import control_batch
from penstock.protocol.internal_topics import STORAGE_GROUPS, has_replicas
from penstock.protocol.records import iterate_batches
from penstock.protocol.uuids import ZERO_UUID, uuid_from_text, uuid_to_text
from penstock.protocol.value import Value
from penstock.raft.control import quorums_in, voters_record_of
from penstock.raft.effects import ElectionState
from penstock.raft.voters import DYNAMIC_VOTERS, Quorum, ReplicaKey, Voter
from penstock.replication.storage_groups.entries import Entry, Kind, PartitionId, decode_proposals
from penstock.replication.storage_groups.snapshot import REMOVED, decode_snapshot

READ_BYTES: Final = 1 << 20
NO_BATCH: Final = -1


class LastBatch(Value):
    """Where a partition's log ends, and the CRC of the batch before that; NO_BATCH if the log is empty."""

    partition: PartitionId
    topic: str
    end_offset: int
    crc: int


class Report(Value):
    """What a node's disks have: the last record of the group's log, None if that is gone, and logs of partitions."""

    cluster_id: str
    node_id: int
    group: int
    replica_id: UUID
    """With the node's id the name by which it votes, if it does."""
    last: tuple[int, int] | None
    """(epoch, end offset), which raft compares."""
    partitions: tuple[LastBatch, ...]

    def as_json(self) -> dict[str, object]:
        return {
            "cluster_id": self.cluster_id,
            "node_id": self.node_id,
            "group": self.group,
            "replica_id": uuid_to_text(self.replica_id),
            "last": self.last,
            "partitions": [
                [one.topic, uuid_to_text(one.partition.topic_id), one.partition.number, one.end_offset, one.crc]
                for one in self.partitions
            ],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Report":
        """Raises ValueError, KeyError, TypeError."""
        last = data["last"]
        return cls(
            cluster_id=str(data["cluster_id"]),
            node_id=_number(data["node_id"]),
            group=_number(data["group"]),
            replica_id=uuid_from_text(str(data["replica_id"])),
            last=None if last is None else (_number(last[0]), _number(last[1])),
            partitions=tuple(
                LastBatch(PartitionId(uuid_from_text(topic_id), _number(index)), str(topic), _number(end), _number(crc))
                for topic, topic_id, index, end, crc in data["partitions"]
            ),
        )


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is no number")
    return value


class Remains:
    """What the disks of a node that is stopped have of a storage group."""

    def __init__(self, directories: LogDirectories, node_id: int, group: int) -> None:
        """`directories` are open. Raises KafkaError, DecodeError, ValueError where what lies there is damaged."""
        self._directories = directories
        self._disk = directories.open_files.disk
        self._node_id = node_id
        self._group = group
        self._log = directories.logs.get((STORAGE_GROUPS, group))
        self._by_id = {PartitionId(topic_id, log.partition): log for topic_id, log in self._of_topics()}
        self.quorum = Quorum((), DYNAMIC_VOTERS)
        self.last: tuple[int, int] | None = None
        self._members: set[PartitionId] = set()
        self._entries: dict[PartitionId, dict[int, int]] = {}
        """The CRC of each batch in the group's log, by the offset behind it."""
        if self._log is not None:
            self._read(self._log)

    def _of_topics(self) -> Iterator[tuple[UUID, PartitionLog]]:
        for (topic, _), log in self._directories.logs.items():
            topic_id = log.topic_id if has_replicas(topic) else None
            if topic_id is not None:
                yield topic_id, log

    def _read(self, log: PartitionLog) -> None:
        """Nothing is found of a replica that has begun anew."""
        snapshots = StoredSnapshots(self._disk, log.directory, log.health)
        latest = snapshots.latest
        if latest is not None:
            content = snapshots.load(latest)
            self.last = latest.epoch, latest.end_offset
            self._take_voters(content)
            self._members = {one.id for one in decode_snapshot(content) if one.end_offset != REMOVED}
        while batches := read_whole(log, 0 if self.last is None else self.last[1], READ_BYTES):
            self._take_voters(batches)
            for entry in decode_proposals(batches):
                if isinstance(entry, Entry):
                    self._take(entry)
            for _, header in iterate_batches(batches):
                self.last = header.partition_leader_epoch, header.last_offset + 1

    def _take_voters(self, batches: bytes) -> None:
        for _, quorum in quorums_in(batches, self.quorum):
            self.quorum = quorum

    def _take(self, entry: Entry) -> None:
        if entry.kind is Kind.OPENED:
            self._members.add(entry.partition)
        elif entry.kind is Kind.CLOSED:
            self._members.discard(entry.partition)
        elif entry.kind is Kind.APPENDED:
            header = read_header(entry.content)
            self._entries.setdefault(entry.partition, {})[header.last_offset + 1] = header.crc

    def report(self) -> Report:
        partitions = tuple(_last_batch(partition, log) for partition, log in self._by_id.items())
        replica_id = ZERO_UUID if self._log is None else self._key(self._log).directory_id
        return Report(
            cluster_id=self._directories.cluster_id,
            node_id=self._node_id,
            group=self._group,
            replica_id=replica_id,
            last=self.last,
            partitions=partitions,
        )

    def why_not(self, others: Iterable[Report], gone: Iterable[int]) -> Iterator[str]:
        """Why the group cannot go on from here; nothing if it can. `gone` are nodes whose disks are lost."""
        reports = {report.node_id: report for report in others}
        if self.last is None:
            yield f"the log of storage group {self._group} is not here: recover it where it is"
            return
        assert self._log is not None, "it has an end"
        if not self.quorum.has(self._key(self._log)):
            yield "this replica has no vote, so it may lack anything: recover the group where it has one"
        unknown = sorted({*self.quorum.ids} - {self._node_id, *reports, *gone})
        if unknown:
            yield f"nobody says what the nodes {unknown} have: give the report of each, or name it with --gone"
        voters = [one for one in reports.values() if self.quorum.has(ReplicaKey(one.node_id, one.replica_id))]
        if sum(one.last is not None for one in voters) + 1 >= self.quorum.majority:
            yield "a majority of the voters has the group's log: start the nodes, and they go on by themselves"
        for report in reports.values():
            if (report.cluster_id, report.group) != (self._directories.cluster_id, self._group):
                yield f"the report of node {report.node_id} is about another cluster or group"
            elif report.last is not None and report.last > self.last:
                yield f"node {report.node_id} has more of the group's log: recover the group there"
            else:
                yield from self._lacking(report)

    def _lacking(self, report: Report) -> Iterator[str]:
        for one in report.partitions:
            if one.partition not in self._members or self._has(one):
                continue
            name = f"{one.topic}-{one.partition.number}"
            yield (
                f"node {report.node_id} has records of {name} up to {one.end_offset} that are not here: copy its"
                f" directory {name} over the one here, both nodes stopped, or move it away there if they may be lost"
            )

    def _has(self, other: LastBatch) -> bool:
        """Whether what another node has of a partition is the beginning of what is here."""
        log = self._by_id.get(other.partition)
        if log is not None:
            log.load()  # its checkpoint may be of another life: somebody may have copied it here
            if log.log_start_offset >= other.end_offset:
                return True  # what there was is deleted here
        if self._entries.get(other.partition, {}).get(other.end_offset) == other.crc:
            return True
        if log is None or log.log_end_offset < other.end_offset:
            return False
        return other.crc in (NO_BATCH, _crc_before(log, other.end_offset))

    def _key(self, log: PartitionLog) -> ReplicaKey:
        own_id = read_replica_id(self._disk, log.directory) or self._directories.id_of(log)
        assert own_id is not None, "a directory of data has an id when it is open"
        return ReplicaKey(self._node_id, own_id)

    def go_on_alone(self, now_ms: int) -> None:
        """This replica is the only voter from here on. `directories` have begun. Durable. Raises KafkaError."""
        log = self._log
        assert log is not None, "why_not() says that there is none"
        state = StateFile(self._disk, log.directory, log.health)
        stored = StoredLog(log, StoredSnapshots(self._disk, log.directory, log.health))
        quorum = Quorum.of([Voter(self._key(log))])
        epoch = max(state.read().epoch, stored.last_epoch) + 1
        state.write(ElectionState(epoch), quorum)
        record = voters_record_of(quorum, now_ms)
        stored.append(control_batch([record], base_offset=stored.end_offset, epoch=epoch))
        stored.flush()


def _last_batch(partition: PartitionId, log: PartitionLog) -> LastBatch:
    log.load()
    return LastBatch(partition, log.topic, log.log_end_offset, _crc_before(log, log.log_end_offset))


def _crc_before(log: PartitionLog, end_offset: int) -> int:
    """Of the batch that ends there; NO_BATCH if there is none."""
    if not log.log_start_offset < end_offset <= log.log_end_offset:
        return NO_BATCH
    header = next(
        found
        for segment in reversed(list(log.segments))
        if segment.base_offset < end_offset
        for _, found in segment.headers_from(end_offset - 1)
    )
    return header.crc if header.last_offset + 1 == end_offset else NO_BATCH
