"""Rows become values that the readers of pipelines read, with heads that the registry in memory knows."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.unit.pipeline.values.descriptors import orders_set

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.spec.parts import pipeline_spec
from penstock.pipeline.spec.pipeline import SourceSpec
from penstock.pipeline.values.kinds import TypedValues
from penstock.pipeline.values.schemas import reader_of, settled
from penstock.testing.typed_rows import encoded, in_memory
from penstock.work.connect.converters import ConversionError

REGISTRY = {"schema.registry.url": "http://nowhere.invalid"}
AT = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
TOWN = {"type": "record", "name": "geo.Town", "fields": [{"name": "name", "type": "string"}]}
USER = {
    "type": "record",
    "name": "User",
    "fields": [
        {"name": "id", "type": ["long", "string"]},
        {"name": "home", "type": "geo.Town"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}},
    ],
}


def source_of(options: dict[str, Any], schemas: dict[str, Any] | None = None) -> SourceSpec:
    spec = pipeline_spec("p", {"source": {"subscribe": "users"} | options, "sink": {"topic": "t"}})
    return in_memory(spec, schemas or {}).sources["source"]


def typed_of(source: SourceSpec) -> TypedValues:
    assert source.typed is not None
    return settled(source.typed)


def through(source: SourceSpec, row: Any) -> Any:
    (data,) = encoded("source", source.typed, [row])
    return reader_of(typed_of(source))(data)


def test_rows_of_avro_and_what_their_schema_refers_to() -> None:
    source = source_of({"avro": "latest"} | REGISTRY, {"users-value": USER, "geo.Town": TOWN})
    row = {"id": "a", "home": {"name": "Rome"}, "at": AT, "price": Decimal("2.50")}
    assert through(source, row) == row | {"id": {"member1": "a"}}
    with pytest.raises(PipelineError, match=r"Row 1 of source is no value of its schema.*give its bytes"):
        encoded("source", source.typed, [row, {"id": 1}])
    assert encoded("source", source.typed, [b"{broken", "text", None]) == [b"{broken", "text", None]


def test_rows_of_a_schema_that_the_pipeline_has_itself() -> None:
    registries: list[dict[str, str]] = [{}, REGISTRY]
    for more in registries:
        source = source_of({"avro": TOWN} | more)
        assert through(source, {"name": "Rome"}) == {"name": "Rome"}


@pytest.mark.parametrize("registry", [{}, REGISTRY])
def test_rows_of_protobuf(registry: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "orders.desc").write_bytes(orders_set())
    rows: list[tuple[str, dict[str, Any]]] = [
        ("shop.Order", {"id": 7, "at": AT, "state": "PAID", "lines": [{"article": "a"}], "big": Decimal(2**64 - 1)}),
        ("shop.Line", {"article": "b"}),
    ]
    for name, row in rows:
        source = source_of({"protobuf": str(tmp_path / "orders.desc"), "message": name} | registry)
        read = through(source, row)
        assert {key: read[key] for key in row} == row
    latest = source_of({"protobuf": "latest", "message": "shop.Line"} | REGISTRY, {"users-value": orders_set()})
    assert through(latest, {"article": "b"}) == {"article": "b"}
    with pytest.raises(PipelineError, match="Row 0 of source"):
        encoded("source", latest.typed, [{"articel": "b"}])


def test_rows_of_json_schema_may_break_its_rules() -> None:
    user = {"properties": {"id": {"type": "integer"}, "home": {"$ref": "town.json"}}}
    town = {"properties": {"name": {"type": "string", "minLength": 2}}}
    source = source_of({"json_schema": "latest"} | REGISTRY, {"town.json": town, "users-value": user})
    assert through(source, {"id": 7, "home": {"name": "Rome"}}) == {"id": 7, "home": {"name": "Rome"}}
    with pytest.raises(ConversionError, match=r"\$\.home\.name: .*minLength"):
        through(source, {"id": 7, "home": {"name": "R"}})


def test_an_id_that_is_not_in_the_test_is_a_bad_value() -> None:
    source = source_of({"avro": "latest"} | REGISTRY, {"users-value": TOWN})
    with pytest.raises(ConversionError, match="there is no schema 2 in this test"):
        reader_of(typed_of(source))(b"\0\0\0\0\2\x08Rome")
