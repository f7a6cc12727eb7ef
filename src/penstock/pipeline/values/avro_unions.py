"""Unions of several types of Avro: a struct with a member for each, as Spark's `from_avro` makes it.

`member0` is of the first type beside null, and so on; of all members one is not null. Of int and long in one union, and
of float and double, the wider one has the value: which one was written is lost.
"""

from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from penstock.work.connect.avro_schemas import full_name, kind_of
from penstock.work.connect.converters import ConversionError

Convert = Callable[[Any], Any]
WIDER: Final = {frozenset(("int", "long")): "long", frozenset(("float", "double")): "double"}
PYTHON: Final = {
    "record": dict, "error": dict, "enum": str, "fixed": bytes, "int": int, "float": float, "boolean": bool,
    "long": int, "double": float, "bytes": bytes, "string": str, "array": list, "map": dict,
}  # fmt: skip
"""Python types of values; of several types with the same the last one counts, for named types come with their names."""
ORDER: Final = tuple(PYTHON)
LOGICAL: Final = {"date": date, "decimal": Decimal}


def branches_of(union: list[Any]) -> list[Any]:
    """The types beside null that have columns: of two numbers the wider stands for both."""
    kinds = [one for one in union if kind_of(one) != "null"] or ["null"]
    wider = WIDER.get(frozenset(kinds)) if all(isinstance(one, str) for one in kinds) else None
    return kinds if wider is None else [wider]


def member_structs(schema: Any) -> Convert | None:
    """Adds such structs to values that are read with the names of types; None where there is no such union."""
    made = _Converting()
    convert = made.of(schema, "")
    return convert if made.has_members else None


def branch_values(schema: Any) -> Convert | None:
    """The way back: such structs become values with the name of their type, as fastavro takes them."""
    made = _ToBranches()
    convert = made.of(schema, "")
    return convert if made.has_members else None


class _Converting:
    def __init__(self) -> None:
        self.has_members = False
        self._named: dict[str, tuple[str, Convert]] = {}

    def of(self, avro: Any, namespace: str) -> Convert:
        if isinstance(avro, list):
            return self._union(avro, namespace)
        kind = kind_of(avro)
        if isinstance(kind, dict | list):
            return self.of(kind, namespace)
        if kind == "array":
            item = self.of(avro["items"], namespace)
            return lambda items: [item(one) for one in items]
        if kind == "map":
            value = self.of(avro["values"], namespace)
            return lambda entries: {key: value(one) for key, one in entries.items()}
        if kind in ("record", "error"):
            return self._record(avro, namespace)
        if isinstance(avro, dict) and "name" in avro:
            self._named[full_name(avro, namespace)] = kind, _same
        return self._known(str(kind), namespace)[1]

    def _record(self, avro: Mapping[str, Any], namespace: str) -> Convert:
        name = full_name(avro, namespace)
        inner = name.rpartition(".")[0]
        fields = [(field["name"], self.of(field["type"], inner)) for field in avro["fields"]]
        self._named[name] = (
            "record",
            lambda row: {field: convert(row[field]) for field, convert in fields if field in row},
        )
        return self._named[name][1]

    def _known(self, name: str, namespace: str) -> tuple[str, Convert]:
        return self._named.get(f"{namespace}.{name}") or self._named.get(name) or (name, _same)

    def _union(self, union: list[Any], namespace: str) -> Convert:
        branches = branches_of(union)
        converts = [self.of(one, namespace) for one in branches]
        if len(branches) == 1:
            return lambda value: None if value is None else converts[0](_nameless(value))
        self.has_members = True
        return self._choice(branches, converts, namespace)

    def _choice(self, branches: list[Any], converts: list[Convert], namespace: str) -> Convert:
        kinds = [self._kind(one, namespace) for one in branches]
        places = sorted(range(len(branches)), key=lambda place: ORDER.index(kinds[place]))
        by_type = {_python(branches[place], kinds[place]): place for place in places}
        names = [_name(one, namespace) for one in branches]
        by_name = {_short(name): place for place, name in enumerate(names)}
        by_name |= {name: place for place, name in enumerate(names)}

        def convert(value: Any) -> Any:
            if value is None:
                return None
            if type(value) is tuple:
                place = by_name.get(value[0], by_name.get(_short(value[0])))
            else:
                place = by_type.get(type(value))
            if place is None:
                raise ConversionError(f"{value!r:.60} is of no type of its union")
            return {f"member{place}": converts[place](_nameless(value))}

        return convert

    def _kind(self, avro: Any, namespace: str) -> str:
        kind = kind_of(avro)
        return self._kind(kind, namespace) if isinstance(kind, dict) else self._known(str(kind), namespace)[0]


class _ToBranches(_Converting):
    def _choice(self, branches: list[Any], converts: list[Convert], namespace: str) -> Convert:
        names = [one if str(one) in PYTHON else _name(one, namespace) for one in map(_plain_kind, branches)]
        members = [(f"member{place}", name, converts[place]) for place, name in enumerate(names)]

        def convert(value: Any) -> Any:
            if value is None:
                return None
            set_ones = [(name, into(value[member])) for member, name, into in members if value.get(member) is not None]
            if len(set_ones) != 1:
                raise ConversionError(f"{len(set_ones)} members of a union are set, and one has to be")
            return set_ones[0]

        return convert


def _plain_kind(avro: Any) -> Any:
    """The word of a type without a name."""
    return avro["type"] if isinstance(avro, dict) and "name" not in avro else avro


def _name(avro: Any, namespace: str) -> str:
    if isinstance(avro, dict) and "name" in avro:
        return full_name(avro, namespace)
    name = str(kind_of(avro))
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _same(value: Any) -> Any:
    return value


def _nameless(value: Any) -> Any:
    return value[1] if type(value) is tuple else value


def _python(avro: Any, kind: str) -> type:
    logical = str(avro.get("logicalType")) if isinstance(avro, dict) else ""
    return datetime if "timestamp" in logical else LOGICAL.get(logical, PYTHON[kind])
