import json
from pathlib import Path
from typing import Any

import pytest

from penstock.pipeline.errors import UnfitSchemaError
from penstock.pipeline.values.json_schema import DEEPEST, JsonReader, JsonSchema
from penstock.pipeline.values.schemas import columns_of, reader_of, typed_values
from penstock.work.connect.converters import ConversionError

SCHEMA = {
    "type": "object",
    "definitions": {"place": {"type": "object", "properties": {"city": {"type": "string"}}}},
    "properties": {
        "id": {"type": "integer"},
        "price": {"type": ["number", "null"]},
        "either": {"type": ["integer", "number"]},
        "anything": {"type": ["integer", "string"]},
        "whatever": True,
        "on": {"type": "string", "format": "date"},
        "at": {"anyOf": [{"type": "null"}, {"type": "string", "format": "date-time"}]},
        "home": {"$ref": "#/definitions/place"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "odd `name`": {"enum": ["a", "b"]},
    },
}
DDL = (
    "`id` BIGINT, `price` DOUBLE, `either` DOUBLE, `anything` STRING, `whatever` STRING, `on` DATE, `at` TIMESTAMP, "
    "`home` STRUCT<`city`: STRING>, `tags` ARRAY<STRING>, `counts` MAP<STRING, BIGINT>, `odd ``name``` STRING"
)
ORDER = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "required": ["order", "lines"],
    "additionalProperties": False,
    "properties": {
        "order": {"type": "integer", "minimum": 1},
        "customer": {"type": "string", "pattern": "^C[0-9]+$"},
        "state": {"enum": ["OPEN", "PAID"]},
        "on": {"type": "string", "format": "date"},
        "lines": {"type": "array", "minItems": 1, "items": {"$ref": "#/definitions/line"}},
    },
    "definitions": {"line": {"type": "object", "required": ["article"], "properties": {"article": {"type": "string"}}}},
}
GOOD = {"order": 1, "customer": "C7", "state": "PAID", "on": "2026-01-02", "lines": [{"article": "a"}]}


def read(schema: dict[str, Any], value: object) -> Any:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return reader_of(typed_values("json_schema", {"json_schema": json.dumps(schema)}))(data)


def test_a_schema_says_which_columns_there_are(tmp_path: Path) -> None:
    assert columns_of(typed_values("json_schema", {"json_schema": json.dumps(SCHEMA)})) == DDL
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    assert columns_of(typed_values("json_schema", {"json_schema": str(tmp_path / "schema.json")})) == DDL


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"order": 0}, "$.order: 0 is less than the minimum of 1 (minimum)"),
        ({"customer": "7"}, '$.customer: "7" does not match "^C[0-9]+$" (pattern)'),
        ({"state": "LOST"}, '$.state: "LOST" is not one of "OPEN" or "PAID" (enum)'),
        ({"on": "2026-02-30"}, '$.on: "2026-02-30" is not a "date" (format)'),
        ({"lines": []}, "$.lines: [] has less than 1 item (minItems)"),
        ({"lines": [{"article": "a"}, {}]}, '$.lines[1]: "article" is a required property (required)'),
        ({"more": 1}, "$: Additional properties are not allowed ('more' was unexpected) (additionalProperties)"),
    ],
)
def test_a_value_that_breaks_a_rule_is_none_and_the_rule_is_named(change: dict[str, Any], reason: str) -> None:
    assert read(ORDER, GOOD) == GOOD
    with pytest.raises(ConversionError) as broken:
        read(ORDER, GOOD | change)
    assert str(broken.value) == reason


def test_formats_are_rules_in_each_draft() -> None:
    for draft in ("http://json-schema.org/draft-04/schema#", "https://json-schema.org/draft/2020-12/schema"):
        schema = {"$schema": draft, "properties": {"at": {"type": "string", "format": "date-time"}}}
        assert read(schema, {"at": "2026-01-02T03:04:05Z"})
        with pytest.raises(ConversionError, match=r"\$\.at: .*\(format\)"):
            read(schema, {"at": "2026-01-02T03:04:05"})


