"""How far sources have been read: the next worker of a task goes on where the last one has ended.

That is in the worker's log, or in a topic of the connector's own (`offsets.storage.topic`). What is not in the latter
is looked up in the former, which gets a copy of all that the latter has.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from penstock.work.connect.api import Changes, Position
from penstock.work.connect.runtime.logs import OnRecord, WorkerLog
from penstock.work.connect.runtime.offset_copies import OffsetCopies
from penstock.work.connect.runtime.promises import OFFSETS_TOPIC
from penstock.work.connect.runtime.records import encode, offset_key, parse_offset_key, partition_name, put
from penstock.work.scope import Scope

KEPT_S: Final = 600.0
"""How long a topic is read on that nobody uses: a task that has failed is started again sooner."""
Rows = list[tuple[bytes, bytes | None]]


class OffsetStore(Protocol):
    """Of all connectors that have it."""

    def get(self, connector: str, partition: Position) -> Position | None: ...

    def all_of(self, connector: str) -> list[tuple[Position, Position]]: ...

    def rows(self, connector: str, offsets: Changes) -> Rows:
        """What stands for them in a topic: keys and values."""

    async def write(self, connector: str, offsets: Changes) -> None:
        """None forgets a partition."""

    def copy(self, connector: str, offsets: Changes) -> None:
        """What a transaction has written and committed; returns at once."""

    async def settle(self) -> None:
        """Wait until nothing is on its way that `write` or `copy` did not wait for."""

    async def read_to_end(self) -> None:
        """Wait until what was stored by now is known; TimeoutError."""


class SourceOffsets:
    """A partition keeps the bytes of its first key, because compaction compares bytes."""

    def __init__(self, new_log: Callable[[OnRecord], WorkerLog]) -> None:
        self.log = new_log(self._read)
        self._offsets: dict[str, dict[str, tuple[bytes, Position, Position]]] = {}

    def get(self, connector: str, partition: Position) -> Position | None:
        found = self._offsets.get(connector, {}).get(partition_name(partition))
        return found[2] if found else None

    def all_of(self, connector: str) -> list[tuple[Position, Position]]:
        return [(partition, offset) for _, partition, offset in self._offsets.get(connector, {}).values()]

    def rows(self, connector: str, offsets: Changes) -> Rows:
        known = self._offsets.get(connector, {})
        return [
            (
                known[partition_name(partition)][0]
                if partition_name(partition) in known
                else offset_key(connector, partition),
                None if offset is None else encode(dict(offset)),
            )
            for partition, offset in offsets
        ]

    async def write(self, connector: str, offsets: Changes) -> None:
        await asyncio.gather(*(self.log.put(key, value) for key, value in self.rows(connector, offsets)))

    def copy(self, connector: str, offsets: Changes) -> None: ...

    async def settle(self) -> None: ...

    async def read_to_end(self) -> None:
        await self.log.read_to_end()

    def _read(self, key: bytes, value: bytes | None, _: int) -> None:
        parsed = parse_offset_key(key)
        if parsed is None:
            return
        connector, partition = parsed
        offset = json.loads(value) if value is not None else None
        found = (key, partition, offset) if isinstance(offset, dict) else None
        put(self._offsets, connector, partition_name(partition), found)


class OwnOffsets:
    """In a topic of one connector's own; its copies in the worker's log come later.

    What is forgotten is so in the worker's log first: else a failure between them would bring it back.
    """

    def __init__(self, own: SourceOffsets, of_worker: SourceOffsets) -> None:
        self._own = own
        self._of_worker = of_worker
        self._copies = OffsetCopies(of_worker.write)
        self.rows = own.rows

    def get(self, connector: str, partition: Position) -> Position | None:
        found = self._own.get(connector, partition)
        return self._of_worker.get(connector, partition) if found is None else found

    def all_of(self, connector: str) -> list[tuple[Position, Position]]:
        both = [*self._of_worker.all_of(connector), *self._own.all_of(connector)]
        return list({partition_name(partition): (partition, offset) for partition, offset in both}.values())

    async def write(self, connector: str, offsets: Changes) -> None:
        gone = [one for one in offsets if one[1] is None]
        if gone:
            await self.settle()
            await self._of_worker.write(connector, gone)
        await self._own.write(connector, offsets)
        self.copy(connector, [one for one in offsets if one[1] is not None])

    def copy(self, connector: str, offsets: Changes) -> None:
        self._copies.take(connector, offsets)

    async def settle(self) -> None:
        await self._copies.settle()

    async def read_to_end(self) -> None:
        await self.settle()
        await asyncio.gather(self._own.read_to_end(), self._of_worker.read_to_end())


class OffsetStores:
    """Which connector has which. A topic of a connector's own is read while somebody uses it, and KEPT_S longer."""

    def __init__(
        self, of_worker: SourceOffsets, topic: str, new_log: Callable[[str, OnRecord], WorkerLog] | None
    ) -> None:
        """`topic` is that of the worker's log; `new_log` is None where connectors cannot have topics of their own."""
        self.of_worker = of_worker
        self._topic = topic
        self._new_log = new_log
        self._own: dict[str, _InUse] = {}
        self._opening = asyncio.Lock()
        self._closing = Scope()

    def topic_of(self, config: Mapping[str, str]) -> str:
        return config.get(OFFSETS_TOPIC.name, "").strip() or self._topic

    @asynccontextmanager
    async def of(self, config: Mapping[str, str]) -> AsyncIterator[OffsetStore]:
        """By the connector's configuration, as long as it is used; errors of topics and the cluster."""
        topic = self.topic_of(config)
        if topic == self._topic or self._new_log is None:
            yield self.of_worker
            return
        async with self._opening:
            if topic not in self._own:
                self._own[topic] = _InUse(await _opened(topic, self._new_log))
            one = self._own[topic]
            one.begin()
        try:
            yield OwnOffsets(one.offsets, self.of_worker)
        finally:
            one.end(lambda: self._close(topic))

    def _close(self, topic: str) -> None:
        self._closing.start(self._own.pop(topic).offsets.log.stop(), f"end of {topic}")

    async def stop(self) -> None:
        for topic in tuple(self._own):
            self._own[topic].begin()  # nobody is the last to use it
            self._close(topic)
        await asyncio.gather(*self._closing)


@dataclass(slots=True)
class _InUse:
    offsets: SourceOffsets
    users: int = 0
    timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        self.users += 1
        if self.timer is not None:
            self.timer.cancel()

    def end(self, close: Callable[[], None]) -> None:
        self.users -= 1
        if not self.users:
            self.timer = asyncio.get_running_loop().call_later(KEPT_S, close)


async def _opened(topic: str, new_log: Callable[[str, OnRecord], WorkerLog]) -> SourceOffsets:
    opened = SourceOffsets(lambda on_record: new_log(topic, on_record))
    try:
        await opened.log.start()
    except BaseException:
        await opened.log.stop()
        raise
    return opened
