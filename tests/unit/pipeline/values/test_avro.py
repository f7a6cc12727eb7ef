import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest

from penstock.pipeline.errors import UnfitSchemaError
from penstock.pipeline.values.avro import avro_required, avro_schema
from penstock.pipeline.values.schemas import columns_of, reader_of, typed_values
from penstock.work.connect.converters import ConversionError

SCHEMA = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "either", "type": ["null", "int", "long"]},
        {"name": "on", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        {"name": "noon", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "home", "type": {"type": "record", "name": "Place", "fields": [{"name": "city", "type": "string"}]}},
        {"name": "work", "type": ["null", "Place"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OPEN", "PAID"]}},
    ],
}
DDL = (
    "`id` BIGINT, `either` BIGINT, `on` DATE, `at` TIMESTAMP, `noon` INT, `price` DECIMAL(9, 2), "
    "`home` STRUCT<`city`: STRING>, `work` STRUCT<`city`: STRING>, `tags` ARRAY<STRING>, `counts` MAP<STRING, INT>, "
    "`state` STRING"
)
ORDER = {
    "id": 7,
    "either": 1 << 40,
    "on": date(2026, 1, 2),
    "at": datetime(2026, 1, 2, 3, 4, tzinfo=UTC),
    "noon": 43_200_000,
    "price": Decimal("2.50"),
    "home": {"city": "Rome"},
    "work": None,
    "tags": ["a"],
    "counts": {"x": 1},
    "state": "PAID",
}


def encoded(schema: Any, value: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def test_a_schema_says_which_columns_there_are(tmp_path: Path) -> None:
    assert columns_of(typed_values("avro", {"avro": json.dumps(SCHEMA)})) == DDL
    (tmp_path / "order.avsc").write_text(json.dumps(SCHEMA))
    assert columns_of(typed_values("avro", {"avro": str(tmp_path / "order.avsc")})) == DDL


def test_a_value_is_read_whole_or_not_at_all() -> None:
    reader = reader_of(typed_values("avro", {"avro": json.dumps(SCHEMA)}))
    data = encoded(SCHEMA, {**ORDER, "noon": datetime(2026, 1, 1, 12).time()})
    assert reader(data) == ORDER
    for bad in (data[:-1], data + b"\0", b"", b"\xff" * 20):
        with pytest.raises(ConversionError):
            reader(bad)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"avro": "nowhere.avsc"}, "cannot be read"),
        ({"avro": "{"}, "no schema of Avro"),
        ({"avro": '{"type": "reord"}'}, "no schema of Avro"),
        ({"avro": '{"type": "map", "values": "int"}'}, "a record with fields"),
        ({"avro": "latest", "subscribe": "t"}, "schema.registry.url"),
        ({"avro": "latest", "schema.registry.url": "http://a", "subscribe": "t,u"}, "give the subject"),
        ({"avro": json.dumps({"type": "record", "name": "N", "fields": [{"name": "n", "type": "N"}]})}, "of itself"),
    ],
)
def test_what_cannot_be(given: dict[str, str], reason: str) -> None:
    with pytest.raises(UnfitSchemaError, match=reason):
        typed_values("avro", dict(given))


LINE = {"type": "record", "name": "Line", "fields": [{"name": "of", "type": ["int", "string"]}]}
STATE = {"type": "enum", "name": "State", "symbols": ["OPEN"]}
PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
UNION = [
    "null",
    LINE,
    "shop.Other",
    "string",
    "int",
    "long",
    STATE,
    {"type": "array", "items": "Line"},
    PRICE,
    "double",
]


def of_union(union: list[Any]) -> dict[str, Any]:
    other = {"type": "record", "name": "shop.Other", "fields": [{"name": "n", "type": "long"}]}
    fields = [{"name": "other", "type": ["null", other]}, {"name": "any", "type": union}]
    return {"type": "record", "name": "Order", "namespace": "shop", "fields": fields}


LINE_COLUMNS = "STRUCT<`of`: STRUCT<`member0`: INT, `member1`: STRING>>"
MEMBERS = (
    f"`other` STRUCT<`n`: BIGINT>, `any` STRUCT<`member0`: {LINE_COLUMNS}, `member1`: STRUCT<`n`: BIGINT>, "
    "`member2`: STRING, `member3`: INT, `member4`: BIGINT, `member5`: STRING, "
    f"`member6`: ARRAY<{LINE_COLUMNS}>, `member7`: DECIMAL(4, 2), `member8`: DOUBLE>"
)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (("shop.Line", {"of": "a"}), {"member0": {"of": {"member1": "a"}}}),
        (("shop.Other", {"n": 1}), {"member1": {"n": 1}}),
        ("text", {"member2": "text"}),
        (3, {"member4": 3}),
        (1 << 40, {"member4": 1 << 40}),
        (("shop.State", "OPEN"), {"member5": "OPEN"}),
        ([{"of": 1}], {"member6": [{"of": {"member0": 1}}]}),
        (Decimal("2.50"), {"member7": Decimal("2.50")}),
        (2.5, {"member8": 2.5}),
        (None, None),
    ],
)
def test_a_union_of_several_types_has_a_member_for_each(given: Any, read: Any) -> None:
    typed = typed_values("avro", {"avro": json.dumps(of_union(UNION))})
    assert columns_of(typed) == MEMBERS
    data = encoded(of_union(UNION), {"other": {"n": 7}, "any": given})
    assert reader_of(typed)(data) == {"other": {"n": 7}, "any": read}


def test_which_fields_each_value_has_to_have() -> None:
    fields = [
        {"name": "plain", "type": "string"},
        {"name": "either", "type": ["string", "long"]},
        {"name": "perhaps", "type": ["null", "long"]},
        {"name": "given", "type": "string", "default": "x"},
        {"name": "none", "type": "null"},
    ]
    schema = avro_schema(json.dumps({"type": "record", "name": "r", "fields": fields}).encode())
    assert avro_required(schema) == {"plain", "either", "none"}
