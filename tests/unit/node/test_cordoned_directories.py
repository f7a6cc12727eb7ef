"""Cordoned directories get no new logs, and a node whose directories all are gets no new replicas (KIP-1066)."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.node.test_moves_between_directories import alter
from tests.unit.node.test_offline_directories import TOPIC, Running, config, running

from penstock.client.admin import Admin
from penstock.client.admin.configs import ConfigChange, ConfigOperation, ResourceType
from penstock.metadata.configs.definitions import ConfigError
from penstock.protocol.errors import ErrorCode, KafkaError

CORDONED = "cordoned.log.dirs"


async def cordon(world: Running, value: str | None) -> None:
    """Until the controller knows, too."""
    operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
    async with Admin(world.bootstrap) as admin:
        await admin.configs.alter(ResourceType.BROKER, "1", [ConfigChange(CORDONED, operation, value)])
    roots = world.node.parts.context.directories.roots
    await world.until(lambda: (world.node.broker.config.text(CORDONED) or "") == (value or ""))
    image = world.node.broker.image
    await world.until(lambda: list(image.brokers[1].cordoned_directories or ()) == roots.cordoned_ids)


async def test_new_logs_go_elsewhere_at_once(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await cordon(world, str(tmp_path / "p1"))
        await world.create()
        assert world.in_directory("p2") == [0, 1, 2, 3]
        async with Admin(world.bootstrap) as admin:
            described = await admin.describe_log_dirs()
        assert [(Path(one.path).name, one.is_cordoned) for one in described] == [("p1", True), ("p2", False)]
        assert await alter(world, str(tmp_path / "p1"), 0) == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]
        await cordon(world, None)
        assert await alter(world, str(tmp_path / "p1"), 0) == [ErrorCode.NONE]


async def test_where_all_are_cordoned_nothing_new_is_placed_and_what_is_there_goes_on(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await world.create(1)
        await cordon(world, "*")
        async with Admin(world.bootstrap) as admin:
            with pytest.raises(KafkaError, match=CORDONED):
                await admin.topics.create_partitions(TOPIC, 2)
        assert await world.produce(0) == ErrorCode.NONE
    async with running(tmp_path) as world:
        assert len(world.node.broker.image.brokers[1].cordoned_directories or ()) == 2, "a restart changes nothing"


async def test_what_is_no_directory_of_the_node_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as world, Admin(world.bootstrap) as admin:
        for value in ("/elsewhere", f"{tmp_path}/p1,*"):
            change = ConfigChange(CORDONED, ConfigOperation.SET, value)
            with pytest.raises(KafkaError, match=r"some of .*p1, .*p2, or \* for all") as refused:
                await admin.configs.alter(ResourceType.BROKER, "1", [change])
            assert refused.value.code == ErrorCode.INVALID_CONFIG
    with pytest.raises(ConfigError, match=r"or \* for all"):
        config(tmp_path, **{CORDONED: "/elsewhere"})
