"""How far a stream has come: an offset for each partition, and the ids of its topics. Spark stores it as JSON.

The layout is the JVM connector's, `{"flights": {"0": 123}}`, with more keys that no topic can have as its name:

* `#ids`: a topic that was deleted and created again has the old name and another id, and its old offsets mean nothing.
* `#from`, at the end of the first batch: where that batch begins, in this layout. Spark stores no beginning.
* `#unbegun`, beside `#from` at the end of the second one: when the first was planned no beginning was found, so that it
  may end before the beginning. The second one begins there, where that is later.
"""

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from penstock.client.blocking import TopicPartition
from penstock.pipeline.datasource.offset_ranges import Offsets
from penstock.protocol.uuids import uuid_from_text, uuid_to_text
from penstock.protocol.value import Value, fresh

IDS, FROM, UNBEGUN = "#ids", "#from", "#unbegun"
PositionJson = dict[str, Any]


class StreamPosition(Value):
    """Offsets and ids of topics, as far as the cluster tells ids."""

    offsets: Offsets
    topic_ids: Mapping[str, UUID] = fresh(dict)

    def recreated(self, topic_ids: Mapping[str, UUID]) -> set[str]:
        return {
            topic for topic, topic_id in self.topic_ids.items() if topic in topic_ids and topic_ids[topic] != topic_id
        }

    def carried(self, topic_ids: Mapping[str, UUID]) -> Offsets:
        """The offsets that still mean something where topics have these ids."""
        recreated = self.recreated(topic_ids)
        return {partition: offset for partition, offset in self.offsets.items() if partition[0] not in recreated}


def ids_of(partitions: Iterable[TopicPartition], topic_ids: Mapping[str, UUID]) -> dict[str, UUID]:
    return {topic: topic_ids[topic] for topic in sorted({topic for topic, _ in partitions}) if topic in topic_ids}


def to_json(position: StreamPosition) -> PositionJson:
    """With sorted keys: Spark compares positions as text."""
    nested: PositionJson = {}
    if position.topic_ids:
        nested[IDS] = {topic: uuid_to_text(topic_id) for topic, topic_id in sorted(position.topic_ids.items())}
    for topic, partition in sorted(position.offsets):
        nested.setdefault(topic, {})[str(partition)] = position.offsets[topic, partition]
    return nested


def from_json(nested: Mapping[str, Mapping[str, int | str]]) -> StreamPosition:
    return StreamPosition(
        {
            (topic, int(partition)): int(offset)
            for topic, inner in nested.items()
            if topic not in (IDS, FROM, UNBEGUN)
            for partition, offset in inner.items()
        },
        {topic: uuid_from_text(str(text)) for topic, text in nested.get(IDS, {}).items()},
    )


def with_beginning(end: StreamPosition, begin: StreamPosition) -> PositionJson:
    """The end of a first batch, which tells where that batch begins."""
    return {FROM: to_json(begin)} | to_json(end)


def beginning_of(start: PositionJson, end: PositionJson) -> StreamPosition | None:
    """Of the batch between them; None where nothing says it."""
    if FROM not in end or (start and UNBEGUN not in end):
        return from_json(start) if start else None
    first = from_json(end[FROM])
    before = from_json(start).carried(first.topic_ids)
    later = {partition: max(offset, before.get(partition, 0)) for partition, offset in first.offsets.items()}
    return first.replace(offsets=before | later)
