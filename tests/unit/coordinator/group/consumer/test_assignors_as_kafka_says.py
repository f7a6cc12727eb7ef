"""Cases of Kafka's tests of both assignors of consumer groups, by their names.

A row has how many partitions each topic has, who reads and has what, and what each has then. So range does it as well;
uniform may give others, if it gives each member as many, and leaves as many where they are.
"""

from __future__ import annotations

import re
from itertools import permutations
from types import ModuleType
from typing import Final
from uuid import UUID

import pytest

from penstock.coordinator.group.consumer.assignors import range as by_range
from penstock.coordinator.group.consumer.assignors import uniform
from penstock.coordinator.group.consumer.assignors.spec import Reader, Spec, Target, Targets

TOPICS: Final = {name: UUID(int=number) for number, name in enumerate("abcd", 1)}

RANGE: dict[str, tuple[str, str, str]] = {
    "testFirstAssignmentTwoMembersTwoTopicsSameSubscriptions": (
        "a3 c2",
        "A reads ac; B reads ac",
        "A a01 c0; B a2 c1",
    ),
    "testFirstAssignmentThreeMembersThreeTopicsDifferentSubscriptions": (
        "a3 b3 c2",
        "A reads ab; B reads c; C reads bc",
        "A a012 b01; B c0; C b2 c1",
    ),
    "testFirstAssignmentNumMembersGreaterThanNumPartitions": (
        "a3 c2",
        "A reads ac; B reads ac; C reads ac",
        "A a0 c0; B a1 c1; C a2",
    ),
    "testReassignmentNumMembersGreaterThanNumPartitionsWhenOneMemberAdded": (
        "a2 b2",
        "A reads ab has a0 b0; B reads ab has a1 b1; C reads ab",
        "A a0 b0; B a1 b1; C",
    ),
    "testReassignmentWhenOnePartitionAddedForTwoMembersTwoTopics": (
        "a4 b4",
        "A reads ab has a01 b01; B reads ab has a2 b2",
        "A a01 b01; B a23 b23",
    ),
    "testReassignmentWhenOneMemberAddedAfterInitialAssignmentWithTwoMembersTwoTopics": (
        "a3 b3",
        "A reads ab has a01 b01; B reads ab has a2 b2; C reads ab",
        "A a0 b0; B a1 b1; C a2 b2",
    ),
    "testReassignmentWhenOneMemberAddedAndOnePartitionAfterInitialAssignmentWithTwoMembersTwoTopics": (
        "a4 b3",
        "A reads ab has a01 b01; B reads ab has a2 b2; C reads a",
        "A a01 b01; B a2 b2; C a3",
    ),
    "testReassignmentWhenOneMemberRemovedAfterInitialAssignmentWithTwoMembersTwoTopics": (
        "a3 b3",
        "B reads ab has a2 b2",
        "B a012 b012",
    ),
    "testReassignmentWhenMultipleSubscriptionsRemovedAfterInitialAssignmentWithThreeMembersTwoTopics": (
        "a3 b3 c2",
        "A reads a has a012 b0; B reads abc has b1; C reads b has b2 c01",
        "A a01; B a2 b01 c01; C b2",
    ),
}
ALIKE: dict[str, tuple[str, str, str]] = {
    "testFirstAssignmentTwoMembersTwoTopicsNoMemberRacks": (
        "a3 c2",
        "A reads ac; B reads ac",
        "A c01; B a012",
    ),
    "testFirstAssignmentNumMembersGreaterThanTotalNumPartitions": (
        "c2",
        "A reads c; B reads c; C reads c",
        "A; B c0; C c1",
    ),
    "testReassignmentForTwoMembersTwoTopicsGivenUnbalancedPrevAssignment": (
        "a3 b3",
        "A reads ab has a01 b01; B reads ab has a2 b2",
        "A a01 b0; B a2 b12",
    ),
    "testReassignmentWhenPartitionsAreAddedForTwoMembersTwoTopics": (
        "a6 b5",
        "A reads ab has a02 b0; B reads ab has a1 b12",
        "A a02 b034; B a1345 b12",
    ),
    "testReassignmentWhenOneMemberAddedAfterInitialAssignmentWithTwoMembersTwoTopics": (
        "a3 b3",
        "A reads ab has a02 b0; B reads ab has a1 b12; C reads ab",
        "A a02; B a1 b1; C b02",
    ),
    "testReassignmentWhenOneMemberRemovedAfterInitialAssignmentWithThreeMembersTwoTopics": (
        "a3 b3",
        "A reads ab has a0 b0; B reads ab has a1 b1",
        "A a0 b02; B a12 b1",
    ),
    "testReassignmentWhenOneSubscriptionRemovedAfterInitialAssignmentWithTwoMembersTwoTopics": (
        "a2 b2",
        "A reads b has a0 b0; B reads b has a1 b1",
        "A b0; B b1",
    ),
}
UNLIKE: dict[str, tuple[str, str, str]] = {
    "testFirstAssignmentTwoMembersTwoTopics": (
        "a3 c6",
        "A reads ac; B reads c",
        "A a012 c4; B c01235",
    ),
    "testFirstAssignmentNumMembersGreaterThanTotalNumPartitions": (
        "a2 c1",
        "A reads c; B reads c; C reads a",
        "A c0; B; C a01",
    ),
    "testReassignmentForTwoMembersThreeTopicsGivenUnbalancedPrevAssignment": (
        "a6 b4 c4",
        "A reads a has a012; B reads ab has a3 b0; C reads abc has a45 b123 c0123",
        "A a0125; B a3 b0123; C a4 c0123",
    ),
    "testReassignmentWhenPartitionsAreAddedForTwoMembers": (
        "a6 b5 c3 d3",
        "A reads ac has a0123 c01; B reads abcd has b012 d012",
        "A a012345 c012; B b01234 d012",
    ),
    "testReassignmentWhenOneMemberAddedAndPartitionsAddedTwoMembersTwoTopics": (
        "a6 b7",
        "A reads a has a02 b0; B reads ab has a1 b12; C reads ab",
        "A a02345; B a1 b126; C b0345",
    ),
    "testReassignmentWhenOneMemberRemovedAfterInitialAssignmentWithThreeMembersThreeTopics": (
        "a3 b8 c3",
        "A reads ac has a012 c01; B reads b has b3456",
        "A a012 c012; B b01234567",
    ),
    "testReassignmentWhenOneSubscriptionRemovedAfterInitialAssignmentWithTwoMembersTwoTopics": (
        "a3 b5",
        "A reads a has a02 b13; B reads ab has a1 b024",
        "A a012; B b01234",
    ),
    "testReassignmentWhenTopicPartitionsRunOutAndMembersHaveNoPartitions": (
        "a2 b2 c2",
        "A reads abc has a01 b01 c01; B reads abc",
        "A b0 c01; B a01 b1",
    ),
    "testFirstAssignmentWithTwoMembersIncludingOneWithoutSubscriptions": (
        "a3",
        "A reads a; B reads nothing",
        "A a012; B",
    ),
}


