"""Writes src/penstock/protocol/messages/*.py from what the package kio knows of Kafka's messages.

Only names, types, versions and defaults are taken; `newer_messages.py` adds what kio does not know yet,
`OWN_TAGGED_FIELDS` ours. One class stands for all versions of
a message; Kafka's own field names come back in snake_case (kio turns `timeoutMs` into a timedelta `timeout`). Run it as

    python -m tools.generate_messages && ruff format src/penstock/protocol/messages
"""

import dataclasses
import datetime as dt
import importlib
import inspect
import re
import sys
import typing
import uuid
from collections.abc import Callable
from pathlib import Path
from types import NoneType, UnionType
from typing import Any

import kio.schema
from kio.static.constants import EntityType
from tools.newer_messages import ENDED, NEW_APIS, NEW_FIELDS, NEWEST_VERSIONS, RENAMED, NewApi, NewField

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "src" / "penstock" / "protocol" / "messages"

# Durations and instants whose name ends without a unit in Kafka as well.
WITHOUT_UNIT = {
    ("DescribedDelegationToken", "issue_timestamp"),
    ("DescribedDelegationToken", "expiry_timestamp"),
    ("DescribedDelegationToken", "max_timestamp"),
}
# Arrays of structures that are null unless set, which kio does not tell.
NULL_BY_DEFAULT = {
    ("ConsumerGroupHeartbeatRequest", "topic_partitions"),
    ("ListPartitionReassignmentsRequest", "topics"),
    *(("StreamsGroupHeartbeatRequest", name) for name in (
        "active_tasks", "standby_tasks", "warmup_tasks", "client_tags", "task_offsets", "task_end_offsets",
    )),
    *(("StreamsGroupHeartbeatResponse", name) for name in (
        "status", "active_tasks", "standby_tasks", "warmup_tasks", "partitions_by_user_endpoint",
    )),
}  # fmt: skip
# Tagged fields of our own, by message, or by message and the structure in it: name, tag, type, default and versions.
# Who does not know a tag passes over it. Kafka numbers its tags from 0 on in each message, so none of its will ever get
# as far as these.
HEARTBEAT_AGE = ("heartbeat_age_ms", 10_000, "int64", -1)
HELD_UNTIL = ("held_until_ms", 10_000, "int64", 0, range(2))
REASON = ("reason", 10_000, "string", "", range(1, 3))
RELEASE_DELAYS = ("release_delays_ms", 10_001, "[]int64", None, range(1, 3))
OWN_TAGGED_FIELDS: dict[str, list[tuple[str, int, str, object, range]]] = {
    "ConsumerGroupDescribeResponse.Member": [(*HEARTBEAT_AGE, range(2))],
    "DeleteShareGroupStateRequest.PartitionData": [("group_epoch", 10_000, "int32", -1, range(1))],
    "DescribeGroupsResponse.DescribedGroupMember": [(*HEARTBEAT_AGE, range(5, 7))],
    "DescribeLogDirsResponse.DescribeLogDirsPartition": [("bytes_read", 10_000, "int64", 0, range(2, 6))],
    "HeartbeatRequest": [("commits_when_asked", 10_000, "bool", False, range(4, 5))],
    "HeartbeatResponse": [("commit_now", 10_000, "bool", False, range(4, 5))],
    "InitializeShareGroupStateRequest.PartitionData": [("heeds_deletions", 10_000, "bool", False, range(1))],
    "InitializeShareGroupStateResponse.PartitionResult": [("newest_epoch", 10_000, "int32", -1, range(1))],
    "ReadShareGroupStateResponse.StateBatch": [HELD_UNTIL],
    "ShareAcknowledgeRequest.AcknowledgementBatch": [REASON, RELEASE_DELAYS],
    "ShareGroupDescribeResponse.Member": [(*HEARTBEAT_AGE, range(1, 2))],
    "StreamsGroupDescribeResponse.Member": [(*HEARTBEAT_AGE, range(2))],
    "ShareFetchRequest.AcknowledgementBatch": [REASON, RELEASE_DELAYS],
    "WriteShareGroupStateRequest.StateBatch": [HELD_UNTIL],
}
PYTHON_TYPES = {
    "bool": "bool", "int8": "int", "int16": "int", "uint16": "int", "int32": "int", "uint32": "int", "int64": "int",
    "float64": "float", "string": "str", "bytes": "bytes", "records": "bytes", "uuid": "UUID",
}  # fmt: skip
ZEROES: dict[str, object] = {"bool": False, "float64": 0.0, "string": "", "bytes": b"", "records": None}
PLAIN_TYPES: dict[str, Callable[[Any], object]] = {"float64": float, "string": str, "bytes": bytes}
PLAIN_TYPES |= dict.fromkeys(("int8", "int16", "uint16", "int32", "uint32", "int64"), int)
KIO_KINDS = {"error_code": "int16", "timedelta_i32": "int32", "timedelta_i64": "int64", "datetime_i64": "int64"}


