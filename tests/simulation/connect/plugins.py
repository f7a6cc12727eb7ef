"""Plugins of the simulated workers: a step that may block, a function between topics, and a sink that holds back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.client.values import OffsetAndMetadata, TopicPartition
from penstock.work.connect.api import RetriableError, Safe, SinkConnector, SinkContext, SinkRecord, SinkTask

KEPT: dict[str, dict[int, None]] = {}
"""What the holding sinks have made safe, by the name of their store."""


class AsItIs:
    """A user's transform: for its sake all steps run in the task's thread, whose work the simulated loop orders."""

    keys = ()

    def configure(self, config: Mapping[str, str]) -> None: ...

    def apply(self, record: Any) -> Any:
        return record


def copy(record: SinkRecord) -> Any:
    return record.value


class HoldingTask(SinkTask):
    """Holds a part of what it has back at each flush, and is on the event loop."""

    async def start(self, config: Mapping[str, str], context: SinkContext) -> None:
        self._kept = KEPT[config["store"]]
        self._held: dict[TopicPartition, list[SinkRecord]] = {}
        self._puts = 0

    async def put(self, records: Sequence[SinkRecord]) -> None:
        self._puts += 1
        if self._puts % 5 == 0:
            raise RetriableError("not now")
        for record in records:
            self._held.setdefault(record.original, []).append(record)

    async def flush(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> Safe:
        """Half of what it has, so that all comes in the end if it is asked often enough."""
        safe: dict[TopicPartition, OffsetAndMetadata] = {}
        for partition, to in offsets.items():
            held = self._held.get(partition, [])
            count = (len(held) + 1) // 2
            for record in held[:count]:
                self._kept[record.value["id"]] = None
            del held[:count]
            safe[partition] = OffsetAndMetadata(held[0].offset) if held else to
        return safe

    async def close(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self._held.pop(partition, None)

    async def stop(self) -> None: ...


class HoldingSink(SinkConnector):
    task_class = HoldingTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.config) for _ in range(max_tasks)]
