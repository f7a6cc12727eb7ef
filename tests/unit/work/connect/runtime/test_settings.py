"""What a worker's settings forbid connectors, key by key."""

from typing import Any

import pytest

from penstock.work.connect.config import parse
from penstock.work.connect.runtime.settings import KEYS, has_transactions, refused_offsets, refused_overrides

POLICY = "connector.client.config.override.policy"
GIVEN = {
    "producer.override.linger.ms": "1",
    "consumer.override.sasl.mechanism": "PLAIN",
    "admin.override.security.protocol": "SSL",
    "producer.override.sasl.jaas.config": "x",
    "override.linger.ms": "1",
    "producer.linger.ms": "1",
    "name": "c",
}


@pytest.mark.parametrize(
    ("policy", "allowlist", "refused"),
    [
        ("All", "", []),
        ("All", "linger.ms", []),
        ("None", "", ["linger.ms", "sasl.mechanism", "security.protocol", "sasl.jaas.config"]),
        ("None", "linger.ms", ["linger.ms", "sasl.mechanism", "security.protocol", "sasl.jaas.config"]),
        ("Principal", "linger.ms", ["linger.ms"]),
        ("Allowlist", "", ["linger.ms", "sasl.mechanism", "security.protocol", "sasl.jaas.config"]),
        ("Allowlist", "linger.ms, sasl.mechanism", ["security.protocol", "sasl.jaas.config"]),
    ],
)
def test_which_settings_of_clients_a_connector_may_change(policy: str, allowlist: str, refused: list[str]) -> None:
    settings = parse(KEYS, {POLICY: policy, "connector.client.config.override.allowlist": allowlist})
    found = refused_overrides(GIVEN, settings)
    assert sorted(key.split(".override.")[1] for key in found) == sorted(refused)
    for key, reasons in found.items():
        assert reasons == [f"{key}: the worker's {POLICY}={policy} does not allow it"]


@pytest.mark.parametrize(
    ("config", "settings", "is_refused"),
    [
        ({}, {}, False),
        ({"offsets.storage.topic": " "}, {}, False),
        ({"offsets.storage.topic": "mine"}, {}, True),
        ({"offsets.storage.topic": "mine"}, {"offset.storage.topic": "offsets"}, False),
    ],
)
def test_a_topic_for_how_far_it_is_needs_workers_that_have_one(
    config: dict[str, str], settings: dict[str, Any], is_refused: bool
) -> None:
    assert list(refused_offsets(config, settings)) == (["offsets.storage.topic"] if is_refused else [])


def test_which_workers_write_transactions_of_sources() -> None:
    key = "exactly.once.source.support"
    assert [has_transactions(one) for one in ({}, {key: "disabled"}, {key: "preparing"}, {key: "enabled"})] == [
        False, False, False, True,
    ]  # fmt: skip
