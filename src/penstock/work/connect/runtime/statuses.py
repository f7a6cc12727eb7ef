"""How connectors and tasks are, and which topics they use: what the status topic says, and how it is told.

A worker that lets something go says UNASSIGNED only if no later status is known: of two workers the one in the later
generation is right.
"""

from collections.abc import Callable
from typing import Final

from penstock.work.connect.runtime.records import (
    CONNECTOR_STATUS,
    TASK_STATUS,
    TOPIC_STATUS,
    Status,
    TaskId,
    decode,
    parse_task,
    parse_topic_key,
    put,
    read_status,
    status,
    topic_key,
    topic_use,
)
from penstock.work.connect.runtime.supervisor import RunState

LONGEST_TRACE: Final = 20_000


class Statuses:
    """What all workers have told, and what this one tells. `post` writes a record without waiting."""

    def __init__(self, worker_id: str, post: Callable[[bytes, bytes | None], None]) -> None:
        self.worker_id = worker_id
        self.generation = 0
        self._post = post
        self._connectors: dict[str, Status] = {}
        self._tasks: dict[str, dict[int, Status]] = {}
        self._topics: dict[str, dict[str, str]] = {}

    # What is known

    def connector(self, name: str) -> Status | None:
        return self._connectors.get(name)

    def connectors(self) -> list[str]:
        return list(dict.fromkeys([*self._connectors, *self._tasks, *self._topics]))

    def tasks(self, connector: str) -> dict[int, Status]:
        return dict(sorted(self._tasks.get(connector, {}).items()))

    def topics(self, connector: str) -> list[str]:
        return list(self._topics.get(connector, {}))

    def read(self, key: bytes, value: bytes | None, _: int = 0) -> None:
        text = key.decode("utf-8", "replace")
        document = decode(value)
        found = read_status(document) if document is not None else None
        if text.startswith(CONNECTOR_STATUS):
            name = text.removeprefix(CONNECTOR_STATUS)
            if found is not None:
                self._connectors[name] = found
            else:
                self._connectors.pop(name, None)
        elif text.startswith(TASK_STATUS):
            task = parse_task(text.removeprefix(TASK_STATUS))
            if task is not None:
                put(self._tasks, task.connector, task.number, found)
        elif text.startswith(TOPIC_STATUS):
            topic, connector = parse_topic_key(text)
            put(self._topics, connector, topic, topic if document is not None else None)

    # What is told

    def tell_connector(self, name: str, state: RunState, trace: str = "", version: str | None = None) -> None:
        self._tell(f"{CONNECTOR_STATUS}{name}", self._connectors.get(name), state, trace, version)

    def tell_task(self, task: TaskId, state: RunState, trace: str = "", version: str | None = None) -> None:
        self._tell(f"{TASK_STATUS}{task}", self._tasks.get(task.connector, {}).get(task.number), state, trace, version)

    def tell_topic(self, task: TaskId, topic: str, now_ms: int) -> None:
        if topic not in self._topics.get(task.connector, {}):
            self._say(topic_key(topic, task.connector).encode(), topic_use(topic, task, now_ms))

    def forget(self, connector: str) -> None:
        for number in self.tasks(connector):
            self._say(f"{TASK_STATUS}{connector}-{number}".encode(), None)
        self.forget_topics(connector)
        self._say(f"{CONNECTOR_STATUS}{connector}".encode(), None)

    def forget_tasks(self, connector: str, count: int) -> None:
        """The connector has at most `count` tasks."""
        for number in self.tasks(connector):
            if number >= count:
                self._say(f"{TASK_STATUS}{connector}-{number}".encode(), None)

    def forget_topics(self, connector: str) -> None:
        for topic in self.topics(connector):
            self._say(topic_key(topic, connector).encode(), None)

    def _tell(self, key: str, known: Status | None, state: RunState, trace: str, version: str | None) -> None:
        is_later = known is not None and known.worker_id != self.worker_id and known.generation > self.generation
        if state is RunState.UNASSIGNED and is_later:
            return
        told = Status(state.value, trace[:LONGEST_TRACE] or None, self.worker_id, self.generation, version)
        self._say(key.encode(), status(told))

    def _say(self, key: bytes, value: bytes | None) -> None:
        self.read(key, value)
        self._post(key, value)
