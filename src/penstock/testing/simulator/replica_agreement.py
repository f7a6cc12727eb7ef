"""What the replicas of each partition must agree upon, at every look and over all their lives.

| what                           | rule                                                                              |
| ------------------------------ | --------------------------------------------------------------------------------- |
| an epoch of a partition        | has one leader                                                                    |
| the high watermark of a leader | never goes back within its epoch, and lies within its log                         |
| a batch below a high watermark | is the same in every replica that has a high watermark beyond it, and is whole;   |
|                                | of a compacted partition its records are the same (`compacted_agreement`)         |
| a leader                       | has all that was ever below a high watermark, but for what power cuts may take    |
| a replica in sync              | has it as well, once it knows of the epoch in which it is                         |
| a replica that opens its log   | knows of producers what the log says (`remembered_batches`)                       |
| the last stable offset         | of a leader never goes back within its epoch                                      |
| transactions that were aborted | are the same in each index, as far as the replica's high watermark goes           |
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from uuid import UUID

from penstock.log.names import LOG_SUFFIX
from penstock.log.partition_log import PartitionLog
from penstock.node.partitions.partition import Partition
from penstock.protocol.batch import check_crc
from penstock.protocol.internal_topics import CLUSTER_METADATA
from penstock.protocol.records import iterate_batches
from penstock.testing.simulator.compacted_agreement import CompactedHistory
from penstock.testing.simulator.remembered_batches import RememberedBatches

READ_BYTES = 1 << 20
DAMAGED = -1

Key = tuple[UUID, int]
Aborted = tuple[int, int]
"""A producer's id, and the first offset of its transaction."""
Batch = tuple[int, int, int]
"""A batch's end, leader epoch and CRC."""


@dataclass(slots=True)
class _Committed:
    batches: dict[int, Batch] = field(default_factory=dict)
    high_watermark: int = 0
    leaders: dict[int, str] = field(default_factory=dict)
    high_watermarks: dict[int, int] = field(default_factory=dict)
    """By leader epoch."""
    stable_offsets: dict[int, int] = field(default_factory=dict)
    """The same for last stable offsets."""
    aborted: dict[int, Aborted] = field(default_factory=dict)
    """By the offset of the marker."""
    directory: str = ""
    compacted: CompactedHistory = field(default_factory=CompactedHistory)


