"""What the replicas of a compacted partition must agree upon, whichever has compacted how far and crashed in between.

| what                           | rule                                                                              |
| ------------------------------ | --------------------------------------------------------------------------------- |
| a record below a high watermark| is the one that was seen there before, wherever that was                          |
| a reader from the beginning    | ends with the same last value of each key as all records ever seen give, once the |
|                                | replica knows that they all are committed, and leaders were looked at as far as a |
|                                | round may have reached: to the active segment, as the mark is moved after a round |
| a record that is younger than | is there, wherever that part of the log is: no clock is further than the latest   |
| `min.compaction.lag.ms`        | one that the harness knows of                                                     |
| a key that was deleted         | may live on in a replica that was away for longer than `delete.retention.ms`: the |
|                                | tombstone was gone before it came back, as in Kafka                               |
| a key whose newer record power | may be missing, or have an older value yet, in a replica that had compacted with  |
| cuts have taken                | that record in its log and has cut it off since, as the leader lacks it, or had   |
|                                | copied what such a one had left: until the key is written again, and not aborted  |
| a key, after unclean elections | may be missing in any replica for that reason, or live on as its tombstone is     |
|                                | gone: of a history that `began_late` only the values count that there are         |

Records of transactions that were aborted, as any replica's index says, count for no reader, nor do markers.

What is committed is known although compaction may be faster than the observer: all that was ever written to a segment
is noted, and in one epoch of the partition one leader gives each offset once.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter

from penstock.log.leader_epochs import LeaderEpochs
from penstock.log.partition_log import PartitionLog
from penstock.node.partitions.partition import Partition
from penstock.protocol.errors import DecodeError
from penstock.protocol.records import iterate_batches, iterate_records

READ_BYTES = 1 << 20
LONG_MS = 3_600_000
"""No simulation takes so long."""

Pair = tuple[bytes | None, bytes | None]
"""A record's key and value."""
Seen = tuple[int, int, int, Pair]
"""A record's offset, leader epoch and timestamp, and its pair."""


