"""Connect's schemas and Avro's, one made of the other, with the names that Confluent's converter gives.

Logical types are names on both sides: a value is the number or the bytes below it.
"""

from collections.abc import Mapping
from typing import Any, Final

from penstock.work.connect.schemas import Schema, SchemaError

NAMESPACE: Final = "io.confluent.connect.avro"
_TO_AVRO: Final[Mapping[str, Any]] = {
    "boolean": "boolean",
    "int8": {"type": "int", "connect.type": "int8"},
    "int16": {"type": "int", "connect.type": "int16"},
    "int32": "int",
    "int64": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "bytes",
}
_TO_CONNECT: Final[Mapping[str, str]] = {
    "boolean": "boolean",
    "int": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "bytes",
    "fixed": "bytes",
    "enum": "string",
}
_DATA: Final = "org.apache.kafka.connect.data"
_LOGICAL: Final[Mapping[str, tuple[str, str]]] = {
    "date": ("int", f"{_DATA}.Date"),
    "time-millis": ("int", f"{_DATA}.Time"),
    "timestamp-millis": ("long", f"{_DATA}.Timestamp"),
    "decimal": ("bytes", f"{_DATA}.Decimal"),
}
_LOGICAL_OF: Final = {name: (logical, kind) for logical, (kind, name) in _LOGICAL.items()}


class InexpressibleError(ValueError):
    """An Avro schema that Connect cannot express: a union of several types, or one within itself."""


def avro_schema(schema: Schema) -> Any:
    """SchemaError."""
    return _Writing().of(schema)


class _Writing:
    """One schema while it is made: names are given once."""

    def __init__(self) -> None:
        self._named: dict[str, Schema] = {}
        self._unnamed = 0

    def of(self, schema: Schema) -> Any:
        made = self._bare(schema)
        if not schema.get("optional", False):
            return made
        return ["null", made] if schema.get("default") is None else [made, "null"]

    def _bare(self, schema: Schema) -> Any:
        kind, name = str(schema.get("type")), schema.get("name")
        if kind == "struct":
            return self._record(schema)
        if kind == "array":
            return {"type": "array", "items": self.of(schema.get("items") or {})}
        if kind == "map":
            if (schema.get("keys") or {}).get("type") != "string":
                raise SchemaError("the keys of a map have to be text in Avro")
            return {"type": "map", "values": self.of(schema.get("values") or {})}
        if kind not in _TO_AVRO:
            raise SchemaError(f"Avro has nothing for the type {kind}")
        if name in _LOGICAL_OF:
            return self._logical(schema, str(name))
        return _TO_AVRO[kind] if name is None else {"type": kind_of(_TO_AVRO[kind]), "connect.name": name}

    def _logical(self, schema: Schema, name: str) -> Any:
        logical, kind = _LOGICAL_OF[name]
        parameters = schema.get("parameters") or {}
        scale = {"precision": 64, "scale": int(parameters.get("scale", 0))} if logical == "decimal" else {}
        return {"type": kind, "logicalType": logical, **scale, "connect.name": name}

    def _record(self, schema: Schema) -> Any:
        name = schema.get("name")
        if name is None:
            self._unnamed += 1
            name = f"{NAMESPACE}.ConnectDefault{self._unnamed if self._unnamed > 1 else ''}"
        elif name in self._named:
            if self._named[name] != {**schema, "field": "", "optional": False}:
                raise SchemaError(f"two structs are called {name}, and are not the same")
            return name
        self._named[str(name)] = {**schema, "field": "", "optional": False}
        namespace, _, short = str(name).rpartition(".")
        fields = [self._field(field) for field in schema.get("fields", ())]
        return {"type": "record", "name": short, **({"namespace": namespace} if namespace else {}), "fields": fields}

    def _field(self, field: Schema) -> Any:
        made = {"name": field["field"], "type": self.of(field)}
        if field.get("default") is not None:
            made["default"] = field["default"]
        elif field.get("optional", False):
            made["default"] = None
        return made


def connect_schema(avro: Any) -> Schema | None:
    """None for a schema that Connect cannot express."""
    try:
        return _Reading().of(avro, "")
    except InexpressibleError:
        return None


class _Reading:
    """One schema while it is read: what names stand for, and which are being read."""

    def __init__(self) -> None:
        self._named: dict[str, dict[str, Any]] = {}
        self._open: set[str] = set()

    def of(self, avro: Any, namespace: str) -> dict[str, Any]:
        if isinstance(avro, list):
            others = [one for one in avro if kind_of(one) != "null"]
            if len(others) != 1:
                raise InexpressibleError("a union of several types")
            return {**self.of(others[0], namespace), "optional": len(others) < len(avro)}
        kind = kind_of(avro)
        if isinstance(kind, dict | list):  # {"type": {"type": …}}
            return self.of(kind, namespace)
        if kind in _TO_CONNECT and isinstance(avro, str):
            return {"type": _TO_CONNECT[kind], "optional": False}
        if not isinstance(avro, dict):
            return self._known(str(avro), namespace)
        if kind == "array":
            return {"type": "array", "items": self.of(avro["items"], namespace), "optional": False}
        if kind == "map":
            keys = {"type": "string", "optional": False}
            return {"type": "map", "keys": keys, "values": self.of(avro["values"], namespace), "optional": False}
        if kind == "record":
            return self._record(avro, namespace)
        return self._plain(avro, str(kind), namespace)

    def _plain(self, avro: Mapping[str, Any], kind: str, namespace: str) -> dict[str, Any]:
        if kind not in _TO_CONNECT:
            return self._known(kind, namespace)
        made: dict[str, Any] = {"type": avro.get("connect.type", _TO_CONNECT[kind]), "optional": False}
        logical = _LOGICAL.get(str(avro.get("logicalType")))
        name = avro.get("connect.name", logical[1] if logical else None)
        if name is not None:
            made["name"] = name
        if logical and logical[0] == "bytes":
            made["parameters"] = {"scale": str(avro.get("scale", 0))}
        if "name" in avro:
            self._named[full_name(avro, namespace)] = made
        return made

    def _record(self, avro: Mapping[str, Any], namespace: str) -> dict[str, Any]:
        name = full_name(avro, namespace)
        inner = name.rpartition(".")[0]
        self._open.add(name)
        fields = []
        for field in avro["fields"]:
            made = {**self.of(field["type"], inner), "field": field["name"]}
            if field.get("default") is not None:
                made["default"] = field["default"]
            fields.append(made)
        self._open.discard(name)
        made = {"type": "struct", "fields": fields, "optional": False, "name": name}
        self._named[name] = made
        return made

    def _known(self, name: str, namespace: str) -> dict[str, Any]:
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self._named.get(full) or self._named.get(name)
        if found is None:
            raise InexpressibleError(f"{name} within itself" if full in self._open else f"nothing is called {name}")
        return found


def kind_of(avro: Any) -> Any:
    return avro["type"] if isinstance(avro, dict) else avro


def without_logical_types(avro: Any) -> Any:
    """The same schema for values as they lie below logical types."""
    if isinstance(avro, dict):
        return {key: without_logical_types(part) for key, part in avro.items() if key != "logicalType"}
    return [without_logical_types(part) for part in avro] if isinstance(avro, list) else avro


def full_name(avro: Mapping[str, Any], namespace: str) -> str:
    name, own = str(avro["name"]), avro.get("namespace", namespace)
    return name if "." in name or not own else f"{own}.{name}"
