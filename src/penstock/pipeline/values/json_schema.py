"""JSON Schema: which columns values have, as Spark's DDL, and which rules a value breaks.

Columns come from `type`, `properties`, `additionalProperties`, `items`, `format` (date, date-time), `$ref`, and `anyOf`
with null; all of them may be null. Rules are those of the draft that `$schema` names (else 2020-12), formats included.
"""

import json
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final
from urllib.parse import urljoin

import jsonschema_rs

from penstock.pipeline.errors import UnfitSchemaError
from penstock.work.connect.converters import ConversionError
from penstock.work.connect.registry import HEAD, Schemas, schema_id

JSON: Final = "JSON"
SIMPLE: Final = {"integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN", "string": "STRING", "null": "STRING"}
FORMATS: Final = {"date": "DATE", "date-time": "TIMESTAMP"}
DEEPEST: Final = 32
BASE: Final = "json-schema:///"
"""The base of a schema without an id: other names are relative to it."""
MOST_TOLD: Final = 3
MOST_LETTERS: Final = 200


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


DECODER: Final = json.JSONDecoder(parse_constant=_no_constant)
"""Made once: a call of `json.loads` with options of its own takes thrice as long."""


class JsonSchema:
    """A valid schema, with those that it refers to by name; SchemaError says where it is invalid."""

    def __init__(self, schema: bytes, references: Iterable[tuple[str, bytes]] = ()) -> None:
        self.document = _document(schema, "")
        others = [(name, _document(text, f"{name}: ")) for name, text in references]
        bases = {BASE, urljoin(BASE, str(self.document.get("$id", "")))}
        known = [(urljoin(base, name), document) for name, document in others for base in sorted(bases)]
        try:
            self._registry = jsonschema_rs.Registry([*known, (BASE, self.document)], retriever=_nowhere)
            self._validator = jsonschema_rs.validator_for(
                self.document, validate_formats=True, registry=self._registry, base_uri=BASE, retriever=_nowhere
            )
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            raise UnfitSchemaError(_told(error)) from None

    def columns(self) -> str:
        """The fields of an object as DDL; SchemaError."""
        resolver = self._registry.resolver(BASE)
        schema, resolver = _resolved(self.document, resolver, "$", 0)
        if not isinstance(schema.get("properties"), dict) or not schema["properties"]:
            raise UnfitSchemaError("it must be of an object with properties.")
        return _fields(schema, resolver, " ", "$", 0)

    def required(self) -> set[str]:
        """Properties that each object has to have."""
        schema, _ = _resolved(self.document, self._registry.resolver(BASE), "$", 0)
        return set(schema.get("required", ()))

    def check(self, value: Any) -> None:
        """ConversionError names the rules that a value breaks, each with its place."""
        if self._validator.is_valid(value):
            return
        errors = self._validator.iter_errors(value)
        said = [f"{_told(error)} ({error.schema_path[-1]})" for error in islice(errors, MOST_TOLD)]
        more = sum(1 for _ in errors)
        raise ConversionError("; ".join(said) + (f"; and {more} more" if more else ""))


class JsonReader:
    """With a registry: only values that begin with the id of one of its JSON Schemas."""

    def __init__(self, schema: JsonSchema, registry: Schemas | None) -> None:
        self._schema = schema
        self._registry = registry
        self._known: set[int] = set()

    def __call__(self, data: bytes) -> Any:
        """ConversionError names the broken rules."""
        try:
            text = str(data if self._registry is None else self._body(self._registry, data), "utf-8")
            value = DECODER.decode(text)
        except ConversionError:
            raise
        except (ValueError, RecursionError) as error:
            raise ConversionError(f"it is no JSON: {error}") from error
        self._schema.check(value)
        return value

    def _body(self, registry: Schemas, data: bytes) -> bytes:
        number = schema_id(data)
        if number not in self._known:
            json_of(registry.schema(number), f"schema {number}")
            self._known.add(number)
        return data[HEAD.size :]


