import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.work.connect.config import ConfigError
from penstock.work.connect.converters import CONVERTERS, ConversionError, Converter, converter_of
from penstock.work.connect.plugins import PluginError
from penstock.work.connect.schemas import schema_of

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


def made(name: str, **settings: str) -> Converter:
    config = {"value.converter": name} | {
        f"value.converter.{key.replace('_', '.')}": text for key, text in settings.items()
    }
    return converter_of(config, {}, "value.converter")


@given(VALUES)
def test_plain_json_comes_back(value: Any) -> None:
    converter = made("JsonConverter", schemas_enable="false")
    data = converter.to_bytes("topic", None, value)
    assert converter.from_bytes("topic", data) == (None, value)


@given(st.dictionaries(st.text(), st.booleans() | st.integers(-9, 9) | st.text() | st.binary() | st.none(), max_size=5))
def test_json_with_schemas_comes_back(value: dict[str, Any]) -> None:
    converter = made("JsonConverter")
    data = converter.to_bytes("topic", None, value)
    assert data is not None
    assert json.loads(data).keys() == {"schema", "payload"}
    assert converter.from_bytes("topic", data) == (schema_of(value), value)


def test_json_of_kafka_connect_is_read() -> None:
    """As Apache Kafka's JsonConverter writes it."""
    data = (
        b'{"schema":{"type":"struct","fields":[{"type":"int32","optional":false,"field":"id"},{"type":"bytes","optional":'
        b'true,"field":"data"},{"type":"map","keys":{"type":"int32"},"values":{"type":"string"},"optional":true,"field":'
        b'"names"},{"type":"array","items":{"type":"int64"},"optional":true,"field":"counts","default":[7]}],"optional":'
        b'false,"name":"row"},"payload":{"id":1,"data":"AQI=","names":[[1,"one"]]}}'
    )
    _, value = made("org.apache.kafka.connect.json.JsonConverter").from_bytes("topic", data)
    assert value == {"id": 1, "data": b"\x01\x02", "names": {1: "one"}, "counts": [7]}


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        ({"type": "int8"}, 128, "128 is no int8"),
        ({"type": "string"}, None, "which is not optional"),
        ({"type": "struct", "fields": [{"type": "int32", "field": "id"}]}, {"id": "x"}, "field id"),
        ({"type": "struct", "fields": []}, {"id": 1}, "not a struct"),
        ({"type": "boolean"}, 1, "1 is no boolean"),
    ],
)
def test_a_value_is_what_its_schema_says(schema: dict[str, Any], value: Any, reason: str) -> None:
    with pytest.raises(ConversionError, match=reason):
        made("JsonConverter").to_bytes("topic", schema, value)


@pytest.mark.parametrize("data", [b"{", b"1", b'{"payload": 1}', b'{"schema": {"type": "int8"}, "payload": "x"}'])
def test_json_that_is_not_as_it_should_be(data: bytes) -> None:
    with pytest.raises(ConversionError, match="topic my-topic"):
        made("JsonConverter").from_bytes("my-topic", data)


def test_what_json_cannot_hold() -> None:
    with pytest.raises(ConversionError, match="JSON cannot hold a set"):
        made("JsonConverter", schemas_enable="false").to_bytes("topic", None, {"x": {1}})


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("StringConverter", "zwölf", "zwölf".encode()),
        ("ByteArrayConverter", b"\x00\xff", b"\x00\xff"),
        ("ShortConverter", -2, b"\xff\xfe"),
        ("IntegerConverter", 258, b"\x00\x00\x01\x02"),
        ("LongConverter", 1, b"\x00\x00\x00\x00\x00\x00\x00\x01"),
        ("FloatConverter", 0.5, b"\x3f\x00\x00\x00"),
        ("DoubleConverter", 0.5, b"\x3f\xe0\x00\x00\x00\x00\x00\x00"),
        ("BooleanConverter", True, b"\x01"),
    ],
)
def test_others_are_as_kafkas_serializers_write_them(name: str, value: Any, data: bytes) -> None:
    converter = made(name)
    assert converter.to_bytes("topic", None, value) == data
    assert converter.from_bytes("topic", data)[1] == value
    assert converter.to_bytes("topic", None, None) is None
    assert converter.from_bytes("topic", None)[1] is None


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("IntegerConverter", "x", b"\x00"),
        ("ByteArrayConverter", 1, None),
        ("BooleanConverter", 1, b"\x02"),
        ("StringConverter", None, b"\xff"),
    ],
)
def test_others_refuse_what_is_not_theirs(name: str, value: Any, data: bytes | None) -> None:
    if value is not None:
        with pytest.raises(ConversionError):
            made(name).to_bytes("topic", None, value)
    if data is not None:
        with pytest.raises(ConversionError):
            made(name).from_bytes("topic", data)


