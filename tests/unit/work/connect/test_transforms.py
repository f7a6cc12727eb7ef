from typing import Any

import pytest

from penstock.work.connect.api import Record, SinkRecord
from penstock.work.connect.chain import chain_of
from penstock.work.connect.config import ConfigError
from penstock.work.connect.fields import TransformError
from penstock.work.connect.plugins import PluginError
from penstock.work.connect.transforms import with_defaults

PACKAGE = "org.apache.kafka.connect.transforms"
MOMENT_MS = 1_700_000_000_123  # 2023-11-14 22:13:20.123 UTC


def record(value: Any, key: Any = None, **more: Any) -> Record:
    return Record("topic", None, key, value, timestamp_ms=MOMENT_MS, **more)


def applied(kind: str, subject: Record, **settings: str) -> Record | None:
    config = {"transforms": "t", "transforms.t.type": f"{PACKAGE}.{kind}"}
    config |= {f"transforms.t.{key.replace('_', '.')}": text for key, text in settings.items()}
    ((_, step),) = chain_of(config)
    return step(subject)


@pytest.mark.parametrize(
    ("kind", "settings", "before", "after"),
    [
        ("InsertField$Value", {"static_field": "from", "static_value": "here"}, {"a": 1}, {"a": 1, "from": "here"}),
        ("InsertField$Value", {"topic_field": "t!", "timestamp_field": "ts?"}, {}, {"t": "topic", "ts": MOMENT_MS}),
        ("InsertField$Value", {"topic_field": "t"}, None, None),
        (
            "ReplaceField$Value",
            {"exclude": "a,b", "renames": "c:d"},
            {"a": 1, "b": 2, "c": 3, "e": 4},
            {"d": 3, "e": 4},
        ),
        ("ReplaceField$Value", {"include": "a"}, {"a": 1, "b": 2}, {"a": 1}),
        (
            "MaskField$Value",
            {"fields": "a,b,c,gone"},
            {"a": 1, "b": "x", "c": None, "d": 2},
            {"a": 0, "b": "", "c": None, "d": 2},
        ),
        ("MaskField$Value", {"fields": "a,b", "replacement": "7"}, {"a": 1, "b": "x"}, {"a": 7, "b": "7"}),
        ("HoistField$Value", {"field": "line"}, "text", {"line": "text"}),
        ("ExtractField$Value", {"field": "a"}, {"a": [1], "b": 2}, [1]),
        ("ExtractField$Value", {"field": "a"}, None, None),
        ("Flatten$Value", {}, {"a": {"b": 1, "c": {"d": 2}}, "e": [3]}, {"a.b": 1, "a.c.d": 2, "e": [3]}),
        ("Flatten$Value", {"delimiter": "_"}, {"a": {"b": 1}}, {"a_b": 1}),
        (
            "Cast$Value",
            {"spec": "a:int32,b:string,c:boolean,d:float64"},
            {"a": "5", "b": True, "c": "TRUE", "d": 1, "e": None},
            {"a": 5, "b": "true", "c": True, "d": 1.0, "e": None},
        ),
        ("Cast$Value", {"spec": "string"}, 5, "5"),
        (
            "TimestampConverter$Value",
            {"field": "at", "target_type": "string", "format": "yyyy-MM-dd'T'HH:mm:ss.SSS"},
            {"at": MOMENT_MS},
            {"at": "2023-11-14T22:13:20.123"},
        ),
        (
            "TimestampConverter$Value",
            {"target_type": "unix", "format": "yyyy-MM-dd HH:mm:ss"},
            "2023-11-14 22:13:20",
            1_700_000_000_000,
        ),
        ("TimestampConverter$Value", {"field": "at", "target_type": "Date"}, {"at": MOMENT_MS}, {"at": 19_675}),
        ("TimestampConverter$Value", {"field": "at", "target_type": "Time"}, {"at": MOMENT_MS}, {"at": 80_000_123}),
        (
            "TimestampConverter$Value",
            {"target_type": "Timestamp", "unix_precision": "seconds"},
            1_700_000_000,
            1_700_000_000_000,
        ),
        ("TimestampConverter$Value", {"target_type": "string", "format": "yyyy"}, None, None),
        ("TimestampConverter$Value", {"target_type": "unix", "format": "yy-MM-dd"}, "01-01-01", 978_307_200_000),
        ("TimestampConverter$Value", {"target_type": "unix", "format": "yyyy"}, "2001", 978_307_200_000),
        ("TimestampConverter$Value", {"target_type": "unix", "format": "MM-dd"}, "01-02", 86_400_000),
    ],
)
def test_what_becomes_of_values(kind: str, settings: dict[str, str], before: Any, after: Any) -> None:
    changed = applied(kind, record(before, key="k"), **settings)
    assert changed == record(after, key="k")


