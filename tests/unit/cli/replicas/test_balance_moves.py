"""How `penstock balance execute` goes on with what it finds, told by a cluster that the test plays."""

import asyncio
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import click
import pytest

from penstock.cli.replicas import balance_moves
from penstock.cli.replicas.balance_moves import BalanceMoves
from penstock.client.admin import Admin
from penstock.client.admin.partitions import Outcome, Reassignment
from penstock.client.values import TopicPartition
from penstock.protocol.errors import ErrorCode

PARTITIONS = 5
ON_THE_WAY = Reassignment((1, 2), (1,), (2,))


class World:
    """Partitions that arrive at the second look; `stuck` ones never do."""

    def __init__(self, *, stuck: bool = False, refuses: bool = False) -> None:
        self.moving: dict[TopicPartition, int] = {}
        self.asked: list[dict[TopicPartition, Sequence[int] | None]] = []
        self._stuck = stuck
        self._refuses = refuses
        cluster = SimpleNamespace(metadata=SimpleNamespace(brokers=dict.fromkeys((1, 2))))
        self.admin = cast("Admin", SimpleNamespace(partitions=self, topics=self, cluster=cluster))

    async def describe(self, _: Sequence[str]) -> list[Any]:
        rows = {one.partition: SimpleNamespace(topic_partition=one, replicas=[2]) for one in targets(PARTITIONS)}
        return [SimpleNamespace(partitions=rows)]

    async def reassignments(self) -> dict[TopicPartition, Reassignment]:
        shown = dict.fromkeys(self.moving, ON_THE_WAY)
        if not self._stuck:
            self.moving = {partition: looks - 1 for partition, looks in self.moving.items() if looks > 1}
        return shown

    async def reassign(self, targets: Mapping[TopicPartition, Sequence[int] | None]) -> dict[TopicPartition, Outcome]:
        self.asked.append(dict(targets))
        for partition, nodes in targets.items():
            if nodes is None:
                del self.moving[partition]
            else:
                self.moving[partition] = 2
        code = ErrorCode.INVALID_REPLICA_ASSIGNMENT if self._refuses else ErrorCode.NONE
        return dict.fromkeys(targets, Outcome(code, "no"))


def targets(count: int) -> dict[TopicPartition, list[int]]:
    return {TopicPartition("t", index): [1] for index in range(count)}


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balance_moves, "LOOK_S", 0)


async def test_a_batch_begins_when_the_one_before_has_arrived() -> None:
    world = World()
    await BalanceMoves(world.admin, -1, 2).run(targets(5))
    assert [len(batch) for batch in world.asked] == [2, 2, 1]
    assert world.moving == {}


async def test_whoever_stops_it_takes_back_what_is_under_way_and_no_more() -> None:
    world = World(stuck=True)
    moving = asyncio.ensure_future(BalanceMoves(world.admin, -1, 2).run(targets(5)))
    while not world.moving:
        await asyncio.sleep(0)
    moving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await moving
    assert world.asked[1:] == [dict.fromkeys(targets(2))]
    assert world.moving == {}


async def test_a_refusal_ends_it_and_the_limits_are_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    async def limit_until_moved(*_: Any) -> None:
        said.append("limited")

    async def release_limits(*_: Any) -> None:
        said.append("cleared")

    monkeypatch.setattr(balance_moves, "limit_until_moved", limit_until_moved)
    monkeypatch.setattr(balance_moves, "release_limits", release_limits)
    world = World(refuses=True)
    with pytest.raises(click.ClickException, match="t-0 cannot move: no"):
        await BalanceMoves(world.admin, 1_000, 3).run(targets(3))
    assert said == ["limited", "cleared"]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [({TopicPartition("t", 0): [9]}, "there is no broker 9"), (targets(PARTITIONS + 1), "there is no partition t-5")],
)
async def test_a_plan_of_what_is_not_there_is_refused_before_anything_is_limited(
    wrong: dict[TopicPartition, list[int]], says: str
) -> None:
    world = World()
    with pytest.raises(click.ClickException, match=says):
        await BalanceMoves(world.admin, 1_000, 3).run(wrong)
    assert world.asked == []


async def test_it_begins_nothing_beside_other_moves() -> None:
    world = World(stuck=True)
    world.moving = {TopicPartition("other", 0): 1}
    with pytest.raises(click.ClickException, match="already"):
        await BalanceMoves(world.admin, -1, 3).run(targets(3))
    assert world.asked == []
