"""Our declarations say what Kafka's own say, of which kafka-python carries copies: names, versions, types, defaults."""

import importlib
import importlib.resources
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from tools.newer_messages import RENAMED

from penstock.metadata.records import MetadataRecord
from penstock.protocol.requests.api import KEYS, ApiKey, api_of
from penstock.protocol.schema import Field, Message, parse_versions

RESOURCES = importlib.resources.files("kafka.protocol.schemas.resources")
NAMES = sorted(entry.name.removesuffix(".json") for entry in RESOURCES.iterdir() if entry.name.endswith(".json"))
OTHERS = {
    name: name_in_snake_case
    for name_in_snake_case in (
        "request_header", "response_header", "consumer_protocol_assignment", "consumer_protocol_subscription",
    )
    for name in ["".join(word.capitalize() for word in name_in_snake_case.split("_"))]
}  # fmt: skip
OUR_TAGS = 10_000
"""Tagged fields from here on are our own, over which Kafka's clients and brokers pass."""
ZEROES = {"string": "", "bytes": b"", "bool": False, "records": None}


def our_class(name: str) -> type[Message]:
    if name in OTHERS:
        cls: type[Message] = getattr(importlib.import_module(f"penstock.protocol.messages.{OTHERS[name]}"), name)
        return cls
    api = next(api for api in map(api_of, ApiKey) if name in (api.name + "Request", api.name + "Response"))
    return api.request_class if name.endswith("Request") else api.response_class


def declaration(name: str) -> Any:
    text = (RESOURCES / f"{name}.json").read_text()
    return json.loads(re.sub(r"(?m)^\s*//.*$", "", text))


def snake_case(name: str) -> str:
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()


def within(text: str | None, versions: list[int]) -> list[int]:
    return [version for version in versions if text and text != "none" and version in parse_versions(text)]


def expected_default(theirs: Any, ours: Field) -> object:
    """Return Kafka's default of a plain field as our type has it."""
    default = theirs.get("default")
    if default is None:
        return ZEROES.get(theirs["type"], 0)
    if default == "null":
        return None
    if ours.kind == "bool":
        return str(default).lower() == "true"
    return default if ours.kind == "string" else int(str(default), 0)


def complaints(cls: type[Message], fields: list[Any], structs: Any, versions: list[int]) -> Iterator[str]:
    """Say where our class differs from what Kafka declares, in the versions that both have; tagged fields of our own
    are no difference.
    """
    named = [(snake_case(field["name"]), field) for field in fields if within(field["versions"], versions)]
    declared = {RENAMED.get((cls.__name__, name), name): field for name, field in named}
    for name in cls.__fields__.keys() - declared.keys():
        extra = cls.__fields__[name]
        here = within(extra.versions, versions)
        if here and not (extra.tag is not None and extra.tag >= OUR_TAGS and all(map(extra.is_tagged_in, here))):
            yield f"{cls.__name__}.{name} is ours only"
    for name, theirs in declared.items():
        ours = cls.__fields__.get(name)
        if ours is None:
            yield f"{cls.__name__}.{name} is missing"
            continue
        here = within(theirs["versions"], versions)
        yield from (f"{cls.__name__}.{name}: {what}" for what in field_complaints(ours, theirs, here))
        if not isinstance(ours.kind, str):
            inner = theirs.get("fields") or structs[theirs["type"].removeprefix("[]")]
            yield from complaints(ours.kind, inner, structs, here)


def field_complaints(ours: Field, theirs: Any, versions: list[int]) -> Iterator[str]:
    kind = theirs["type"].removeprefix("[]")
    if isinstance(ours.kind, str) and ours.kind != kind:
        yield f"type {ours.kind}, not {kind}"
    if ours.is_array != theirs["type"].startswith("[]"):
        yield "an array or not"
    if within(ours.versions, versions) != versions:
        yield f"versions {ours.versions}, not {theirs['versions']}"
    if within(ours.nullable, versions) != within(theirs.get("nullableVersions"), versions):
        yield f"nullable {ours.nullable}, not {theirs.get('nullableVersions')}"
    tagged = within(theirs.get("taggedVersions"), versions)
    if [version for version in versions if ours.is_tagged_in(version)] != tagged or (
        tagged and ours.tag != theirs["tag"]
    ):
        yield f"tag {ours.tag} in {ours.tagged}"
    if ours.is_array:
        if (ours.new_default() is None) != (theirs.get("default") == "null"):
            yield "default of an array"
    elif isinstance(ours.kind, str) and kind != "uuid" and ours.default != expected_default(theirs, ours):
        yield f"default {ours.default!r}, not {theirs.get('default')}"


@pytest.mark.parametrize("name", NAMES)
def test_declared_as_kafka_does(name: str) -> None:
    theirs, cls = declaration(name), our_class(name)
    versions = within(theirs["validVersions"], list(cls.version_range()))
    assert versions
    assert within(cls.__flexible__, versions) == within(theirs["flexibleVersions"], versions)
    structs = {struct["name"]: struct["fields"] for struct in theirs.get("commonStructs", [])}
    assert list(complaints(cls, theirs["fields"], structs, versions)) == []


def test_there_is_something_to_compare() -> None:
    assert len(NAMES) > 100


def every_message() -> Iterator[type[Message]]:
    waiting = [cls for api in map(api_of, KEYS) for cls in (api.request_class, api.response_class)]
    waiting += MetadataRecord.__subclasses__()
    while waiting:
        cls = waiting.pop()
        yield cls
        waiting += [item.kind for item in cls.__fields__.values() if not isinstance(item.kind, str)]


def test_a_field_is_tagged_or_null_only_in_versions_that_have_it() -> None:
    for cls in every_message():
        for name, item in cls.__fields__.items():
            versions = [version for version in range(30) if item.is_in(version)]
            tagged = [version for version in range(30) if item.is_tagged_in(version)]
            assert set(tagged) <= set(versions), f"{cls.__name__}.{name}"
            assert bool(tagged) == (item.tag is not None), f"{cls.__name__}.{name}"
