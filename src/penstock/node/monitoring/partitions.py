"""The partitions that a broker holds, as a page tells them: looked at once for each page, in steps.

Kafka has ten gauges for each partition. Here those that are not well are told, and the rest by topic. Where
`penstock.metrics.level` is `partitions`, each is told with what is its own when all is well: its ends and its size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import add
from typing import Final
from uuid import UUID

from penstock.node.metrics.counts import OTHER
from penstock.node.metrics.registry import Gauge, Group, Labels, Registry
from penstock.node.partitions.partition import Partition
from penstock.node.roles.broker import Broker
from penstock.node.serving.slices import Pace, Steps

LOOKED_AT: Final = 300
"""Partitions in one step: half a millisecond."""
MOST_UNWELL: Final = 1000
"""So many partitions are named of each trouble, unless each is told; the gauges of the broker count all."""

Where = tuple[str | int, ...]
OF_A_PARTITION: Final = ("topic", "partition")
OF_LED: Final = (
    ("kafka_topic_partitions", "partitions"),
    ("kafka_topic_partition_current_offset", "the high watermark"),
    ("kafka_topic_partition_oldest_offset", "the log start offset"),
    ("kafka_topic_partition_replicas", "replicas"),
    ("kafka_topic_partition_in_sync_replica", "replicas in sync"),
    ("kafka_topic_partition_leader_is_preferred", "whether the first of the replicas leads"),
    ("kafka_topic_partition_under_replicated_partition", "whether replicas are not in sync"),
)
"""As kafka_exporter calls it: sums over a topic,"""
REPLICAS: Final = 3
"""Where they stand."""
OF_EACH: Final = ("kafka_topic_partition_current_offset", "kafka_topic_partition_oldest_offset")
"""but for these where each partition is told."""
OF_WAITING: Final = (
    ("penstock_delayed_records", "Records that wait until they are due"),
    ("penstock_delayed_late_milliseconds", "How long ago the first of them was due, at the latest"),
)
Ends = tuple[int, int]


class PartitionSurvey:
    """What the last look has found. `names` are the topics that are told by their names."""

    def __init__(self, broker: Broker, names: Callable[[str], bool], *, tells_each: bool) -> None:
        self._broker = broker
        self._names = names
        self._tells_each = tells_each
        self._begin()

    def _begin(self) -> None:
        self._held = self._untouched = self.led = self.moving = self.under_min = self.at_min = self.under_replicated = 0
        self.unwell: dict[str, list[Where]] = {"UnderReplicated": [], "UnderMinIsr": [], "AtMinIsr": []}
        self.sizes: dict[Labels, int] = {}
        self.sums: dict[Labels, list[int]] = {}
        """Of what is led here, the numbers of `OF_LED`."""
        self._ends: dict[Where, Ends] = {}
        """Where each is told: of what is led here, the numbers of `OF_EACH`."""
        self.waiting: dict[Labels, tuple[int, int]] = {}
        """Over a topic, records that wait to be due, and how late (ms) the latest of them is."""

    def steps(self) -> Steps[None]:
        self._begin()
        partitions = list(self._broker.partitions)
        self._held = len(partitions)
        pace = Pace(LOOKED_AT)
        for partition in partitions:
            self._look_at(partition)
            if pace.is_due():
                yield None
        for topic_id, count in self._broker.partitions.untouched_counts():
            self._count_untouched(topic_id, count)
            if pace.is_due():
                yield None
            for log in self._broker.partitions.untouched_of(topic_id) if self._tells_each else ():
                self._ends[log.topic, log.partition] = 0, 0
                self.sizes[log.topic, log.partition] = 0
                if pace.is_due():
                    yield None

    def _count_untouched(self, topic_id: UUID, count: int) -> None:
        """Of one replica each, and without a record."""
        self.led += count
        self.at_min += count
        self._untouched += count
        known = self._broker.image.topics_by_id.get(topic_id)
        if known is not None:
            place = (known.name if self._names(known.name) else OTHER,)
            self._add(place, (count, 0, 0, count, count, count, 0))
            if not self._tells_each:
                self.sizes.setdefault(place, 0)

    def _add(self, place: Labels, numbers: Sequence[int]) -> None:
        sums = self.sums.get(place)
        self.sums[place] = list(numbers) if sums is None else list(map(add, sums, numbers))

    def _look_at(self, partition: Partition) -> None:
        leader, log, where = partition.leader, partition.log, (partition.topic, partition.index)
        topic = (partition.topic if self._names(partition.topic) else OTHER,)
        if log.is_loaded or log.is_untouched:
            place: Labels = where if self._tells_each else topic
            self.sizes[place] = self.sizes.get(place, 0) + (log.size_bytes if log.is_loaded else 0)
        if leader is None:
            return
        self.led += 1
        in_sync, needed, replicas = len(leader.isr), leader.needed_replicas, len(leader.replicas)
        first, is_preferred = partition.log_start_offset if log.has_known_ends else 0, leader.is_preferred
        end = partition.high_watermark
        self._add(topic, (1, end, first, replicas, in_sync, is_preferred, in_sync < replicas))
        if self._tells_each:
            self._ends[where] = end, first
        if in_sync < replicas:
            self.under_replicated += 1
            self._note("UnderReplicated", where)
        if in_sync < needed:
            self.under_min += 1
            self._note("UnderMinIsr", where)
        elif in_sync == needed:
            self.at_min += 1
            if replicas > 1:
                self._note("AtMinIsr", where)
        known = self._broker.image.topics_by_id.get(partition.topic_id)
        image = None if known is None else known.partitions.get(partition.index)
        waiting = partition.waiting
        if waiting is not None:
            count, late_ms = self.waiting.get(topic, (0, 0))
            self.waiting[topic] = count + waiting[0], max(late_ms, self._broker.now_ms() - waiting[1])
        self.moving += image is not None and bool(image.adding_replicas or image.removing_replicas)

    def _note(self, trouble: str, where: Where) -> None:
        found = self.unwell[trouble]
        if len(found) < MOST_UNWELL or self._tells_each:
            found.append(where)

    @property
    def held(self) -> int:
        return self._held + self._untouched

    def register(self, registry: Registry) -> None:
        gauge, broker = partial(Gauge, Group.REPLICAS), self._broker
        registry.add(
            gauge("LeaderCount", "Partitions that are led here", lambda: self.led),
            gauge("PartitionCount", "Partitions that are held here", lambda: self.held),
            gauge("OfflineReplicaCount", "Replicas in directories offline", lambda: len(broker.replicas.offline)),
            gauge("UnderReplicatedPartitions", "Led here, replicas not in sync", lambda: self.under_replicated),
            gauge("UnderMinIsrPartitionCount", "Led here, too few in sync for acks=all", lambda: self.under_min),
            gauge("AtMinIsrPartitionCount", "Led here, just enough in sync for acks=all", lambda: self.at_min),
            gauge("ReassigningPartitions", "Led here, replicas on the move", lambda: self.moving),
        )
        registry.add(
            *(
                Gauge(Group.PARTITIONS, trouble, "1 where so", partial(self._unwell, trouble), labels=OF_A_PARTITION)
                for trouble in self.unwell
            )
        )
        replicas = "Of what is led here, over a topic"
        registry.add(
            Gauge(Group.PARTITIONS, "ReplicasCount", replicas, partial(self._sums, REPLICAS), labels=("topic",)),
            Gauge(Group.PLAIN, "kafka_broker_info", "1", self._itself, labels=("id", "address")),
            *(
                Gauge(Group.PLAIN, name, about, partial(self._of_waiting, which), labels=("topic",))
                for which, (name, about) in enumerate(OF_WAITING)
            ),
        )
        self._register_logs(registry)

    def _itself(self) -> dict[Labels, int]:
        """By the first of its listeners; nothing before it is registered."""
        known = self._broker.image.brokers.get(self._broker.node_id)
        found = next(iter(known.endpoints.values()), None) if known is not None else None
        return {} if found is None else {(self._broker.node_id, f"{found.host}:{found.port}"): 1}

    def _register_logs(self, registry: Registry) -> None:
        labels = OF_A_PARTITION if self._tells_each else ("topic",)
        registry.add(
            Gauge(
                Group.LOG,
                "Size",
                "Bytes of logs that were read in, or are empty",
                lambda: iter(self.sizes.items()),
                labels=labels,
            ),
            *(self._of_led(which, name, f"Of what is led here: {what}") for which, (name, what) in enumerate(OF_LED)),
        )

    def _of_led(self, which: int, name: str, about: str) -> Gauge:
        if self._tells_each and name in OF_EACH:
            each = partial(self._each, OF_EACH.index(name))
            return Gauge(Group.PLAIN, name, about, each, labels=OF_A_PARTITION)
        return Gauge(Group.PLAIN, name, about, partial(self._sums, which), labels=("topic",))

    def _sums(self, which: int) -> Iterator[tuple[Labels, int]]:
        return ((place, sums[which]) for place, sums in self.sums.items())

    def _of_waiting(self, which: int) -> Iterator[tuple[Labels, int]]:
        return ((place, found[which]) for place, found in self.waiting.items())

    def _unwell(self, trouble: str) -> Iterator[tuple[Labels, int]]:
        """And 0 of each topic where all is well, so that a sum over a topic is there."""
        found = self.unwell[trouble]
        of_topics = {topic for topic, _ in found}
        yield from ((where, 1) for where in found)
        yield from (((*topic, ""), 0) for topic in self.sums if topic[0] not in of_topics)

    def _each(self, which: int) -> Iterator[tuple[Labels, int]]:
        return ((where, ends[which]) for where, ends in self._ends.items())
