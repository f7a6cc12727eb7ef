"""What the log of a partition of groups says, and what a shard knows of it."""

from collections.abc import Iterator, Sequence
from typing import Any

from penstock.coordinator.effects import KeyValue
from penstock.coordinator.group.image import GroupImage
from penstock.coordinator.group.records import AnyRecord, HistoryRecord, OffsetRecord, decode_record
from penstock.coordinator.shards.groups import GroupShard

Contents = dict[str | tuple[str, str, int], Any]


def decoded(records: Sequence[KeyValue]) -> Iterator[AnyRecord]:
    for key, value in records:
        record = decode_record(key, value)
        assert record is not None
        if not isinstance(record, HistoryRecord):
            yield record


def enter(known: Contents, record: AnyRecord) -> None:
    """A record, as a dictionary has it."""
    place: str | tuple[str, str, int] = record.group_id
    if isinstance(record, OffsetRecord):
        place = (record.group_id, record.topic, record.partition)
    known.pop(place, None)
    if record.value is not None:
        known[place] = record.value


def contents(shard: GroupShard) -> Contents:
    """All that a shard's image has."""
    image = shard.agenda.image
    assert isinstance(image, GroupImage)
    found: Contents = {}
    found.update(image.of_kind("classic"))
    for group_id in image.group_ids():
        for topic, partitions in image.offsets(group_id).items():
            assert group_id in image.readers(topic)
            assert {(group_id, topic, partition) for partition in partitions} <= set(image.places_in(topic))
            for partition, committed in partitions.items():
                found[group_id, topic, partition] = committed
    return found


def histories(shard: GroupShard) -> dict[str, dict[int, bytes]]:
    image = shard.agenda.image
    assert isinstance(image, GroupImage)
    return {group_id: dict(image.histories.of(group_id)) for group_id in image.histories.group_ids()}