@dataclasses.dataclass
class Declared:
    """A field as kio declares it, gathered over versions."""

    kind: str
    is_array: bool
    is_struct: bool
    default: object
    tag: int | None = None
    versions: list[int] = dataclasses.field(default_factory=list)
    nullable: list[int] = dataclasses.field(default_factory=list)
    tagged: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Structure:
    """A class in the making: its fields in wire order."""

    name: str
    fields: dict[str, Declared] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Whole:
    """A message in the making, its structures before those that hold them."""

    name: str
    versions: list[int]
    flexible: list[int]
    structures: dict[str, Structure]


def shape(annotation: Any) -> tuple[Any, bool, bool]:
    """Return the innermost type of an annotation, whether it is an array, and whether it may be None."""
    nullable = False
    if isinstance(annotation, UnionType) or typing.get_origin(annotation) is typing.Union:
        arguments = typing.get_args(annotation)
        nullable = NoneType in arguments
        annotation = next(argument for argument in arguments if argument is not NoneType)
    if typing.get_origin(annotation) is tuple:
        return typing.get_args(annotation)[0], True, nullable
    return annotation, False, nullable


def plain_default(item: dataclasses.Field[Any], kind: str) -> object:
    """Return kio's default of a field as our own type has it; the zero of its kind where kio has none."""
    value = item.default
    if value is dataclasses.MISSING:
        return ZEROES.get(kind, 0)
    if isinstance(value, dt.timedelta):
        return round(value.total_seconds() * 1000)
    if value is None and kind.startswith("int"):
        return -1
    if isinstance(value, bool):
        return value
    plain = PLAIN_TYPES.get(kind)
    return value if value is None or plain is None else plain(value)


def kafka_name(owner: str, item: dataclasses.Field[Any]) -> str:
    """Return Kafka's name of a field: with its unit, which kio drops."""
    timed = item.metadata.get("kafka_type", "").startswith(("timedelta", "datetime"))
    name = item.name.rstrip("_")
    name = RENAMED.get((owner, name), name)
    return name + "_ms" if timed and (owner, name) not in WITHOUT_UNIT else name


def declared(cls: Any, item: dataclasses.Field[Any], version: int) -> Declared:
    """Return the declaration of one field in one version."""
    inner, is_array, nullable = shape(item.type)
    is_struct = dataclasses.is_dataclass(inner)
    if is_struct:
        kind = inner.__name__
        default: object = None
    else:
        kind = item.metadata["kafka_type"]
        kind = KIO_KINDS.get(kind, kind)
        default = None if is_array else plain_default(item, kind)
    if is_array and nullable:
        is_null = item.default is None or (cls.__name__, item.name) in NULL_BY_DEFAULT
        default = "null" if is_null else default
    if inner is uuid.UUID or kind.startswith("int"):
        nullable = nullable and is_array
    result = Declared(kind, is_array, is_struct, default, item.metadata.get("tag"), [version])
    if nullable:
        result.nullable.append(version)
    if result.tag is not None:
        result.tagged.append(version)
    return result


def merge(fields: dict[str, Declared], newer: dict[str, Declared], where: str) -> dict[str, Declared]:
    """Add the fields of a newer version: known ones gain a version, new ones come where they stand in it."""
    order = list(fields)
    position = 0
    for name, item in newer.items():
        known = fields.get(name)
        if known is None:
            order.insert(position, name)
            fields[name] = item
            position += 1
            continue
        assert (known.kind, known.is_array) == (item.kind, item.is_array), (where, name)
        if item.tag is None:
            assert order.index(name) >= position or known.tagged, (where, name, order)
        position = order.index(name) + 1
        known.versions += item.versions
        known.nullable += item.nullable
        known.tagged += item.tagged
        known.tag = item.tag if item.tag is not None else known.tag
        known.default = item.default
    return {name: fields[name] for name in order}


def add(cls: Any, version: int, structures: dict[str, Structure], seen: set[str]) -> None:
    """Add a version of a class, after the classes that it holds."""
    if cls.__name__ in seen:
        return
    seen.add(cls.__name__)
    fields = {}
    for item in dataclasses.fields(cls):
        inner, _, _ = shape(item.type)
        if dataclasses.is_dataclass(inner):
            add(inner, version, structures, seen)
        fields[kafka_name(cls.__name__, item)] = declared(cls, item, version)
    structure = structures.setdefault(cls.__name__, Structure(cls.__name__))
    structure.fields = merge(structure.fields, fields, cls.__name__)


def ordered(structures: dict[str, Structure], name: str, result: dict[str, Structure]) -> None:
    """Put a structure behind all those that it holds, in whatever version."""
    for item in structures[name].fields.values():
        if item.is_struct and item.kind not in result:
            ordered(structures, item.kind, result)
    result.setdefault(name, structures[name])


