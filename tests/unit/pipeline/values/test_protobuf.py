from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass
from tests.unit.pipeline.values.descriptors import events_file, orders_file, orders_set

from penstock.pipeline.errors import UnfitSchemaError
from penstock.pipeline.values.protobuf import message_type
from penstock.pipeline.values.schemas import columns_of, reader_of, typed_values
from penstock.work.connect.converters import ConversionError

DDL = (
    "`id` BIGINT, `amount` DOUBLE, `note` STRING, `at` TIMESTAMP, `state` STRING, `lines` ARRAY<STRUCT<`article`: "
    "STRING>>, `counts` MAP<STRING, INT>, `big` DECIMAL(20, 0), `tip` INT"
)


@pytest.fixture
def orders(tmp_path: Path) -> str:
    path = tmp_path / "orders.desc"
    path.write_bytes(orders_set())
    return str(path)


def encoded(name: str, value: dict[str, Any]) -> bytes:
    message = GetMessageClass(message_type(orders_set(), name))()
    data: bytes = ParseDict(value, message).SerializeToString()
    return data


def test_a_type_says_which_columns_there_are(orders: str) -> None:
    assert columns_of(typed_values("protobuf", {"protobuf": orders, "message": "shop.Order"})) == DDL
    assert columns_of(typed_values("protobuf", {"protobuf": orders})) == DDL
    assert columns_of(typed_values("protobuf", {"protobuf": orders, "message": "shop.Line"})) == "`article` STRING"


def test_a_message_becomes_a_row(orders: str) -> None:
    reader = reader_of(typed_values("protobuf", {"protobuf": orders, "message": "shop.Order"}))
    value = {"id": 7, "at": "2026-01-02T03:04:00Z", "state": "PAID", "lines": [{"article": "a"}], "tip": 0}
    row = reader(encoded("shop.Order", {**value, "counts": {"x": 1}, "big": str(2**64 - 1)}))
    assert row == {
        "id": 7,
        "amount": 0.0,
        "note": None,
        "at": datetime(2026, 1, 2, 3, 4, tzinfo=UTC),
        "state": "PAID",
        "lines": [{"article": "a"}],
        "counts": [("x", 1)],
        "big": Decimal(2**64 - 1),
        "tip": 0,
    }
    for bad in (b"{broken", b"\x08", b"\x0a\x05ab"):
        with pytest.raises(ConversionError):
            reader(bad)


def test_what_cannot_be(orders: str, tmp_path: Path) -> None:
    incomplete = orders_file()
    incomplete.dependency.append("others.proto")
    (tmp_path / "incomplete.desc").write_bytes(FileDescriptorSet(file=[incomplete]).SerializeToString())
    (tmp_path / "none.desc").write_bytes(b"{broken")
    (tmp_path / "empty.desc").write_bytes(b"")
    for options, reason in [
        ({"protobuf": "nowhere.desc"}, "cannot be read"),
        ({"protobuf": str(tmp_path / "none.desc")}, "no set of descriptors"),
        ({"protobuf": str(tmp_path / "empty.desc")}, "no file in it"),
        ({"protobuf": str(tmp_path / "incomplete.desc")}, "protoc --include_imports.*others.proto"),
        ({"protobuf": orders, "message": "shop.Odrer"}, "there are shop.Order, shop.Line"),
        ({"protobuf": orders, "message": "shop.Node"}, "shop.Node is part of itself"),
        ({"protobuf": "latest", "subscribe": "orders"}, "schema.registry.url"),
    ]:
        with pytest.raises(UnfitSchemaError, match=reason):
            typed_values("protobuf", dict(options))


def test_well_known_types_oneofs_and_maps(tmp_path: Path) -> None:
    files = FileDescriptorSet(file=[orders_file(), events_file()]).SerializeToString()
    (tmp_path / "events.desc").write_bytes(files)
    typed = typed_values("protobuf", {"protobuf": str(tmp_path / "events.desc")})
    assert columns_of(typed) == (
        "`duration` INTERVAL DAY TO SECOND, `struct` STRING, `value` STRING, "
        "`any` STRUCT<`type_url`: STRING, `value`: BINARY>, `fieldmask` STRUCT<`paths`: ARRAY<STRING>>, "
        "`number` INT, `text` STRING, `line` STRUCT<`article`: STRING>, `states` MAP<STRING, STRING>, "
        "`by_name` MAP<STRING, STRUCT<`article`: STRING>>"
    )
    value = {
        "duration": "1.5s",
        "struct": {"a": [1, {"b": None}]},
        "value": True,
        "any": {"@type": "type.googleapis.com/google.protobuf.Duration", "value": "2s"},
        "empty": {},
        "fieldmask": "aB,c",
        "text": "",
        "states": {"x": "PAID"},
        "byName": {"y": {"article": "a"}},
    }
    message = GetMessageClass(message_type(files, ""))()
    row = reader_of(typed)(ParseDict(value, message).SerializeToString())
    assert row == {
        "duration": timedelta(seconds=1.5),
        "struct": '{"a": [1.0, {"b": null}]}',
        "value": "true",
        "any": {"type_url": "type.googleapis.com/google.protobuf.Duration", "value": b"\x08\x02"},
        "fieldmask": {"paths": ["a_b", "c"]},
        "number": None,
        "text": "",
        "line": None,
        "states": [("x", "PAID")],
        "by_name": [("y", {"article": "a"})],
    }
