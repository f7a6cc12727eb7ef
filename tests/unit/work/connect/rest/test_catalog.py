"""What validation says of keys that a configuration makes known by names of its own, and of versions."""

from typing import Any

import pytest

from penstock import __version__
from penstock.work.connect.providers import Providers
from penstock.work.connect.rest.catalog import definitions, validated
from penstock.work.connect.rest.errors import RestError
from penstock.work.connect.runtime.settings import KEYS

SOURCE = {"name": "lines", "connector.class": "FileStreamSource", "file": "f", "topic": "t"}
NAMED = {
    "transforms": "cast",
    "transforms.cast.type": "org.apache.kafka.connect.transforms.Cast$Value",
    "transforms.cast.predicate": "mine",
    "predicates": "mine",
    "predicates.mine.type": "TopicNameMatches",
}


def validate(**config: str) -> dict[str, Any]:
    return validate_with(Providers({}), **config)


def validate_with(providers: Providers, **config: str) -> dict[str, Any]:
    settings = {key.name: key.default for key in KEYS}
    found = validated(SOURCE | NAMED | config, {}, settings, providers)
    return {**found, "errors": {row["value"]["name"]: row["value"]["errors"] for row in found["configs"]}}


def wrong(found: dict[str, Any]) -> dict[str, list[str]]:
    return {key: reasons for key, reasons in found["errors"].items() if reasons}


def test_a_transform_and_a_predicate_have_groups_and_keys_of_their_own() -> None:
    found = validate(**{"transforms.cast.spec": "int32", "predicates.mine.pattern": "x"})
    assert wrong(found) == {}
    assert {"Transforms", "Transforms: cast", "Predicates", "Predicates: mine"} <= set(found["groups"])
    grouped = {
        row["definition"]["name"]: row["definition"]["group"]
        for row in found["configs"]
        if row["definition"] is not None
    }
    assert grouped["transforms.cast.spec"] == grouped["transforms.cast.negate"] == "Transforms: cast"
    assert grouped["predicates.mine.pattern"] == "Predicates: mine"


def test_what_is_wrong_stands_at_the_key() -> None:
    found = validate(**{"transforms.cast.spec": "x:int33", "predicates.mine.pattern": "x"})
    assert list(wrong(found)) == ["transforms.cast.spec"]
    assert "predicates.mine.pattern" in wrong(validate(**{"transforms.cast.spec": "int32"}))
    assert "topic.creation.default.partitions" in wrong(validate(**{"topic.creation.default.replication.factor": "1"}))
    assert "connector.plugin.version" in wrong(validate(**{"connector.plugin.version": "(,0)"}))
    assert "admin.override" in wrong(validate(**{"admin.override.no.such": "1"}))


def test_what_was_looked_up_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may ask for a validation need not have what the worker can read."""
    monkeypatch.setenv("MINE", "sesame-open")
    providers = Providers({"config.providers": "env", "config.providers.env.class": "EnvVarConfigProvider"})
    wants = {"tasks.max": "${env:MINE}", "admin.override.acks": "${env:MINE}", "producer.override.acks": "${env:MINE}"}
    found = validate_with(providers, **wants)
    assert {"tasks.max", "producer.override"} <= wrong(found).keys()
    assert "${env:MINE}" in wrong(found)["tasks.max"][0]
    assert "sesame" not in str(found)


def test_the_keys_of_a_version() -> None:
    keys = {row["name"] for row in definitions("JsonConverter", __version__)}
    assert keys == {"schemas.enable", "schema.content", "decimal.format", "replace.null.with.default"}
    for version, status in (("(,0)", 404), ("[", 400)):
        with pytest.raises(RestError) as raised:
            definitions("JsonConverter", version)
        assert raised.value.status == status


def test_what_is_asked_of_transactions_is_good_on_a_worker_that_has_them() -> None:
    asked = SOURCE | {
        "exactly.once.support": "required",
        "transaction.boundary": "interval",
        "transaction.boundary.interval.ms": "500",
        "offsets.storage.topic": "mine",
    }
    settings = {key.name: key.default for key in KEYS}
    shared = settings | {"offset.storage.topic": "offsets", "exactly.once.source.support": "enabled"}
    assert wrong_with(asked, shared) == []
    assert wrong_with(asked, settings) == ["exactly.once.support", "transaction.boundary", "offsets.storage.topic"]


def wrong_with(config: dict[str, str], settings: dict[str, Any]) -> list[str]:
    found = validated(config, {}, settings, Providers({}))
    return [row["value"]["name"] for row in found["configs"] if row["value"]["errors"]]
