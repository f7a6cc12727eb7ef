"""The keys and values of Connect's three topics, byte for byte what Kafka's own workers read and write.

| topic | key | value |
| --- | --- | --- |
| config | `connector-NAME` | `{"properties": {…}}` |
| | `task-NAME-0` | the same, in force from the next commit on |
| | `commit-NAME` | `{"tasks": 3}` |
| | `target-state-NAME` | `{"state": "PAUSED", "state.v2": "STOPPED"}` |
| | `tasks-fencing-NAME` | `{"task-count": 3}`: older tasks write no more, and these may begin |
| | `restart-connector-NAME` | `{"include-tasks": true, "only-failed": false}` |
| | `logger-cluster-LOGGER` | `{"level": "DEBUG"}` |
| | `session-key` | `{"key": …, "algorithm": "HmacSHA256", "creation-timestamp": …}` |
| status | `status-connector-NAME`, `status-task-NAME-0` | `{"state": …, "trace": …, "worker_id": …, "generation": …}` |
| | `status-topic-TOPIC:connector-NAME` | `{"topic": {"name": …, "connector": …, "task": …, "discoverTimestamp": …}}` |
| offset | `["NAME", {…}]` | `{…}` |

No value at all takes a key away. Other keys are ignored.
"""

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, TypeVar

from penstock.protocol.value import Value

CONNECTOR: Final = "connector-"
TASK: Final = "task-"
COMMIT: Final = "commit-"
TARGET_STATE: Final = "target-state-"
FENCING: Final = "tasks-fencing-"
RESTART: Final = "restart-connector-"
LOGGER: Final = "logger-cluster-"
CONNECTOR_STATUS: Final = "status-connector-"
TASK_STATUS: Final = "status-task-"
TOPIC_STATUS: Final = "status-topic-"
MOST_DIGITS: Final = 9
"""Of the number of a task; who writes to a topic, or asks for a path, may write any."""
_OF_CONNECTOR: Final = ":connector-"
Key = TypeVar("Key")
Found = TypeVar("Found")


class Target(Enum):
    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


class TaskId(Value):
    connector: str
    number: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.number}"


class Status(Value):
    """Of a connector or a task: its state, the worker that said it and in which generation, the plugin's version."""

    state: str
    trace: str | None
    worker_id: str
    generation: int
    version: str | None = None


def encode(document: object) -> bytes:
    """JSON as Kafka Connect writes it."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def decode(data: bytes | None) -> dict[str, Any] | None:
    """None if the value is no object: foreign records are ignored."""
    try:
        document = json.loads(data) if data is not None else None
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def parse_task(text: str) -> TaskId | None:
    """`NAME-0`; None if it is no task."""
    connector, _, number = text.rpartition("-")
    is_number = number.isdecimal() and number.isascii() and len(number) <= MOST_DIGITS
    return TaskId(connector, int(number)) if connector and is_number else None


def is_of(connector: str, name: str) -> bool:
    task = parse_task(name.removeprefix(TASK))
    return task is not None and task.connector == connector


def properties(config: Mapping[str, str]) -> bytes:
    return encode({"properties": dict(config)})


def target_state(target: Target) -> bytes:
    """Workers that know no STOPPED see PAUSED (KIP-875)."""
    old = Target.PAUSED if target is Target.STOPPED else target
    return encode({"state": old.value, "state.v2": target.value})


def task_count(count: int) -> bytes:
    """That so many tasks may have written transactions since (KIP-618)."""
    return encode({"task-count": count})


def read_target(document: Mapping[str, Any]) -> Target:
    """Unknown values count as STARTED."""
    for field in ("state.v2", "state"):
        word = document.get(field)
        if isinstance(word, str) and word in Target.__members__:
            return Target[word]
    return Target.STARTED


def status(one: Status) -> bytes:
    words = {"state": one.state, "trace": one.trace, "worker_id": one.worker_id, "generation": one.generation}
    return encode({**words, "version": one.version})


def read_status(document: Mapping[str, Any]) -> Status | None:
    try:
        trace, version = document.get("trace"), document.get("version")
        return Status(
            str(document["state"]),
            None if trace is None else str(trace),
            str(document["worker_id"]),
            int(document["generation"]),
            None if version is None else str(version),
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def topic_key(topic: str, connector: str) -> str:
    return f"{TOPIC_STATUS}{topic}{_OF_CONNECTOR}{connector}"


def parse_topic_key(key: str) -> tuple[str, str]:
    """The topic and the connector; a topic's name has no colon."""
    topic, _, connector = key.removeprefix(TOPIC_STATUS).partition(_OF_CONNECTOR)
    return topic, connector


def topic_use(topic: str, task: TaskId, since_ms: int) -> bytes:
    words = {"name": topic, "connector": task.connector, "task": task.number, "discoverTimestamp": since_ms}
    return encode({"topic": words})


def offset_key(connector: str, partition: Mapping[str, Any]) -> bytes:
    return encode([connector, dict(partition)])


def parse_offset_key(key: bytes) -> tuple[str, dict[str, Any]] | None:
    """The connector and the partition of its source; None if it is no such key."""
    try:
        document = json.loads(key)
    except (ValueError, RecursionError):
        return None
    match document:
        case [str(connector), dict(partition)]:
            return connector, partition
    return None


def partition_name(partition: Mapping[str, Any]) -> str:
    """The same for the same partition, however its keys are ordered."""
    return json.dumps(dict(partition), sort_keys=True)


def put(table: dict[str, dict[Key, Found]], connector: str, key: Key, found: Found | None) -> None:
    """What a topic says of one thing of a connector; None takes it away, and with the last of them the connector."""
    if found is not None:
        table.setdefault(connector, {})[key] = found
    elif connector in table:
        table[connector].pop(key, None)
        if not table[connector]:
            del table[connector]
