"""Who gets which partitions, by example and by law."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.coordinator.assignors.range import RangePartitionAssignor

from penstock.client.assignors import (
    Assignment,
    Assignor,
    CooperativeStickyAssignor,
    GroupMember,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
    assignor_named,
    is_cooperative,
)
from penstock.client.values import TopicPartition

RANGE, ROUND_ROBIN, STICKY = RangeAssignor(), RoundRobinAssignor(), StickyAssignor()
COOPERATIVE = CooperativeStickyAssignor()


def member(
    name: str, *topics: str, owned: str = "", generation: int = -1, instance_id: str | None = None
) -> GroupMember:
    return GroupMember(name, frozenset(topics), instance_id, parse(owned), generation)


def parse(text: str) -> tuple[TopicPartition, ...]:
    pairs = (item.split("-") for item in text.split())
    return tuple(TopicPartition(topic, int(number)) for topic, number in pairs)


def show(assignment: Assignment) -> dict[str, str]:
    return {name: " ".join(map(str, partitions)) for name, partitions in assignment.items()}


def test_range_gives_the_first_members_one_more() -> None:
    members = [member("B", "t"), member("A", "t")]
    assert show(RANGE.assign(members, {"t": 3})) == {"A": "t-0 t-1", "B": "t-2"}
    assert show(RANGE.assign(members, {"t": 4})) == {"A": "t-0 t-1", "B": "t-2 t-3"}


def test_range_grows_uneven_with_many_topics() -> None:
    members = [member("A", "t", "u"), member("B", "t", "u")]
    assert show(RANGE.assign(members, {"t": 3, "u": 3})) == {"A": "t-0 t-1 u-0 u-1", "B": "t-2 u-2"}


def test_range_leaves_out_who_does_not_subscribe_and_topics_that_do_not_exist() -> None:
    members = [member("A", "t", "missing"), member("B", "t", "u")]
    assert show(RANGE.assign(members, {"t": 1, "u": 2})) == {"A": "t-0", "B": "u-0 u-1"}


def test_range_leaves_members_idle_when_there_are_more_of_them_than_partitions() -> None:
    members = [member(name, "t") for name in "ABC"]
    assert show(RANGE.assign(members, {"t": 2})) == {"A": "t-0", "B": "t-1", "C": ""}


def test_static_members_come_first_in_the_order_of_their_instance_ids() -> None:
    members = [member("A", "t"), member("Z", "t", instance_id="i1"), member("B", "t", instance_id="i2")]
    assert show(RANGE.assign(members, {"t": 3})) == {"Z": "t-0", "B": "t-1", "A": "t-2"}
    assert show(ROUND_ROBIN.assign(members, {"t": 3})) == {"Z": "t-0", "B": "t-1", "A": "t-2"}


def test_round_robin_deals_the_partitions_of_all_topics() -> None:
    members = [member("A", "t", "u"), member("B", "t", "u")]
    assert show(ROUND_ROBIN.assign(members, {"t": 3, "u": 3})) == {"A": "t-0 t-2 u-1", "B": "t-1 u-0 u-2"}


def test_round_robin_passes_over_who_does_not_subscribe() -> None:
    members = [member("A", "t0"), member("B", "t0", "t1"), member("C", "t0", "t1", "t2")]
    assert show(ROUND_ROBIN.assign(members, {"t0": 1, "t1": 2, "t2": 3})) == {
        "A": "t0-0",
        "B": "t1-0",
        "C": "t1-1 t2-0 t2-1 t2-2",
    }


def test_sticky_keeps_what_a_member_has_when_another_joins() -> None:
    members = [member("A", "t", owned="t-0 t-1 t-2", generation=1), member("B", "t")]
    assert show(STICKY.assign(members, {"t": 3})) == {"A": "t-0 t-1", "B": "t-2"}


def test_sticky_deals_only_what_a_lost_member_held() -> None:
    members = [
        member("A", "t", owned="t-0 t-3", generation=4),
        member("C", "t", owned="t-2 t-5", generation=4),
    ]
    assert show(STICKY.assign(members, {"t": 6})) == {"A": "t-0 t-3 t-1", "C": "t-2 t-5 t-4"}


def test_sticky_believes_the_later_generation_and_nobody_where_two_claim_in_one() -> None:
    members = [
        member("A", "t", owned="t-0 t-1", generation=1),
        member("B", "t", owned="t-0", generation=2),
    ]
    assert show(STICKY.assign(members, {"t": 2})) == {"A": "t-1", "B": "t-0"}
    members = [
        member("A", "t", owned="t-1", generation=2),
        member("B", "t", owned="t-1", generation=2),
    ]
    assert show(STICKY.assign(members, {"t": 2})) == {"A": "t-0", "B": "t-1"}


def test_sticky_balances_members_with_different_subscriptions() -> None:
    members = [
        member("A", "t", "u", owned="t-0 t-1 t-2 u-0", generation=1),
        member("B", "u"),
        member("C", "t"),
    ]
    assignment = STICKY.assign(members, {"t": 3, "u": 1})
    assert show(assignment) == {"A": "t-0 t-1", "B": "u-0", "C": "t-2"}


def groups() -> st.SearchStrategy[tuple[list[GroupMember], dict[str, int]]]:
    topics = st.dictionaries(st.sampled_from("tuvw"), st.integers(1, 6), max_size=4)
    names = st.lists(st.sampled_from("ABCDEF"), min_size=1, unique=True)
    owned = st.lists(st.builds(TopicPartition, st.sampled_from("tuv"), st.integers(0, 7)), unique=True, max_size=8)
    subscription = st.frozensets(st.sampled_from("tuvwx"), max_size=4)

    def build(names: list[str]) -> st.SearchStrategy[list[GroupMember]]:
        return st.tuples(
            *(
                st.builds(GroupMember, st.just(name), subscription, st.none(), owned.map(tuple), st.integers(-1, 2))
                for name in names
            )
        ).map(list)

    return st.tuples(names.flatmap(build), topics)


def expected_partitions(members: Sequence[GroupMember], counts: Mapping[str, int]) -> list[TopicPartition]:
    wanted = {topic for each in members for topic in each.topics if topic in counts}
    return sorted(TopicPartition(topic, number) for topic in wanted for number in range(counts[topic]))


@given(groups(), st.sampled_from((RANGE, ROUND_ROBIN, STICKY)))
def test_every_partition_goes_to_exactly_one_subscriber(
    group: tuple[list[GroupMember], dict[str, int]], assignor: Assignor
) -> None:
    members, counts = group
    assignment = assignor.assign(members, counts)
    assert sorted(p for mine in assignment.values() for p in mine) == expected_partitions(members, counts)
    assert assignment.keys() == {each.member_id for each in members}
    for each in members:
        assert {p.topic for p in assignment[each.member_id]} <= each.topics
    assert assignor.assign(members[::-1], counts) == assignment


class KnownTopics:
    """What another client's assignors ask of a cluster."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.counts = counts

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return set(range(self.counts[topic])) if topic in self.counts else None


