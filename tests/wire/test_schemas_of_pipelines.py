"""Schemas of values of pipelines in a registry: what is before values, what is asked, and what is no such value."""

import base64
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from tests.unit.pipeline.values.descriptors import FIELD, field
from tests.unit.pipeline.values.test_avro import encoded
from tests.wire.schema_registry import SchemaRegistry, served

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.values.schemas import (
    Reader,
    columns_of,
    fitting,
    reader_of,
    registered,
    settled,
    typed_values,
    writer_of,
)
from penstock.work.connect.converters import ConversionError
from penstock.work.connect.registry import RegistryError

OLD = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
NEW = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": "string", "default": "none"}],
}


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with served() as registry:
        yield registry


def head(number: int) -> bytes:
    return struct.pack(">bI", 0, number)


def reads(options: dict[str, str], registry: SchemaRegistry) -> tuple[str, Reader]:
    known = settled(typed_values(next(iter(options)), {**options, "schema.registry.url": registry.url}))
    return columns_of(known), reader_of(known)


def test_what_was_written_by_another_schema_is_read_by_the_latest(registry: SchemaRegistry) -> None:
    old, new = registry.register("orders-value", OLD), registry.register("orders-value", NEW)
    columns, read = reads({"avro": "latest", "subscribe": "orders"}, registry)
    assert columns == "`id` BIGINT, `note` STRING"
    assert read(head(old) + encoded(OLD, {"id": 1})) == {"id": 1, "note": "none"}
    assert read(head(new) + encoded(NEW, {"id": 2, "note": "b"})) == {"id": 2, "note": "b"}
    asked = len(registry.asked)
    assert read(head(old) + encoded(OLD, {"id": 3})) == {"id": 3, "note": "none"}
    assert len(registry.asked) == asked
    other = registry.register("names", {**OLD, "name": "Name", "fields": [{"name": "n", "type": "string"}]})
    for bad in (b"{}", encoded(NEW, {"id": 300, "note": "b"}), head(old), head(other) + b"\x02a"):
        with pytest.raises(ConversionError):
            read(bad)
    with pytest.raises(RegistryError) as failure:
        read(head(7) + b"\x02")
    assert failure.value.status == 404


def test_a_schema_of_avro_refers_to_others(registry: SchemaRegistry) -> None:
    state = {"type": "enum", "name": "State", "symbols": ["OPEN", "PAID"]}
    town = {"type": "record", "name": "Town", "namespace": "geo", "fields": [{"name": "name", "type": "string"}]}
    home_fields = [{"name": "town", "type": "geo.Town"}, {"name": "state", "type": state}]
    home = {"type": "record", "name": "Home", "namespace": "shop", "fields": home_fields}
    registry.register("geo.Town", town)
    to_town = [{"name": "geo.Town", "subject": "geo.Town", "version": 1}]
    registry.register("shop.Home", home, references=to_town)
    fields = [
        {"name": "state", "type": "State"},
        {"name": "home", "type": ["null", "Home"]},
        {"name": "towns", "type": {"type": "array", "items": "geo.Town"}},
    ]
    user = {"type": "record", "name": "User", "namespace": "shop", "fields": fields}
    to_home = [{"name": "shop.Home", "subject": "shop.Home", "version": 1}]
    number = registry.register("members-value", user, references=to_home)
    columns, read = reads({"avro": "latest", "subscribe": "members"}, registry)
    home_columns = "STRUCT<`town`: STRUCT<`name`: STRING>, `state`: STRING>"
    assert columns == f"`state` STRING, `home` {home_columns}, `towns` ARRAY<STRUCT<`name`: STRING>>"
    value = {"state": "PAID", "home": {"town": {"name": "Rome"}, "state": "OPEN"}, "towns": [{"name": "Pisa"}]}
    data = b"\x02" + b"\x02" + b"\x08Rome\x00" + b"\x02\x08Pisa\x00"
    assert read(head(number) + data) == value


