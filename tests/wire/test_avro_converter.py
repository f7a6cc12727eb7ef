"""The Avro converter with a schema registry: what is on the wire, what is asked for once, and what goes wrong."""

import asyncio
import io
import json
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import fastavro
import pytest
from tests.wire.schema_registry import SchemaRegistry
from tests.wire.test_connectors import Watched, read

from penstock.client.producer import Producer
from penstock.work.connect.api import RetriableError
from penstock.work.connect.config import ConfigError
from penstock.work.connect.converters import ConversionError, Converter, converter_of
from penstock.work.connect.plugins import PluginError

DATA = "org.apache.kafka.connect.data"


@pytest.fixture
async def registry() -> AsyncIterator[SchemaRegistry]:
    registry = SchemaRegistry()
    await registry.server.start_server()
    yield registry
    await registry.server.close()


def avro(registry: SchemaRegistry, kind: str = "value.converter", **more: str) -> Converter:
    config = {kind: "AvroConverter", f"{kind}.schema.registry.url": registry.url}
    return converter_of(config | {f"{kind}.{key.replace('_', '.')}": text for key, text in more.items()}, {}, kind)


async def written(converter: Converter, value: Any, schema: Any = None) -> bytes:
    data = await asyncio.to_thread(converter.to_bytes, "clicks", schema, value)
    assert data is not None
    return data


async def read_back(converter: Converter, data: bytes | None) -> tuple[Any, Any]:
    return await asyncio.to_thread(converter.from_bytes, "clicks", data)


def framed(number: int, schema: Any, value: Any) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), value)
    return struct.pack(">bI", 0, number) + body.getvalue()


async def test_a_zero_byte_the_id_and_the_value(registry: SchemaRegistry) -> None:
    schema = {"type": "struct", "name": "my.Click", "fields": [{"type": "int32", "optional": False, "field": "n"}]}
    converter = avro(registry)
    for number in (1, 2):
        data = await written(converter, {"n": number}, dict(schema))
        assert data == b"\0" + (100_000).to_bytes(4, "big") + bytes([2 * number])
    assert registry.asked == ["POST /subjects/clicks-value/versions"]
    registered = json.loads(registry.schemas[100_000]["schema"])
    assert registered == {
        "type": "record", "name": "Click", "namespace": "my", "fields": [{"name": "n", "type": "int"}]
    }  # fmt: skip
    fresh = avro(registry)
    assert await read_back(fresh, data) == ({**schema, "optional": False}, {"n": 2})
    assert await read_back(fresh, data) == ({**schema, "optional": False}, {"n": 2})
    assert registry.asked[1:] == ["GET /schemas/ids/100000"]


async def test_keys_have_a_subject_of_their_own_and_nothing_stays_nothing(registry: SchemaRegistry) -> None:
    converter = avro(registry, "key.converter")
    assert (await written(converter, "k", {"type": "string"}))[5:] == b"\x02k"
    assert list(registry.subjects) == ["clicks-key"]
    assert converter.to_bytes("clicks", None, None) is None
    assert converter.from_bytes("clicks", None) == (None, None)


SCHEMA = {
    "type": "struct",
    "name": "row",
    "optional": False,
    "fields": [
        {"type": "int8", "optional": False, "field": "small"},
        {"type": "int64", "optional": True, "field": "at", "name": f"{DATA}.Timestamp"},
        {"type": "bytes", "optional": False, "field": "price", "name": f"{DATA}.Decimal", "parameters": {"scale": "2"}},
        {"type": "string", "optional": True, "field": "word", "default": "none"},
        {"type": "array", "items": {"type": "double", "optional": True}, "optional": False, "field": "list"},
        {
            "type": "map",
            "keys": {"type": "string", "optional": False},
            "values": {"type": "boolean", "optional": False},
            "optional": True,
            "field": "map",
        },
        {
            "type": "struct",
            "name": "inner",
            "optional": True,
            "field": "inner",
            "fields": [{"type": "bytes", "optional": False, "field": "b"}],
        },
    ],
}


