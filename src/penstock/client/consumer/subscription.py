"""What a consumer reads and how far it has come: the state behind `Consumer`, without IO.

The partitions come from `assign` or, after `subscribe`, from the group. Each has a position, the offset of the next
record that the application gets; none while it is not known yet. Reading may be ahead of it: records that were taken
to be handed out one by one move the position one by one.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from penstock.client.errors import ConsumerMisuseError
from penstock.client.values import ConsumedRecord, OffsetAndMetadata, TopicPartition


@dataclass(slots=True)
class PartitionState:
    """One partition that is read. `reset_to` is a timestamp to look up first (-1 the end, -2 the beginning).

    `leader_epoch` is that of the last record before the position, -1 if it is not known. `replica` is the node to read
    from instead of the leader, -1 for none, until `replica_until_s` (KIP-392). `ahead` is where reading goes on, and
    the leader epoch there, while records before that are taken and not handed out.
    """

    position: int | None = None
    leader_epoch: int = -1
    ahead: tuple[int, int] | None = None
    paused: bool = False
    reset_to: int | None = None
    high_watermark: int | None = None
    log_start_offset: int | None = None
    replica: int = -1
    replica_until_s: float = 0.0

    @property
    def next_to_read(self) -> int | None:
        return self.position if self.ahead is None else self.ahead[0]

    @property
    def epoch_of_last_read(self) -> int:
        return self.leader_epoch if self.ahead is None else self.ahead[1]


@dataclass(slots=True)
class Subscription:
    topics: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None
    partitions: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    by_group: bool = False
    expression: str | None = None
    """In place of a pattern, where the coordinator looks for the topics."""

    def subscribe(
        self, topics: Collection[str], pattern: re.Pattern[str] | None, expression: str | None = None
    ) -> None:
        """Read whole topics, with the group."""
        if self.partitions and not self.by_group:
            raise ConsumerMisuseError("this consumer was given its partitions by assign(): unsubscribe() first")
        self.by_group = True
        self.topics = frozenset(topics)
        self.pattern = pattern
        self.expression = expression

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Without a group; partitions that were read before keep their positions."""
        if self.by_group:
            raise ConsumerMisuseError("this consumer subscribed to topics: unsubscribe() first")
        self.set_partitions(partitions)

    def set_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        self.partitions = {
            partition: self.partitions.get(partition, PartitionState()) for partition in sorted(set(partitions))
        }

    def unsubscribe(self) -> None:
        self.topics = frozenset()
        self.pattern = self.expression = None
        self.partitions = {}
        self.by_group = False

    def matching(self, names: Iterable[str], internal: Collection[str] = ()) -> frozenset[str]:
        """The topics that the pattern takes of these; without a pattern, those that were named."""
        if self.pattern is None:
            return self.topics
        return frozenset(name for name in names if self.pattern.fullmatch(name) and name not in internal)

    def state(self, partition: TopicPartition) -> PartitionState:
        """ConsumerMisuseError for a partition that is not read."""
        found = self.partitions.get(partition)
        if found is None:
            raise ConsumerMisuseError(f"partition {partition} is not assigned to this consumer")
        return found

    def without_position(self) -> list[TopicPartition]:
        """Partitions whose position must be found: by the group's commit or by the reset policy."""
        return [p for p, state in self.partitions.items() if state.position is None and state.reset_to is None]

    def to_reset(self) -> dict[TopicPartition, int]:
        return {p: state.reset_to for p, state in self.partitions.items() if state.reset_to is not None}

    def seek(self, partition: TopicPartition, offset: int, leader_epoch: int = -1) -> None:
        state = self.state(partition)
        state.position = offset
        state.leader_epoch = leader_epoch
        state.ahead = None
        state.reset_to = None

    def forget_epochs(self, topic: str) -> None:
        """The topic is another one of that name: its leader epochs begin anew."""
        for partition, state in self.partitions.items():
            if partition.topic == topic:
                state.leader_epoch = -1
                if state.ahead is not None:
                    state.ahead = state.ahead[0], -1

    def seek_to_timestamp(self, partition: TopicPartition, timestamp_ms: int) -> None:
        """Go on from where this timestamp (-1: the end, -2: the beginning) will be found to be."""
        state = self.state(partition)
        state.position = state.ahead = None
        state.reset_to = timestamp_ms

    def _state_of(self, record: ConsumedRecord) -> PartitionState | None:
        """None if its partition was given up, sought elsewhere or gone back on since it was taken."""
        state = self.partitions.get(record.topic_partition)
        return None if state is None or state.ahead is None else state

    def is_to_hand_out(self, record: ConsumedRecord) -> bool:
        return self._state_of(record) is not None

    def hand_out(self, record: ConsumedRecord) -> bool:
        """Whether the application gets it now."""
        state = self._state_of(record)
        if state is None:
            return False
        state.position = max(state.position or 0, record.offset + 1)
        state.leader_epoch = record.leader_epoch
        return True

    def all_is_handed_out(self) -> None:
        for state in self.partitions.values():
            if state.ahead is not None:
                (state.position, state.leader_epoch), state.ahead = state.ahead, None

    def go_back(self, *, only_paused: bool = False) -> None:
        """What was taken and not handed out is read again."""
        for state in self.partitions.values():
            if state.paused or not only_paused:
                state.ahead = None

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Where the application stands: what a commit without arguments commits."""
        return {
            partition: OffsetAndMetadata(state.position, "", state.leader_epoch)
            for partition, state in self.partitions.items()
            if state.position is not None
        }