def read_whole(folder: str, module: str) -> Whole | None:
    """Gather a message over all versions that kio has."""
    root = Path(inspect.getfile(kio.schema)).parent / folder
    versions = sorted(int(path.name[1:]) for path in root.glob("v*") if (path / f"{module}.py").exists())
    structures: dict[str, Structure] = {}
    flexible = []
    classes: list[Any]
    name = ""
    for version in versions:
        loaded = importlib.import_module(f"kio.schema.{folder}.v{version}.{module}")
        classes = [c for c in vars(loaded).values() if inspect.isclass(c) and c.__module__ == loaded.__name__]
        top = next(c for c in classes if c.__type__ is not EntityType.nested)
        name = top.__name__
        if top.__flexible__:
            flexible.append(version)
        add(top, version, structures, set())
    if not versions:
        return None
    flexible += extended(name, versions, structures)
    for structure in structures.values():
        place = name if structure.name == name else f"{name}.{structure.name}"
        for field_name, tag, kind, default, own in OWN_TAGGED_FIELDS.get(place, []):
            known = [version for version in own if version in versions]
            one = Declared(kind.removeprefix("[]"), kind.startswith("[]"), False, default, tag, known, tagged=known)
            structure.fields[field_name] = one
    in_order: dict[str, Structure] = {}
    ordered(structures, name, in_order)
    return Whole(name, versions, flexible, in_order)


def extended(name: str, versions: list[int], structures: dict[str, Structure]) -> list[int]:
    """Give a message the versions that kio does not know, and return them: they are all flexible."""
    newer = list(range(versions[-1] + 1, NEWEST_VERSIONS.get(name, versions[-1]) + 1))
    for structure in structures.values():
        for field_name, item in structure.fields.items():
            if item.versions[-1] == versions[-1] and (structure.name, field_name) not in ENDED:
                item.nullable += newer if item.versions[-1] in item.nullable else []
                item.tagged += newer if item.versions[-1] in item.tagged else []
                item.versions += newer
    versions += newer
    for structure_name, fields in NEW_FIELDS.get(name, {}).items():
        structure = structures.setdefault(structure_name, Structure(structure_name))
        for field in fields:
            put(structure, field, versions[-1])
    return newer


def put(structure: Structure, new: NewField, newest: int) -> None:
    """Put a field that kio does not know into its place."""
    kind = new.kind.removeprefix("[]").removesuffix("?")
    versions = list(range(new.since, newest + 1))
    is_array = new.kind.startswith("[]")
    field = Declared(kind, is_array, kind[0].isupper(), new.default, None, versions)
    if new.kind.endswith("?"):
        field.nullable = list(versions)
    names = list(structure.fields)
    names.insert(len(names) if new.after is None else names.index(new.after) + 1, new.name)
    fields = structure.fields | {new.name: field}
    structure.fields = {name: fields[name] for name in names}


def new_whole(structures: dict[str, list[NewField]]) -> Whole:
    """Return a message of an API that kio does not know."""
    made = {}
    for name, fields in structures.items():
        made[name] = Structure(name)
        for field in fields:
            put(made[name], field, 0)
    return Whole(name, [0], [0], made)


def versions_text(versions: list[int], newest: int) -> str:
    """Return versions as Kafka writes them."""
    if not versions:
        return ""
    first, last = versions[0], versions[-1]
    assert versions == list(range(first, last + 1)), versions
    if last == newest:
        return f"{first}+"
    return str(first) if first == last else f"{first}-{last}"


def field_line(name: str, item: Declared, names: dict[str, str], newest: int) -> str:
    """Return the line that declares a field."""
    kind = names[item.kind] if item.is_struct else f'"{item.kind}"'
    python = names[item.kind] if item.is_struct else PYTHON_TYPES[item.kind]
    python = f"list[{python}]" if item.is_array else python
    if item.nullable or item.kind == "records":
        python += " | None"
    arguments = [kind, f'"{versions_text(item.versions, newest)}"']
    if item.nullable:
        arguments.append(f'nullable="{versions_text(item.nullable, newest)}"')
    if item.tag is not None:
        arguments.append(f"tag={item.tag}")
        if item.tagged != item.versions:
            arguments.append(f'tagged="{versions_text(item.tagged, newest)}"')
    if name == "client_id" and "RequestHeader" in names:
        arguments.append("flexible=False")
    function = "field"
    if item.is_array:
        function = "array"
        arguments.append("default_factory=" + ("none" if item.default == "null" else "list"))
    elif item.is_struct and not item.nullable:
        function = "struct"
        arguments.append(f"default_factory={names[item.kind]}")
    elif item.kind == "uuid":
        arguments.append("default=ZERO_UUID")
    else:
        arguments.append(f"default={item.default!r}")
    return f"    {name}: {python} = {function}({', '.join(arguments)})"