class JsonWriter:
    """Text of JSON behind `head`."""

    def __init__(self, schema: JsonSchema, head: bytes) -> None:
        self._schema, self._head = schema, head

    def __call__(self, text: str) -> bytes:
        """ConversionError names the broken rules."""
        self._schema.check(DECODER.decode(text))
        return self._head + text.encode()


def json_of(answer: Mapping[str, Any], name: str) -> bytes:
    """From a registry's answer; ConversionError."""
    if answer.get("schemaType") != JSON:
        raise ConversionError(f"{name} is no JSON Schema")
    return str(answer["schema"]).encode()


def _document(schema: bytes, place: str) -> dict[str, Any]:
    try:
        document = json.loads(schema)
    except (ValueError, RecursionError) as error:
        raise UnfitSchemaError(f"{place}it is no JSON: {error}.") from None
    if not isinstance(document, dict):
        raise UnfitSchemaError(f"{place}it must be of an object with properties.")
    try:
        jsonschema_rs.meta.validate(document)
    except jsonschema_rs.ValidationError as error:
        raise UnfitSchemaError(place + _told(error)) from None
    return document


def _told(error: Exception) -> str:
    if not isinstance(error, jsonschema_rs.ValidationError):
        return str(error)
    words = error.message if len(error.message) <= MOST_LETTERS else f"{error.message[:MOST_LETTERS]}…"
    return f"{_place(error.instance_path)}: {words}"


def _place(path: Iterable[str | int]) -> str:
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)


def _nowhere(uri: str) -> Any:
    raise LookupError(f"{uri} is neither in the schema nor a reference of it")


def _fields(schema: Mapping[str, Any], resolver: Any, between: str, place: str, depth: int) -> str:
    return ", ".join(
        f"`{name.replace('`', '``')}`{between}{_type(one, resolver, f'{place}.properties.{name}', depth + 1)}"
        for name, one in schema["properties"].items()
    )


def _type(given: Any, resolver: Any, place: str, depth: int) -> str:
    schema, resolver = _resolved(given, resolver, place, depth)
    kind = _kind(schema)
    if kind == "object":
        if isinstance(schema.get("properties"), dict) and schema["properties"]:
            return f"STRUCT<{_fields(schema, resolver, ': ', place, depth)}>"
        values = schema.get("additionalProperties")
        inner = (
            _type(values, resolver, f"{place}.additionalProperties", depth + 1)
            if isinstance(values, dict)
            else "STRING"
        )
        return f"MAP<STRING, {inner}>"
    if kind == "array":
        return f"ARRAY<{_type(schema.get('items', True), resolver, f'{place}.items', depth + 1)}>"
    return FORMATS.get(schema.get("format", ""), SIMPLE[kind]) if kind == "string" else SIMPLE[kind]


def _kind(schema: Mapping[str, Any]) -> str:
    """Several types become text, but integer beside number is number."""
    declared = schema.get("type", "object" if "properties" in schema else "string")
    kinds = [kind for kind in (declared if isinstance(declared, list) else [declared]) if kind != "null"]
    if set(kinds) == {"integer", "number"}:
        return "number"
    return str(kinds[0]) if len(kinds) == 1 else "string"


def _resolved(given: Any, resolver: Any, place: str, depth: int) -> tuple[Mapping[str, Any], Any]:
    """Follows `$ref`, and the one choice beside null of `anyOf` and `oneOf`; with the resolver of references in it."""
    if depth > DEEPEST:
        raise UnfitSchemaError(f"{place:.60}: it is more than {DEEPEST} levels deep, or part of itself.")
    if not isinstance(given, Mapping):
        if isinstance(given, bool):
            return {}, resolver  # anything, or nothing
        raise UnfitSchemaError(f"{place}: items of a type each have no column.")
    if "$ref" in given:
        found = resolver.lookup(given["$ref"])
        return _resolved(found.contents, found.resolver, place, depth + 1)
    choices = [one for one in given.get("anyOf", given.get("oneOf", [])) if one != {"type": "null"}]
    return _resolved(choices[0], resolver, place, depth + 1) if len(choices) == 1 else (given, resolver)
