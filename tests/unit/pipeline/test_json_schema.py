import json
from pathlib import Path

import pytest

from penstock.pipeline.json_schema import SchemaError, ddl_of

SCHEMA = {
    "type": "object",
    "definitions": {"place": {"type": "object", "properties": {"city": {"type": "string"}}}},
    "properties": {
        "id": {"type": "integer"},
        "price": {"type": ["number", "null"]},
        "either": {"type": ["integer", "number"]},
        "anything": {"type": ["integer", "string"]},
        "on": {"type": "string", "format": "date"},
        "at": {"anyOf": [{"type": "null"}, {"type": "string", "format": "date-time"}]},
        "home": {"$ref": "#/definitions/place"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "odd `name`": {"enum": ["a", "b"]},
    },
}
DDL = (
    "`id` BIGINT, `price` DOUBLE, `either` DOUBLE, `anything` STRING, `on` DATE, `at` TIMESTAMP, "
    "`home` STRUCT<`city`: STRING>, `tags` ARRAY<STRING>, `counts` MAP<STRING, BIGINT>, `odd ``name``` STRING"
)


def test_a_schema_says_which_columns_there_are(tmp_path: Path) -> None:
    assert ddl_of(json.dumps(SCHEMA)) == DDL
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    assert ddl_of(str(tmp_path / "schema.json")) == DDL


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nowhere.json", "cannot be read"),
        ("{", "no JSON"),
        ('{"type": "string"}', "an object with properties"),
        ('{"properties": {"a": {"type": "any"}}}', "no type 'any'"),
        ('{"properties": {"a": {"$ref": "#/b"}}}', "no #/b in it"),
        ('{"properties": {"a": {"$ref": "#"}}}', "part of itself"),
        ('{"properties": {"a": true}}', "a schema is an object"),
    ],
)
def test_what_no_column_can_be(text: str, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        ddl_of(text)
