"""Groups that a broker coordinates: how many there are, and how far behind each is, as kafka_exporter calls it.

The end of a partition is known where a replica of it lies here, leader or follower, which with the same replication of
`__consumer_offsets` is nearly always; of others the committed offset is told and no lag. So `MOST_ROWS` rows in all are
told of single partitions, and of `MOST_SUMS` groups and topics the sum.

Kafka 4.4 has new names for figures of groups (KIP-1301); both are there.
"""

from __future__ import annotations

from collections import Counter as Tally
from functools import partial
from typing import Final

from penstock.coordinator.shards.groups import GroupShard
from penstock.node.metrics.registry import Counter, Gauge, Group, Labels, Registry
from penstock.node.roles.broker import Broker
from penstock.node.serving.slices import Pace, Steps

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
LOOKED_AT: Final = 300
"""Committed offsets in one step: half a millisecond."""
MOST_ROWS: Final = 20_000
MOST_SUMS: Final = 5_000
CONSUMER_STATES: Final = ("Empty", "Assigning", "Reconciling", "Stable", "Dead")
STATES: Final = {
    "PreparingRebalance": "NumGroupsPreparingRebalance",
    "CompletingRebalance": "NumGroupsCompletingRebalance",
    "Stable": "NumGroupsStable",
    "Dead": "NumGroupsDead",
    "Empty": "NumGroupsEmpty",
}
OF_AN_OFFSET: Final = ("consumergroup", "topic", "partition")
OF_A_TOPIC: Final = ("consumergroup", "topic")


class GroupSurvey:
    """What the last look has found."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._begin()

    def _begin(self) -> None:
        self.states = Tally[tuple[str, str]]()
        """By kind and state."""
        self.kinds = Tally[str]()
        self.offset_count = self.left_out = 0
        self.members: dict[Labels, int] = {}
        self.offsets: dict[Labels, int] = {}
        self.lags: dict[Labels, int] = {}
        self.sums: dict[Labels, int] = {}

    def steps(self) -> Steps[None]:
        self._begin()
        pace = Pace(LOOKED_AT)
        for hosted in self._broker.groups.serving():
            shard = hosted.machine
            for listed in shard.list_groups():
                self.states[listed.group_type, listed.group_state] += 1
                self.kinds[listed.group_type] += 1
                if len(self.members) < MOST_SUMS:
                    self.members[listed.group_id,] = shard.member_count(listed.group_id)
                yield from self._group(shard, listed.group_id, pace)
            yield None

    def _group(self, shard: GroupShard, group_id: str, pace: Pace) -> Steps[None]:
        for topic, partitions in list(shard.offsets(group_id).items()):
            total, is_known = 0, False
            for index, committed in list(partitions.items()):
                end = self._end_of(topic, index)
                self.offset_count += 1
                if end is not None:
                    total, is_known = total + max(end - committed.offset, 0), True
                self._tell((group_id, topic, index), committed.offset, end)
                if pace.is_due():
                    yield None
            if is_known and len(self.sums) < MOST_SUMS:
                self.sums[group_id, topic] = total
        if pace.is_due():
            yield None

    def _tell(self, where: Labels, offset: int, end: int | None) -> None:
        if len(self.offsets) >= MOST_ROWS:
            self.left_out += 1
            return
        self.offsets[where] = offset
        if end is not None:
            self.lags[where] = max(end - offset, 0)

    def _end_of(self, topic: str, index: int) -> int | None:
        """None where no replica lies here."""
        table = self._broker.partitions
        partition = table.get(topic, index)
        if partition is not None:
            return partition.high_watermark
        known = self._broker.image.topics.get(topic)
        log = None if known is None else table.get_untouched(known.topic_id, index)
        return None if log is None else log.log_end_offset

    def register(self, registry: Registry) -> None:
        old, new = partial(Gauge, Group.GROUPS), partial(Gauge, Group.GROUP_COORDINATOR)
        plain = partial(Gauge, Group.PLAIN)
        registry.add(
            old("NumGroups", "Groups that are coordinated here", lambda: self.states.total()),
            *(old(name, f"Those that are {state}", partial(self._in_state, state)) for state, name in STATES.items()),
            old("NumOffsets", "Offsets that they have committed", lambda: self.offset_count),
            new("group-count", "Groups by kind", self._by_kind, labels=("protocol",)),
            new("offset-count", "Offsets that they have committed", lambda: self.offset_count),
            new("classic-group-count", "Groups of the classic protocol by state", self._classic, labels=("state",)),
            new("consumer-group-count", "Those of the consumer protocol", self._consumers, labels=("state",)),
            Counter(
                Group.GROUP_COORDINATOR,
                "group-completed-rebalance-count",
                "Generations of classic groups that were assigned",
                partial(self._rebalances, CLASSIC, 0),
            ),
            Counter(
                Group.GROUP_COORDINATOR,
                "consumer-group-rebalance-count",
                "Epochs of consumer groups to whose targets all members have come",
                partial(self._rebalances, CONSUMER, 0),
            ),
            Counter(
                Group.NODE,
                "GroupRebalanceTime",
                "How long these took together",
                lambda: {(kind,): self._rebalances(kind, 1) for kind in (CLASSIC, CONSUMER)},
                unit="milliseconds",
                labels=("protocol",),
            ),
            plain(
                "kafka_consumergroup_members", "Members", lambda: iter(self.members.items()), labels=("consumergroup",)
            ),
            plain(
                "kafka_consumergroup_current_offset",
                "What a group has committed",
                lambda: iter(self.offsets.items()),
                labels=OF_AN_OFFSET,
            ),
            plain(
                "kafka_consumergroup_lag",
                "Records from there to the high watermark",
                lambda: iter(self.lags.items()),
                labels=OF_AN_OFFSET,
            ),
            plain("kafka_consumergroup_lag_sum", "Of a topic", lambda: iter(self.sums.items()), labels=OF_A_TOPIC),
            Gauge(Group.NODE, "ConsumergroupOffsetsLeftOut", "Offsets without a row", lambda: self.left_out),
        )

    def _in_state(self, state: str) -> int:
        return self.states[CLASSIC, state]

    def _rebalances(self, kind: str, index: int) -> int:
        return self._broker.groups.rebalances().get(kind, (0, 0))[index]

    def _by_kind(self) -> dict[Labels, int]:
        return {(kind,): self.kinds[kind] for kind in sorted({CLASSIC, *self.kinds})}

    def _classic(self) -> dict[Labels, int]:
        return {(state.lower(),): self.states[CLASSIC, state] for state in STATES}

    def _consumers(self) -> dict[Labels, int]:
        return {(state.lower(),): self.states[CONSUMER, state] for state in CONSUMER_STATES}
