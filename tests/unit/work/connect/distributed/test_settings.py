"""Keys of `connect-distributed.properties`."""

from collections.abc import Sequence

import pytest

from penstock.work.connect.config import ConfigError
from penstock.work.connect.distributed.settings import parse_settings, planner_of, storage_of
from penstock.work.connect.runtime.settings import refused_overrides
from penstock.work.plan import Member, Plan, Task, weighted

NEEDED = {
    "group.id": "g",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
}


def test_the_defaults_are_kafkas_but_for_three() -> None:
    settings = parse_settings(NEEDED)
    assert settings["offset.storage.partitions"] == 25
    assert settings["status.storage.partitions"] == 5
    assert settings["config.storage.replication.factor"] == 3
    assert settings["session.timeout.ms"] == 20_000
    assert settings["scheduled.rebalance.max.delay.ms"] == 0
    assert settings["listeners"] == ("http://127.0.0.1:8083",)


def test_a_topic_takes_further_keys() -> None:
    config = NEEDED | {"offset.storage.min.insync.replicas": "2", "offset.storage.partitions": "7"}
    storage = storage_of("offset", parse_settings(config), config)
    assert (storage.topic, storage.partitions, storage.replication_factor) == ("o", 7, 3)
    assert storage.configs == {"min.insync.replicas": "2", "cleanup.policy": "compact"}
    assert storage_of("config", parse_settings(config), config).partitions == 1
    assert storage.is_automatic
    config |= {"internal.topics.automatic.creation.enable": "false"}
    assert not storage_of("offset", parse_settings(config), config).is_automatic


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"group.id": None}, "group.id is missing"),
        ({"status.storage.cleanup.policy": "delete"}, "status.storage.cleanup.policy is compact"),
        ({"heartbeat.interval.ms": "20000"}, "must be less than session.timeout.ms"),
        ({"exactly.once.source.support": "on"}, "allowed are disabled, preparing, enabled"),
        ({"tasks.planner": "fair"}, "none of even, sticky, weighted"),
        ({"connector.client.config.override.policy": "Some"}, "allowed are All, None, Principal, Allowlist"),
    ],
)
def test_what_cannot_be(change: dict[str, str | None], reason: str) -> None:
    config = {key: value for key, value in {**NEEDED, **change}.items() if value is not None}
    with pytest.raises(ConfigError, match=reason):
        parse_settings(config)


def everything_to_the_first(tasks: Sequence[Task], members: Sequence[Member]) -> Plan:
    return {members[0].name: tuple(task.name for task in tasks)}


def test_a_plan_of_ones_own() -> None:
    assert planner_of("weighted") is weighted
    assert planner_of(f"{__name__}:everything_to_the_first") is everything_to_the_first


@pytest.mark.parametrize(
    ("policy", "refused"),
    [
        ({}, []),
        ({"policy": "None"}, ["linger.ms", "sasl.mechanism"]),
        ({"policy": "Principal"}, ["linger.ms"]),
        ({"policy": "Allowlist", "allowlist": "linger.ms"}, ["sasl.mechanism"]),
        ({"policy": "Allowlist"}, ["linger.ms", "sasl.mechanism"]),
    ],
)
def test_what_connectors_may_change_of_their_clients(policy: dict[str, str], refused: list[str]) -> None:
    keys = {f"connector.client.config.override.{key}": value for key, value in policy.items()}
    config = {"producer.override.linger.ms": "1", "producer.override.sasl.mechanism": "PLAIN", "tasks.max": "1"}
    wrong = refused_overrides(config, parse_settings(NEEDED | keys))
    assert list(wrong) == [f"producer.override.{name}" for name in refused]
