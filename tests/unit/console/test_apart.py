"""Expressions and schemas of strangers do their worst in a process that may be killed, and what is around goes on."""

import base64
import json
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from tests.unit.pipeline.values.descriptors import FIELD

from penstock.console.apart.decoding import decoder_of, encoder_of
from penstock.console.apart.expressions import Expression, ExpressionError, Looked
from penstock.console.apart.frames import Raw
from penstock.console.apart.schema import AVRO, JSON, PROTOBUF, KnownSchema, UnreadableError
from penstock.console.errors import ConsoleError
from penstock.console.reader import DIED, LARGEST, TOO_LARGE, ApartReader

CLICK = {
    "type": "record",
    "name": "Click",
    "fields": [{"name": "n", "type": "long"}, {"name": "who", "type": ["null", "string"]}],
}
NOTHINGS = {"type": "record", "name": "Bomb", "fields": [{"name": "all", "type": {"type": "array", "items": "null"}}]}


def looked(value: str | None) -> Looked:
    return Looked(topic="t", partition=1, offset=7, timestamp_ms=5, key="k", value=value, headers=[("h", "1")])


def raw(value: bytes | None, schema: int | None = None) -> Raw:
    return Raw("t", 0, 0, 0, b"k", value, [], (None, schema))


def schema(avro: Any, number: int = 7) -> KnownSchema:
    return KnownSchema(number, AVRO, json.dumps(avro).encode())


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ("value.n > `17`", True),
        ("value.n > `18`", False),
        ("value.n == `9007199254740993`", False),
        ("value.id == `9007199254740993`", True),
        ("value.id == `9007199254740992`", False),
        ("contains(value.tags, 'b') && key == 'k'", True),
        ("value.zero", True),
        ("value.nothing", False),
        ("value.is_not_there.deeper", False),
        ("headers.h == '1' && offset == `7`", True),
        ("starts_with(topic, 't')", True),
        ("`[]`", False),
        ("value.tags[?@ == 'z']", False),
    ],
)
def test_what_matches(expression: str, matches: bool) -> None:
    value = '{"n": 18, "id": 9007199254740993, "tags": ["a", "b"], "zero": 0, "nothing": ""}'
    assert Expression(expression).matches(looked(value)) == matches


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "value.",
        "value ==",
        "no_function(@)",
        "[" * 5_000,
        "(" * 3_000,
        "!" * 5_000 + "a",
        "\x00",
        "'",
        "length(`1`)",
    ],
)
def test_what_makes_no_sense_is_refused_in_words(expression: str) -> None:
    with pytest.raises(ExpressionError, match=r"\w"):
        Expression(expression).matches(looked("{}"))


@pytest.mark.parametrize(
    "deep", ["[" * 100_000, "[" * 100_000 + "]" * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000]
)
def test_json_that_is_nested_without_end_is_a_text(deep: str) -> None:
    assert Expression("type(value) == 'string'").matches(looked(deep))


def test_avro_comes_and_goes_with_its_head() -> None:
    click = schema(CLICK)
    data = encoder_of(click)('{"n": 9007199254740993, "who": "ada"}')
    assert data[:5] == b"\0\0\0\0\x07"
    assert json.loads(decoder_of(click)(data)) == {"n": 9007199254740993, "who": "ada"}
    for bad in (data + b"x", data[:6], b"\0\0\0\0\x07"):
        with pytest.raises(UnreadableError):
            decoder_of(click)(bad)
    for text in ("{", "[]", '{"n": "1"}', '{"who": "ada"}', "[" * 100_000):
        with pytest.raises(UnreadableError):
            encoder_of(click)(text)


def test_protobuf_comes_and_goes_with_its_message_and_what_it_refers_to() -> None:
    other = FileDescriptorProto(name="other.proto", package="p", syntax="proto3")
    other.message_type.add(name="Inner").field.add(name="id", number=1, type=FIELD.TYPE_INT64, label=1)
    file = FileDescriptorProto(name="x", package="p", syntax="proto3", dependency=["other.proto"])
    file.message_type.add(name="Outer").field.add(
        name="in_it", number=1, type=FIELD.TYPE_MESSAGE, label=1, type_name=".p.Inner"
    )
    texts = [base64.b64encode(one.SerializeToString()) for one in (file, other)]
    known = KnownSchema(3, PROTOBUF, texts[0], (("other.proto", texts[1]),))
    data = encoder_of(known)('{"in_it": {"id": "9007199254740993"}}')
    assert data[:6] == b"\0\0\0\0\x03\0"
    assert json.loads(decoder_of(known)(data)) == {"in_it": {"id": "9007199254740993"}}
    for bad in (b"\0\0\0\0\x03", b"\0\0\0\0\x03\x02\x08", data[:-1]):
        with pytest.raises(UnreadableError):
            decoder_of(known)(bad)
    with pytest.raises(UnreadableError):
        encoder_of(known)('{"nothing": 1}')


