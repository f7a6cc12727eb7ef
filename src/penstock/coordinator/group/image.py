"""What the records of a partition of `__consumer_offsets` add up to: committed offsets, and what groups were last."""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import chain, takewhile
from typing import Any

from penstock.coordinator.group.records import (
    AnyRecord,
    CommittedOffset,
    HistoryRecord,
    KindRecord,
    OffsetRecord,
    PendingRecord,
)
from penstock.coordinator.machine import LogImage

TopicOffsets = Mapping[str, Mapping[int, CommittedOffset]]
"""Topic to partition to offset."""


Place = tuple[str, str, int]
"""Group, topic and partition of an offset."""


class PendingOffsets:
    """Offsets in transactions that have not ended, as far as their records are committed.

    Of what is written for one place the latest counts, as in Kafka, whose compaction leaves the record that was written
    last: what is pending comes to nothing once an offset that was written later counts, or a tombstone.
    """

    def __init__(self) -> None:
        self._of: dict[int, dict[Place, PendingRecord | None]] = {}
        """By producer. None is an offset that comes to nothing."""
        self._producers: dict[str, dict[Place, dict[int, None]]] = {}
        """By group: the producers of each place, in the order in which they wrote."""
        self._places: dict[str, dict[Place, None]] = {}
        """By topic."""

    def __len__(self) -> int:
        return len(self._producers)

    def add(self, record: PendingRecord) -> None:
        place = record.group_id, record.topic, record.partition
        self._of.setdefault(record.producer_id, {})[place] = record
        producers = self._producers.setdefault(record.group_id, {}).setdefault(place, {})
        producers.pop(record.producer_id, None)
        producers[record.producer_id] = None
        self._places.setdefault(record.topic, {})[place] = None

    def overtake(self, record: OffsetRecord) -> None:
        """It was committed without a transaction."""
        place = record.group_id, record.topic, record.partition
        for producer_id in self._producers.get(record.group_id, {}).get(place, ()):
            self._of[producer_id][place] = None

    def end(self, producer_id: int, *, is_commit: bool) -> list[PendingRecord]:
        """Its transaction has ended: the offsets that count from now on, or are forgotten."""
        records = self._of.pop(producer_id, {})
        for place in records:
            places = self._producers[place[0]]
            producers = places[place]
            for earlier in takewhile(lambda one: one != producer_id, producers if is_commit else ()):
                self._of[earlier][place] = None
            del producers[producer_id]
            if not producers:
                del places[place], self._places[place[1]][place]
            if not self._places.get(place[1], True):
                del self._places[place[1]]
            if not places:
                del self._producers[place[0]]
        return [record for record in records.values() if record is not None]

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        return (group_id, topic, partition) in self._producers.get(group_id, ())

    def at(self, place: Place) -> list[PendingRecord]:
        """What may count there when transactions end."""
        found = (self._of[producer_id][place] for producer_id in self._producers.get(place[0], {}).get(place, ()))
        return [record for record in found if record is not None]

    def has_group(self, group_id: str) -> bool:
        return group_id in self._producers

    def places(self, group_id: str | None = None) -> list[Place]:
        """Where an offset may come, of one group or of all."""
        groups = self._producers.values() if group_id is None else [self._producers.get(group_id, {})]
        return [place for places in groups for place in places if self.may_come(place)]

    def places_in(self, topic: str) -> list[Place]:
        return [place for place in self._places.get(topic, ()) if self.may_come(place)]

    def topics(self) -> list[str]:
        return [topic for topic, places in self._places.items() if any(map(self.may_come, places))]

    def may_come(self, place: Place) -> bool:
        return bool(self.at(place))


class Histories:
    """What happened in groups, in slots (`HistoryRecord`)."""

    def __init__(self) -> None:
        self._of: dict[str, dict[int, bytes]] = {}
        self._order: dict[tuple[str, int], None] = {}
        """All slots, in the order in which they were written."""
        self.bytes = 0
        """Of values, and of the names of their groups."""

    def put(self, record: HistoryRecord) -> bytes | None:
        """Returns what was there before."""
        place, slots = (record.group_id, record.slot), self._of.setdefault(record.group_id, {})
        before = slots.pop(record.slot, None)
        self._order.pop(place, None)
        name = len(record.group_id)
        for value, sign in ((before, -1), (record.value, 1)):
            self.bytes += 0 if value is None else sign * (name + len(value))
        if record.value is not None:
            slots[record.slot] = record.value
            self._order[place] = None
        elif not slots:
            del self._of[record.group_id]
        return before

    def of(self, group_id: str) -> Mapping[int, bytes]:
        """By slot. Read only."""
        return self._of.get(group_id, {})

    def group_ids(self) -> list[str]:
        return list(self._of)

    def oldest(self) -> Iterator[tuple[str, int]]:
        """Group and slot of what was written first. Look at a few before anything is put."""
        return iter(self._order)

    def tombstones(self, group_id: str) -> list[HistoryRecord]:
        return [HistoryRecord(group_id, slot, None) for slot in self.of(group_id)]