@pytest.mark.parametrize(
    "value",
    [
        {"small": -1, "at": 1_700_000_000_123, "price": b"\x04\xd2", "word": "w", "list": [1.5, None],
         "map": {"k": True}, "inner": {"b": b"\xff"}},
        {"small": 1, "at": None, "price": b"", "word": None, "list": [], "map": None, "inner": None},
    ],
)  # fmt: skip
async def test_schemas_and_values_come_back(registry: SchemaRegistry, value: Any) -> None:
    converter = avro(registry)
    assert await read_back(converter, await written(converter, value, SCHEMA)) == (SCHEMA, value)


async def test_values_without_a_schema_get_one(registry: SchemaRegistry) -> None:
    converter = avro(registry)
    value = {"n": 1, "inner": {"x": "y"}, "deep": {"z": [None, 2.5]}}
    schema, back = await read_back(converter, await written(converter, value))
    assert back == value
    assert [field["field"] for field in schema["fields"]] == ["n", "inner", "deep"]


async def test_what_others_have_written_is_read(registry: SchemaRegistry) -> None:
    schema = {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "OLD"]}},
            {"name": "before", "type": ["null", "State"], "default": None},
            {"name": "code", "type": {"type": "fixed", "name": "Code", "size": 2}},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        ],
    }
    number = registry.register("clicks-value", schema)
    data = framed(number, schema, {"state": "NEW", "before": "OLD", "code": b"ab", "day": 20_000})
    found, value = await read_back(avro(registry), data)
    assert value == {"state": "NEW", "before": "OLD", "code": b"ab", "day": 20_000}
    assert [(field["type"], field["optional"]) for field in found["fields"]] == [
        ("string", False), ("string", True), ("bytes", False), ("int32", False),
    ]  # fmt: skip
    assert found["fields"][3]["name"] == f"{DATA}.Date"


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (["null", "int", "string"], "text"),
        (
            {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"], "default": None}]},
            {"next": {"next": None}},
        ),
    ],
)
async def test_what_connect_has_no_schema_for_is_read_without(
    registry: SchemaRegistry, schema: Any, value: Any
) -> None:
    number = registry.register("clicks-value", schema)
    assert await read_back(avro(registry), framed(number, schema, value)) == (None, value)


async def test_the_latest_schema_and_schemas_that_must_be_there(registry: SchemaRegistry) -> None:
    strict = avro(registry, auto_register_schemas="false")
    with pytest.raises(ConversionError, match="Schema not found"):
        await written(strict, 1, {"type": "int32"})
    number = registry.register("clicks-value", "int")
    assert await written(strict, 1, {"type": "int32"}) == framed(number, "int", 1)
    number = registry.register("clicks-value", "long")
    latest = avro(registry, use_latest_version="true")
    assert await written(latest, 2) == framed(number, "long", 2)
    assert await written(latest, 3) == framed(number, "long", 3)
    assert registry.asked[2:] == ["GET /subjects/clicks-value/versions/latest"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b"\1\0\0\0\1x", "no zero byte"), (b"\0\0", "no zero byte"), (b"\0\0\0\0\x07x", "Schema not found")],
)
async def test_bytes_that_are_no_avro(registry: SchemaRegistry, data: bytes, reason: str) -> None:
    with pytest.raises(ConversionError, match=reason):
        await read_back(avro(registry), data)


async def test_values_that_are_cut_off_or_do_not_fit(registry: SchemaRegistry) -> None:
    number = registry.register("clicks-value", "string")
    with pytest.raises(ConversionError, match="AvroConverter, topic clicks, schema"):
        await read_back(avro(registry), framed(number, "string", "longer")[:-2])
    struct_ = {"type": "struct", "name": "s", "fields": [{"type": "int32", "field": "n"}]}
    for bad, schema in [("x", {"type": "int32"}), ({"n": 1, "more": 2}, struct_), ({1: 2}, {"type": "map"})]:
        with pytest.raises(ConversionError, match="AvroConverter, topic clicks"):
            await written(avro(registry), bad, schema)


