"""A share partition that gives records away in the order of their keys: reads the log ahead, and its batches for keys.

They may be compressed, and unpack to very much, so a thread looks at them, one of the node at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from penstock.node.environment.tasks import Tasks
from penstock.node.partitions.partition import Later, Partition
from penstock.node.serving.slices import Slices
from penstock.node.sharing.shared import Aborts, Found, Shared
from penstock.protocol.batch import BatchHeader
from penstock.protocol.errors import DecodeError
from penstock.protocol.records import iterate_batches, iterate_records
from penstock.sharing.keys import ShareKey
from penstock.sharing.ordered import Keyed, OrderedPartition
from penstock.sharing.values import ShareSettings, Status

READ_BYTES: Final = 256 * 1024
"""Of the log at a time, or a batch that is larger."""
MOST_KEYS: Final = 10_000
"""That are told at a time, and the largest `group.share.partition.max.record.locks`."""
OF_ONE: Final = 50
TOGETHER: Final = 10
"""Offsets of which keys are told together, and how many such parts are admitted in one turn of the loop: 2 ms."""
MOST_UNPACKED_BYTES: Final = 64 << 20
"""Of a batch; what takes more cannot be read here."""
UNREADABLE: Final = 0
"""The key of all records of a batch that cannot be read: they come one after the other."""


class OrderedShared(Shared):
    def __init__(
        self,
        key: ShareKey,
        partition: Partition,
        settings: ShareSettings,
        expire: Callable[[Shared], None],
        slices: Slices,
    ) -> None:
        super().__init__(key, partition, settings, expire)
        self.machine = self._machine = OrderedPartition(settings)
        self._slices = slices
        self._tasks = Tasks()
        self._reading: asyncio.Task[None] | None = None

    def close(self) -> None:
        super().close()
        if self._reading is not None:
            self._reading.cancel()

    @property
    def has_records(self) -> bool:
        has_records = super().has_records
        self._read_ahead()
        return has_records

    def _read_ahead(self) -> None:
        """Whoever waits hears of what it brings."""
        begin, end = self._machine.keyed_to, self._end_offset
        if self._reading is not None or not self._machine.wants_keys or begin >= end:
            return
        found = self.partition.read(begin, READ_BYTES, upper_offset=end, at_least_one_batch=True)
        if isinstance(found, Later):
            found.waits.add(found.offset, self.has_news)
        elif found.length:
            data, aborts = self.partition.log.bytes_of(found), self._aborts(Found(begin, found))
            work = partial(keys_of, data, begin, aborts)
            self._reading = self._tasks.start(self._read(work), f"keys of {self.key.text}")

    async def _read(self, work: Callable[[], list[Keyed]]) -> None:
        try:
            await self._slices.each(await self._slices.work(work), TOGETHER, self._admit)
        finally:
            self._reading = None
        if self._machine.status is Status.ACTIVE:
            self.has_news()

    def _admit(self, some: Sequence[Keyed]) -> None:
        if self._machine.status is Status.ACTIVE:
            self._machine.admit(some)


def keys_of(data: bytes, begin: int, aborts: Aborts | None) -> list[Keyed]:
    """What the batches have from an offset on, of `MOST_KEYS` offsets at most. Markers, and what was aborted, have no
    records.
    """
    read: list[Keyed] = []
    end = begin + MOST_KEYS
    for position, header in iterate_batches(data):
        first, last = max(header.base_offset, begin), min(header.last_offset, end - 1)
        if first >= end:
            break
        is_aborted = aborts is not None and aborts.has(header)
        has_none = header.is_control or is_aborted
        if has_none:
            read.append(Keyed(first, last, {}))
        else:
            read += _parts(first, last, _keys(data, position, header, first, last))
    return read


def _parts(first: int, last: int, keys: dict[int, int | None]) -> Iterator[Keyed]:
    for begin in range(first, last + 1, OF_ONE):
        end = min(begin + OF_ONE - 1, last)
        yield Keyed(begin, end, {offset: keys[offset] for offset in range(begin, end + 1) if offset in keys})


def _keys(data: bytes, position: int, header: BatchHeader, first: int, last: int) -> dict[int, int | None]:
    keys: dict[int, int | None] = {}
    try:
        for record in iterate_records(data, position, header, max_bytes=MOST_UNPACKED_BYTES):
            if record.offset > last:
                break
            if record.offset >= first:
                keys[record.offset] = None if record.key is None else hash(record.key)
    except DecodeError:
        return dict.fromkeys(range(first, last + 1), UNREADABLE)
    return keys
