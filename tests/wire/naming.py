"""Requests that name a topic, of every API that takes one, in every version: made from the declarations of messages.

Which fields hold topics' names and ids is what kio says of Kafka's own definitions. What our own declarations and kio's
do not tell apart from other texts, the names of configs' resources, stands here.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import kio.schema
from tests.wire.raw_client import batch_of

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from penstock.protocol.requests.api import AnyApiKey, api_of
from penstock.protocol.schema import Field, Message
from penstock.protocol.uuids import ZERO_UUID

Place = tuple[str, str, str]
"""The folder of an API, the name of a class of its request's definition, and a field of that."""

IN_CONFIGS: dict[Place, str] = {
    ("describe_configs", "DescribeConfigsResource", "resource_name"): "name",
    ("alter_configs", "AlterConfigsResource", "resource_name"): "name",
    ("incremental_alter_configs", "AlterConfigsResource", "resource_name"): "name",
}
IN_OUR_OWN = {"topic": "name", "topic_name": "name", "topic_id": "id"}
USUAL: dict[str, Any] = {
    "resource_type": 2,
    "acks": -1,
    "timeout_ms": 10_000,
    "group_id": "a-group",
    "count": 3,
    "num_partitions": 1,
    "replication_factor": 1,
    "replica_id": -1,
    "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 20,
    "session_epoch": -1,
    "allow_auto_topic_creation": True,
    "cluster_id": None,
    "member_id": "",
    "cursor": None,
    "response_partition_limit": 100,
    "transactional_id": None,
    "group_instance_id": None,
    "generation_id_or_member_epoch": -1,
    "election_type": 0,
}
"""What fields hold so that a request makes sense but for the topic that it names; others hold their default."""


@cache
def topics_places() -> dict[Place, str]:
    """Where requests name topics: by what, `name` or `id`."""
    found = dict(IN_CONFIGS)
    for folder in pkgutil.iter_modules(kio.schema.__path__):
        if not folder.ispkg:
            continue
        package = importlib.import_module(f"kio.schema.{folder.name}")
        for version in pkgutil.iter_modules(package.__path__):
            if version.name.startswith("v"):
                found |= _places_in(folder.name, version.name)
    return found


def _places_in(folder: str, version: str) -> dict[Place, str]:
    try:
        classes = vars(importlib.import_module(f"kio.schema.{folder}.{version}.request")).values()
    except ModuleNotFoundError:  # a record, or a header
        return {}
    return {
        (folder, one.__name__, item.name): "id" if item.name == "topic_id" else "name"
        for one in classes
        if isinstance(one, type) and is_dataclass(one)
        for item in fields(one)
        if item.name == "topic_id" or "TopicName" in str(item.type)
    }


def names_topics(cls: type[Message]) -> bool:
    """Whether such a message, or one within it, names a topic."""
    return any(_holds(cls, name, item) or (_is_message(item) and names_topics(item.kind)) for name, item in _items(cls))


def request_that_names(
    key: AnyApiKey, name: str | None = None, topic_id: UUID = ZERO_UUID, *, directory: Path = Path()
) -> Message:
    """A request of this API about partition 0 of a topic; `directory` is a log directory of the node."""
    request = _filled(api_of(key).request_class, name, topic_id)
    if isinstance(request, AlterReplicaLogDirsRequest):
        request.dirs[0].path = str(directory)
    return request


def has_ids(cls: type[Message], version: int) -> bool:
    """Whether such a message, or one within it, names topics by id in this version."""
    return any(
        item.is_in(version) and (_holds(cls, name, item) == "id" or (_is_message(item) and has_ids(item.kind, version)))
        for name, item in _items(cls)
    )


def has_names(cls: type[Message], version: int) -> bool:
    """Whether such a message, or one within it, names topics by name in this version."""
    return any(
        item.is_in(version)
        and (_holds(cls, name, item) == "name" or (_is_message(item) and has_names(item.kind, version)))
        for name, item in _items(cls)
    )


def apis_that_name_topics(served: Iterable[int]) -> list[AnyApiKey]:
    """Those of the APIs whose requests name topics."""
    return [api.key for api in map(api_of, served) if names_topics(api.request_class)]


def told(message: Any) -> Iterator[ErrorCode]:
    """Every error in an answer."""
    if isinstance(message, list):
        for item in message:
            yield from told(item)
    elif isinstance(message, Message):
        for name in message.__fields__:
            value = getattr(message, name)
            if name != "error_code":
                yield from told(value)
            elif value:
                yield ErrorCode(value)


def _items(cls: type[Message]) -> list[tuple[str, Any]]:
    return list(cls.__fields__.items())


def _is_message(item: Field) -> bool:
    return not isinstance(item.kind, str)


def _holds(cls: type[Message], name: str, item: Field) -> str | None:
    if cls.__module__.endswith(".own_apis"):
        return IN_OUR_OWN.get(name)
    folder = cls.__module__.rpartition(".")[2]
    found = [
        what
        for (its_folder, its_class, field_name), what in topics_places().items()
        # ours may have the request's name before that of a part
        if (its_folder, field_name) == (folder, name) and cls.__name__.endswith(its_class)
    ]
    return found[0] if found else None


def _filled(cls: type[Message], name: str | None, topic_id: UUID) -> Message:
    values: dict[str, Any] = {}
    for field_name, item in _items(cls):
        what = _holds(cls, field_name, item)
        if what is not None:
            value: Any = topic_id if what == "id" else name if name is not None or item.nullable else ""
            if value or not item.is_array:
                values[field_name] = [value] if item.is_array else value
        elif field_name == "assignments":
            values[field_name] = None if item.nullable else []
        elif field_name in USUAL:
            if USUAL[field_name] is not None or item.nullable:
                values[field_name] = USUAL[field_name]
        elif field_name == "records":
            values[field_name] = batch_of(b"value")
        elif _is_message(item) and (names_topics(item.kind) or "partition" in field_name):
            inner = _filled(item.kind, name, topic_id)
            values[field_name] = [inner] if item.is_array else inner
        elif item.is_array and "partition" in field_name:
            values[field_name] = [0]
    return cls(**values)