def test_keys_are_changed_likewise() -> None:
    assert applied("ExtractField$Key", record("v", key={"id": 3}), field="id") == record("v", key=3)


def test_a_key_is_made_of_the_value() -> None:
    assert applied("ValueToKey", record({"a": 1, "b": 2}), fields="b") == record({"a": 1, "b": 2}, key={"b": 2})
    with pytest.raises(TransformError, match="no field c"):
        applied("ValueToKey", record({"a": 1}), fields="c")


def test_the_offset_of_a_sinks_record() -> None:
    changed = applied(
        "InsertField$Value", SinkRecord("topic", 3, None, {}, offset=9), offset_field="o", partition_field="p"
    )
    assert changed is not None
    assert changed.value == {"o": 9, "p": 3}


@pytest.mark.parametrize(
    ("topic", "regex", "replacement", "renamed"),
    [("a-b", "(.*)-(.*)", "$2.$1", "b.a"), ("ab", "a", "x", "ab"), ("db.x", r"db\.(.*)", "$1", "x")],
)
def test_topics_are_renamed_where_the_whole_name_matches(
    topic: str, regex: str, replacement: str, renamed: str
) -> None:
    changed = applied("RegexRouter", Record(topic), regex=regex, replacement=replacement)
    assert changed == Record(renamed)


def test_topics_are_named_after_the_time() -> None:
    changed = applied("TimestampRouter", record(1), timestamp_format="yyyyMM")
    assert changed is not None
    assert changed.topic == "topic-202311"


def test_headers() -> None:
    subject = record({"a": 1, "b": 2}, headers=(("old", "x"),))
    assert applied("InsertHeader", subject, header="h", value_literal="v") == subject.replace(
        headers=(("old", "x"), ("h", "v"))
    )
    assert applied("DropHeaders", subject, headers="old") == subject.replace(headers=())
    moved = applied("HeaderFrom$Value", subject, fields="a", headers="A", operation="move")
    assert moved == record({"b": 2}, headers=(("old", "x"), ("A", 1)))
    copied = applied("HeaderFrom$Value", subject, fields="a", headers="A", operation="copy")
    assert copied == subject.replace(headers=(("old", "x"), ("A", 1)))


def test_schemas_follow() -> None:
    fields = [{"type": "int32", "optional": False, "field": "a"}, {"type": "string", "optional": True, "field": "b"}]
    subject = record({"a": 1, "b": "x"}, value_schema={"type": "struct", "fields": fields})
    changed = applied("ReplaceField$Value", subject, exclude="b")
    assert changed is not None
    assert changed.value_schema is not None
    assert changed.value_schema["fields"] == fields[:1]
    keyed = applied("ValueToKey", subject, fields="a")
    assert keyed is not None
    assert keyed.key_schema == {"type": "struct", "fields": fields[:1], "optional": False}
    cast = applied("Cast$Value", subject, spec="a:string")
    assert cast is not None
    assert cast.value_schema is not None
    assert cast.value_schema["fields"][0] == {"type": "string", "optional": True, "field": "a"}


@pytest.mark.parametrize(
    ("predicate", "settings", "subject", "is_dropped"),
    [
        ("RecordIsTombstone", {}, record(None), True),
        ("RecordIsTombstone", {}, record(1), False),
        ("TopicNameMatches", {"pattern": "to.*"}, record(1), True),
        ("TopicNameMatches", {"pattern": "to"}, record(1), False),
        ("HasHeaderKey", {"name": "h"}, record(1, headers=(("h", "x"),)), True),
        ("HasHeaderKey", {"name": "g"}, record(1, headers=(("h", "x"),)), False),
    ],
)
@pytest.mark.parametrize("negate", [False, True])
def test_predicates(predicate: str, settings: dict[str, str], subject: Record, is_dropped: bool, negate: bool) -> None:
    config = {
        "transforms": "drop",
        "transforms.drop.type": f"{PACKAGE}.Filter",
        "transforms.drop.predicate": "p",
        "transforms.drop.negate": str(negate).lower(),
        "predicates": "p",
        "predicates.p.type": f"{PACKAGE}.predicates.{predicate}",
    } | {f"predicates.p.{key}": text for key, text in settings.items()}
    ((_, step),) = chain_of(config)
    assert (step(subject) is None) == (is_dropped != negate)


@pytest.mark.parametrize(
    ("kind", "settings", "value"),
    [
        ("ExtractField$Value", {"field": "a"}, {"b": 1}),
        ("ReplaceField$Value", {"exclude": "a"}, "text"),
        ("Cast$Value", {"spec": "a:int8"}, {"a": "x"}),
        ("TimestampConverter$Value", {"target_type": "unix"}, "2023"),
    ],
)
def test_records_that_cannot_be_worked_on(kind: str, settings: dict[str, str], value: Any) -> None:
    with pytest.raises(TransformError):
        applied(kind, record(value), **settings)


