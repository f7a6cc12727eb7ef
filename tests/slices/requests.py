"""The largest request of each API in each version: all arrays that it has are filled.

What fills a field follows from its name, so that it names what is there, or stands in `OTHERWISE`. Such a request is
wide (many items, each with one item in its own arrays) or deep (one item with many).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from penstock.protocol.requests.api import AnyApiKey, ApiKey, api_of
from penstock.protocol.schema import Field, Message
from penstock.protocol.source import Version, fields_in


@dataclass(frozen=True)
class Shape:
    """So many items in the outer arrays, so many in theirs."""

    wide: int
    deep: int

    def count(self, depth: int) -> int:
        return self.wide if depth == 0 else self.deep if depth == 1 else 1


@dataclass(frozen=True)
class There:
    """What a node has: `topics` of one partition each and, as the first of them, one of `partitions`; a group."""

    topics: list[str]
    ids: list[UUID]
    partitions: int
    group: str


NUMBERS = {"partition_index", "partition", "index", "partitions", "partition_indexes", "partition_id"}
NAMES = {"name", "topic", "topic_name", "resource_name", "topics", "topic_names"}
GROUPS = {"group_id", "groups", "groups_names", "coordinator_keys", "key"}
FIXED: dict[str, Any] = {
    "resource_type": 2,
    "replica_id": -1,
    "replicas": [1],
    "broker_ids": [1],
    "isolation_level": 0,
    "num_partitions": 1,
    "replication_factor": 1,
    "count": 2,
    "timeout_ms": 20_000,
    "session_timeout_ms": 30_000,
    "rebalance_timeout_ms": 30_000,
    "current_leader_epoch": -1,
    "assignments": [],
    "acks": 1,
    "protocol_type": "consumer",
    "session_epoch": -1,
    "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 10,
    "generation_id_or_member_epoch": -1,
    "generation_id": -1,
    "response_partition_limit": 2_000,
    "max_wait_ms": 0,
}
OTHERWISE: dict[tuple[AnyApiKey, str], Callable[[int], Any]] = {
    (ApiKey.CREATE_TOPICS, "name"): "made-{}".format,
    (ApiKey.CREATE_TOPICS, "configs"): lambda _: [],
    (ApiKey.ALTER_CONFIGS, "value"): lambda _: "1000",
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, "value"): lambda _: "1000",
    (ApiKey.DESCRIBE_CONFIGS, "configuration_keys"): lambda _: None,
}


class Filling:
    """Makes requests about what is `there`."""

    def __init__(self, there: There, shape: Shape, key: AnyApiKey, version: int) -> None:
        self._there, self._shape, self._key = there, shape, key
        self._version = Version(api_of(key).request_class, version)

    def request(self) -> Message:
        return self._message(api_of(self._key).request_class, 0, 0)

    def _message(self, cls: type[Message], number: int, depth: int) -> Message:
        plain, _, _ = fields_in(cls, self._version)
        return cls(**{name: self._value(name, item, number, depth) for name, item in plain.items()})

    def _value(self, name: str, item: Field, number: int, depth: int) -> Any:
        if (self._key, name) in OTHERWISE:
            return OTHERWISE[self._key, name](number)
        if name in FIXED:
            return FIXED[name]
        if item.is_array:
            return [self._one(name, item.kind, n, depth + 1) for n in range(self._shape.count(depth))]
        is_left_out = item.new_default() is None and name not in NAMES
        return None if is_left_out else self._one(name, item.kind, number, depth)

    def _one(self, name: str, kind: Any, number: int, depth: int) -> Any:
        there = self._there
        if not isinstance(kind, str):
            return self._message(kind, number, depth)
        if kind == "uuid":
            return there.ids[number % len(there.ids)] if "topic" in name else UUID(int=0)
        if kind == "string":
            if name in NAMES:
                return there.topics[number % len(there.topics)]
            if name in GROUPS:
                return there.group if depth < 1 else f"{there.group}-{number}"
            return f"{name}-{number}"[:200]
        if kind in ("bytes", "records"):
            return bytes(10)
        if kind == "bool":
            return False
        return number if name in NUMBERS else 0