def test_a_connectors_converter_goes_before_its_workers() -> None:
    worker = {
        "key.converter": "StringConverter",
        "value.converter": "JsonConverter",
        "value.converter.schemas.enable": "false",
    }
    connector = {"value.converter": "LongConverter"}
    assert isinstance(
        converter_of(connector, worker, "value.converter"),
        CONVERTERS["org.apache.kafka.connect.converters.LongConverter"],
    )
    assert converter_of({}, worker, "value.converter").to_bytes("topic", None, {"a": 1}) == b'{"a":1}'
    with pytest.raises(PluginError, match="did you mean StringConverter"):
        converter_of({"key.converter": "StrngConverter"}, worker, "key.converter")


MONEY = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
PRICED = {"type": "struct", "fields": [{**MONEY, "field": "price"}, {"type": "double", "field": "weight"}]}


@pytest.mark.parametrize(
    ("unscaled", "as_number"),
    [
        (b"\x3d\x36", "156.70"),
        (b"\xff", "-0.01"),
        (b"\x00", "0.00"),
        ((10**30 + 1).to_bytes(13, "big"), "10000000000000000000000000000.01"),
    ],
)
def test_decimals_are_bytes_or_numbers(unscaled: bytes, as_number: str) -> None:
    value = {"price": unscaled, "weight": 0.1}
    in_base64 = made("JsonConverter").to_bytes("topic", PRICED, value)
    as_numbers = made("JsonConverter", decimal_format="numeric").to_bytes("topic", PRICED, value)
    assert in_base64 is not None
    assert as_numbers is not None
    assert as_numbers.endswith(f'"payload":{{"price":{as_number},"weight":0.1}}}}'.encode())
    for data in (in_base64, as_numbers):  # either is read, whatever is written
        assert made("JsonConverter").from_bytes("topic", data) == (PRICED, value)


def test_a_decimal_has_no_more_places_than_its_scale() -> None:
    data = json.dumps({"schema": MONEY, "payload": 0.001}).encode()
    with pytest.raises(ConversionError, match=r"0\.001 has more places than the scale 2"):
        made("JsonConverter").from_bytes("topic", data)


def test_a_schema_may_stand_in_the_configuration() -> None:
    converter = made("JsonConverter", schema_content=json.dumps(PRICED))
    assert converter.from_bytes("topic", b'{"price": 1.5, "weight": 2}') == (
        PRICED,
        {"price": b"\x00\x96", "weight": 2},
    )
    assert converter.from_bytes("topic", b'{"price": 0.29, "weight": 0.29}')[1] == {"price": b"\x1d", "weight": 0.29}
    with pytest.raises(ConversionError, match="field weight"):
        converter.from_bytes("topic", b'{"price": 1, "weight": "x"}')
    assert made("JsonConverter", schemas_enable="false", schema_content="{").from_bytes("topic", b"1") == (None, 1)
    for wrong in ("{", "1", "{}"):
        with pytest.raises(ConfigError, match=r"schema\.content"):
            made("JsonConverter", schema_content=wrong)


def test_null_is_replaced_by_the_default_or_stays() -> None:
    schema = {"type": "struct", "fields": [{"type": "int32", "field": "n", "default": 7, "optional": True}]}
    replacing, keeping = made("JsonConverter"), made("JsonConverter", replace_null_with_default="false")
    written = [converter.to_bytes("topic", schema, {"n": None}) for converter in (replacing, keeping)]
    assert [json.loads(data or b"")["payload"] for data in written] == [{"n": 7}, {"n": None}]
    assert [one.from_bytes("topic", written[1])[1] for one in (replacing, keeping)] == [{"n": 7}, {"n": None}]


def test_text_is_as_it_was_said_and_no_longer_than_it_must_be() -> None:
    """Not in Java's escapes, and without spaces."""
    for name in ("base64", "numeric"):
        converter = made("JsonConverter", schemas_enable="false", decimal_format=name)
        assert converter.to_bytes("topic", None, {"ä": ["ß", 1]}) == '{"ä":["ß",1]}'.encode()


def test_numbers_are_plain_where_no_schema_speaks_of_decimals() -> None:
    data = b'{"schema":{"type":"double"},"payload":0.5}'
    for converter in (made("JsonConverter"), made("JsonConverter", schemas_enable="false")):
        found = converter.from_bytes("topic", data)[1]
        assert type(found if isinstance(found, float) else found["payload"]) is float