@pytest.mark.parametrize(
    ("config", "error", "reason"),
    [
        ({"transforms": "t"}, ConfigError, "transforms.t.type is missing"),
        ({"transforms": "t", "transforms.t.type": f"{PACKAGE}.Nope"}, PluginError, "there is no transform"),
        (
            {"transforms": "t", "transforms.t.type": f"{PACKAGE}.Cast$Value", "transforms.t.spec": "a:int3"},
            ConfigError,
            "int3",
        ),
        (
            {
                "transforms": "t",
                "transforms.t.type": f"{PACKAGE}.RegexRouter",
                "transforms.t.regex": "(",
                "transforms.t.replacement": "",
            },
            ConfigError,
            "regex=(",
        ),
        (
            {"transforms": "t", "transforms.t.type": f"{PACKAGE}.Filter", "transforms.t.predicate": "p"},
            ConfigError,
            "does not name it",
        ),
        ({"predicates": "p"}, ConfigError, "predicates.p.type is missing"),
        (
            {
                "transforms": "t",
                "transforms.t.type": f"{PACKAGE}.HeaderFrom$Key",
                "transforms.t.fields": "a,b",
                "transforms.t.headers": "c",
                "transforms.t.operation": "copy",
            },
            ConfigError,
            "as many headers as fields",
        ),
    ],
)
def test_configurations_that_are_wrong(config: dict[str, str], error: type[Exception], reason: str) -> None:
    with pytest.raises(error) as raised:
        chain_of(config)
    assert reason in str(raised.value)


def test_a_schema_gets_a_name_and_a_version() -> None:
    schema = {
        "type": "struct",
        "fields": [{"type": "int32", "field": "a", "optional": True, "default": 7}],
        "name": "x",
    }
    subject = record({"a": None}, value_schema=schema)
    named = applied("SetSchemaMetadata$Value", subject, schema_name="row", schema_version="2")
    assert named == subject.replace(value={"a": 7}, value_schema={**schema, "name": "row", "version": 2})
    kept = applied("SetSchemaMetadata$Value", subject, schema_version="2", replace_null_with_default="false")
    assert kept == subject.replace(value_schema={**schema, "version": 2})
    assert applied("SetSchemaMetadata$Key", subject, schema_name="row") == subject
    with pytest.raises(TransformError, match="needs a value with a schema"):
        applied("SetSchemaMetadata$Value", record(1), schema_name="row")
    with pytest.raises(ConfigError, match=r"needs schema\.name or"):
        applied("SetSchemaMetadata$Value", subject)


NESTED = {"a": {"b": "5", "c": {"d": "x"}}, "e": 1}


@pytest.mark.parametrize(
    ("kind", "settings", "after"),
    [
        ("ExtractField$Value", {"field": "a.c.d"}, "x"),
        ("Cast$Value", {"spec": "a.b:int32,e:string"}, {"a": {"b": 5, "c": {"d": "x"}}, "e": "1"}),
        ("MaskField$Value", {"fields": "a.c.d,a.gone"}, {"a": {"b": "5", "c": {"d": ""}}, "e": 1}),
        (
            "TimestampConverter$Value",
            {"field": "a.b", "target_type": "unix", "format": "ss"},
            {"a": {"b": 5000, "c": {"d": "x"}}, "e": 1},
        ),
    ],
)
def test_fields_within_fields(kind: str, settings: dict[str, str], after: Any) -> None:
    changed = applied(kind, record(NESTED), field_syntax_version="v2", **settings)
    assert changed is not None
    assert changed.value == after


def test_a_key_of_fields_within_fields() -> None:
    fields = [{"type": "struct", "field": "a", "fields": [{"type": "int32", "field": "b"}]}]
    subject = record({"a": {"b": 5}}, value_schema={"type": "struct", "fields": fields})
    keyed = applied("ValueToKey", subject, fields="a.b", field_syntax_version="V2")
    assert keyed is not None
    assert keyed.key == {"a.b": 5}
    assert keyed.key_schema == {"type": "struct", "fields": [{"type": "int32", "field": "a.b"}], "optional": False}
    with pytest.raises(TransformError, match=r"no field a\.gone"):
        applied("ValueToKey", subject, fields="a.gone", field_syntax_version="V2")
    with pytest.raises(ConfigError, match="no backtick ends"):
        applied("ValueToKey", subject, fields="a.`b", field_syntax_version="V2")


