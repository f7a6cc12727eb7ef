"""What the records of a consumer group add up to, and where it is found fast: owners, static members, subscribers."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, ClassVar
from uuid import UUID

from penstock.coordinator.effects import KeyValue
from penstock.coordinator.group.consumer import records
from penstock.coordinator.group.consumer.assignors.spec import Target
from penstock.coordinator.group.consumer.records import ASSIGNMENT, CURRENT, EXPRESSION, GROUP, LEGACY, MEMBER, TARGET
from penstock.coordinator.group.consumer.values import (
    NEWCOMER,
    Current,
    GroupEpoch,
    Resolved,
    Subscription,
    partitions_of,
)
from penstock.coordinator.group.epochs import EpochView
from penstock.coordinator.group.parts import DecidedParts, PartRecord


class ConsumerRecord(PartRecord):
    """`name` is the id of a member, or an expression."""

    kind = "consumer"
    keys = records.KEYS
    decoded = staticmethod(records.CODEC.decoded)

    def encode(self) -> KeyValue:
        return records.CODEC.encoded(self.key, self.group_id, self.name, self.value)

    @staticmethod
    def new_state() -> "ConsumerState":
        return ConsumerState()


class GroupView(EpochView[GroupEpoch, Subscription, Target, Current]):
    """What the records say, and no more."""

    __slots__ = ()

    keys = records.KEYS
    group_key, assignment_key, member_key, target_key, current_key = GROUP, ASSIGNMENT, MEMBER, TARGET, CURRENT
    first_epoch = GroupEpoch(1, 0)
    newcomer = NEWCOMER
    no_target: ClassVar[Target] = {}

    @property
    def has_legacy(self) -> bool:
        """Whether there is a record of the topics as Kafka before 4.1 wrote it."""
        return bool(self._parts[LEGACY])

    @property
    def expressions(self) -> dict[str, Resolved]:
        return self._parts[EXPRESSION]

    @property
    def assignor_counts(self) -> dict[str, int]:
        """How many members name each assignor."""
        return Counter(member.assignor for member in self.members.values() if member.assignor is not None)

    def preferred_assignor(self, offered: tuple[str, ...]) -> str:
        """The one that most members name; of those that as many name, the first that is offered; or else the first."""
        counts = self.assignor_counts
        most = max(counts.values(), default=0)
        return next((name for name in offered if most and counts.get(name) == most), offered[0])

    def topics_of(self, member: Subscription) -> frozenset[str]:
        """An expression that is not resolved matches nothing."""
        resolved = self.expressions.get(member.pattern) if member.pattern else None
        return frozenset(member.topics if resolved is None else (*member.topics, *resolved.topics))


class ConsumerState(GroupView, DecidedParts):
    """A group as it was decided."""

    __slots__ = (
        "_assignors",
        "_by_expression",
        "_by_match",
        "_by_name",
        "_protocols",
        "classic_members",
        "owners",
        "static_ids",
    )

    committed: GroupView

    def __init__(self) -> None:
        DecidedParts.__init__(self, GroupView())
        self.owners: dict[tuple[UUID, int], str] = {}
        """The member that has each partition, or has not said yet that it has given it up."""
        self.static_ids: dict[str, str] = {}
        """Group instance id to member id."""
        self._by_name: dict[str, int] = {}
        """Topic to the number of members that name it."""
        self._by_match: dict[str, int] = {}
        """Topic to the number of expressions that match it."""
        self._by_expression: dict[str, int] = {}
        self._assignors: dict[str, int] = {}
        self._protocols: dict[str, int] = {}
        """Protocol to the number of classic members that support it."""
        self.classic_members = 0
        """How many members speak the classic protocol."""

    def put(self, key: int, name: str, value: Any) -> Any:
        before = super().put(key, name, value)
        if key == MEMBER:
            self._index_member(name, before, value)
        elif key == CURRENT:
            self._index_owned(name, before, value)
        elif key == EXPRESSION:
            self._index_matched(before, value)
        return before

    def _index_member(self, member_id: str, before: Subscription | None, now: Subscription | None) -> None:
        if before is not None:
            self._count_member(before, -1)
            if before.instance_id is not None and self.static_ids.get(before.instance_id) == member_id:
                del self.static_ids[before.instance_id]
        if now is not None:
            self._count_member(now, 1)
            if now.instance_id is not None:
                self.static_ids[now.instance_id] = member_id

    def _count_member(self, member: Subscription, change: int) -> None:
        for topic in member.topics:
            _count(self._by_name, topic, change)
        if member.pattern:
            _count(self._by_expression, member.pattern, change)
        if member.assignor is not None:
            _count(self._assignors, member.assignor, change)
        if member.classic is not None:
            self.classic_members += change
            for name in dict.fromkeys(one.name for one in member.classic.supported_protocols):
                _count(self._protocols, name, change)

    def _index_matched(self, before: Resolved | None, now: Resolved | None) -> None:
        for resolved, change in ((before, -1), (now, 1)):
            for topic in () if resolved is None else resolved.topics:
                _count(self._by_match, topic, change)

    def _index_owned(self, member_id: str, before: Current | None, now: Current | None) -> None:
        if before is not None:
            for place in (*partitions_of(before.assigned), *partitions_of(before.revoking)):
                if self.owners.get(place) == member_id:
                    del self.owners[place]
        if now is not None:
            for owned in (now.assigned, now.revoking):
                for topic, epochs in owned.items():
                    for partition in epochs:
                        self.owners[topic, partition] = member_id

    # -- what the members want ----------------------------------------------------------------------------------------

    @property
    def topics(self) -> list[str]:
        """Those that members read, in ascending order."""
        return sorted({**self._by_name, **self._by_match})

    def reads(self, topic: str) -> bool:
        return topic in self._by_name or topic in self._by_match

    def readers(self, expression: str) -> int:
        return self._by_expression.get(expression, 0)

    @property
    def wanted_expressions(self) -> list[str]:
        return list(self._by_expression)

    def supports(self, protocols: Iterable[str]) -> bool:
        """Whether all classic members support one of these."""
        return any(self._protocols.get(name, 0) == self.classic_members for name in protocols)

    @property
    def assignor_counts(self) -> dict[str, int]:
        return self._assignors


def _count(counts: dict[str, int], name: str, change: int) -> None:
    count = counts.get(name, 0) + change
    if count:
        counts[name] = count
    else:
        del counts[name]
