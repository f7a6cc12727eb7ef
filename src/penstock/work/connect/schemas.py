"""Connect's schemas in JSON, and values that have one: `{"schema": {"type": "struct", …}, "payload": …}`.

A schema is a dict: `type` (boolean, int8 to int64, float, double, string, bytes, array, map, struct), `optional`, and
for what is made of others `items`, `keys` and `values`, or `fields`, each with its name in `field`.
"""

import base64
from collections.abc import Mapping
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any, Final

from penstock.protocol.value import Value

DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_EXACT: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
Schema = Mapping[str, Any]
_INTEGERS: Final = ("int8", "int16", "int32", "int64")
_FLOATS: Final = ("float", "double")


class SchemaError(ValueError):
    """A value is not what its schema says, or there is no schema for it."""


def schema_of(value: Any) -> dict[str, Any] | None:
    """The schema that a value's type implies; None for None. Every field is optional."""
    match value:
        case None:
            return None
        case bool():
            return {"type": "boolean", "optional": True}
        case int():
            return {"type": "int64", "optional": True}
        case float():
            return {"type": "double", "optional": True}
        case str():
            return {"type": "string", "optional": True}
        case bytes():
            return {"type": "bytes", "optional": True}
        case list() | tuple():
            items = next((schema_of(item) for item in value if item is not None), None)
            return {"type": "array", "items": items or {"type": "string", "optional": True}, "optional": True}
        case dict():
            fields = [
                {**(schema_of(item) or {"type": "string", "optional": True}), "field": name}
                for name, item in value.items()
            ]
            return {"type": "struct", "fields": fields, "optional": True}
        case _:
            raise SchemaError(f"there is no schema for a {type(value).__name__}")


class ExactFloat(float):
    """A number that was read from JSON, with all its digits."""

    digits: str

    def __new__(cls, digits: str) -> "ExactFloat":
        made = super().__new__(cls, digits)
        made.digits = digits
        return made


class JsonForm(Value):
    """How values with a schema stand in JSON."""

    numeric_decimals: bool = False
    """Decimals are numbers, and not their bytes in base64."""
    replaces_null: bool = True
    """By the default of its schema."""


_CONNECTS: Final = JsonForm()


def to_json(value: Any, schema: Schema | None, form: JsonForm = _CONNECTS) -> Any:
    """Bytes become base64. SchemaError if the value does not fit the schema."""
    if schema is None:
        return _plain(value)
    if value is None:
        return _null(schema, form)
    kind = schema.get("type")
    if kind == "struct":
        fields = {field["field"]: field for field in schema.get("fields", ())}
        if not isinstance(value, Mapping) or value.keys() - fields.keys():
            raise SchemaError(f"{value!r} is not a struct of {sorted(fields)}")
        return {name: to_json(value.get(name), field, form) for name, field in fields.items()}
    if kind == "array" and isinstance(value, list | tuple):
        return [to_json(item, schema.get("items"), form) for item in value]
    if kind == "map" and isinstance(value, Mapping):
        pairs = [
            (to_json(key, schema.get("keys"), form), to_json(item, schema.get("values"), form))
            for key, item in value.items()
        ]
        return dict(pairs) if schema.get("keys", {}).get("type") == "string" else [list(pair) for pair in pairs]
    if not _fits(kind, value):
        raise SchemaError(f"{value!r} is no {kind}, as {_name(schema)} has to be")
    if kind != "bytes":
        return value
    return (
        decimal_of(value, schema) if form.numeric_decimals and _is_decimal(schema) else base64.b64encode(value).decode()
    )


def _null(schema: Schema, form: JsonForm) -> Any:
    if schema.get("default") is not None and form.replaces_null:
        return schema["default"]
    if not schema.get("optional", False):
        raise SchemaError(f"there is no value for {_name(schema)}, which is not optional")
    return None


def from_json(value: Any, schema: Schema | None, form: JsonForm = _CONNECTS) -> Any:
    """SchemaError."""
    if schema is None:
        return value
    if value is None:
        default = schema.get("default") if form.replaces_null else None
        return None if default is None else from_json(default, schema, form)
    kind = schema.get("type")
    if kind == "bytes" and isinstance(value, str):
        return base64.b64decode(value)
    if kind == "bytes" and _is_decimal(schema) and isinstance(value, int | float):
        return bytes_of(Decimal(value.digits if isinstance(value, ExactFloat) else value), schema)
    if kind == "struct" and isinstance(value, dict):
        fields = {field["field"]: field for field in schema.get("fields", ())}
        return {name: from_json(value.get(name), field, form) for name, field in fields.items()}
    if kind == "array" and isinstance(value, list):
        return [from_json(item, schema.get("items"), form) for item in value]
    if kind == "map":
        pairs = value.items() if isinstance(value, dict) else value
        return {
            from_json(key, schema.get("keys"), form): from_json(item, schema.get("values"), form) for key, item in pairs
        }
    if not _fits(kind, value):
        raise SchemaError(f"{value!r} is no {kind}, as {_name(schema)} has to be")
    return value


def _is_decimal(schema: Schema) -> bool:
    return schema.get("name") == DECIMAL


def _scale(schema: Schema) -> int:
    try:
        return int(schema["parameters"]["scale"])
    except (KeyError, TypeError, ValueError):
        raise SchemaError(f"{_name(schema)} is a Decimal, and its schema has no scale among its parameters") from None


def decimal_of(value: bytes, schema: Schema) -> Decimal:
    """What Connect's Decimal stands for: bytes of a whole number, and a scale in the schema."""
    digits = Decimal(int.from_bytes(value, "big", signed=True))
    return digits.scaleb(-_scale(schema), _EXACT)


def bytes_of(number: Decimal, schema: Schema) -> bytes:
    """SchemaError if it has more places than the schema."""
    whole = number.scaleb(_scale(schema), _EXACT)
    if whole != whole.to_integral_value():
        raise SchemaError(f"{number} has more places than the scale {_scale(schema)} of {_name(schema)}")
    digits = int(whole)
    return digits.to_bytes((digits + (digits < 0)).bit_length() // 8 + 1, "big", signed=True)


def _fits(kind: object, value: object) -> bool:
    if kind == "boolean":
        return isinstance(value, bool)
    if kind in _INTEGERS:
        bits = int(str(kind)[3:])
        return isinstance(value, int) and not isinstance(value, bool) and -(1 << bits - 1) <= value < 1 << bits - 1
    if kind in _FLOATS:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, str) if kind == "string" else kind == "bytes" and isinstance(value, bytes)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise SchemaError(f"JSON cannot hold a {type(value).__name__}")


def _name(schema: Schema) -> str:
    return f"field {schema['field']}" if "field" in schema else f"a value of type {schema.get('type')}"
