"""Limits of copies: one that would let nothing through is refused, and nobody's is overwritten or taken away."""

from collections.abc import Collection, Iterator, Sequence
from importlib import import_module
from types import SimpleNamespace
from typing import Any, cast

import click
import pytest

from penstock.cli.main import COMMANDS
from penstock.cli.replicas.replication_throttles import (
    PlannedMove,
    check_limits,
    limit_until_moved,
    release_limits,
)
from penstock.client.admin import Admin
from penstock.client.admin.configs import ConfigChange, ConfigEntry, ConfigSource, ResourceType
from penstock.client.values import TopicPartition


def limits(command: click.Command) -> Iterator[click.Parameter]:
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            yield from limits(inner)
    for parameter in command.params:
        if "throttle" in str(parameter.name) and not isinstance(parameter.type, click.types.BoolParamType):
            yield parameter


ALL = [limit for module, _ in COMMANDS.values() for limit in limits(import_module(f"penstock.cli.{module}").command)]


def test_there_are_some() -> None:
    assert len(ALL) >= 4


@pytest.mark.parametrize("limit", ALL, ids=lambda limit: limit.name)
def test_it_lets_something_through(limit: click.Parameter) -> None:
    assert [limit.type.convert(text, limit, None) for text in ("1", "5000", "-1")] == [1, 5000, -1]
    for text in ("0", "-5"):
        with pytest.raises(click.BadParameter, match=f"with {text} bytes a second nothing would move: give 1 or more"):
            limit.type.convert(text, limit, None)


class Cluster:
    """Brokers 1 and 2, of which the second has a limit; partitions of these topics are on the move."""

    def __init__(self, *moving: str) -> None:
        self.moving = moving
        self.altered: list[str] = []
        self.values: dict[str, str | None] = {}
        fields: Any = SimpleNamespace(configs=self, partitions=self, describe_cluster=self.describe_cluster)
        self.admin = cast("Admin", fields)

    async def reassignments(self) -> list[TopicPartition]:
        return [TopicPartition(topic, 0) for topic in self.moving]

    async def describe_cluster(self, *, include_fenced: bool) -> Any:
        return SimpleNamespace(brokers=[SimpleNamespace(node_id=node) for node in (1, 2)])

    async def describe(self, kind: ResourceType, name: str, *, keys: Collection[str]) -> list[ConfigEntry]:
        source = ConfigSource.DYNAMIC_BROKER_CONFIG if name == "2" else ConfigSource.DEFAULT_CONFIG
        return [ConfigEntry(key, "5000", source, False, False, []) for key in keys]

    async def alter(self, kind: ResourceType, name: str, changes: Sequence[ConfigChange]) -> None:
        self.altered.append(name)
        self.values |= {change.name: change.value for change in changes}


async def test_limits_are_marked_as_those_of_moves_before_they_are_set() -> None:
    cluster = Cluster()
    moves = {TopicPartition("t", 0): PlannedMove((1,), (2,))}
    await limit_until_moved(cluster.admin, moves, 5000)
    assert cluster.altered == ["", "t", "1", "2"]
    assert cluster.values["penstock.replication.throttled.until.moved"] == "true"


async def test_another_limit_is_not_overwritten() -> None:
    cluster = Cluster("t")
    await check_limits(cluster.admin, [1, 2], 5000)
    with pytest.raises(click.ClickException, match=r"throttled\.rate=5000 on broker 2; give the same limit, or none"):
        await check_limits(cluster.admin, [1, 2], 7000)
    await check_limits(cluster.admin, [1], 7000)


async def test_what_others_have_on_the_move_keeps_its_limit() -> None:
    targets = {TopicPartition(topic, 0): [1] for topic in ("t", "u")}
    cluster = Cluster("u", "v")
    await release_limits(cluster.admin, targets)
    assert cluster.altered == ["t"]
    cluster = Cluster()
    await release_limits(cluster.admin, targets)
    assert cluster.altered == ["1", "2", "t", "u"]
