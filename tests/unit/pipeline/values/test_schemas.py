"""From options to a schema that is settled: what is asked of a registry, and what is said where there is none."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.pipeline.errors import PipelineError, UnfitSchemaError
from penstock.pipeline.values.kinds import AVRO, JSON_SCHEMA, PROTOBUF, TypedValues
from penstock.pipeline.values.schemas import (
    columns_of,
    fitting,
    latest_id,
    reader_of,
    registered,
    required_by,
    settled,
    typed_values,
    writer_of,
)
from penstock.work.connect.api import RetriableError
from penstock.work.connect.registry import Registry, RegistryError

FIELDS = [{"name": "a", "type": "string"}, {"name": "b", "type": ["null", "long"], "default": None}]
RECORD = json.dumps({"type": "record", "name": "r", "fields": FIELDS})
JSON = json.dumps({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]})
URL = {"schema.registry.url": " http://a , ,http://b", "basic.auth.user.info": "u:p"}


class Asked:
    """A registry of one schema, of which the answers are those of a test."""

    def __init__(self, kind: str = "AVRO", schema: str = RECORD, fits: bool | Exception = True) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self._answer, self._fits = {"schema": schema, "schemaType": kind, "id": 7}, fits

    def version(self, subject: str, version: str = "latest", form: str = "") -> Mapping[str, Any]:
        self.asked.append(("version", subject, version, form))
        if isinstance(self._fits, Exception):
            raise self._fits
        return self._answer

    def schema(self, number: int, form: str = "") -> Mapping[str, Any]:
        self.asked.append(("schema", number, form))
        return self._answer

    def fits(self, subject: str, document: Mapping[str, Any]) -> bool:
        self.asked.append(("fits", subject, document))
        if isinstance(self._fits, Exception):
            raise self._fits
        return self._fits

    def id_of(self, subject: str, document: Mapping[str, Any], *, registers: bool) -> int:
        self.asked.append(("id_of", subject, document, registers))
        if isinstance(self._fits, Exception):
            raise self._fits
        return 42


def typed(kind: str = AVRO, registry: Asked | None = None, **more: Any) -> TypedValues:
    return TypedValues(kind, more.pop("schema", None), registry=cast("Any", registry), subject="t-value", **more)


AT_BOTH = Registry(("http://a", "http://b"), "u:p")
OPTIONS: list[tuple[str, dict[str, str], str, tuple[str, Registry | None], dict[str, str]]] = [
    (AVRO, {"avro": RECORD, "subscribe": "t"}, "value", ("t-value", None), {"subscribe": "t"}),
    (AVRO, {"key_avro": '  {"type": "string"}', "topic": "t"}, "key", ("t-key", None), {"topic": "t"}),
    (AVRO, {"avro": "latest", "topic": "t"} | URL, "value", ("t-value", AT_BOTH), {"topic": "t"} | URL),
    (
        AVRO,
        {"avro": "latest", "subject": "s", "key_subject": "k"} | URL,
        "value",
        ("s", AT_BOTH),
        {"key_subject": "k"} | URL,
    ),
    (
        JSON_SCHEMA,
        {"key_json_schema": JSON, "key_subject": "k", "subject": "s", "message": "m"},
        "key",
        ("k", None),
        {"subject": "s", "message": "m"},
    ),
    (
        JSON_SCHEMA,
        {"json_schema": JSON, "schema.registry.url": " , "},
        "value",
        ("-value", None),
        {"schema.registry.url": " , "},
    ),
]


@pytest.mark.parametrize(("kind", "options", "part", "expected", "left"), OPTIONS)
def test_options_are_taken_out(
    kind: str, options: dict[str, str], part: str, expected: tuple[str, Registry | None], left: dict[str, str]
) -> None:
    options = dict(options)
    given = options["avro" if "avro" in options else next(name for name in options if name.endswith(kind))]
    found = typed_values(kind, options, part)
    schema = None if given == "latest" else given.encode()
    assert found == TypedValues(kind, schema, registry=expected[1], subject=expected[0])
    assert found.is_latest is (schema is None)
    assert options == left


@pytest.mark.parametrize(
    ("options", "part", "words"),
    [
        ({"avro": "latest", "topic": "t"}, "value", "the latest schema is in a registry: give schema.registry.url."),
        ({"avro": "latest"} | URL, "value", "of several topics there is no latest schema: give the subject."),
        (
            {"avro": "latest", "subscribe": "a,b"} | URL,
            "value",
            "of several topics there is no latest schema: give the s",
        ),
        ({"key_avro": "latest"} | URL, "key", "of several topics there is no latest schema: give the key_subject."),
        ({"avro": '{"type": "string"}'}, "value", "it must be of a record with fields, and is "),
        ({"avro": "nowhere.avsc"}, "value", "nowhere.avsc cannot be read: No such file or directory."),
    ],
)
def test_options_that_say_no_schema(options: dict[str, str], part: str, words: str) -> None:
    with pytest.raises(UnfitSchemaError) as raised:
        typed_values(AVRO, dict(options), part)
    assert str(raised.value).startswith(words)


def test_a_schema_may_lie_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "{name}.avsc"
    file.write_text(RECORD)
    for kind, content in ((AVRO, RECORD), (JSON_SCHEMA, JSON)):
        file.write_text(content)
        assert typed_values(kind, {kind: str(file)}).schema == content.encode()
    with pytest.raises(UnfitSchemaError, match="cannot be read: No such file"):
        typed_values(PROTOBUF, {PROTOBUF: '{"a": 1}'})


@pytest.mark.parametrize("kind", [AVRO, JSON_SCHEMA])
def test_a_schema_is_settled_once(kind: str) -> None:
    registry = Asked(*(("AVRO", RECORD) if kind == AVRO else ("JSON", JSON)))
    latest = settled(typed(kind, registry))
    assert (latest.number, latest.is_latest, latest.references) == (7, False, ())
    assert json.loads(latest.schema or b"") == json.loads(RECORD if kind == AVRO else JSON)
    assert registry.asked == [("version", "t-value", "latest", "")]
    by_id = settled(typed(kind, registry, number=5))
    assert (by_id.schema, by_id.number) == (latest.schema, 5)
    assert registry.asked[1:] == [("schema", 5, "")]
    assert settled(latest) is latest
    assert len(registry.asked) == 2


def test_protobuf_is_asked_for_as_descriptors() -> None:
    registry = Asked(fits=RegistryError(404, "gone"))
    with pytest.raises(PipelineError, match=r"^t-value: gone$"):
        settled(typed(PROTOBUF, registry))
    assert registry.asked == [("version", "t-value", "latest", "serialized")]


def test_the_id_of_the_latest() -> None:
    assert latest_id(typed(registry=Asked())) == 7
    for error in (RegistryError(404, "gone"), RetriableError("not now")):
        with pytest.raises(PipelineError, match=f"^t-value: {error}$"):
            latest_id(typed(registry=Asked(fits=error)))


@pytest.mark.parametrize(
    ("kind", "schema", "named"), [(AVRO, RECORD, "AVRO"), (JSON_SCHEMA, JSON, "JSON")], ids=["avro", "json"]
)
def test_whether_a_schema_fits_is_asked_without_registering(kind: str, schema: str, named: str) -> None:
    document = {"schemaType": named, "schema": schema}
    registry = Asked()
    mine = typed(kind, registry, schema=schema.encode())
    assert fitting(mine) is mine
    assert registered(mine) == mine.replace(number=42)
    assert registry.asked == [("fits", "t-value", document), ("id_of", "t-value", document, True)]
    words = r"^The schema of t-value cannot be registered: it is incompatible with the latest one\.$"
    with pytest.raises(PipelineError, match=words):
        fitting(typed(kind, Asked(fits=False), schema=schema.encode()))
    for error in (RegistryError(409, "no"), RetriableError("not now")):
        refusing = typed(kind, Asked(fits=error), schema=schema.encode())
        with pytest.raises(PipelineError, match=f"^t-value: {error}$"):
            fitting(refusing)
        with pytest.raises(PipelineError, match=f"^The schema of t-value cannot be registered: {error}$"):
            registered(refusing)


def test_nothing_is_asked_where_it_is_not_known_whether_it_fits() -> None:
    registry = Asked()
    alone, latest = typed(schema=RECORD.encode()), typed(registry=registry)
    assert fitting(alone) is alone
    assert fitting(latest).number == 7
    assert registry.asked == [("version", "t-value", "latest", "")]
    protobuf = typed(PROTOBUF, registry, schema=b"\x0a\x00")
    assert fitting(protobuf) is protobuf
    assert len(registry.asked) == 1


@pytest.mark.parametrize(("kind", "schema"), [(AVRO, RECORD), (JSON_SCHEMA, JSON)])
@pytest.mark.parametrize("number", [None, 258])
def test_what_is_written_is_read(kind: str, schema: str, number: int | None) -> None:
    mine = typed(kind, schema=schema.encode(), number=number)
    assert required_by(mine) == {"a"}
    assert columns_of(mine).split()[0].strip("`") == "a"
    data = writer_of(mine)({"a": "x", "b": 5} if kind == AVRO else '{"a": "x"}')
    head = b"" if number is None else b"\0\0\0\x01\x02"
    assert data[: len(head)] == head
    read = reader_of(mine)(data[len(head) :])
    assert (read["a"] if isinstance(read, dict) else json.loads(read)["a"]) == "x"