@given(groups())
def test_another_client_gives_the_same_ranges(group: tuple[list[GroupMember], dict[str, int]]) -> None:
    members, counts = group
    asked = [
        SimpleNamespace(member_id=each.member_id, metadata=SimpleNamespace(topics=each.topics), group_instance_id=None)
        for each in members
    ]
    theirs = RangePartitionAssignor.assign(KnownTopics(counts), asked)
    expected = {
        name: sorted(
            TopicPartition(topic, number) for topic, numbers in assigned.assigned_partitions for number in numbers
        )
        for name, assigned in theirs.items()
    }
    assert {name: sorted(mine) for name, mine in RANGE.assign(members, counts).items()} == expected


@given(groups())
def test_sticky_is_as_even_as_can_be(group: tuple[list[GroupMember], dict[str, int]]) -> None:
    members, counts = group
    assignment = STICKY.assign(members, counts)
    for giver in members:
        for taker in members:
            could_take = [p for p in assignment[giver.member_id] if p.topic in taker.topics]
            if could_take:
                assert len(assignment[giver.member_id]) - len(assignment[taker.member_id]) <= 1


@given(st.integers(1, 12), st.lists(st.integers(0, 6), min_size=1, max_size=5))
def test_sticky_moves_no_partition_that_could_stay(count: int, holdings: list[int]) -> None:
    numbers = iter(range(count))
    members = []
    for name, holding in zip("ABCDE", holdings, strict=False):
        owned = tuple(TopicPartition("t", number) for number, _ in zip(numbers, range(holding), strict=False))
        members.append(GroupMember(name, frozenset("t"), None, owned, 1))
    assignment = STICKY.assign(members, {"t": count})
    stayed = sum(len(set(each.owned) & set(assignment[each.member_id])) for each in members)
    share, one_more = divmod(count, len(members))
    with_more = sum(len(each.owned) > share for each in members)
    assert stayed == sum(min(len(each.owned), share) for each in members) + min(one_more, with_more)


