"""A log that is compacted, a node around it, and rounds that do what a test says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

from tests.unit.node.contexts import embedded

from penstock.node.metrics.registry import Registry
from penstock.node.partitions.cleaner import Cleaner, _Before
from penstock.protocol.errors import ErrorCode, KafkaError

NO_ROOM = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room")


class Log:
    """A log of 40 records in segments that begin at 0, 10, 20 and 35."""

    def __init__(self) -> None:
        self.directory, self.parent, self.recovery_point = "/a/t-0", "/a", 20
        self.is_loaded = self.may_swap = True
        self.is_deleted = self.is_lent = False
        self.log_end_offset, self.cleaned_to = 40, 10
        self.health = SimpleNamespace(failure=None, report=lambda error, what: NO_ROOM)
        self.segments: Any = Segments(SimpleNamespace(base_offset=at) for at in (0, 10, 20, 35))
        self.steps: list[object] = []
        self.config = SimpleNamespace(is_compacted=True)
        self.content = SimpleNamespace(cuts=4)

    def load(self) -> Any:
        assert self.is_loaded
        return self.content

    def flush(self) -> None:
        self.steps.append("flush")

    def swap_in(self, old: list[Any], now_ms: int, gone: tuple[int, ...]) -> bool:
        self.steps.append(([one.base_offset for one in old], now_ms, gone))
        return self.may_swap

    def last_stable_offset(self, high_watermark: int) -> int:
        return high_watermark


class Segments(list[Any]):
    @property
    def active(self) -> Any:
        return self[-1]

    def sync_names(self) -> None: ...


class World:
    def __init__(self, **settings: str) -> None:
        self.now_ms = 1_000
        self.log = Log()
        self.partition: Any = SimpleNamespace(
            topic="t", index=0, log=self.log, owns_log=True, last_stable_offset=39, __str__=lambda _: "t-0"
        )
        self.found: Any = SimpleNamespace(first_uncleanable=30)
        self.written: list[object] = []
        self.discarded: list[object] = []
        self.registry = Registry()
        directories = SimpleNamespace(
            futures={},
            logs={},
            roots={"/a": "a"},
            checkpoints=SimpleNamespace(write_cleaned_offsets=lambda _, root: self.written.append(root)),
            discard=lambda log, suffix: self.discarded.append(log),
        )
        context: Any = SimpleNamespace(
            config=embedded(1, **settings),
            directories=directories,
            now_ms=lambda: self.now_ms,
            environment=SimpleNamespace(run_rounds=lambda disk: Runner(), disk=None),
            metrics=self.registry,
        )
        self.cleaner: Any = Cleaner(context, cast("Any", SimpleNamespace(by_topic=lambda: self.topics)))
        self.topics: list[dict[int, Any]] = [{0: self.partition}]

    async def do_round(self, runner: Runner) -> None:
        await self.cleaner._do_round(self.partition, self.found, runner, _Before(cast("Any", self.log)))


class Runner:
    """Does these steps, or fails."""

    def __init__(self, *steps: object) -> None:
        self.steps = steps
        self.bytes_per_s: list[float] = []
        self.rests = 0

    async def run(self, work: object, bytes_per_s: float) -> AsyncIterator[Any]:
        self.bytes_per_s.append(bytes_per_s)
        for step in self.steps:
            if isinstance(step, Exception):
                raise step
            yield step

    async def rest(self) -> None:
        self.rests += 1
