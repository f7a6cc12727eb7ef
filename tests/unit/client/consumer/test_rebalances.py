"""What a member gives up, takes and commits, step by step, in a group that a test scripts."""

import asyncio
from collections.abc import Collection, Sequence
from typing import cast

import pytest

from penstock.client.consumer.group_membership import GroupMembership
from penstock.client.consumer.listeners import RebalanceListener
from penstock.client.consumer.rebalances import Rebalances
from penstock.client.consumer.subscription import Subscription
from penstock.client.values import TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


class Group:
    """Gives what `gives` says, one assignment for each join."""

    def __init__(self, *gives: Sequence[TopicPartition], is_cooperative: bool) -> None:
        self.gives = list(gives)
        self.is_cooperative = is_cooperative
        self.lost = False
        self.comes_back_as_another = False
        self.must_join = True

    async def join(self, topics: Collection[str]) -> list[TopicPartition]:
        self.must_join = False
        self.lost = self.lost or self.comes_back_as_another
        return list(self.gives.pop(0))


class Member(RebalanceListener):
    """Writes down what the application notices."""

    def __init__(self, group: Group, held: Sequence[TopicPartition]) -> None:
        self.log: list[str] = []
        self.group = group
        self.failures: list[Exception] = []
        """What it raises when it is to give up something."""
        self.subscription = Subscription()
        self.subscription.set_partitions(held)
        for state in self.subscription.partitions.values():
            state.position = 7
        self.rebalances = Rebalances(cast("GroupMembership", group), self.subscription, self.commit, lambda: None)
        self.rebalances.listener = self

    async def commit(self) -> None:
        self.log.append("commit")

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.log.append(f"revoked {' '.join(map(str, partitions))}")
        self.fail()

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.log.append(f"assigned {' '.join(map(str, partitions))}".strip())

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.log.append(f"lost {' '.join(map(str, partitions))}")
        self.fail()

    def fail(self) -> None:
        if self.failures:
            raise self.failures.pop()

    async def go_on(self) -> dict[TopicPartition, int | None]:
        """Until all is settled; what is read then, and from where."""
        while self.rebalances.is_due or self.rebalances.is_joining:
            await self.rebalances.go_on({"t"})
            await asyncio.sleep(0)
        return {partition: state.position for partition, state in self.subscription.partitions.items()}


@pytest.mark.parametrize(
    ("is_cooperative", "held", "gives", "log", "read"),
    [
        (False, [], [[T0]], ["assigned t-0"], {T0: None}),
        (False, [T0], [[T0]], ["commit", "revoked t-0", "assigned t-0"], {T0: None}),
        (True, [], [[T0]], ["assigned t-0"], {T0: None}),
        (True, [T0], [[T0]], ["assigned"], {T0: 7}),
        (True, [T0], [[T0, T1]], ["assigned t-1"], {T0: 7, T1: None}),
        (True, [T0, T1], [[T0], [T0]], ["commit", "revoked t-1", "assigned", "assigned"], {T0: 7}),
        (True, [T0, U0], [[T0]], ["commit", "revoked u-0", "assigned"], {T0: 7}),
    ],
)
async def test_what_is_given_up_and_taken(
    is_cooperative: bool,
    held: list[TopicPartition],
    gives: list[list[TopicPartition]],
    log: list[str],
    read: dict[TopicPartition, int | None],
) -> None:
    member = Member(Group(*gives, is_cooperative=is_cooperative), held)
    assert await member.go_on() == read
    assert member.log == log
    assert not member.group.gives, "it joined as often as that"


@pytest.mark.parametrize("is_cooperative", [False, True])
async def test_who_was_lost_commits_nothing(is_cooperative: bool) -> None:
    member = Member(Group([T0], is_cooperative=is_cooperative), [T0])
    member.group.lost = True
    assert await member.go_on() == {T0: None}
    assert member.log == ["lost t-0", "assigned t-0"]
    assert not member.group.lost


async def test_who_comes_back_as_another_commits_nothing() -> None:
    member = Member(Group([T0], is_cooperative=True), [T0])
    member.group.comes_back_as_another = True
    assert await member.go_on() == {T0: None}
    assert member.log == ["lost t-0", "assigned t-0"]
    assert not member.group.lost


async def test_who_was_lost_with_nothing_loses_nothing() -> None:
    member = Member(Group([T0], is_cooperative=True), [])
    member.group.lost = True
    await member.go_on()
    assert member.log == ["assigned t-0"]


async def test_a_member_that_stops_joins_no_longer() -> None:
    member = Member(Group([T0], is_cooperative=True), [])
    await member.rebalances.go_on({"t"})
    assert member.rebalances.is_joining
    await member.rebalances.stop()
    assert not member.rebalances.is_joining
    assert member.log == []


@pytest.mark.parametrize(
    ("is_cooperative", "gives", "is_lost", "log", "read"),
    [
        (True, [[T0], [T0]], False, ["commit", "revoked t-1", "assigned", "assigned"], {T0: 7}),
        (False, [[T0]], False, ["commit", "revoked t-0 t-1", "assigned t-0"], {T0: None}),
        (True, [[T0]], True, ["lost t-0 t-1", "assigned t-0"], {T0: None}),
        (False, [[T0]], True, ["lost t-0 t-1", "assigned t-0"], {T0: None}),
    ],
)
async def test_a_listener_that_fails_does_not_keep_what_the_group_gives_to_others(
    is_cooperative: bool,
    gives: list[list[TopicPartition]],
    is_lost: bool,
    log: list[str],
    read: dict[TopicPartition, int | None],
) -> None:
    member = Member(Group(*gives, is_cooperative=is_cooperative), [T0, T1])
    member.group.lost = is_lost
    member.failures = [RuntimeError("the application's")]
    with pytest.raises(RuntimeError):
        await member.go_on()
    assert T1 not in member.subscription.partitions
    assert await member.go_on() == read
    assert (member.log, member.group.gives) == (log, [])


async def test_one_that_comes_back_as_another_takes_what_it_is_given_though_its_listener_fails() -> None:
    member = Member(Group([T0], is_cooperative=True), [T0])
    member.group.comes_back_as_another = True
    member.failures = [RuntimeError("the application's")]
    with pytest.raises(RuntimeError):
        await member.go_on()
    assert member.log == ["lost t-0", "assigned t-0"]
    assert await member.go_on() == {T0: None}
    assert not member.group.lost
