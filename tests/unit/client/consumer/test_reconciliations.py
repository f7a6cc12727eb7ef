"""What a member of the consumer protocol gives up, takes and commits as its target changes, in a group of a script."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from penstock.client.consumer.listeners import RebalanceListener
from penstock.client.consumer.reconciliations import MOST_STEPS, Reconciliations
from penstock.client.consumer.subscription import Subscription
from penstock.client.values import TopicPartition

A, B = UUID(int=1), UUID(int=2)
A0, A1, B0 = (A, 0), (A, 1), (B, 0)
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
Place = tuple[UUID, int]


class World(RebalanceListener):
    """Group, cluster and listener at once: `targets` come one after the other."""

    def __init__(self, *targets: Collection[Place], held: Collection[TopicPartition] = ()) -> None:
        self.targets = [frozenset(one) for one in targets]
        self.log: list[object] = []
        self.failures: list[Exception] = []
        self.lost = self.loses_while_it_gives_up = False
        self.must_join = self.has_target = False
        self.known, self.learned = {"t": A, "u": B}, {"t": A, "u": B}
        self.subscription = Subscription(topics=frozenset({"u", "t"}))
        self.subscription.set_partitions(held)
        self.made = Reconciliations(self, self, self.subscription, self.commit)  # type: ignore[arg-type]
        self.made.listener = self

    # the group

    def take_part(self, names: Collection[str], expression: str | None) -> None:
        self.must_join = False
        self.log.append(("takes part", sorted(names), expression))

    def target(self) -> frozenset[Place] | None:
        return self.targets.pop(0) if self.targets else None

    def come_to(self, target: frozenset[Place]) -> None:
        self.log.append(("has come to", len(target)))

    def loss_is_known(self) -> None:
        self.lost = False
        self.log.append("loss is known")

    # the cluster

    @property
    def metadata(self) -> Any:
        return SimpleNamespace(topics={name: SimpleNamespace(topic_id=it) for name, it in self.known.items()})

    async def refresh(self, topics: object) -> None:
        self.log.append(("refresh", topics))
        self.known = self.learned

    # the listener

    async def commit(self) -> None:
        self.log.append("commit")

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.log.append(("assigned", list(partitions)))

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.log.append(("revoked", list(partitions)))
        self.lost = self.loses_while_it_gives_up
        if self.failures:
            raise self.failures.pop()

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.log.append(("lost", list(partitions)))
        if self.failures:
            raise self.failures.pop()

    def held(self) -> list[TopicPartition]:
        return list(self.subscription.partitions)


@pytest.mark.parametrize("joins", [False, True])
@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("has_target", [False, True])
def test_when_there_is_something_to_do(*, joins: bool, lost: bool, has_target: bool) -> None:
    world = World()
    world.must_join, world.lost, world.has_target = joins, lost, has_target
    assert world.made.is_due == (joins or lost or has_target)
    assert not world.made.is_joining


async def test_what_is_new_comes_behind_what_is_given_up() -> None:
    world = World([B0, A0, A1], [A1], [], held=[T0])
    world.must_join = True
    await world.made.go_on(["none"])
    assert world.log == [
        ("takes part", ["t", "u"], None),
        ("assigned", [T1, U0]),
        ("has come to", 3),
        "commit",
        ("revoked", [T0, U0]),
        ("assigned", []),
        ("has come to", 1),
        "commit",
        ("revoked", [T1]),
        ("assigned", []),
        ("has come to", 0),
    ]
    assert world.held() == []


async def test_an_expression_is_handed_on() -> None:
    world = World()
    world.must_join, world.subscription.expression = True, "t.*"
    await world.made.go_on([])
    assert world.log == [("takes part", ["t", "u"], "t.*")]


@pytest.mark.parametrize("held", [(), (T0, T1)])
async def test_what_was_lost_is_told_without_a_commit(held: tuple[TopicPartition, ...]) -> None:
    world = World([A0], held=held)
    world.lost = True
    await world.made.go_on([])
    told: list[object] = [("lost", list(held))] if held else []
    assert world.log == [*told, "loss is known", ("assigned", [T0]), ("has come to", 1)]
    assert world.held() == [T0]


async def test_what_was_lost_is_gone_also_where_the_listener_fails() -> None:
    world = World([A0], held=[T0])
    world.lost, world.failures = True, [ValueError("the application's")]
    with pytest.raises(ValueError, match="the application's"):
        await world.made.go_on([])
    assert (world.held(), world.lost) == ([], True)


async def test_what_is_given_up_is_gone_also_where_the_listener_fails() -> None:
    world = World([A0], held=[T0, T1])
    world.failures = [ValueError("the application's")]
    with pytest.raises(ValueError, match="the application's"):
        await world.made.go_on([])
    assert world.log == ["commit", ("revoked", [T1])]
    assert world.held() == [T0]


async def test_one_that_is_put_out_while_it_gives_up_takes_nothing_new() -> None:
    world = World([B0], held=[T0])
    world.loses_while_it_gives_up = True
    await world.made.go_on([])
    assert world.log == ["commit", ("revoked", [T0]), ("has come to", 1), "loss is known"]
    assert world.held() == []


@pytest.mark.parametrize(("expression", "asked"), [(None, ["t", "u"]), ("t.*", None)])
@pytest.mark.parametrize("is_learned", [False, True])
async def test_topics_without_a_name_are_looked_up_once(
    expression: str | None, asked: object, *, is_learned: bool
) -> None:
    world = World([A0, B0])
    world.known = {"t": A}
    world.learned = {"t": A, "u": B} if is_learned else {"t": A}
    world.subscription.expression = expression
    await world.made.go_on([])
    come: list[object] = [("assigned", [T0, U0]), ("has come to", 2)] if is_learned else []
    assert world.log == [("refresh", asked), *come]


async def test_one_poll_comes_to_so_many_targets() -> None:
    world = World(*[[A0], [A1]] * MOST_STEPS)
    await world.made.go_on([])
    assert len(world.targets) == MOST_STEPS
    await world.made.stop()