@given(groups().filter(lambda group: bool(group[1])))
def test_sticky_is_stable(group: tuple[list[GroupMember], dict[str, int]]) -> None:
    members, counts = group
    first = STICKY.assign(members, counts)
    again = [
        GroupMember(each.member_id, each.topics, None, tuple(first[each.member_id]), generation=9) for each in members
    ]
    second = STICKY.assign(again, counts)
    assert {name: sorted(mine) for name, mine in second.items()} == {name: sorted(mine) for name, mine in first.items()}


def after(members: Sequence[GroupMember], assignment: Assignment, generation: int) -> list[GroupMember]:
    """The members when each has given up what it was not given, and taken the rest."""
    return [
        GroupMember(each.member_id, each.topics, None, tuple(assignment[each.member_id]), generation)
        for each in members
    ]


@given(groups())
def test_a_cooperative_member_is_given_nothing_that_another_has_still_to_give_up(
    group: tuple[list[GroupMember], dict[str, int]],
) -> None:
    members, counts = group
    for generation in range(10, 14):  # what was given up first may make room for a move that shares it out better
        owners = {partition: each.member_id for each in members for partition in each.owned}
        claims = [partition for each in members for partition in each.owned]
        assignment = COOPERATIVE.assign(members, counts)
        for name, partitions in assignment.items():
            assert all(claims.count(p) > 1 or owners.get(p, name) == name for p in partitions)
        members = after(members, assignment, generation)
    assert sorted(p for mine in assignment.values() for p in mine) == expected_partitions(members, counts)
    assert COOPERATIVE.assign(members, counts) == {each.member_id: list(each.owned) for each in members}


def test_a_cooperative_member_that_joins_gets_its_share_in_the_second_rebalance() -> None:
    members = [member("A", "t", owned="t-0 t-1 t-2 t-3", generation=1), member("B", "t")]
    first = COOPERATIVE.assign(members, {"t": 4})
    assert first == {"A": list(parse("t-0 t-1")), "B": []}
    assert COOPERATIVE.assign(after(members, first, 2), {"t": 4})["B"] == list(parse("t-2 t-3"))


class Mine:
    """Everything to the first member."""

    name = "mine"

    def assign(self, members: Sequence[GroupMember], partition_counts: Mapping[str, int]) -> Assignment:
        assignment: Assignment = {each.member_id: [] for each in members}
        assignment[min(assignment)] = expected_partitions(members, partition_counts)
        return assignment


def test_an_assignor_is_named_as_here_as_in_kafka_or_as_ones_own() -> None:
    assert assignor_named("range") == RANGE
    assert assignor_named("org.apache.kafka.clients.consumer.CooperativeStickyAssignor") == COOPERATIVE
    mine = assignor_named(f"{__name__}:Mine")
    assert (type(mine).__name__, is_cooperative(mine), is_cooperative(COOPERATIVE)) == ("Mine", False, True)


@pytest.mark.parametrize("name", ["fair", "no.such.module:Mine", f"{__name__}:Yours"])
def test_an_assignor_that_is_not_there_is_named(name: str) -> None:
    with pytest.raises(ValueError, match=f"partition.assignment.strategy={name}: "):
        assignor_named(name)
