"""One partition of `__consumer_offsets` that this node leads: runs its `GroupShard`.

Records are read from the log in slices, between which the loop does other work. After that each event goes to the
machine, and its effects are carried out here: answers go to those who wait, records are appended, and reported on when
the high watermark has passed them. One timer of the loop stands for the machine's earliest deadline.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from penstock.coordinator.group.effects import Append, Effect, Rebalanced, Reply
from penstock.coordinator.group.shard import GroupShard
from penstock.log.validation import AppendOrigin
from penstock.node.partitions.partition import ALL_REPLICAS, Partition
from penstock.protocol.compression import Compression
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.records import Record, encode_batch, iterate_batches, iterate_records

logger = logging.getLogger(__name__)

LOAD_SLICE_BYTES: Final = 64 * 1024
"""What is read and applied at a time while loading: some milliseconds of work."""

_NOTHING: Final = object()


class Parked:
    """A request on its way through the machine; a future is made only if it has to wait."""

    __slots__ = ("future", "response")

    def __init__(self) -> None:
        self.response: Any = _NOTHING
        self.future: asyncio.Future[Any] | None = None

    def answer(self, response: object) -> None:
        """Give the answer to whoever asked; one who has gone away meanwhile needs none."""
        if self.future is None:
            self.response = response
        elif not self.future.done():
            self.future.set_result(response)


class GroupPartition:
    """The groups of one partition, from the time on that this node leads it."""

    def __init__(
        self, partition: Partition, machine: GroupShard, now_ms: Callable[[], int], compression: Compression
    ) -> None:
        self.partition = partition
        self.machine = machine
        self.is_loaded = False
        self._has_resigned = False
        self._now_ms = now_ms
        self._compression = compression
        self._loop = asyncio.get_running_loop()
        self._effects: deque[Effect] = deque()
        self._is_running = False
        self._under_way: deque[tuple[int, int]] = deque()
        self._is_waiting = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0

    # -- loading ------------------------------------------------------------------------------------------------------

    async def load(self) -> None:
        """Read the partition up to its end, and serve once all of that is committed."""
        log = self.partition.log
        position, end = log.log_start_offset, log.log_end_offset
        while position < end and not self._is_over:
            position = self._read_slice(position, end)
            await asyncio.sleep(0)
        await self._until_committed(end)
        if self._is_over:
            return
        self.is_loaded = True
        self.run(self.machine.loaded(self._now_ms()))
        if end:
            groups = len(self.machine.list_groups())
            logger.info("%s: %d groups from %d records' worth of log", self.partition, groups, end)

    def _read_slice(self, position: int, end: int) -> int:
        """Apply some batches from `position` on; the offset to go on from."""
        data = self.partition.log.read(position, LOAD_SLICE_BYTES, upper_offset=end).read()
        for at, header in iterate_batches(data):
            position = header.last_offset + 1
            if header.is_control:
                continue
            for record in iterate_records(data, at, header):
                self._read(record)
        if not data:
            return end
        return position

    def _read(self, record: Record) -> None:
        if record.key is None:
            return
        try:
            self.machine.read(record.key, record.value)
        except DecodeError as error:
            logger.warning("%s: the record at offset %d is left out: %s", self.partition, record.offset, error)

    async def _until_committed(self, end: int) -> None:
        partition = self.partition
        while not self._is_over and partition.high_watermark < end:
            moved = asyncio.Event()
            partition.committed.waits.add(end, moved.set)
            await moved.wait()

    @property
    def _is_over(self) -> bool:
        return self._has_resigned or self.partition.leader is None

    def resign(self) -> None:
        """Another node leads the partition, or this one stops: who waits is sent away."""
        self._has_resigned = True
        self._under_way.clear()
        if self.is_loaded:
            self.is_loaded = False
            self.run(self.machine.unload(self._now_ms()))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- events -------------------------------------------------------------------------------------------------------

    def ask(self, event: Callable[..., list[Effect]], *arguments: object) -> Any:
        """Put a request to the machine: its answer, or a future of it. `event` takes a token first, the time last."""
        parked = Parked()
        self.run(event(parked, *arguments, self._now_ms()))
        if parked.response is not _NOTHING:
            return parked.response
        parked.future = self._loop.create_future()
        return parked.future

    def run(self, effects: list[Effect]) -> None:
        """Carry effects out, and those that come of them."""
        self._effects += effects
        if self._is_running:
            return
        self._is_running = True
        try:
            while self._effects:
                self._carry_out(self._effects.popleft())
        finally:
            self._is_running = False
        self._set_timer()

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, Reply):
            assert isinstance(effect.token, Parked)
            effect.token.answer(effect.response)
        elif isinstance(effect, Append):
            self._append(effect)
        else:
            assert isinstance(effect, Rebalanced)
            logger.info("group %s: %s", effect.group_id, effect.rebalance.describe())

    # -- the log ------------------------------------------------------------------------------------------------------

    def _append(self, effect: Append) -> None:
        now_ms = self._now_ms()
        records = [Record(timestamp_ms=now_ms, key=key, value=value) for key, value in effect.records]
        try:
            batch = encode_batch(records, compression=self._compression)
            result = self.partition.append(
                memoryview(batch), acks=ALL_REPLICAS, now_ms=now_ms, origin=AppendOrigin.COORDINATOR
            )
        except KafkaError as error:
            logger.warning("%s: could not append: %s", self.partition, error)
            self.run(self.machine.appended(effect.write_id, error.code, now_ms))
            return
        self._under_way.append((result.last_offset, effect.write_id))
        if not self._is_waiting:
            self._moved()

    def _moved(self) -> None:
        """What was appended first may be committed now, or leadership has ended."""
        self._is_waiting = False
        if self.partition.leader is None:
            return  # `resign` follows with the metadata.
        high_watermark = self.partition.high_watermark
        while self._under_way and self._under_way[0][0] < high_watermark:
            _, write_id = self._under_way.popleft()
            self.run(self.machine.appended(write_id, ErrorCode.NONE, self._now_ms()))
        if self._under_way and not self._is_waiting:
            self._is_waiting = True
            self.partition.committed.waits.add(self._under_way[0][0] + 1, self._moved)

    # -- time ---------------------------------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        """Wake in time for the earliest deadline. One that was put off is found out when the old one comes."""
        deadline_ms = self.machine.next_deadline_ms() if self.is_loaded else None
        if deadline_ms is None or (self._timer is not None and self._timer_ms <= deadline_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = deadline_ms
        self._timer = self._loop.call_later(max(deadline_ms - self._now_ms(), 0) / 1000, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self.run(self.machine.wake(self._now_ms()))