def test_a_union_that_has_changed_is_read_by_its_types(registry: SchemaRegistry) -> None:
    def schema(kind: Any) -> dict[str, Any]:
        return {"type": "record", "name": "R", "fields": [{"name": "v", "type": kind}]}

    place = {"type": "record", "name": "geo.Place", "fields": [{"name": "n", "type": "long"}]}
    was, plain = schema(["string", "int", place]), schema("int")
    record = schema(place)
    ids = [registry.register("unions-value", one) for one in (was, plain, record)]
    registry.register("unions-value", schema(["null", place, "long", "string"]))
    columns, read = reads({"avro": "latest", "subscribe": "unions"}, registry)
    assert columns == "`v` STRUCT<`member0`: STRUCT<`n`: BIGINT>, `member1`: BIGINT, `member2`: STRING>"
    assert read(head(ids[0]) + encoded(was, {"v": 7})) == {"v": {"member1": 7}}
    assert read(head(ids[0]) + encoded(was, {"v": ("geo.Place", {"n": 1})})) == {"v": {"member0": {"n": 1}}}
    assert read(head(ids[1]) + encoded(plain, {"v": 7})) == {"v": {"member1": 7}}
    assert read(head(ids[2]) + encoded(record, {"v": {"n": 1}})) == {"v": {"member0": {"n": 1}}}


def file_of(name: str, *messages: DescriptorProto, imports: str = "") -> FileDescriptorProto:
    return FileDescriptorProto(
        name=name, package="shop", syntax="proto3", message_type=messages, dependency=filter(None, [imports])
    )


def registered_file(registry: SchemaRegistry, subject: str, file: FileDescriptorProto, **more: Any) -> int:
    registry.serialized[subject] = base64.b64encode(file.SerializeToString()).decode()
    return registry.register(subject, subject, schemaType="PROTOBUF", **more)


def test_messages_of_protobuf_are_known_by_the_indexes_before_them(registry: SchemaRegistry) -> None:
    place = DescriptorProto(name="Place", field=[field("city", 1, FIELD.TYPE_STRING)])
    order = DescriptorProto(name="Order", field=[field("to", 1, FIELD.TYPE_MESSAGE, ".shop.Place")])
    line = order.nested_type.add(name="Line")
    line.field.append(field("article", 1, FIELD.TYPE_STRING))
    registered_file(registry, "places", file_of("place.proto", place))
    references = [{"name": "place.proto", "subject": "places", "version": 1}]
    orders = file_of("default", order, DescriptorProto(name="Other"), imports="place.proto")
    number = registered_file(registry, "deliveries-value", orders, references=references)

    columns, read = reads({"protobuf": "latest", "subscribe": "deliveries"}, registry)
    assert columns == "`to` STRUCT<`city`: STRING>"
    rome = b"\x0a\x06\x0a\x04Rome"
    assert read(head(number) + b"\0" + rome) == read(head(number) + b"\x02\0" + rome) == {"to": {"city": "Rome"}}
    for bad in (head(number) + b"\x02\x02" + rome, head(number) + b"\x02\x08" + rome, head(number), b"\xff" * 9):
        with pytest.raises(ConversionError):
            read(bad)
    columns, read = reads({"protobuf": "latest", "subject": "deliveries-value", "message": "shop.Order.Line"}, registry)
    assert columns == "`article` STRING"
    assert read(head(number) + b"\x04\0\0" + b"\x0a\x01a") == {"article": "a"}
    with pytest.raises(ConversionError, match=r"it is a shop\.Order"):
        read(head(number) + b"\0" + rome)


def test_a_registry_without_the_subject_is_told(registry: SchemaRegistry) -> None:
    typed = typed_values("avro", {"avro": "latest", "subject": "nobodys", "schema.registry.url": registry.url})
    with pytest.raises(PipelineError, match=r"nobodys: the schema registry said 404.*Subject not found"):
        settled(typed)
    registry.register("names-in-protobuf", json.dumps("x"), schemaType="PROTOBUF")
    with pytest.raises(PipelineError, match="is no Avro"):
        settled(typed.replace(subject="names-in-protobuf"))


