"""Who reads what: Kafka's assignors as pure functions of the members and the numbers of partitions.

An assignor is asked by the leader of a group, once in each generation. Its answer must not depend on the order in
which members were named: all of them sort first. Static members (KIP-345) sort by their instance id, and before the
dynamic ones.

* `range`: topic by topic, each member takes a run of neighbouring partitions; the first members take one more.
* `roundrobin`: all partitions of all topics are dealt like cards.
* `sticky`: as even as can be, and of all the even ones that which moves the fewest partitions (`sticky.py`).
* `cooperative-sticky` (KIP-429): the same, but a partition goes to its next owner one rebalance after the last one has
  given it up, so that all others are read on.

Any other class is named as `module:Class` and made without arguments.
"""

import importlib
from collections.abc import Mapping, Sequence
from typing import Final, Protocol, cast

from penstock.client.sticky import assign_sticky
from penstock.client.values import TopicPartition
from penstock.protocol.value import Value

Assignment = dict[str, list[TopicPartition]]


class GroupMember(Value):
    """A member as its group's leader sees it.

    `owned` and `generation` are what the member held when the group was last stable, as far as it says.
    """

    member_id: str
    topics: frozenset[str]
    instance_id: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1

    @property
    def order(self) -> tuple[int, str]:
        """What members are sorted by: static before dynamic, then by id."""
        return (1, self.member_id) if self.instance_id is None else (0, self.instance_id)


class Assignor(Protocol):
    """A name that all members know, and the decision.

    One that has an attribute `cooperative` that is true lets its members read on while their group rebalances; it must
    never give a partition to a member while another one owns it.
    """

    @property
    def name(self) -> str:
        """The name in JoinGroup: members of a group share at least one."""

    def assign(self, members: Sequence[GroupMember], partition_counts: Mapping[str, int]) -> Assignment:
        """Give every partition of every subscribed topic that exists to exactly one member that subscribes to it."""


class RangeAssignor(Value):
    """Topic by topic in runs: of three partitions two consumers get 0,1 and 2; with many topics the first get more."""

    name = "range"

    def assign(self, members: Sequence[GroupMember], partition_counts: Mapping[str, int]) -> Assignment:
        assignment: Assignment = {member.member_id: [] for member in members}
        for topic in sorted(partition_counts):
            consumers = sorted((member for member in members if topic in member.topics), key=lambda m: m.order)
            if not consumers:
                continue
            share, one_more = divmod(partition_counts[topic], len(consumers))
            start = 0
            for position, consumer in enumerate(consumers):
                end = start + share + (position < one_more)
                assignment[consumer.member_id] += [TopicPartition(topic, number) for number in range(start, end)]
                start = end
        return assignment


class RoundRobinAssignor(Value):
    """All partitions in order, dealt in turn; members without a subscription to the topic are passed over."""

    name = "roundrobin"

    def assign(self, members: Sequence[GroupMember], partition_counts: Mapping[str, int]) -> Assignment:
        assignment: Assignment = {member.member_id: [] for member in members}
        circle = sorted(members, key=lambda member: member.order)
        subscribed = {topic for member in members for topic in member.topics}
        turn = 0
        for topic in sorted(subscribed & partition_counts.keys()):
            for number in range(partition_counts[topic]):
                while topic not in circle[turn % len(circle)].topics:
                    turn += 1
                assignment[circle[turn % len(circle)].member_id].append(TopicPartition(topic, number))
                turn += 1
        return assignment


class StickyAssignor(Value):
    """As even as can be, then as few moves as can be (KIP-54)."""

    name = "sticky"

    def assign(self, members: Sequence[GroupMember], partition_counts: Mapping[str, int]) -> Assignment:
        ordered = sorted(members, key=lambda member: member.member_id)
        subscriptions = {
            member.member_id: sorted(topic for topic in member.topics if topic in partition_counts)
            for member in ordered
        }
        claims = {member.member_id: (member.generation, member.owned) for member in ordered}
        return assign_sticky(subscriptions, claims, partition_counts)


class CooperativeStickyAssignor(Value):
    """The sticky assignment, without the partitions that their owners still have to give up (KIP-429)."""

    name = "cooperative-sticky"
    cooperative = True

    def assign(self, members: Sequence[GroupMember], partition_counts: Mapping[str, int]) -> Assignment:
        assignment = StickyAssignor().assign(members, partition_counts)
        given_up = {
            partition for member in members for partition in set(member.owned) - set(assignment[member.member_id])
        }
        owned = {member.member_id: set(member.owned) for member in members}
        return {
            member_id: [p for p in partitions if p in owned[member_id] or p not in given_up]
            for member_id, partitions in assignment.items()
        }


ASSIGNORS: Final[Mapping[str, Assignor]] = {
    assignor.name: assignor
    for assignor in (RangeAssignor(), RoundRobinAssignor(), StickyAssignor(), CooperativeStickyAssignor())
}
KAFKAS_PACKAGE: Final = "org.apache.kafka.clients.consumer."


def assignor_named(name: str) -> Assignor:
    """A built-in one, by its name or that of Kafka's class; or any class as `module:Class`. ValueError."""
    by_class = {type(assignor).__name__: assignor for assignor in ASSIGNORS.values()}
    found = ASSIGNORS.get(name) or by_class.get(name.removeprefix(KAFKAS_PACKAGE))
    if found is not None:
        return found
    module_name, colon, class_name = name.partition(":")
    if not colon:
        known = ", ".join(ASSIGNORS)
        raise ValueError(f"partition.assignment.strategy={name}: known are {known}, and your own as module:Class")
    try:
        return cast("Assignor", getattr(importlib.import_module(module_name), class_name)())
    except (ImportError, AttributeError) as error:
        raise ValueError(f"partition.assignment.strategy={name}: {error}") from error


def is_cooperative(assignor: Assignor) -> bool:
    return bool(getattr(assignor, "cooperative", False))