class DecidedAhead(ABC):
    """A value of a group that is kept as it was decided, and as far as that is committed."""

    __slots__ = ()

    @abstractmethod
    def all_is_committed(self) -> None: ...

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether nothing of it is decided."""

    @property
    @abstractmethod
    def is_gone(self) -> bool:
        """Whether nothing is left of it, decided or committed."""


class GroupImage(LogImage[AnyRecord]):
    """`pending` holds what is committed; all else is as it was decided."""

    def __init__(self) -> None:
        self.pending = PendingOffsets()
        self.histories = Histories()
        self._kinds: dict[str, dict[str, Any]] = defaultdict(dict)
        """By kind: the last record of each group, or what its records add up to."""
        self._offsets: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        self._readers: dict[str, dict[str, None]] = {}
        """Topic to the groups that have offsets in it."""

    def apply(self, record: AnyRecord) -> Any:
        if type(record) is not OffsetRecord:
            if isinstance(record, KindRecord):
                return record.apply_to(self._kinds[record.kind])
            return self.histories.put(record) if isinstance(record, HistoryRecord) else None
        topics = self._offsets.get(record.group_id)
        partitions = None if topics is None else topics.get(record.topic)
        if partitions is None:
            if record.value is None:
                return None
            partitions = self.begun(record.group_id, record.topic)
        before = partitions.get(record.partition)
        if record.value is not None:
            partitions[record.partition] = record.value
        elif before is not None:
            del partitions[record.partition]
            if not partitions:
                self._end(record)
        return before

    def begun(self, group_id: str, topic: str) -> dict[int, CommittedOffset]:
        """The offsets of a group in a topic: at least one is to be put in at once."""
        partitions = self._offsets.setdefault(group_id, {}).get(topic)
        if partitions is None:
            partitions = self._offsets[group_id][topic] = {}
            self._readers.setdefault(topic, {})[group_id] = None
        return partitions

    def _end(self, record: OffsetRecord) -> None:
        """Called when the last offset of a group in a topic is gone."""
        topics, readers = self._offsets[record.group_id], self._readers[record.topic]
        del topics[record.topic], readers[record.group_id]
        if not topics:
            del self._offsets[record.group_id]
        if not readers:
            del self._readers[record.topic]

    def undoing(self, record: AnyRecord, before: Any) -> AnyRecord:
        if isinstance(record, KindRecord):
            return record.undoing(before)
        return record if type(record) is PendingRecord else record.replace(value=before)

    def committed(self, records: list[AnyRecord]) -> None:
        for record in records:
            if type(record) is OffsetRecord:
                if self.pending:
                    self.pending.overtake(record)
            elif isinstance(record, KindRecord):
                record.count_in(self._kinds[record.kind])
            elif isinstance(record, PendingRecord):
                self.pending.add(record)

    def all_is_committed(self, group_id: str) -> None:
        """What was read of a group is in the log for good."""
        for groups in self._kinds.values():
            value = groups.get(group_id)
            if isinstance(value, DecidedAhead):
                value.all_is_committed()
                if value.is_gone:
                    del groups[group_id]

    def of_kind(self, kind: str) -> dict[str, Any]:
        """By group; also one of which nothing is left but what is committed. Read only, but for who loads."""
        return self._kinds[kind]

    def group(self, kind: str, group_id: str) -> Any:
        """As it was decided; None if nothing says that there is a group of this name and kind. Read only."""
        value = self._kinds[kind].get(group_id)
        return None if isinstance(value, DecidedAhead) and value.is_empty else value

    def offsets(self, group_id: str) -> TopicOffsets:
        """Decided offsets, committed or not. Read only."""
        return self._offsets.get(group_id, {})

    def group_ids(self) -> list[str]:
        pending = (group_id for group_id, _, _ in self.pending.places())
        written = (group_id for groups in self._kinds.values() for group_id in groups)
        return list(dict.fromkeys([*written, *self._offsets, *pending]))

    def is_known(self, group_id: str) -> bool:
        is_written = any(self.group(kind, group_id) is not None for kind in self._kinds)
        return is_written or group_id in self._offsets or self.pending.has_group(group_id)

    def topics(self) -> Iterator[str]:
        """In which groups have offsets, or may get them when a transaction ends; some twice. Groups and offsets may
        come and go before the next one is asked for.
        """
        return chain(list(self._readers), self.pending.topics())

    def has_any_in(self, topic: str) -> bool:
        """Whether groups have offsets there, or may get them when a transaction ends."""
        return topic in self._readers or bool(self.pending.places_in(topic))

    def readers(self, topic: str) -> list[str]:
        """The groups that have offsets there, or may get them when a transaction ends."""
        pending = (group_id for group_id, _, _ in self.pending.places_in(topic))
        return list(dict.fromkeys([*self._readers.get(topic, ()), *pending]))

    def places_in(self, topic: str) -> Iterator[Place]:
        """Where groups have offsets, or may get them when a transaction ends. Groups and offsets may come and go
        before the next place is asked for.
        """
        pending = [place for place in self.pending.places_in(topic) if self.offset_at(place) is None]
        for group_id in list(self._readers.get(topic, ())):
            for index in list(self.offsets(group_id).get(topic, ())):
                yield group_id, topic, index
        yield from pending

    def reads(self, group_id: str, topic: str) -> bool:
        """Whether it is one of the topic's `readers`."""
        return topic in self.offsets(group_id) or any(name == topic for _, name, _ in self.pending.places(group_id))

    def may_have(self, place: Place) -> bool:
        """Whether there is an offset, or may be one when a transaction ends."""
        group_id, topic, partition = place
        return partition in self.offsets(group_id).get(topic, ()) or self.pending.may_come(place)

    def places(self, group_id: str) -> Iterator[Place]:
        """Where a group has offsets, or may get them, as `places_in`."""
        pending = [place for place in self.pending.places(group_id) if self.offset_at(place) is None]
        yield from self.offset_places(group_id)
        yield from pending

    def offset_places(self, group_id: str) -> Iterator[Place]:
        """Where a group has offsets, as `places_in`."""
        for topic in list(self.offsets(group_id)):
            for index in list(self.offsets(group_id).get(topic, ())):
                yield group_id, topic, index

    def offset_at(self, place: Place) -> CommittedOffset | None:
        group_id, topic, index = place
        return self.offsets(group_id).get(topic, {}).get(index)
