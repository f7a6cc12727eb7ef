"""One partition that this node leads in one epoch, with the machine that lives on it.

| from | to | when |
| --- | --- | --- |
| reading | serving | its records, up to the end that the log had, are read and committed |
| any | ended | leadership has moved, or the node stops (`resign`): clients that wait are sent away |

Records are read from the log in slices, between which the loop does other work. After that each event goes to the
machine, and its effects are carried out here: answers go to clients, records are appended, and reported on when the
high watermark has passed them. One timer of the loop stands for the machine's earliest deadline.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Generic, Self, TypeVar

from penstock.coordinator.effects import Append, Cut, Effect, Errand, Note, Reply
from penstock.coordinator.machine import PartitionMachine, Reading
from penstock.log.validation import AppendOrigin, AppendResult
from penstock.node.coordinators.errands import Errands
from penstock.node.coordinators.last_values import AT_ONCE, LastValues
from penstock.node.environment.alarm import Alarm, Turns
from penstock.node.environment.tasks import Tasks
from penstock.node.partitions.partition import ALL_REPLICAS, Partition
from penstock.node.serving.late_answer import LateAnswer
from penstock.protocol.compression import Compression
from penstock.protocol.control.records import ControlType, transaction_marker
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.records import Record, encode_batch, iterate_batches, iterate_records, whole_batch

logger = logging.getLogger(__name__)

LOAD_SLICE_BYTES: Final = 128 * 1024
"""What is read at a time while loading: some milliseconds of work."""
APPLY_SLICE_BYTES: Final = 16 * 1024
"""What is read and applied at a time, where every record is."""

ANSWERS_AT_ONCE: Final = 100
"""Each is encoded and written, now or in the loop's next turn."""

WRITES_AT_ONCE: Final = 100
"""Those that are committed are reported to the machine in turns of the loop; what follows from one takes some µs."""

_NOTHING: Final = object()

MachineT = TypeVar("MachineT", bound=PartitionMachine[Any])


class Parked(LateAnswer[Any]):
    """A request on its way through the machine; what waits for it, a future or a listener, is made only if it has to
    wait.
    """

    __slots__ = ("_waits", "response")

    def __init__(self) -> None:
        super().__init__()
        self._waits = False
        self.response: Any = _NOTHING

    def waiting(self) -> Self | Any:
        """What the machine has said, or this object, which tells it later."""
        self._waits = self.response is _NOTHING
        return self if self._waits else self.response

    def answer(self, response: object) -> None:
        """A client that has gone away meanwhile gets no answer."""
        if self._waits:
            self.tell(response)
        else:
            self.response = response

    def call_off(self) -> None:
        self._waits = False
        self.forget()