class ReplicaAgreement:
    """Keeps what was seen anywhere; `violated` is told of contradictions."""

    def __init__(self, violated: Callable[[str], None], *, begins_late: bool = False) -> None:
        """`begins_late`: until now outdated replicas could lead."""
        self._violated = violated
        self._begins_late = begins_late
        self._committed: dict[Key, _Committed] = {}
        self._checked: dict[tuple[str, Key], tuple[PartitionLog | None, int]] = {}
        self._remembered = RememberedBatches(violated)
        self._written: dict[str, list[bytes]] = {}
        """By the name of a partition's directory: writes to its segments since the last look."""

    def written(self, path: str, content: bytes) -> None:
        """A process wrote, or tried to write, this to an open file."""
        if path.endswith(LOG_SUFFIX):
            name = path.split("/")[-2]
            if name.rpartition("-")[2].isdigit() and not name.startswith(CLUSTER_METADATA):
                self._written.setdefault(name, []).append(content)

    def look(
        self, name: str, partition: Partition, *, leads: bool, is_weak: bool, is_current: bool, now_ms: int
    ) -> None:
        """Reads the replica's log: faults of the disk should not strike meanwhile.

        `leads`: also by the newest metadata. `is_weak`: a power cut may have taken what this replica knows as
        committed, unnoticed. `is_current`: it knows the epoch of the newest metadata. `now_ms`: no clock is further.
        """
        self._remembered.look(name, partition)
        key = (partition.topic_id, partition.index)
        committed = self._committed.get(key)
        if committed is None:
            compacted = CompactedHistory(began_late=self._begins_late)
            committed = self._committed[key] = _Committed(compacted=compacted)
        if leads:
            self._look_at_leader(name, partition, committed)
        elif is_current and not is_weak and partition.log.log_end_offset < committed.high_watermark:
            self._violated(
                f"{name} is in sync in epoch {partition.leader_epoch} of {partition} and ends at "
                f"{partition.log.log_end_offset}; {committed.high_watermark} was committed"
            )
        committed.directory = f"{partition.topic}-{partition.index}"
        is_compacted = partition.log.config.is_compacted
        self._note_written(committed, is_compacted)
        if is_compacted:
            if leads or not is_weak:
                committed.compacted.compare(name, partition, leads=leads, now_ms=now_ms, violated=self._violated)
        elif leads or not is_weak:
            self._compare_aborted(name, partition, committed, leads=leads)
            self._compare(name, key, partition, committed, leads=leads)

    def forget_node(self, name: str) -> None:
        """Its process ended: its replicas are compared anew."""
        for place in [place for place in self._checked if place[0] == name]:
            del self._checked[place]
        self._remembered.forget_node(name)
        for committed in self._committed.values():
            committed.compacted.forget_node(name)

    def lost(self, key: Key, offset: int) -> None:
        """Power cuts may have taken all that lies at this offset and behind it."""
        committed = self._committed.get(key)
        if committed is None:
            return
        committed.high_watermark = min(committed.high_watermark, offset)
        committed.high_watermarks.clear()
        committed.stable_offsets.clear()
        for marker in [marker for marker in committed.aborted if marker >= offset]:
            del committed.aborted[marker]
        self._note_written(committed, bool(committed.compacted.written))
        committed.compacted.lost(offset)
        for base_offset in [base for base, batch in committed.batches.items() if batch[0] > offset]:
            del committed.batches[base_offset]

    def _note_written(self, committed: _Committed, is_compacted: bool) -> None:
        for batches in self._written.pop(committed.directory, ()):
            if is_compacted:
                committed.compacted.note(batches)

    def _look_at_leader(self, name: str, partition: Partition, committed: _Committed) -> None:
        epoch, high_watermark = partition.leader_epoch, partition.high_watermark
        end_offset = partition.log.log_end_offset
        leader = committed.leaders.setdefault(epoch, name)
        if leader != name:
            self._violated(f"{leader} and {name} lead epoch {epoch} of {partition}")
        before = committed.high_watermarks.get(epoch, 0)
        if high_watermark < before:
            self._violated(f"{name}: the high watermark of {partition} was {before} and is {high_watermark}")
        committed.high_watermarks[epoch] = high_watermark
        stable, stable_before = partition.last_stable_offset, committed.stable_offsets.get(epoch, 0)
        if stable < stable_before:
            self._violated(f"{name}: the last stable offset of {partition} was {stable_before} and is {stable}")
        committed.stable_offsets[epoch] = stable
        if end_offset < committed.high_watermark:
            self._violated(
                f"{name} leads epoch {epoch} of {partition} and ends at {end_offset}; "
                f"{committed.high_watermark} was committed"
            )
        if high_watermark > end_offset:
            self._violated(f"{name}: {partition} ends at {end_offset}, its high watermark is {high_watermark}")
        committed.high_watermark = max(committed.high_watermark, high_watermark)

    def _compare_aborted(self, name: str, partition: Partition, committed: _Committed, *, leads: bool) -> None:
        """The leader is right."""
        log, high_watermark = partition.log, partition.high_watermark
        entries = log.load().aborted.between(log.log_start_offset, high_watermark)
        found = {one.last_offset: (one.producer_id, one.first_offset) for one in entries}
        if leads:
            committed.aborted |= {marker: one for marker, one in found.items() if marker < high_watermark}
        start_offset = log.segments[0].base_offset
        for marker, one in committed.aborted.items():
            if start_offset <= marker < high_watermark and found.get(marker) != one:
                self._violated(
                    f"{name}: the abort at {marker} of {partition} is {found.get(marker)}, elsewhere it is {one}"
                )

    def _compare(self, name: str, key: Key, partition: Partition, committed: _Committed, *, leads: bool) -> None:
        """Compares what has come below the high watermark since the last look. The leader is right."""
        place, log = (name, key), partition.log
        known_log, checked = self._checked.get(place, (None, 0))
        if known_log is not log:
            checked = 0
        offset = max(checked, log.log_start_offset)
        for base_offset, batch in _batches(partition, offset):
            if batch[2] == DAMAGED:
                self._violated(f"{name}: the batch at {base_offset} of {partition} is damaged")
                break
            known = committed.batches.get(base_offset)
            if known is None and leads:
                known = committed.batches[base_offset] = batch
            if known is None:
                break
            if known != batch:
                self._violated(f"{name}: the batch at {base_offset} of {partition} is {batch}, elsewhere it is {known}")
            offset = batch[0]
        self._checked[place] = (log, offset)


def _batches(partition: Partition, offset: int) -> Iterator[tuple[int, Batch]]:
    """From an offset on, up to the high watermark."""
    log, high_watermark = partition.log, partition.high_watermark
    while offset < high_watermark:
        data = log.read(offset, READ_BYTES, upper_offset=high_watermark).read()
        if not data:
            return
        for position, header in iterate_batches(data):
            crc = header.crc if check_crc(data, position, header) else DAMAGED
            yield header.base_offset, (header.last_offset + 1, header.partition_leader_epoch, crc)
            offset = header.last_offset + 1