def target(text: str) -> Target:
    return {TOPICS[name]: tuple(map(int, indexes)) for name, indexes in re.findall(r"([a-d])(\d+)", text)}


def spec(sizes: str, members: str) -> Spec:
    """Topics that nobody reads are not there, as for a coordinator."""
    readers: dict[str, Reader] = {}
    for member in members.split("; "):
        name, said = member.split(" reads ")
        topics, _, has = said.partition(" has ")
        reads = frozenset() if topics == "nothing" else frozenset(map(TOPICS.__getitem__, topics))
        readers[name] = Reader(None, reads, target(has))
    read = frozenset[UUID]().union(*(reader.topics for reader in readers.values()))
    there = {TOPICS[name]: int(size) for name, size in re.findall(r"([a-d])(\d+)", sizes)}
    return Spec(readers, {topic: size for topic, size in there.items() if topic in read})


def targets(text: str) -> Targets:
    return {member[0]: target(member[1:]) for member in text.split("; ")}


def places(one: Target) -> set[tuple[UUID, int]]:
    return {(topic, index) for topic, indexes in one.items() for index in indexes}


def kept(given: Spec, found: Targets) -> int:
    """Partitions that stay where they were."""
    return sum(len(places(reader.target) & places(found[member])) for member, reader in given.readers.items())


@pytest.mark.parametrize("row", RANGE.values(), ids=RANGE)
def test_range(row: tuple[str, str, str]) -> None:
    sizes, members, expected = row
    assert by_range.assign(spec(sizes, members)) == targets(expected)


@pytest.mark.parametrize("row", [*ALIKE.values(), *UNLIKE.values()], ids=[*ALIKE, *UNLIKE])
def test_uniform(row: tuple[str, str, str]) -> None:
    sizes, members, text = row
    given, expected = spec(sizes, members), targets(text)
    found = uniform.assign(given)
    assert sorted(place for one in found.values() for place in places(one)) == sorted(
        (topic, index) for topic, size in given.partitions.items() for index in range(size)
    )
    assert all(one.keys() <= given.readers[member].topics for member, one in found.items())
    assert sorted(map(len, map(places, found.values()))) == sorted(map(len, map(places, expected.values())))
    assert kept(given, found) >= kept(given, expected)


@pytest.mark.parametrize(("size", "static"), [(3, "AB"), (5, "AC")])
def test_who_brings_an_instance_has_what_the_one_before_had(size: int, static: str) -> None:
    def assigned(names: dict[str, str]) -> Targets:
        """Members by what they are called."""
        reads = frozenset({TOPICS["a"]})
        readers = {name: Reader(who if who in static else None, reads, {}) for who, name in names.items()}
        return by_range.assign(Spec(readers, {TOPICS["a"]: size}))

    names = {who: who for who in sorted({*static, "B"})}
    before, after = assigned(names), assigned(names | {"A": "another"})
    assert after["another"] == before["A"]
    assert {name: after[name] for name in names if name != "A"} == {name: before[name] for name in names if name != "A"}


@pytest.mark.parametrize("assignor", [by_range, uniform])
@pytest.mark.parametrize("order", list(permutations("ABC")))
def test_nothing_moves_whatever_the_order_of_members(assignor: ModuleType, order: tuple[str, ...]) -> None:
    sizes = "a2 b5 c7"
    first = assignor.assign(spec(sizes, "; ".join(f"{member} reads abc" for member in "ABC")))
    given = spec(sizes, "; ".join(f"{member} reads abc" for member in order))
    readers = {member: Reader(None, reader.topics, first[member]) for member, reader in given.readers.items()}
    assert assignor.assign(Spec(readers, given.partitions)) == first


def test_a_hundred_topics_are_even_among_fifty_members() -> None:
    topics = {UUID(int=number): 3 for number in range(1, 101)}
    readers = {f"member-{number}": Reader(None, frozenset(topics), {}) for number in range(1, 50)}
    found = uniform.assign(Spec(readers, topics))
    counts = [len(places(one)) for one in found.values()]
    assert (sum(counts), max(counts) - min(counts)) == (300, 1)