async def test_a_schema_refers_to_another(registry: SchemaRegistry) -> None:
    place = {"type": "record", "name": "Place", "fields": [{"name": "city", "type": "string"}]}
    fields = [{"name": "to", "type": "Place"}, {"name": "via", "type": ["null", "Place"]}]
    order = {"type": "record", "name": "Order", "fields": fields}
    registry.register("places", place)
    to_place = [{"name": "Place", "subject": "places", "version": 1}]
    number = registry.register("clicks-value", order, references=to_place)
    value = {"to": {"city": "Rome"}, "via": {"city": "Pisa"}}
    converter = avro(registry, use_latest_version="true")
    data = await written(converter, value)
    assert data == struct.pack(">bI", 0, number) + b"\x08Rome\x02\x08Pisa"
    schema, read = await read_back(converter, data)
    assert read == value
    assert [field["name"] for field in schema["fields"]] == ["Place", "Place"]


async def test_schemas_of_other_kinds_are_refused(registry: SchemaRegistry) -> None:
    number = registry.register("clicks-value", {}, schemaType="JSON")
    with pytest.raises(ConversionError, match="is no Avro"):
        await read_back(avro(registry), struct.pack(">bIb", 0, number, 0))


async def test_a_registry_that_is_busy_is_asked_again(registry: SchemaRegistry) -> None:
    number = registry.register("clicks-value", "int")
    converter, data = (
        avro(registry, basic_auth_credentials_source="USER_INFO", basic_auth_user_info="me:x"),
        framed(number, "int", 1),
    )
    registry.statuses = [503]
    with pytest.raises(RetriableError, match="503"):
        await read_back(converter, data)
    assert (await read_back(converter, data))[1] == 1
    assert registry.authorization == "Basic bWU6eA=="
    await registry.server.close()
    with pytest.raises(RetriableError, match="has not answered"):
        await read_back(converter, framed(number + 1, "int", 1))


async def test_another_registry_answers(registry: SchemaRegistry) -> None:
    number = registry.register("clicks-value", "int")
    converter = avro(registry, schema_registry_url=f"http://127.0.0.1:1, {registry.url}")
    assert (await read_back(converter, framed(number, "int", 1)))[1] == 1


async def test_a_configuration_that_cannot_be(registry: SchemaRegistry) -> None:
    with pytest.raises(ConfigError, match="TopicNameStrategy alone"):
        avro(registry, value_subject_name_strategy="RecordNameStrategy")
    with pytest.raises(ConfigError, match=r"schema\.registry\.url is missing"):
        converter_of({"value.converter": "io.confluent.connect.avro.AvroConverter"}, {}, "value.converter")
    with pytest.raises(PluginError, match="did you mean AvroConverter"):
        converter_of({"value.converter": "AvroConvertor"}, {}, "value.converter")


async def test_through_a_topic(registry: SchemaRegistry, bootstrap: str, topic: str, tmp_path: Path) -> None:
    worker = Watched(bootstrap, tmp_path)
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
    number = registry.register(f"{topic}-value", schema)
    async with Producer(bootstrap) as producer:
        for n in range(3):
            await producer.send(topic, framed(number, schema, {"n": n}), partition=0)
    config = {
        "name": topic,
        "connector.class": "penstock.FunctionConnector",
        "function": f"{__name__}:doubled",
        "topics": topic,
        "output.topic": f"{topic}-out",
        "value.converter": "AvroConverter",
        "value.converter.schema.registry.url": registry.url,
    }
    try:
        await worker.start(config)
        out = await read(bootstrap, f"{topic}-out", 3)
    finally:
        await worker.stop()
    converter = avro(registry)
    assert [(await read_back(converter, record.value))[1] for record in out] == [{"n": 0}, {"n": 2}, {"n": 4}]


def doubled(record: Any) -> Any:
    return {"n": 2 * record.value["n"]}