def test_the_same_map_is_the_same_bytes_in_whatever_order_it_is_written() -> None:
    file = FileDescriptorProto(name="x", package="p", syntax="proto3")
    outer = file.message_type.add(name="Outer")
    entry = outer.nested_type.add(name="AllEntry")
    entry.options.map_entry = True
    for number, (name, kind) in enumerate({"key": FIELD.TYPE_STRING, "value": FIELD.TYPE_INT32}.items(), 1):
        entry.field.add(name=name, number=number, type=kind, label=1)
    outer.field.add(name="all", number=1, type=FIELD.TYPE_MESSAGE, label=3, type_name=".p.Outer.AllEntry")
    encode = encoder_of(KnownSchema(3, PROTOBUF, base64.b64encode(file.SerializeToString())))
    rows = {str(number): number for number in range(60)}
    backwards = dict(reversed(rows.items()))
    assert encode(json.dumps({"all": rows})) == encode(json.dumps({"all": backwards}))


@pytest.mark.parametrize("text", [b"{", b'"nothing"', b"[" * 100_000, b'{"type": "record"}'])
def test_a_schema_that_is_none_is_told(text: bytes) -> None:
    for kind in (AVRO, "PROTOBUF"):
        with pytest.raises(UnreadableError):
            decoder_of(KnownSchema(1, kind, text))


def test_json_by_a_schema_is_checked_when_it_is_written() -> None:
    rules = b'{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}'
    encode = encoder_of(KnownSchema(258, JSON, rules))
    assert encode('{"n": 1}') == b'\0\0\0\x01\x02{"n": 1}'
    with pytest.raises(UnreadableError, match="required"):
        encode("{}")


async def test_a_process_looks_at_records_and_outlives_what_kills_it() -> None:
    """One process after the other: a bomb of memory, one of time, a record that is too large, and one that is well."""
    bomb = b"\0\0\0\0\x08" + b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f" + b"\0"
    async with ApartReader() as reader:
        reader.learn(schema(CLICK))
        reader.learn(schema(NOTHINGS, 8))
        (well,) = [one async for one in reader.make(schema(CLICK), ['{"n": 1, "who": null}'])]
        bad = reader.make(schema(CLICK), ['{"n": 1, "who": null}', '{"n": 1.5}', '{"n": 2, "who": null}'])
        assert await anext(bad) == well
        with pytest.raises(ConsoleError, match="no value of schema 7"):
            await anext(bad)
        records = [raw(well, 7), raw(bomb, 8), raw(b"x" * (LARGEST + 1)), raw(b"\0\0\0\0\x07", 7), raw(well, 7)]
        answers = await reader.look(records, 5)
        assert [one["matches"] for one in answers] == [True] * 5
        assert answers[0]["value"] == answers[4]["value"] == {"text": '{"n":', "size": 21, "cut": True}
        assert answers[1]["problem"] in (DIED, "it takes more memory than there is for one record")
        assert answers[2]["problem"] == TOO_LARGE
        assert answers[3]["problem"]
        assert answers[3]["value"] is None


async def test_an_expression_that_takes_too_much_is_given_up() -> None:
    doubled = "|".join(["[@, @][]"] * 60)  # 2^60 parts
    async with ApartReader(f"value.list | {doubled}") as reader:
        await reader.check()
        answers = await reader.look([raw(b'{"list": [1]}')], 100)
    assert not answers[0]["matches"]
    assert answers[0]["problem"]


async def test_an_expression_that_cannot_be_read_is_told_before_records_are() -> None:
    async with ApartReader("value.") as reader:
        with pytest.raises(ConsoleError, match="cannot be read"):
            await reader.check()
