"""How `penstock cluster drain` goes on with what it finds, told by a cluster that the test plays."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import click
import pytest

from penstock.cli.replicas import drain
from penstock.cli.replicas.drain import AT_ONCE, Drain
from penstock.client.admin import Admin
from penstock.client.admin.configs import ConfigChange, ConfigOperation, ResourceType
from penstock.client.admin.partitions import Outcome, Reassignment
from penstock.client.values import TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError


class World:
    """Partitions of topic t; what is on the move arrives while nobody looks, if its brokers are in service."""

    def __init__(self, replicas: Sequence[Sequence[int]], brokers: Sequence[int]) -> None:
        self.replicas = {TopicPartition("t", index): list(nodes) for index, nodes in enumerate(replicas)}
        self.brokers = list(brokers)
        self.moving: dict[TopicPartition, list[int]] = {}
        self.asked: list[Mapping[TopicPartition, Sequence[int]]] = []
        self.most_moving = 0
        self.in_groups: set[str] = set()
        self.cordoned: set[int] = set()
        self.said: list[tuple[str, ConfigOperation] | int] = []
        self.refuses_configs: ErrorCode | None = None
        admin: Any = SimpleNamespace(
            partitions=self,
            topics=self,
            storage_groups=self,
            configs=self,
            describe_cluster=self.describe_cluster,
            describe_log_dirs=self.describe_log_dirs,
            unregister_broker=self.unregister_broker,
        )
        self.drain = Drain(cast("Admin", admin), 4, -1)

    async def reassignments(self) -> dict[TopicPartition, Reassignment]:
        for partition, target in list(self.moving.items()):
            if set(target) <= set(self.brokers):
                self.replicas[partition] = self.moving.pop(partition)
        return {
            partition: Reassignment(
                (*target, *(node for node in self.replicas[partition] if node not in target)),
                tuple(node for node in target if node not in self.replicas[partition]),
                tuple(node for node in self.replicas[partition] if node not in target),
            )
            for partition, target in self.moving.items()
        }

    async def describe(self) -> list[Any]:
        rows = {
            partition.partition: SimpleNamespace(topic_partition=partition, replicas=nodes)
            for partition, nodes in self.replicas.items()
        }
        return [SimpleNamespace(name="t", is_internal=False, partitions=rows)]

    async def members(self, topics: Iterable[str]) -> dict[str, int]:
        return dict.fromkeys(self.in_groups & set(topics), 0)

    async def describe_cluster(self) -> Any:
        rows = [SimpleNamespace(node_id=node_id, rack=None, is_fenced=False) for node_id in self.brokers]
        return SimpleNamespace(brokers=rows)

    async def describe_log_dirs(self, nodes: Iterable[int], topics: Mapping[str, Any]) -> list[Any]:
        return [SimpleNamespace(node_id=node, is_cordoned=node in self.cordoned) for node in nodes]

    async def alter(self, kind: ResourceType, name: str, changes: Sequence[ConfigChange]) -> None:
        assert kind is ResourceType.BROKER
        if self.refuses_configs is not None:
            raise KafkaError(self.refuses_configs, "no such key")
        (change,) = changes
        assert change.name == "cordoned.log.dirs"
        self.said.append((name, change.operation))

    async def unregister_broker(self, node_id: int) -> None:
        self.said.append(node_id)

    async def reassign(self, targets: Mapping[TopicPartition, Sequence[int]]) -> dict[TopicPartition, Outcome]:
        self.asked.append(targets)
        self.moving |= {partition: list(nodes) for partition, nodes in targets.items()}
        self.most_moving = max(self.most_moving, len(self.moving))
        return dict.fromkeys(targets, Outcome(ErrorCode.NONE))


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain, "LOOK_S", 0)


async def test_some_are_under_way_at_a_time_until_all_have_moved() -> None:
    world = World([(4, 1)] * (3 * AT_ONCE), [1, 2, 3, 4])
    await world.drain.run()
    assert not any(4 in nodes for nodes in world.replicas.values())
    assert world.most_moving == AT_ONCE
    assert len(world.asked) == 3, "each partition once"


async def test_what_another_run_has_begun_is_waited_for() -> None:
    world = World([(4, 1), (4, 2)], [1, 2, 4])
    zero, one = world.replicas
    world.moving[zero] = [2, 1]
    await world.drain.run()
    assert world.asked == [{one: [1, 2]}]


async def test_a_move_to_a_broker_that_is_gone_gets_another_target() -> None:
    world = World([(4, 1)], [1, 2, 4])
    (zero,) = world.replicas
    world.moving[zero] = [3, 1]
    await world.drain.run()
    assert world.asked == [{zero: [1, 2]}]


async def test_what_is_in_a_storage_group_is_left_to_its_group() -> None:
    world = World([(4, 1)], [1, 2, 4])
    world.in_groups = {"t"}
    running = asyncio.create_task(world.drain.run())
    await asyncio.sleep(0)
    for _ in range(50):
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert world.asked == []


async def test_an_interruption_says_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    world = World([(4, 1), (4, 1)], [1, 2, 4])
    running = asyncio.create_task(world.drain.run())
    while not world.asked and not running.done():
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert "the same command again does the rest" in capsys.readouterr().err


async def test_one_that_the_asked_broker_does_not_know_to_have_moved_is_not_moved_again() -> None:
    world = World([(4, 1)], [1, 2, 3, 4])
    (zero,) = world.replicas
    told = world.describe
    stale = await told()
    looks = 0

    async def late() -> list[Any]:
        nonlocal looks
        looks += 1
        return stale if looks < 5 else await told()

    world.describe = late  # type: ignore[method-assign]
    stale = [
        SimpleNamespace(
            name="t", is_internal=False, partitions={0: SimpleNamespace(topic_partition=zero, replicas=[4, 1])}
        )
    ]
    await world.drain.run()
    assert len(world.asked) == 1


async def test_a_broker_is_cordoned_before_anything_moves_and_open_again_when_it_is_forgotten() -> None:
    world = World([[4, 1]], [1, 2, 4])
    await world.drain.run()
    assert world.said == [("4", ConfigOperation.SET)]
    world.brokers.remove(4)
    await world.drain.forget()
    assert world.said == [("4", ConfigOperation.SET), ("4", ConfigOperation.DELETE), 4]


async def test_a_cordoned_broker_gets_nothing() -> None:
    world = World([[4, 1]] * 6, [1, 2, 3, 4])
    world.cordoned = {2}
    await world.drain.run()
    assert all(sorted(nodes) == [1, 3] for nodes in world.replicas.values())


async def test_nothing_begins_where_all_others_are_cordoned() -> None:
    world = World([[4, 1]], [1, 2, 4])
    world.cordoned = {2}
    with pytest.raises(click.ClickException, match="1 other broker is in service and not cordoned"):
        await world.drain.run()
    assert not world.asked
    assert not world.said, "it is not cordoned either"


async def test_a_cluster_that_knows_no_cordons_is_drained_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    world = World([(4, 1)], [1, 2, 4])
    world.refuses_configs = ErrorCode.INVALID_CONFIG
    await world.drain.run()
    assert list(world.replicas.values()) == [[1, 2]]
    assert "new topics may have replicas on broker 4: no such key" in capsys.readouterr().err.splitlines()


async def test_who_may_not_cordon_a_broker_does_not_drain_it() -> None:
    world = World([(4, 1)], [1, 2, 4])
    world.refuses_configs = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    with pytest.raises(KafkaError, match="no such key"):
        await world.drain.run()
    assert world.asked == []
