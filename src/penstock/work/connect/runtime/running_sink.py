"""A sink's task while it runs: what topics have goes to it, and positions are committed after they were flushed."""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final

from penstock.client.admin.topics import NewTopic
from penstock.client.cluster import is_passing
from penstock.client.consumer import Consumer
from penstock.client.consumer.listeners import RebalanceListener
from penstock.client.producer import Producer
from penstock.client.values import ConsumedRecord, OffsetAndMetadata, TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.work.connect.api import RetriableError, Safe, SinkContext, SinkRecord, SinkTask
from penstock.work.connect.conversion import Conversion
from penstock.work.connect.errors import LEFT_OUT, LEFT_OUT_REPLICAS, ErrorPolicy, Failure, Skipped, error_headers
from penstock.work.connect.runtime.deliveries import Deliveries
from penstock.work.connect.runtime.running_tasks import RunningTask, TaskSetting
from penstock.work.connect.runtime.supervisor import Attempt
from penstock.work.connect.runtime.task_host import TaskHost

RETRY_S: Final = 0.5
POLL_MS: Final = 500
_NOT_NOW: Final = (
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
"""Refusals of a commit that end no task: the group goes on without this member, which the next poll settles, or a topic
has gone.
"""
logger = logging.getLogger(__name__)


class RunningSink(RunningTask, RebalanceListener):
    """A member of the group `connect-<connector>`.

    A rebalance goes on beside the task's own loop while polls bring nothing. What either asks of the sink, and what it
    commits, is done by one of them at a time. What a rebalance fails with ends the task before its loop does anything
    more: the positions of what could not be made safe are still known, and must not be committed.
    """

    def __init__(self, setting: TaskSetting, task: SinkTask, host: TaskHost, attempt: Attempt) -> None:
        super().__init__(setting, task, host, attempt)
        self._task = task
        self._context = SinkContext(tolerates=setting.errors["errors.tolerance"] == "all")
        self._errors = ErrorPolicy(setting.errors, setting.name, attempt.discreet, self._report)
        self._conversion = Conversion(setting.steps.may_block, self._attempt.calls, self._errors)
        self._done: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._untaken: list[SinkRecord] = []
        self._is_holding = False
        self._deliveries = Deliveries()
        self._consumer: Consumer | None = None
        self._producer: Producer | None = None
        self._is_over = False
        self._in_turn = asyncio.Lock()
        self._rebalance_error: Exception | None = None

    async def run(self) -> None:
        config = self.setting.config
        consumer = self.setting.environment.clients.consumer(
            self.setting.client("consumer"),
            client_id=f"connector-consumer-{self.setting.name}",
            group_id=f"connect-{self.setting.connector}",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        await self._make_left_out()
        async with self._new_producer() as producer, AsyncExitStack() as membership:
            await membership.enter_async_context(consumer)
            self._consumer, self._producer = consumer, producer
            try:
                await self._call(self._task.start, config, self._context)
                if "topics.regex" in config:
                    await consumer.subscribe(pattern=config["topics.regex"], listener=self)
                else:
                    topics = [topic.strip() for topic in config["topics"].split(",")]
                    await consumer.subscribe(topics, listener=self)
                self._attempt.begun()
                await self._write(consumer)
            finally:
                self._is_over = True
                await self._stop(membership)

    async def _stop(self, membership: AsyncExitStack) -> None:
        """The group keeps its partitions here until the sink has stopped, so that no two write them; but no longer than
        the worker waits: where a call hangs, the others would wait for max.poll.interval.ms. Nothing is committed.
        """
        stop = asyncio.create_task(self._call(self._task.stop))
        left = asyncio.create_task(self._attempt.left.wait())
        try:
            await asyncio.wait((stop, left), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            stop.cancel()  # it ends with its task, if it is no call in a thread
            raise
        finally:
            left.cancel()
        if not stop.done():
            await membership.aclose()
        await stop

    async def _write(self, consumer: Consumer) -> None:
        loop = asyncio.get_running_loop()
        flushed_at = loop.time()
        while not self._attempt.stopping.is_set():
            consumed = await consumer.poll(POLL_MS)
            records = await self._converted(consumed)
            if records:
                self._untaken = records
                await self._put(consumer)
            async with self._turn_of_loop():
                await self._leave_out_reported()
                self._rewind()
                due = (loop.time() - flushed_at) * 1000 >= self.setting.environment.flush_interval_ms
                if due or self._context.is_flush_wanted:
                    self._context.is_flush_wanted = False
                    await self._flush(self._done)
                    flushed_at = loop.time()
        async with self._turn_of_loop():
            await self._flush(self._done)
            await self._call(self._task.close, consumer.assignment)
            self._is_over = True

    @asynccontextmanager
    async def _turn_of_loop(self) -> AsyncIterator[None]:
        async with self._in_turn:
            if self._rebalance_error is not None:
                raise self._rebalance_error
            yield

    @asynccontextmanager
    async def _turn_of_rebalance(self) -> AsyncIterator[None]:
        async with self._in_turn:
            try:
                yield
            except Exception as error:
                self._rebalance_error, self._is_over = error, True
                raise

    async def _converted(self, consumed: list[ConsumedRecord]) -> list[SinkRecord]:
        converted = self._conversion.of(consumed, self.setting.steps.from_topic)
        records = [record async for _, record in converted if record is not None]
        for one in consumed:
            self._done[one.topic_partition] = one.offset + 1
            self._note(one.topic)
        return records

    async def _put(self, consumer: Consumer) -> None:
        """Offer records until the sink takes them, the task is to stop, or all partitions were revoked."""
        while self._untaken and not self._attempt.stopping.is_set():
            async with self._turn_of_loop():
                pause_s = await self._tried()
                self._rewind()
            if pause_s is not None:
                await self._hold(consumer, pause_s)
        if self._is_holding:
            self._is_holding = False
            consumer.resume(consumer.assignment)
        if not self._untaken:  # also where all of them went with their partitions
            self._went_well()
        self._give_back(consumer.assignment)

    async def _tried(self) -> float | None:
        """For how long to wait before the next try; None if the sink has taken what there was."""
        if self._untaken:  # else its partitions went while it was not this one's turn
            await self._leave_out_reported()
            try:
                await self._call(self._task.put, self._untaken)
            except RetriableError as error:
                self._tries_again(error)
                self._context.take_back(self._untaken)
                pause_ms, self._context.pause_ms = self._context.pause_ms, None
                return RETRY_S if pause_ms is None else pause_ms / 1000
            self._went_well()
            self.records += len(self._untaken)
            self._untaken = []
            await self._send_outgoing()
        return None

    def _rewind(self) -> None:
        """In the turn of the `put` that asked for it: in the next one its partition may belong to another task."""
        assert self._consumer is not None
        for partition, offset in self._context.wanted.items():
            self._consumer.seek(partition, offset)
            self._done[partition] = offset
        self._context.wanted.clear()

    async def _hold(self, consumer: Consumer, seconds: float) -> None:
        """Wait as a member of the group: polls bring nothing as all is paused, and keep max.poll.interval.ms."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        self._is_holding = True
        consumer.pause(consumer.assignment)
        while self._untaken and not self._attempt.stopping.is_set() and (left_s := until - loop.time()) > 0:
            await consumer.poll(min(POLL_MS, math.ceil(left_s * 1000)))

    def _give_back(self, partitions: Sequence[TopicPartition]) -> None:
        """The next owner of these partitions gets what was not taken."""
        for record in self._untaken:
            if record.original in partitions:
                self._done[record.original] = min(self._done.get(record.original, record.offset), record.offset)
        self._untaken = [record for record in self._untaken if record.original not in partitions]

    async def _leave_out_reported(self) -> None:
        """A thread of the sink's may report more meanwhile."""
        for _ in range(len(self._context.reported)):
            record, error = self._context.reported[0]
            with suppress(Skipped):
                await self._errors.give_up(Failure("TASK_PUT", type(self._task).__name__, error), record.consumed)
            del self._context.reported[0]

    async def _send_outgoing(self) -> None:
        outgoing, self._context.outgoing = self._context.outgoing, []
        async for _, made in self._conversion.of(outgoing, self.setting.steps.in_bytes):
            if made is not None:
                assert self._producer is not None
                self._deliveries.add(await self._send(self._producer, made))

    async def _flush(self, partitions: Iterable[TopicPartition]) -> None:
        """Positions are committed after the sink has flushed, and what it has sent and reported is in Kafka."""
        offsets = {
            partition: OffsetAndMetadata(self._done[partition]) for partition in partitions if partition in self._done
        }
        if offsets:
            safe = _safe(await self._call(self._task.flush, offsets), offsets)
            await self._leave_out_reported()
            await self._send_outgoing()
            await self._deliveries.settled()
            news = {partition: to for partition, to in safe.items() if self._committed.get(partition) != to.offset}
            assert self._consumer is not None
            try:
                async with asyncio.timeout(self.setting.environment.flush_timeout_s):
                    if news:
                        await self._consumer.commit(news)
            except TimeoutError:
                self._say_late()
                return
            except KafkaError as error:
                if not (error.code in _NOT_NOW or is_passing(error)):
                    raise
                logger.warning("%s: how far it is was not committed: %s", self.setting.name, error)
                return
            for partition, to in safe.items():
                self._committed[partition] = to.offset
                if to.offset >= self._done[partition]:
                    del self._done[partition]

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        async with self._turn_of_rebalance():
            if self._is_over:
                return
            self._give_back(partitions)
            await self._flush(partitions)
            self._forget(partitions)
            await self._call(self._task.close, partitions)

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Another task has these partitions: nothing of them is committed."""
        async with self._turn_of_rebalance():
            if self._is_over:
                return
            self._give_back(partitions)
            self._forget(partitions)
            await self._call(self._task.close, partitions)

    def _forget(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self._done.pop(partition, None)
            self._committed.pop(partition, None)
            self._context.wanted.pop(partition, None)

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        async with self._turn_of_rebalance():
            if self._is_over:
                return
            assert self._consumer is not None
            self._context.assignment = tuple(self._consumer.assignment)
            if self._is_holding:
                self._consumer.pause(partitions)
            await self._call(self._task.open, partitions)

    async def _make_left_out(self) -> None:
        """The topic of what is left out; KafkaError."""
        topic = self.setting.errors[LEFT_OUT]
        if not topic:
            return
        new = NewTopic(name=topic, partitions=1, replication_factor=self.setting.errors[LEFT_OUT_REPLICAS])
        async with self.setting.admin() as admin:
            await admin.topics.create_unless_there(new)

    async def _report(self, failure: Failure, record: ConsumedRecord | None) -> None:
        """Send what was left out to the dead letter queue."""
        topic = self.setting.errors[LEFT_OUT]
        if not topic or record is None:
            return
        assert self._producer is not None
        headers = list(record.headers)
        if self.setting.errors["errors.deadletterqueue.context.headers.enable"]:
            discreet = self._attempt.discreet
            headers += error_headers(failure, record, self.setting.connector, self.setting.number, discreet)
        await self._producer.send_and_wait(topic, record.value, key=record.key, headers=headers)


def _safe(made: Any, offered: Safe) -> Safe:
    """What a sink allows to be committed; ValueError if that is more than it was given."""
    if made is None:
        return offered
    if not isinstance(made, Mapping) or any(
        partition not in offered or not isinstance(to, OffsetAndMetadata) or to.offset > offered[partition].offset
        for partition, to in made.items()
    ):
        raise ValueError(f"flush returned {made!r}: positions of partitions that it was given are needed, or None")
    return made