def test_of_many_broken_rules_some_are_named_and_the_others_counted() -> None:
    with pytest.raises(ConversionError) as broken:
        read(ORDER, {"order": 0, "customer": "7" * 1000, "state": 1, "lines": [{}, {}]})
    assert str(broken.value).count("; ") == 3
    assert str(broken.value).endswith("; and 2 more")
    assert len(str(broken.value)) < 600


@pytest.mark.parametrize("value", [b"{broken", b"", b"\xff{}", b'{"order": NaN, "lines": []}', b"[" * 100_000])
def test_what_is_no_json_is_told(value: bytes) -> None:
    with pytest.raises(ConversionError, match="it is no JSON"):
        read(ORDER, value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nowhere.json", "cannot be read"),
        ("{", "no JSON"),
        ('{"type": "string"}', "an object with properties"),
        ('{"properties": {"a": {"type": "any"}}}', r'\$\.properties\.a\.type: "any" is not valid'),
        ('{"properties": {"a": {"minimum": "x"}}}', r'\$\.properties\.a\.minimum: "x" is not of type "number"'),
        ('{"properties": {"a": {"pattern": "("}}}', r'\$\.properties\.a\.pattern: "\(" is not a "regex"'),
        ('{"properties": {"a": {"$ref": "#/b"}}}', "'/b' does not exist"),
        ('{"properties": {"a": {"$ref": "b.json"}}}', "'b.json' is not present"),
        ('{"properties": {"a": {"$ref": "#"}}}', "part of itself"),
        ('{"properties": {"a": 1}}', r"\$\.properties\.a: "),
        (
            '{"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"type": "array", "items": '
            '[{"type": "string"}]}}}',
            r"\$\.properties\.a\.items: items of a type each",
        ),
    ],
)
def test_a_schema_that_is_wrong_is_told_with_its_place(text: str, reason: str) -> None:
    with pytest.raises(UnfitSchemaError, match=reason):
        typed_values("json_schema", {"json_schema": text})


@pytest.mark.parametrize("at", ["", "http://shop.example/order.json"])
def test_a_schema_refers_to_others_by_their_names(at: str) -> None:
    order = {"properties": {"to": {"$ref": "place.json"}, "via": {"$ref": "place.json#/definitions/city"}}}
    place = {"properties": {"city": {"$ref": "#/definitions/city"}}, "definitions": {"city": {"minLength": 2}}}
    schema = JsonSchema(
        json.dumps(order | ({"$id": at} if at else {})).encode(), [("place.json", json.dumps(place).encode())]
    )
    assert schema.columns() == "`to` STRUCT<`city`: STRING>, `via` STRING"
    reader = JsonReader(schema, None)
    assert reader(b'{"to": {"city": "Rome"}}') == {"to": {"city": "Rome"}}
    with pytest.raises(ConversionError, match=r"\$\.to\.city: .*minLength.*; \$\.via: .*minLength"):
        reader(b'{"to": {"city": "R"}, "via": "P"}')


@pytest.mark.parametrize(("count", "fits"), [(DEEPEST, True), (DEEPEST + 1, False)])
def test_references_lead_on_so_far(count: int, fits: bool) -> None:
    whole = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    steps: dict[str, object] = {f"s{number}": {"$ref": f"#/$defs/s{number + 1}"} for number in range(1, count)}
    schema = JsonSchema(json.dumps({"$ref": "#/$defs/s1", "$defs": {**steps, f"s{count}": whole}}).encode(), ())
    if fits:
        assert (schema.required(), schema.columns().split()[0].strip("`")) == ({"a"}, "a")
        return
    for read in (schema.required, schema.columns):
        with pytest.raises(UnfitSchemaError, match=f"it is more than {DEEPEST} levels deep, or part of itself"):
            read()