@dataclass(slots=True)
class CompactedHistory:
    """All records of one partition that lay below a high watermark of its leaders."""

    written: dict[int, dict[int, tuple[int, Pair]]] = field(default_factory=dict)
    """By offset and leader epoch: time and pair of each record that was ever written."""
    records: dict[int, Pair] = field(default_factory=dict)
    times: dict[int, int] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    end_offset: int = 0
    """The end of what was seen of leaders."""
    lost_to: int = 0
    """The end of what was seen of leaders when power cuts took some of it."""
    looked: dict[str, tuple[PartitionLog, int, int]] = field(default_factory=dict)
    """By node: the log, the end of its compacted part, and the end of what was seen."""
    gone: dict[bytes | None, tuple[int, int]] = field(default_factory=dict)
    """Keys with a record that power cuts may have taken: with it compaction may have removed older ones.

    With the epoch in which the log ended then, and the offset of the newest such record.
    """
    tombstones: dict[str, set[int]] = field(default_factory=dict)
    """By node: offsets of tombstones."""
    producers: dict[tuple[int, int], int] = field(default_factory=dict)
    """By offset and leader epoch: who wrote the record, if that was in a transaction."""
    aborted: set[tuple[int, Pair]] = field(default_factory=set)
    """Offsets and pairs of records whose transaction was aborted, for good: compaction forgets that it was."""
    noted: set[tuple[int, int, int]] = field(default_factory=set)
    """Markers of which that is known: offset, leader epoch and producer."""
    began_late: bool = False
    """The history misses the time in which outdated replicas could lead."""

    def note(self, batches: bytes, *, is_written: bool = True) -> None:
        """What is read, and not written, tells of what was written before the history began."""
        for position, header in iterate_batches(batches):
            if header.is_control:
                continue
            epoch = header.partition_leader_epoch
            try:
                records = list(iterate_records(batches, position, header))
            except DecodeError:
                continue  # it is damaged, as the comparison of replicas will tell
            for record in records:
                known = self.written.setdefault(record.offset, {})
                if epoch in known and not is_written:
                    continue
                known[epoch] = record.timestamp_ms, (record.key, record.value)
                if header.is_transactional:
                    self.producers[record.offset, epoch] = header.producer_id

    def forget_node(self, name: str) -> None:
        """Its process ended: its replicas are compared anew."""
        self.looked.pop(name, None)
        self.tombstones.pop(name, None)

    def lost(self, offset: int) -> None:
        """Power cuts may have taken all that lies at this offset and behind it."""
        latest_epoch = max((max(known) for known in self.written.values()), default=0)
        unseen = [
            (at, pair[0])
            for at, known in self.written.items()
            if at >= max(offset, self.end_offset)
            for _, pair in known.values()
        ]
        seen = [(at, self.records.pop(at)[0]) for at in sorted(self.records) if at >= offset]
        for at, key in seen + sorted(unseen, key=itemgetter(0)):
            self.gone[key] = latest_epoch, at
        if offset < self.end_offset:
            self.lost_to = max(self.lost_to, self.end_offset)
            self.end_offset = offset

    def compare(
        self, name: str, partition: Partition, *, leads: bool, now_ms: int, violated: Callable[[str], None]
    ) -> None:
        """Compares what is new since the last look, and all of a log that was compacted or read in since.

        `now_ms`: no clock is further.
        """
        log, high_watermark = partition.log, partition.high_watermark
        known_log, cleaned_to, looked_to = self.looked.get(name, (None, 0, 0))
        is_same = known_log is log and cleaned_to == log.cleaned_to
        begin = looked_to if is_same else log.log_start_offset
        end = high_watermark if leads else min(high_watermark, self.end_offset)
        try:
            read = list(self._records(partition, begin, end))
        except DecodeError as error:
            violated(f"{name}: a record of {partition} from {begin} on is damaged: {error}")
            return
        self._note_aborted(log, end)
        found = {offset: pair for offset, _, _, pair in read}
        self.tombstones.setdefault(name, set()).update(offset for offset, (_, value) in found.items() if value is None)
        if leads:
            self._learn([*self._committed(log.leader_epochs, end), *read])
            self.end_offset = max(self.end_offset, end)
        for offset, pair in found.items():
            known = self.records.get(offset, pair)
            if known != pair:
                violated(f"{name}: the record at {offset} of {partition} is {pair}, elsewhere it is {known}")
        youngest_ms = now_ms - log.config.min_compaction_lag_ms
        for offset in self.records if log.config.min_compaction_lag_ms > 0 and not is_same else ():
            if begin <= offset < end and offset not in found and self.times[offset] > youngest_ms:
                violated(f"{name}: the record at {offset} of {partition} is missing and too young to be compacted")
        if not is_same and end < max(self.end_offset, log.segments.active.base_offset):
            return  # what was compacted away may have its newer value behind that, where no leader was looked at yet
        retention_ms = log.config.delete_retention_ms
        if not is_same and not self._is_whole(name, _table(self._read(found.items())), end, retention_ms):
            violated(f"{name}: a reader of {partition} ends at {end} with other values than the whole history gives")
        self.looked[name] = log, log.cleaned_to, max(end, begin)

    def _note_aborted(self, log: PartitionLog, end: int) -> None:
        """Below `end` all records are known that there are; what is compacted may be aborted by a marker behind it,
        even one that is not known to be committed: nobody writes one before its coordinator has decided for good.
        """
        epoch_at = log.leader_epochs.epoch_at
        for one in log.load().aborted.between(log.log_start_offset, log.log_end_offset):
            marker = one.last_offset, epoch_at(one.last_offset), one.producer_id
            if marker in self.noted:
                continue
            if one.last_offset < end and not self.began_late:
                self.noted.add(marker)
            for offset in range(one.first_offset, one.last_offset):
                epoch = epoch_at(offset)
                if self.producers.get((offset, epoch)) == one.producer_id:
                    self.aborted.add((offset, self.written[offset][epoch][1]))

    def _committed(self, epochs: LeaderEpochs, end: int) -> Iterator[Seen]:
        """Records that a leader has committed since the last look at leaders, but for compaction.

        A follower of a compacted log knows less well where epochs began: of what is looked at again after power cuts, a
        record between two of its epochs may be of either. If both wrote there, it is unknown which one it was.
        """
        for offset in range(self.end_offset, end):
            epoch = epochs.epoch_at(offset)
            following = next((e for e, start in epochs.entries if start > offset), epoch)
            written = self.written.get(offset, {})
            if offset < self.lost_to and any(epoch < other <= following for other in written):
                continue
            if epoch in written:
                yield offset, epoch, *written[epoch]

    def _learn(self, records: Iterable[Seen]) -> None:
        for offset, epoch, timestamp_ms, pair in records:
            if offset not in self.records:
                self.records[offset] = pair
                self.times[offset] = timestamp_ms
                self.epochs[offset] = epoch

    def _records(self, partition: Partition, offset: int, end: int) -> Iterator[Seen]:
        """Of the batches from an offset on that end before `end`."""
        while offset < end:
            data = partition.log.read(offset, READ_BYTES, upper_offset=end).read()
            if not data:
                return
            if self.began_late:
                self.note(data, is_written=False)
            for position, header in iterate_batches(data):
                for record in iterate_records(data, position, header) if not header.is_control else ():
                    if record.offset >= offset:
                        pair = record.key, record.value
                        yield record.offset, header.partition_leader_epoch, record.timestamp_ms, pair
                offset = header.last_offset + 1

    def _read(self, records: Iterable[tuple[int, Pair]]) -> Iterator[tuple[int, Pair]]:
        """Those that were not aborted."""
        return (record for record in records if record not in self.aborted)

    def _is_whole(self, name: str, table: dict[bytes | None, bytes], end: int, retention_ms: int) -> bool:
        seen = ((offset, self.records[offset]) for offset in sorted(self.records) if offset < end)
        history = list(self._read(seen))
        whole = _table(history)
        differing = {key for key in table.keys() | whole.keys() if table.get(key) != whole.get(key)}
        differing -= {key for key in differing & self.gone.keys() if not self._is_back(key, history)}
        if self.began_late:
            differing &= table.keys() & whole.keys()
        deleted = {key: offset for offset, (key, _) in history if key in differing - whole.keys()}
        if differing and (differing != deleted.keys() or retention_ms >= LONG_MS):
            return False
        return self.tombstones[name].isdisjoint(deleted.values())

    def _is_back(self, key: bytes | None, history: Iterable[tuple[int, Pair]]) -> bool:
        gone_epoch, gone_offset = self.gone[key]
        return any(
            pair[0] == key and (self.epochs[offset] > gone_epoch or offset >= gone_offset) for offset, pair in history
        )


def _table(records: Iterable[tuple[int, Pair]]) -> dict[bytes | None, bytes]:
    table: dict[bytes | None, bytes] = {}
    for _, (key, value) in records:
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
    return table