class Hosted(Generic[MachineT]):
    """A machine and its partition, from the time on that this node leads it."""

    def __init__(
        self,
        partition: Partition,
        machine: MachineT,
        turns: Turns,
        compression: Compression,
        errands: Errands,
    ) -> None:
        """`turns` are shared: what many machines have to do by the clock may be due at the same time, and take long."""
        self.partition = partition
        self.machine = machine
        self.leader_epoch = partition.leader_epoch
        self.is_serving = False
        self.is_paused = False
        """Whether the machine is let alone: it is to go to another node."""
        self._end = 0
        self._has_resigned = False
        self._turns = turns
        self._now_ms = turns.now_ms
        self._compression = compression
        self._loop = asyncio.get_running_loop()
        self._effects: deque[Effect] = deque()
        self._is_running = False
        self._replies: deque[Reply] = deque()
        self._answers_later = False
        self._under_way: deque[tuple[AppendResult, int]] = deque()
        """What was appended and is not committed, with the ids of the writes."""
        self._is_waiting = False
        self._alarm = Alarm(partial(turns.add, self._wake), turns.now_ms)
        self._errands = errands
        self._tasks = Tasks()
        self._goes_on = asyncio.Event()
        self._goes_on.set()

    def __repr__(self) -> str:
        return f"{self.partition.topic}-{self.partition.index}"

    @property
    def is_over(self) -> bool:
        """Whether this node leads the partition no more, or in another epoch: others may have led in between."""
        partition = self.partition
        return self._has_resigned or partition.leader is None or partition.leader_epoch != self.leader_epoch

    # -- loading ------------------------------------------------------------------------------------------------------

    async def read(self) -> None:
        """Up to the present end, as the machine wants it (`Reading`), without what transactions have aborted. Of open
        ones a machine hears that wants last values.
        """
        log = self.partition.log
        position, self._end = log.log_start_offset, log.log_end_offset
        latest = LastValues()
        read: Callable[[bytes], int] = partial(self._take_last, latest)
        slice_bytes = LOAD_SLICE_BYTES
        if self.machine.reading is Reading.EVERY_RECORD:
            read, slice_bytes = self._take_every, APPLY_SLICE_BYTES
        while position < self._end and not self.is_over:
            found = log.read(position, slice_bytes, upper_offset=self._end)
            position = read(log.bytes_of(found)) if found else self._end
            await asyncio.sleep(0)
        for some in latest.in_order():
            self.machine.read_last(some, self._left_out)
            await asyncio.sleep(0)
            if self.is_over:
                return
        for number, pending in enumerate(latest.pending(), 1):
            self._take_in_pending(*pending)
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
                if self.is_over:
                    return

    async def take_over(self) -> None:
        """Wait until all that was read is committed; the machine is at work, and requests may come, from then on."""
        partition = self.partition
        while not self.is_over and partition.high_watermark < self._end:
            moved = asyncio.Event()
            partition.committed.waits.add(self._end, moved.set)
            await moved.wait()
        for _ in self.machine.restoring(self._now_ms()):
            await asyncio.sleep(0)
            if self.is_over:
                return
        if self.is_over:
            return
        self.is_serving = True
        self.run(self.machine.loaded(self._now_ms()))
        if self._end:
            logger.info("%s: %s from %d records' worth of log", partition, self.machine.describe(), self._end)

    def _take_last(self, latest: LastValues, data: bytes) -> int:
        """The offset behind all batches."""
        log = self.partition.log
        at, behind = latest.take_again(data, 0, self._end)
        while (header := whole_batch(data, at)) is not None:
            if not header.is_control:
                if log.load().is_committed(header):
                    latest.take(data, at, header)
                elif log.producers.is_open(header.producer_id, header.base_offset):
                    latest.take_pending(data, at, header)
            at, behind = latest.take_again(data, at + header.size_in_bytes, header.last_offset + 1)
        return behind

    def _take_every(self, data: bytes) -> int:
        behind = self._end
        for at, header in iterate_batches(data):
            behind = header.last_offset + 1
            if not header.is_control and self.partition.log.load().is_committed(header):
                for record in iterate_records(data, at, header):
                    self.machine.read_one(self._left_out, record.key or b"", record.value, record.offset)
        return behind

    def _take_in_pending(self, producer_id: int, key: bytes, value: bytes, is_overtaken: bool) -> None:
        try:
            self.machine.read_pending(producer_id, key, value, is_overtaken=is_overtaken)
        except DecodeError as error:
            self._left_out(key, error)

    def _left_out(self, key: bytes, error: DecodeError) -> None:
        logger.warning("%s: the record of the key %r is left out: %s", self.partition, key, error)

    def resign(self) -> None:
        """Another node leads the partition, or this one stops: waiting clients are sent away."""
        self._has_resigned = True
        self._under_way.clear()
        if self.is_serving:
            self.is_serving = False
            self.run(self.machine.unload(self._now_ms()))
        self._tasks.cancel()
        self._alarm.end()
        self._turns.discard(self._wake)
        self.machine.agenda.let_go()

    # -- handing over -------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Let no time pass for the machine. Neither requests nor errands come to it; what was written is reported."""
        self.is_paused = True
        self._goes_on.clear()
        self._alarm.cancel()
        self._turns.discard(self._wake)

    def report(self) -> None:
        """All that is written is committed: let the machine know now."""
        while self._is_first_committed:
            self._report(len(self._under_way))

    def go_on(self) -> None:
        self.is_paused = False
        self._goes_on.set()
        self._set_timer()

    # -- events -------------------------------------------------------------------------------------------------------

    def ask(self, event: Callable[..., list[Effect]], *arguments: object) -> Any:
        """Put a request to the machine: its answer, or a future of it. `event` takes a token first, the time last."""
        answer = self.ask_late(event, *arguments)
        return answer.awaited() if type(answer) is Parked else answer

    def ask_late(self, event: Callable[..., list[Effect]], *arguments: object) -> Any:
        """As `ask`, for requests of which very many may wait: their answer comes without a future, and so a task."""
        parked = Parked()
        self.run(event(parked, *arguments, self._now_ms()))
        return parked.waiting()

    def put(self, event: Callable[[int], list[Effect]]) -> None:
        """Put something to the machine that no client waits for. `event` takes the time."""
        self.run(event(self._now_ms()))

    def run(self, effects: list[Effect]) -> None:
        """Also carries out the effects that follow from them. Answers leave in their order, some at a time."""
        self._effects += effects
        if self._is_running:
            return
        self._is_running = True
        try:
            while self._effects:
                self._carry_out(self._effects.popleft())
        finally:
            self._is_running = False
        if not self._answers_later:
            self._answer()
        self._set_timer()

    def _answer(self) -> None:
        for _ in range(min(len(self._replies), ANSWERS_AT_ONCE)):
            reply = self._replies.popleft()
            assert type(reply.token) is Parked
            try:
                reply.token.answer(reply.response)
            except Exception:  # of one client; the others are still to be answered
                logger.exception("%s: an answer could not be told, by our own fault", self)
        self._answers_later = bool(self._replies)
        if self._answers_later:
            self._loop.call_soon(self._answer)

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, Reply):
            self._replies.append(effect)
        elif isinstance(effect, Note):
            logger.info("%s", effect.line)
        elif self.is_over:
            return  # The log is another leader's, and the machine counts what it asks for while it unloads as failed.
        elif isinstance(effect, Append):
            self._append(effect)
        elif isinstance(effect, Errand):
            self._tasks.start(self._see_to(effect), f"{self.partition}: an errand")
        else:
            self._cut(effect)

    async def _see_to(self, errand: Errand) -> None:
        answer, code = None, ErrorCode.NONE
        try:
            answer = await self._errands.done(errand.job, partial(self._tell, errand))
        except KafkaError as error:
            code = error.code
        except Exception:
            logger.exception("%s: an errand failed by our own fault", self.partition)
            code = ErrorCode.UNKNOWN_SERVER_ERROR
        await self._goes_on.wait()
        if not self.is_over:
            self.run(self.machine.came_back(errand.errand_id, answer, code, self._now_ms()))

    async def _tell(self, errand: Errand, answer: object) -> None:
        """Part of what it brings."""
        await self._goes_on.wait()
        if not self.is_over:
            self.run(self.machine.came_in_part(errand.errand_id, answer, self._now_ms()))

    def _cut(self, effect: Cut) -> None:
        """A log that begins too early is only longer than it need be: the machine cuts again."""
        try:
            self.partition.delete_before(min(effect.offset, self.partition.high_watermark))
        except KafkaError as error:
            logger.warning("%s: could not be cut at %d: %s", self.partition, effect.offset, error)

    # -- the log ------------------------------------------------------------------------------------------------------

    def _append(self, effect: Append) -> None:
        now_ms = self._now_ms()
        try:
            batch = self._batch(effect, now_ms)
            result = self.partition.append(
                memoryview(batch), acks=ALL_REPLICAS, now_ms=now_ms, origin=AppendOrigin.COORDINATOR
            )
        except KafkaError as error:
            logger.warning("%s: could not append: %s", self.partition, error)
            # What was decided after it fails with it.
            self._effects = deque(one for one in self._effects if not isinstance(one, Append))
            self.run(self.machine.appended(effect.write_id, error.code, now_ms))
            return
        self._under_way.append((result, effect.write_id))
        if not self._is_waiting:
            self._moved()

    def _batch(self, effect: Append, now_ms: int) -> bytearray:
        part = effect.part
        if part is not None and part.end is not None:
            return transaction_marker(
                ControlType.COMMIT if part.end.is_commit else ControlType.ABORT,
                producer_id=part.producer_id,
                producer_epoch=part.producer_epoch,
                coordinator_epoch=part.end.coordinator_epoch,
                now_ms=now_ms,
            )
        records = [Record(timestamp_ms=now_ms, key=key, value=value) for key, value in effect.records]
        if part is None:
            return encode_batch(records, compression=self._compression)
        return encode_batch(
            records,
            compression=self._compression,
            producer_id=part.producer_id,
            producer_epoch=part.producer_epoch,
            is_transactional=True,
        )

    def _moved(self) -> None:
        """What was appended first may be committed now, or leadership has ended; then `resign` follows."""
        if self.is_over:
            return
        self._is_waiting = True
        self._report(WRITES_AT_ONCE)
        self._is_waiting = bool(self._under_way)
        if self._is_first_committed:
            self._loop.call_soon(self._moved)
        elif self._under_way:
            self.partition.committed.waits.add(self._under_way[0][0].last_offset + 1, self._moved)

    def _report(self, most: int) -> None:
        """The first of what is committed; what these lead to comes later."""
        for _ in range(most):
            if not self._is_first_committed:
                return
            result, write_id = self._under_way.popleft()
            self.run(self.machine.appended(write_id, ErrorCode.NONE, self._now_ms(), result.base_offset))

    @property
    def _is_first_committed(self) -> bool:
        under_way = self._under_way
        return bool(under_way) and under_way[0][0].last_offset < self.partition.high_watermark

    # -- time ---------------------------------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        """Wake in time for the earliest deadline. If it was put off, the old timer finds that out."""
        deadline_ms = self.machine.next_deadline_ms() if self.is_serving and not self.is_paused else None
        if deadline_ms is not None:
            self._alarm.set(deadline_ms)

    def _wake(self) -> None:
        self.run(self.machine.wake(self._now_ms()))