def test_schemas_within_schemas_stay() -> None:
    inner = {"type": "struct", "field": "a", "name": "inner", "fields": [{"type": "int16", "field": "b"}]}
    schema = {"type": "struct", "name": "row", "fields": [inner, {"type": "float", "field": "f"}]}
    subject = record({"a": {"b": 5}, "f": None}, value_schema=schema)
    masked = applied("MaskField$Value", subject, fields="a.b", field_syntax_version="V2")
    assert masked == subject.replace(value={"a": {"b": 0}, "f": None})


def test_what_is_null_gets_its_default() -> None:
    schema = {
        "type": "struct",
        "fields": [{"type": "int32", "field": "a", "default": 7}, {"type": "int32", "field": "b"}],
    }
    subject = record({"a": None, "b": 1}, value_schema=schema)
    assert applied("ExtractField$Value", subject, field="a") == subject.replace(
        value=7, value_schema={"type": "int32", "default": 7}
    )
    kept = applied("ExtractField$Value", subject, field="a", replace_null_with_default="false")
    assert kept is not None
    assert kept.value is None


def test_a_default_stands_for_what_is_null_and_for_nothing_else() -> None:
    fields = [{"field": name, "type": "int32", "default": 7} for name in ("a", "b", "c")] + [{"field": "d"}]
    assert with_defaults({"a": 1, "b": None, "d": None}, {"fields": fields}) == {"a": 1, "b": 7, "d": None}
    assert with_defaults({"a": None}, None) == {"a": None}


def test_a_field_that_comes_has_the_schema_of_its_value() -> None:
    schema = {"type": "struct", "name": "row", "fields": [{"type": "int8", "field": "a"}]}
    subject = record({"a": None}, value_schema=schema)
    changed = applied("InsertField$Value", subject, static_field="f", static_value="x", topic_field="t")
    assert changed is not None
    text = {"type": "string", "optional": True}
    fields = [{"type": "int8", "field": "a"}, {**text, "field": "t"}, {**text, "field": "f"}]
    assert changed.value_schema == {**schema, "fields": fields}
    offset = applied("InsertField$Value", subject, offset_field="o")
    assert offset is not None
    assert offset.value == {"a": None, "o": None}, "a source's record has none"
    assert offset.value_schema == {**schema, "fields": [*fields[:1], {**text, "field": "o"}]}


@pytest.mark.parametrize(
    ("known", "value", "kept"),
    [
        ("int8", 1, True), ("int16", 1, True), ("int32", 1, True), ("int64", 1, True), ("float", 0.5, True),
        ("double", 0.5, True), ("string", "x", True), ("boolean", True, True), ("map", {"a": 1}, True),
        ("int8", None, True), ("int8", 0.5, False), ("float", 1, False), ("string", 1, False), ("boolean", 1, False),
        ("string", True, False), ("struct", 1, False), ("array", {"a": 1}, False),
    ],
)  # fmt: skip
def test_a_schema_stays_as_long_as_the_value_is_of_its_kind(known: str, value: Any, kept: bool) -> None:
    schema = {"type": known, "name": "kept", "field": "a"}
    subject = record({"a": value, "b": 1}, value_schema={"type": "struct", "fields": [schema]})
    changed = applied("ReplaceField$Value", subject, exclude="b")
    assert changed is not None
    assert changed.value_schema is not None
    assert (changed.value_schema["fields"] == [schema]) is kept
    assert changed.value_schema["fields"][0]["field"] == "a"


def test_a_whole_that_becomes_null_keeps_its_schema_or_has_none() -> None:
    schema = {"type": "int64", "name": "kept"}
    settings = {"target_type": "string", "format": "yyyy"}
    assert applied("TimestampConverter$Value", record(None, value_schema=schema), **settings) == record(None)
    assert applied("TimestampConverter$Value", record(None), **settings) == record(None)


def test_a_key_of_what_no_schema_says() -> None:
    subject = record({"a": None, "b": 1, "c": 2}, value_schema={"type": "struct", "fields": [{"field": "c", "x": 1}]})
    keyed = applied("ValueToKey", subject, fields="a,b,c")
    assert keyed is not None
    assert keyed.key == {"a": None, "b": 1, "c": 2}
    fields = [{"field": "a"}, {"type": "int64", "optional": True, "field": "b"}, {"x": 1, "field": "c"}]
    assert keyed.key_schema == {"type": "struct", "fields": fields, "optional": False}
    plain = applied("ValueToKey", record({"a": 1}), fields="a")
    assert plain is not None
    assert plain.key_schema is None


def test_no_time_to_name_a_topic_after() -> None:
    with pytest.raises(TransformError, match=r"^TimestampRouter: the record has no timestamp$"):
        applied("TimestampRouter", Record("topic"))
    begun = applied(
        "TimestampRouter", Record("topic", timestamp_ms=0), timestamp_format="yyyy", topic_format="${timestamp}"
    )
    assert begun == Record("1970", timestamp_ms=0)
