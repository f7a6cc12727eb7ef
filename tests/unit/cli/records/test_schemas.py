"""`penstock schemas` asks a registry, and registers what fits alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.wire.schema_registry import SchemaRegistry, served

from penstock.cli.main import main


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with served() as registry:
        yield registry


def schemas(registry: SchemaRegistry, *words: str, text: str = "", exit_code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["schemas", "--schema-registry", registry.url, *words], input=text)
    assert result.exit_code == exit_code, result.output
    return result


def of_json(result: Result) -> Any:
    return json.loads(result.stdout)


def test_a_version_is_registered_listed_and_shown(registry: SchemaRegistry, tmp_path: Path) -> None:
    said = schemas(registry, "--register", "--subject", "a b/c", text='"long"').stdout
    assert said == "schema 100000 is version 1 of a b/c\n"
    (tmp_path / "next").write_text('"int"')
    words = ("--subject", "a b/c", "--type", "avro", "--schema", str(tmp_path / "next"), "--json")
    assert of_json(schemas(registry, "--register", *words)) == {"subject": "a b/c", "id": 100_001, "version": 2}
    assert of_json(schemas(registry, "--list", "--json")) == ["a b/c"]
    (row,) = of_json(schemas(registry, "--describe", "--subject", "a b/c", "--json"))
    assert (row["version"], row["id"], row["schema"]) == ("2", "100001", '"int"')


def test_what_does_not_fit_is_told_and_not_registered(registry: SchemaRegistry) -> None:
    registry.register("orders", "long")
    registry.incompatible.add("orders")
    words = ("--subject", "orders")
    assert of_json(schemas(registry, "--check", *words, "--json", text='"int"', exit_code=1))["fits"] is False
    assert "does not fit" in schemas(registry, "--register", *words, text='"int"', exit_code=1).output
    assert len(registry.schemas) == 1
    assert of_json(schemas(registry, "--check", "--subject", "new", "--json", text='"int"'))["fits"] is True


@pytest.mark.parametrize(
    "words",
    [
        ("--list", "--subject", "a"),
        ("--list", "--schema", __file__),
        ("--describe",),
        ("--describe", "--subject", "a", "--type", "AVRO"),
        ("--describe", "--subject", "a", "--schema", __file__),
        ("--check",),
        ("--register",),
        ("--check", "--subject", "a", "--type", "nonsense"),
    ],
)
def test_what_does_not_go_together_is_refused(words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, ["schemas", "--schema-registry", "http://127.0.0.1:9", *words])
    assert result.exit_code == 2


def test_what_is_said_to_people(registry: SchemaRegistry) -> None:
    registry.register("orders", "long")
    assert schemas(registry, "--list").stdout == "orders\n"
    words = ("--subject", "orders")
    assert schemas(registry, "--check", *words, text='"int"').stdout == "it fits orders\n"
    assert schemas(registry, "--describe", *words).stdout.splitlines() == [
        "SUBJECT  VERSION  ID      TYPE  SCHEMA",
        'orders   1        100000  AVRO  "long"',
    ]
    registry.incompatible.add("orders")
    told = schemas(registry, "--check", *words, text='"int"', exit_code=1).stdout
    assert told
    assert told != "it fits orders\n"
    found = of_json(schemas(registry, "--check", *words, "--json", text='"int"', exit_code=1))
    assert found == {"fits": False, "why": told.splitlines()}


def test_a_schema_that_cannot_be_read(registry: SchemaRegistry, tmp_path: Path) -> None:
    (tmp_path / "schema").write_bytes(b"\xff")
    words = ("--register", "--subject", "a", "--schema", str(tmp_path / "schema"))
    assert "the schema cannot be read: " in schemas(registry, *words, exit_code=2).stderr
