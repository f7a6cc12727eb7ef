"""Moves between log directories of which a test asks single steps: what they call is noted, nothing is on a disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

from penstock.node.partitions.isr_partition import IsrPartition
from penstock.node.partitions.moves import DirectoryMoves
from penstock.protocol.errors import ErrorCode, KafkaError

NO_ROOM = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room")
KEY = "orders", 0
LANE = "/a", "/b"


class One(IsrPartition):
    """A replica in `/a`, of which nothing is on a disk."""

    def __init__(self, index: int = 0) -> None:
        self.topic, self.index, self.topic_id = "orders", index, cast("Any", 7)
        log = SimpleNamespace(parent="/a", is_lent=False, log_start_offset=0, log_end_offset=9)
        log.health = SimpleNamespace(failure=None, check=self.checked)
        log.when_back = lambda go_on: False
        self.log = cast("Any", log)
        self.dirty = {}
        self.error: KafkaError | None = None

    def checked(self) -> None:
        if self.error is not None:
            raise self.error


class World:
    def __init__(self) -> None:
        self.did: list[Any] = []
        self.one = One()
        self.held: dict[tuple[str, int], Any] = {KEY: self.one}
        self.futures: dict[tuple[str, int], Any] = {}
        self.directories = SimpleNamespace(
            futures=self.futures, roots=SimpleNamespace(offline={}, for_data=[]), preferred={},
            set_future_aside=self.does("set aside"), drop_future=self.does("drop"), create_future="create",
            swap=lambda log: "gone", swapped=self.does("swapped"),
        )  # fmt: skip
        context: Any = SimpleNamespace(directories=self.directories, now_ms=lambda: 1_000)
        table: Any = SimpleNamespace(get=lambda *key: self.held.get(key))
        self.waits: Iterator[int] = iter(())
        quota: Any = SimpleNamespace(wait_ms=lambda now_ms: next(self.waits, 0), record=self.does("recorded"))
        self.moves: Any = DirectoryMoves(context, table, quota, self.does("moved"))

    def does(self, name: str) -> Callable[..., Any]:
        return lambda *given: self.did.append((name, *given))

    async def in_thread(self, path: str, work: Any) -> Any:
        self.did.append(("in thread", path, work))
        return work() if callable(work) else None