def class_names(wholes: list[Whole]) -> list[dict[str, str]]:
    """Return for each message of a module what its structures are called: with the message's name where two clash."""
    counts: dict[str, int] = {}
    for whole in wholes:
        for name in whole.structures:
            counts[name] = counts.get(name, 0) + 1
    return [{name: name if counts[name] == 1 else whole.name + name for name in whole.structures} for whole in wholes]


def words(name: str) -> str:
    """Return the words of a class name, in lower case."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).lower()


def module_text(wholes: list[Whole], what: str) -> str:
    """Return the text of a module that declares the messages."""
    body: list[str] = []
    for whole, names in zip(wholes, class_names(wholes), strict=True):
        newest = whole.versions[-1]
        for structure in whole.structures.values():
            name = names[structure.name]
            top = ""
            doc = f"{words(structure.name).capitalize()}, a part of `{whole.name}`."
            if structure.name == whole.name:
                top = f', versions="{whole.versions[0]}-{newest}"'
                if whole.flexible:
                    top += f', flexible="{whole.flexible[0]}+"'
                doc = f"The message `{whole.name}`, versions {whole.versions[0]} to {newest}."
            body += ["", "", f"class {name}(Message{top}):", f'    """{doc}"""']
            if structure.fields:
                body.append("")
            body += [field_line(n, item, names, newest) for n, item in structure.fields.items()]
    text = "\n".join(body)
    used = ["Message"] + [n for n in ("array", "field", "none", "struct") if re.search(rf"(= |=){n}\b", text)]
    head = [f'"""{what} Generated by tools/generate_messages.py."""', ""]
    if "UUID" in text:
        head += ["from uuid import UUID", ""]
    head.append(f"from penstock.protocol.schema import {', '.join(used)}")
    if "ZERO_UUID" in text:
        head.append("from penstock.protocol.uuids import ZERO_UUID")
    return "\n".join(head) + text + "\n"


def index_text(rows: list[tuple[int, str, Whole, Whole]]) -> str:
    """Return the text of the module that lists the APIs."""
    lines = [
        '"""The APIs: keys, classes, versions. Generated by tools/generate_messages.py."""',
        "",
        "from enum import IntEnum",
        "",
        "",
        "class ApiKey(IntEnum):",
        '    """The number of each API, by Kafka\'s names."""',
        "",
        *(f"    {folder.upper()} = {key}" for key, folder, _, _ in rows),
        "",
        "",
        "# key: (module, name, oldest version, newest version, first flexible version or -1)",
        "APIS: dict[int, tuple[str, str, int, int, int]] = {",
    ]
    for key, folder, request, _ in rows:
        newest = request.versions[-1]
        flexible = request.flexible[0] if request.flexible else -1
        name = request.name.removesuffix("Request")
        lines.append(f'    {key}: ("{folder}", "{name}", {request.versions[0]}, {newest}, {flexible}),')
    return "\n".join([*lines, "}"]) + "\n"


def known_to_kio() -> dict[str, dict[str, Whole]]:
    """Return the messages of each folder, by what they are."""
    index = importlib.import_module("kio.schema.index")
    wholes = {}
    for folder in index.schema_name_map:
        found = {entity: read_whole(folder, entity) for entity in ("request", "response", "header", "data")}
        wholes[folder] = {entity: whole for entity, whole in found.items() if whole is not None}
    return wholes


def new_messages(api: NewApi) -> dict[str, Whole]:
    """Return the two messages of an API that kio does not know."""
    return {"request": new_whole(api.request), "response": new_whole(api.response)}


def modules() -> dict[str, str]:
    """Return the text of each module, by its name."""
    index = importlib.import_module("kio.schema.index")
    keys = {folder: key for key, folder in index.api_key_map.items()} | {api.folder: api.key for api in NEW_APIS}
    found = known_to_kio() | {api.folder: new_messages(api) for api in NEW_APIS}
    texts = {"__init__": '"""Kafka\'s messages. Generated by tools/generate_messages.py."""\n'}
    rows = []
    for folder, wholes in sorted(found.items()):
        first = next(iter(wholes.values()))
        what = f"The API {first.name.removesuffix('Request')}." if folder in keys else f"`{first.name}`."
        texts[folder] = module_text(list(wholes.values()), what)
        if folder in keys:
            rows.append((keys[folder], folder, wholes["request"], wholes["response"]))
    texts["index"] = index_text(sorted(rows))
    return texts


def main() -> int:
    """Write all modules; return the exit status."""
    TARGET.mkdir(exist_ok=True)
    for old in TARGET.glob("*.py"):
        old.unlink()
    for name, text in modules().items():
        (TARGET / f"{name}.py").write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