def test_json_schema_and_what_it_refers_to_come_from_the_registry(registry: SchemaRegistry) -> None:
    registry.register("towns", {"definitions": {"zip": {"type": "string", "maxLength": 5}}}, schemaType="JSON")
    town = {"type": "object", "properties": {"zip": {"$ref": "town.json#/definitions/zip"}}}
    towns = [{"name": "town.json", "subject": "towns", "version": 1}]
    registry.register("homes", town, schemaType="JSON", references=towns)
    user = {"properties": {"id": {"type": "integer", "minimum": 1}, "home": {"$ref": "home.json"}}, "required": ["id"]}
    homes = [{"name": "home.json", "subject": "homes", "version": 1}]
    number = registry.register("users-value", user, schemaType="JSON", references=homes)

    columns, read = reads({"json_schema": "latest", "subscribe": "users"}, registry)
    assert columns == "`id` BIGINT, `home` STRUCT<`zip`: STRING>"
    assert read(head(number) + b'{"id": 7, "home": {"zip": "00100"}}') == {"id": 7, "home": {"zip": "00100"}}
    avro = registry.register("orders-value", OLD)
    for bad, why in [
        (b'{"id": 7}', "no zero byte"),
        (head(number) + b'{"id": 0}', r"\$\.id: .*\(minimum\)"),
        (head(number) + b'{"id": 1, "home": {"zip": "001000"}}', r"\$\.home\.zip: .*\(maxLength\)"),
        (head(avro) + b'{"id": 7}', "is no JSON Schema"),
        (head(7) + b'{"id": 7}', "Schema not found"),
    ]:
        with pytest.raises(ConversionError, match=why):
            read(bad)
    with pytest.raises(PipelineError, match="orders-value: orders-value is no JSON Schema"):
        reads({"json_schema": "latest", "subscribe": "orders"}, registry)


def test_a_schema_is_registered_and_one_that_does_not_fit_is_refused(registry: SchemaRegistry) -> None:
    options = {"avro": json.dumps(NEW), "topic": "out", "schema.registry.url": registry.url}
    known = registered(typed_values("avro", options))
    assert registry.subjects["out-value"] == [known.number]
    data = writer_of(known)({"id": 1, "note": "b"})
    assert (data[:5], reader_of(known)(data)) == (head(known.number or 0), {"id": 1, "note": "b"})
    registry.incompatible.add("out-value")
    other = typed_values("avro", {**options, "avro": json.dumps(OLD)})
    with pytest.raises(PipelineError, match=r"out-value cannot be registered: .*409"):
        registered(other)
    asked = len(registry.asked)
    with pytest.raises(PipelineError, match="out-value cannot be registered: it is incompatible"):
        fitting(other)
    assert registry.asked[asked:] == ["POST /compatibility/subjects/out-value/versions/latest"]
    assert fitting(other.replace(subject="new-value")).number is None
    with pytest.raises(PipelineError, match="give the topic, or the subject"):
        registered(other.replace(subject="-value"))


def test_what_a_file_of_protobuf_imports_is_registered_before_it(registry: SchemaRegistry, tmp_path: Path) -> None:
    place = DescriptorProto(name="Place", field=[field("city", 1, FIELD.TYPE_STRING)])
    order = DescriptorProto(name="Order", field=[field("to", 1, FIELD.TYPE_MESSAGE, ".shop.Place")])
    files = [file_of("to/place.proto", place), file_of("to/order.proto", order, imports="to/place.proto")]
    path = tmp_path / "orders.desc"
    path.write_bytes(FileDescriptorSet(file=files).SerializeToString())
    options = {"protobuf": str(path), "subject": "sent-value", "schema.registry.url": registry.url}
    data = writer_of(registered(typed_values("protobuf", options)))({"to": {"city": "Rome"}})
    (number,) = registry.subjects["sent-value"]
    assert data == head(number) + b"\0\x0a\x06\x0a\x04Rome"
    reference = {"name": "to/place.proto", "subject": "to/place.proto", "version": 1}
    assert registry.schemas[number]["references"] == [reference]
    columns, read = reads({"protobuf": "latest", "subject": "sent-value"}, registry)
    assert (columns, read(data)) == ("`to` STRUCT<`city`: STRING>", {"to": {"city": "Rome"}})
