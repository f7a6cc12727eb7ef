"""What is written by a schema is read by it, and what does not fit is told."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructType,
)
from tests.unit.pipeline.values.descriptors import FIELD, events_file, field, orders_file, orders_set
from tests.unit.pipeline.values.test_avro import ORDER, SCHEMA

from penstock.pipeline.errors import PipelineError, UnfitSchemaError
from penstock.pipeline.running.typed_sinks import fits
from penstock.pipeline.values.protobuf import message_type
from penstock.pipeline.values.protobuf_writing import indexes_of
from penstock.pipeline.values.schemas import Writer, columns_of, reader_of, required_by, typed_values, writer_of
from penstock.pipeline.values.typed_values import written
from penstock.work.connect.converters import ConversionError


def back(options: dict[str, str], value: Any) -> Any:
    """What the reader makes of what the writer made."""
    typed = typed_values(next(iter(options)), options)
    return reader_of(typed)(writer_of(typed)(value))


def record(kind: Any, **more: Any) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": [{"name": "v", "type": kind, **more}]})


def test_a_row_of_avro_is_written_with_all_its_types() -> None:
    assert back({"avro": json.dumps(SCHEMA)}, ORDER) == ORDER


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (["null", "string", "long"], {"member0": "a"}),
        (["null", "string", "long"], {"member1": 7}),
        (
            [{"type": "long", "logicalType": "timestamp-micros"}, "string"],
            {"member0": datetime(2026, 1, 2, tzinfo=UTC)},
        ),
        ([{"type": "map", "values": "int"}, {"type": "array", "items": "int"}], {"member1": [1]}),
        ([{"type": "record", "name": "geo.A", "fields": [{"name": "n", "type": "int"}]}, "int"], {"member0": {"n": 1}}),
        (["null", "int", "long"], 1 << 40),
        (["null", "string", "long"], None),
    ],
)
def test_a_member_of_a_union_is_written_as_its_type(kind: Any, value: Any) -> None:
    assert back({"avro": record(kind)}, {"v": value}) == {"v": value}


def test_of_a_union_one_member_is_set() -> None:
    with pytest.raises(ConversionError, match="2 members of a union are set, and one has to be"):
        back({"avro": record(["string", "long"])}, {"v": {"member0": "a", "member1": 7}})


def test_a_field_without_a_column_has_its_default() -> None:
    fields = [{"name": "id", "type": "long"}, {"name": "note", "type": "string", "default": "none"}]
    schema = json.dumps({"type": "record", "name": "R", "fields": [*fields, {"name": "n", "type": ["null", "int"]}]})
    assert required_by(typed_values("avro", {"avro": schema})) == {"id"}
    assert required_by(
        typed_values("json_schema", {"json_schema": '{"properties": {"a": {}}, "required": ["a"]}'})
    ) == {"a"}
    with pytest.raises(ConversionError):
        back({"avro": record("long")}, {"v": None})


@pytest.fixture
def orders(tmp_path: Path) -> str:
    path = tmp_path / "orders.desc"
    path.write_bytes(orders_set())
    return str(path)


def test_a_row_becomes_a_message(orders: str) -> None:
    row = {
        "id": 7,
        "amount": 2.5,
        "note": None,
        "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "state": "PAID",
        "lines": [{"article": "a"}, {"article": "b"}],
        "counts": {"x": 1},
        "big": Decimal(2**64 - 1),
        "tip": 3,
    }
    assert back({"protobuf": orders}, row) == {**row, "counts": [("x", 1)], "big": 2**64 - 1}
    with pytest.raises(ConversionError):
        back({"protobuf": orders}, {"state": "UNHEARD"})


def test_well_known_types_and_maps_of_messages_are_written(tmp_path: Path) -> None:
    path = tmp_path / "events.desc"
    path.write_bytes(FileDescriptorSet(file=[orders_file(), events_file()]).SerializeToString())
    row = {
        "struct": '{"a": 1.0}',
        "line": {"article": "a"},
        "states": {"x": "PAID"},
        "by_name": {"y": {"article": "b"}},
    }
    read = back({"protobuf": str(path), "message": "shop.Event"}, row)
    assert json.loads(read["struct"]) == {"a": 1.0}
    assert (read["line"], read["states"], read["by_name"]) == (
        {"article": "a"},
        [("x", "PAID")],
        [("y", {"article": "b"})],
    )


def test_the_place_of_a_message_in_its_file_is_written_before_it() -> None:
    file = orders_file()
    file.message_type[0].nested_type.append(DescriptorProto(name="Inner", field=[field("n", 1, FIELD.TYPE_INT32)]))
    files = FileDescriptorSet(file=[file]).SerializeToString()
    places = {name: indexes_of(message_type(files, f"shop.{name}")) for name in ("Order", "Line", "Order.Inner")}
    assert places == {"Order": b"\0", "Line": b"\x02\x02", "Order.Inner": b"\x04\0\x02"}


def test_a_row_that_breaks_a_rule_fails_with_it() -> None:
    rule = {"properties": {"id": {"type": "integer", "minimum": 1}}}
    typed = typed_values("json_schema", {"json_schema": json.dumps(rule), "subject": "orders-value"})
    write: Writer = writer_of(typed.replace(number=5))
    assert write('{"id":7}') == b'\0\0\0\0\x05{"id":7}'
    with pytest.raises(PipelineError, match=r"schema of orders-value: \$\.id: 0 is less than the minimum of 1"):
        written(pa.array([None, '{"id":0}']), typed)
    assert written(pa.array([None], pa.string()), typed).to_pylist() == [None]


def test_keys_may_be_of_a_simple_type_and_values_are_objects() -> None:
    typed = typed_values("avro", {"key_avro": '{"type": "string"}', "topic": "t"}, "key")
    assert (typed.subject, columns_of(typed)) == ("t-key", "STRING")
    assert reader_of(typed)(writer_of(typed)("a")) == "a"
    with pytest.raises(UnfitSchemaError, match="must be of a record with fields, and is STRING"):
        typed_values("avro", {"avro": '{"type": "string"}'})


NAMED = StructType().add("a", "long").add("b", "string")


@pytest.mark.parametrize(
    ("given", "wanted", "does"),
    [
        (IntegerType(), LongType(), True),
        (LongType(), IntegerType(), False),
        (FloatType(), DoubleType(), True),
        (LongType(), DoubleType(), False),
        (StringType(), LongType(), False),
        (NullType(), NAMED, True),
        (NAMED, NAMED, True),
        (StructType().add("b", "string").add("a", "long"), NAMED, False),
        (ArrayType(IntegerType()), ArrayType(LongType()), True),
        (MapType(StringType(), LongType()), MapType(StringType(), IntegerType()), False),
        (DecimalType(9, 2), DecimalType(10, 3), True),
        (DecimalType(9, 2), DecimalType(9, 3), False),
    ],
)
def test_a_column_fits_where_nothing_of_it_is_lost(given: DataType, wanted: DataType, *, does: bool) -> None:
    assert fits(given, wanted) == does
