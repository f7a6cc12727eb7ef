"""JSON Schema as Spark's DDL: which columns values have, and of which types.

`type`, `properties`, `additionalProperties`, `items`, `format` (date, date-time), `$ref` within the document, and
`anyOf` with null are understood. All columns may be null, and what limits values is not looked at.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SIMPLE = {"integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN", "string": "STRING", "null": "STRING"}
FORMATS = {"date": "DATE", "date-time": "TIMESTAMP"}
DEEPEST = 32


class SchemaError(ValueError):
    """It cannot be read, or says what no column can be."""


def ddl_of(given: str) -> str:
    """The fields of an object by its schema, which is JSON or the name of a file; SchemaError."""
    text = given
    if not given.lstrip().startswith("{"):
        try:
            text = Path(given).read_text(encoding="utf-8")
        except OSError as error:
            raise SchemaError(f"{given} cannot be read: {error.strerror}.") from None
    try:
        document = json.loads(text)
    except ValueError as error:
        raise SchemaError(f"it is no JSON: {error}.") from None
    schema = _resolved(document, document, 0) if isinstance(document, dict) else {}
    if not isinstance(schema.get("properties"), dict) or not schema["properties"]:
        raise SchemaError("it must be of an object with properties.")
    return _fields(schema, document, " ", 0)


def _fields(schema: Mapping[str, Any], document: Mapping[str, Any], between: str, depth: int) -> str:
    return ", ".join(
        f"`{name.replace('`', '``')}`{between}{_type(one, document, depth + 1)}"
        for name, one in schema["properties"].items()
    )


def _type(given: Any, document: Mapping[str, Any], depth: int) -> str:
    schema = _resolved(given, document, depth)
    kind = _kind(schema)
    if kind == "object":
        if isinstance(schema.get("properties"), dict) and schema["properties"]:
            return f"STRUCT<{_fields(schema, document, ': ', depth)}>"
        values = schema.get("additionalProperties")
        return f"MAP<STRING, {_type(values, document, depth + 1) if isinstance(values, dict) else 'STRING'}>"
    if kind == "array":
        return f"ARRAY<{_type(schema.get('items', {'type': 'string'}), document, depth + 1)}>"
    if kind not in SIMPLE:
        raise SchemaError(f"there is no type {kind!r}.")
    return FORMATS.get(schema.get("format", ""), SIMPLE[kind]) if kind == "string" else SIMPLE[kind]


def _kind(schema: Mapping[str, Any]) -> str:
    """Its type; what may be of several types is text, but integer beside number is number."""
    declared = schema.get("type", "object" if "properties" in schema else "string")
    kinds = [kind for kind in (declared if isinstance(declared, list) else [declared]) if kind != "null"]
    if set(kinds) == {"integer", "number"}:
        return "number"
    return str(kinds[0]) if len(kinds) == 1 else "string"


def _resolved(given: Any, document: Mapping[str, Any], depth: int) -> Mapping[str, Any]:
    """What a `$ref` is about, and the one choice beside null of `anyOf` and `oneOf`."""
    if depth > DEEPEST:
        raise SchemaError(f"it is more than {DEEPEST} levels deep, or part of itself.")
    if not isinstance(given, Mapping):
        raise SchemaError(f"a schema is an object, and not {given!r}.")
    if "$ref" in given:
        found: Any = document
        for part in filter(None, str(given["$ref"]).removeprefix("#").split("/")):
            if not isinstance(found, Mapping) or part not in found:
                raise SchemaError(f"there is no {given['$ref']} in it.")
            found = found[part]
        return _resolved(found, document, depth + 1)
    choices = [one for one in given.get("anyOf", given.get("oneOf", [])) if one != {"type": "null"}]
    return _resolved(choices[0], document, depth + 1) if len(choices) == 1 else given
