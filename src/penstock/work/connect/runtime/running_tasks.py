"""Tasks of connectors while they run: what a source reads goes to topics, what topics have goes to a sink.

A source's offsets are stored after its records are in Kafka, a sink's positions are committed after they were flushed:
after a crash some records come again, and none is missing.
"""

import asyncio
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.client.consumer import Consumer
from penstock.client.consumer.listeners import RebalanceListener
from penstock.client.producer import Producer
from penstock.client.values import ConsumedRecord, OffsetAndMetadata, RecordMetadata, TopicPartition
from penstock.protocol.value import Value, fresh
from penstock.work.connect.api import (
    Position,
    RetriableError,
    Safe,
    SinkContext,
    SinkRecord,
    SinkTask,
    SourceContext,
    SourceRecord,
    SourceTask,
    Task,
    TransactionContext,
    WorkerContext,
)
from penstock.work.connect.clients import Clients
from penstock.work.connect.config import with_prefix
from penstock.work.connect.conversion import Conversion, OutgoingRecord, Steps
from penstock.work.connect.errors import LEFT_OUT, LEFT_OUT_REPLICAS, ErrorPolicy, Failure, Skipped, error_headers
from penstock.work.connect.metrics import Metric
from penstock.work.connect.providers import Providers
from penstock.work.connect.runtime.generations import Generations
from penstock.work.connect.runtime.new_topics import NewTopics, topic_groups
from penstock.work.connect.runtime.records import partition_name
from penstock.work.connect.runtime.supervisor import Attempt, pause
from penstock.work.connect.runtime.task_host import TaskHost

IDLE_S: Final = 0.1
"""How long a source without records is left alone."""
RETRY_S: Final = 0.5
POLL_MS: Final = 500
logger = logging.getLogger(__name__)


class Environment(Value, kw_only=True):
    clients: Clients
    config: Mapping[str, str]
    providers: Providers
    flush_interval_ms: int
    flush_timeout_s: float
    shutdown_timeout_s: float
    tracks_topics: bool
    makes_topics: bool
    generations: Generations | None = None
    """Where sources write transactions, and into which topic how far they are."""
    offsets_topic_of: Callable[[Mapping[str, str]], str] = lambda _: ""
    worker: WorkerContext = fresh(WorkerContext)


class TaskSetting(Value, kw_only=True):
    """The task's configuration is the connector's with its own on top."""

    number: int
    config: Mapping[str, str]
    environment: Environment
    steps: Steps
    errors: Mapping[str, Any]

    @property
    def connector(self) -> str:
        return self.config["name"]

    @property
    def name(self) -> str:
        return f"{self.connector}-{self.number}"

    def client(self, kind: str) -> dict[str, str]:
        """The settings of a producer, consumer or admin: the worker's, then the connector's own."""
        of_worker = with_prefix(self.environment.config, f"{kind}.")
        return {
            **{
                key: value for key, value in of_worker.items() if not key.startswith("listeners")
            },  # of the REST interface
            **with_prefix(self.config, f"{kind}.override."),
        }

    def admin(self) -> Admin:
        return self.environment.clients.admin(f"connector-admin-{self.name}", self.client("admin"))


class RunningTask(ABC):
    """One run of a task: it ends when told to, or fails with what the task raised."""

    def __init__(self, setting: TaskSetting, task: Task, host: TaskHost, attempt: Attempt) -> None:
        self.setting = setting
        self.records = 0
        self._reporting = task
        self._host = host
        self._attempt = attempt
        self._call = attempt.calls.call
        self._topics: set[str] = set()
        self._sent: list[asyncio.Future[RecordMetadata]] = []

    def report(self) -> Mapping[str, Any]:
        return self._reporting.report()

    def metrics(self) -> Sequence[Metric]:
        return [
            Metric("connect_task_records_total", self.records, help="Records that the task has had"),
            *self._reporting.metrics(),
        ]

    @abstractmethod
    async def run(self) -> None: ...

    def _new_producer(self) -> Producer:
        clients, properties = self.setting.environment.clients, self.setting.client("producer")
        return clients.producer(properties, client_id=f"connector-producer-{self.setting.name}")

    async def _send(self, producer: Producer, outgoing: OutgoingRecord) -> None:
        record = outgoing.record
        self._sent.append(
            await producer.send(
                record.topic,
                outgoing.value,
                key=outgoing.key,
                headers=outgoing.headers,
                partition=record.partition,
                timestamp_ms=record.timestamp_ms,
            )
        )
        self._note(record.topic)

    def _note(self, topic: str) -> None:
        if topic not in self._topics:
            self._topics.add(topic)
            self._host.uses(topic)

    def _say_late(self) -> None:
        limit_s = self.setting.environment.flush_timeout_s
        logger.warning(
            "%s: how far it is was not stored within %g s (offset.flush.timeout.ms)", self.setting.name, limit_s
        )

    async def _delivered(self) -> None:
        """Wait until all records are in Kafka; they are on their way still if that is cancelled."""
        await asyncio.shield(asyncio.gather(*self._sent))
        self._sent = []


class RunningSource(RunningTask):
    def __init__(self, setting: TaskSetting, task: SourceTask, host: TaskHost, attempt: Attempt) -> None:
        super().__init__(setting, task, host, attempt)
        self._task = task
        self._conversion = Conversion(
            setting.steps.may_block, self._attempt.calls, ErrorPolicy(setting.errors, setting.name)
        )
        self._offsets: dict[str, tuple[Position, Position]] = {}
        groups = topic_groups(setting.config) if setting.environment.makes_topics else ()
        self._new_topics = NewTopics(groups, setting.admin)

    async def run(self) -> None:
        async with self._new_producer() as producer:
            if not await self._prepare(producer):
                return
            host, now_s = self._host, asyncio.get_running_loop().time
            context = SourceContext(
                host.offset,
                host.owned_until_s,
                now_s,
                *(self._attempt.failures, self._attempt.failed_runs),
                transactions=self._transactions,
                worker=self.setting.environment.worker,
                all_stored=host.offsets,
                store=host.store,
                generation=host.generation,
            )
            await self._call(self._task.start, self.setting.config, context)
            self._attempt.begun()
            try:
                await self._read(producer)
            finally:
                await self._call(self._task.stop)
                await host.settle()

    _transactions: TransactionContext | None = None

    async def _prepare(self, producer: Producer) -> bool:
        """Know where to go on; whether the task is to run at all."""
        await self._host.offsets_known(self.setting.config)
        return True

    async def _read(self, producer: Producer) -> None:
        loop = asyncio.get_running_loop()
        flushed_at = loop.time()
        while not self._attempt.stopping.is_set():
            try:
                records = list(await self._call(self._task.poll) or ())
            except RetriableError:
                records = []
            await self._take(producer, records)
            if not records:
                await pause(self._attempt.stopping, IDLE_S)
            if (loop.time() - flushed_at) * 1000 >= self.setting.environment.flush_interval_ms:
                await self._flush()
                flushed_at = loop.time()
        await self._flush()

    async def _take(self, producer: Producer, records: Sequence[SourceRecord]) -> None:
        async for record, outgoing in self._conversion.of(records, self.setting.steps.to_topic):
            self._moved_on(record)
            if outgoing is not None:
                if outgoing.record.topic not in self._topics:
                    await self._new_topics.make(outgoing.record.topic)
                await self._send(producer, outgoing)
                self.records += 1

    def _moved_on(self, record: SourceRecord) -> None:
        key = partition_name(record.source_partition)
        self._offsets[key] = (record.source_partition, record.source_offset)

    async def _flush(self) -> None:
        """All records are in Kafka before their offsets are stored; what takes too long comes with the next flush."""
        try:
            async with asyncio.timeout(self.setting.environment.flush_timeout_s):
                await self._delivered()
                if not self._offsets:
                    return
                await self._host.store(list(self._offsets.values()))
        except TimeoutError:
            self._say_late()
            return
        self._offsets = {}
        await self._call(self._task.commit)


class RunningSink(RunningTask, RebalanceListener):
    """A member of the group `connect-<connector>`."""

    def __init__(self, setting: TaskSetting, task: SinkTask, host: TaskHost, attempt: Attempt) -> None:
        super().__init__(setting, task, host, attempt)
        self._task = task
        self._context = SinkContext(tolerates=setting.errors["errors.tolerance"] == "all")
        self._errors = ErrorPolicy(setting.errors, setting.name, self._report)
        self._conversion = Conversion(setting.steps.may_block, self._attempt.calls, self._errors)
        self._done: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._untaken: list[SinkRecord] = []
        self._is_holding = False
        self._consumer: Consumer | None = None
        self._producer: Producer | None = None
        self._is_over = False

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
        async with self._new_producer() as producer, consumer:
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
                await self._call(self._task.stop)

    async def _write(self, consumer: Consumer) -> None:
        loop = asyncio.get_running_loop()
        flushed_at = loop.time()
        while not self._attempt.stopping.is_set():
            consumed = await consumer.poll(POLL_MS)
            records = await self._converted(consumed)
            if records:
                self._untaken = records
                await self._put(consumer)
            await self._leave_out_reported(consumed)
            for partition, offset in self._context.wanted.items():
                consumer.seek(partition, offset)
                self._done[partition] = offset
            self._context.wanted.clear()
            due = (loop.time() - flushed_at) * 1000 >= self.setting.environment.flush_interval_ms
            if due or self._context.is_flush_wanted:
                self._context.is_flush_wanted = False
                await self._flush(list(self._done))
                flushed_at = loop.time()
        await self._flush(list(self._done))
        await self._call(self._task.close, consumer.assignment)

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
            try:
                await self._call(self._task.put, self._untaken)
            except RetriableError:
                self._context.take_back()
                pause_ms, self._context.pause_ms = self._context.pause_ms, None
                await self._hold(consumer, RETRY_S if pause_ms is None else pause_ms / 1000)
                continue
            self.records += len(self._untaken)
            self._untaken = []
            await self._send_outgoing()
        if self._is_holding:
            self._is_holding = False
            consumer.resume(consumer.assignment)
        self._give_back(consumer.assignment)

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

    async def _leave_out_reported(self, consumed: list[ConsumedRecord]) -> None:
        reported, self._context.reported = self._context.reported, []
        by_place = {(one.topic_partition, one.offset): one for one in consumed} if reported else {}
        for record, error in reported:
            where = by_place.get((record.original, record.offset))
            with suppress(Skipped):
                await self._errors.give_up(Failure("TASK_PUT", type(self._task).__name__, error), where)

    async def _send_outgoing(self) -> None:
        assert self._producer is not None
        outgoing, self._context.outgoing = self._context.outgoing, []
        async for _, made in self._conversion.of(outgoing, self.setting.steps.in_bytes):
            if made is not None:
                await self._send(self._producer, made)

    async def _flush(self, partitions: Sequence[TopicPartition]) -> None:
        """Positions are committed after the sink has flushed."""
        offsets = {
            partition: OffsetAndMetadata(self._done[partition]) for partition in partitions if partition in self._done
        }
        if offsets:
            safe = _safe(await self._call(self._task.flush, offsets), offsets)
            await self._delivered()
            news = {partition: to for partition, to in safe.items() if self._committed.get(partition) != to.offset}
            assert self._consumer is not None
            try:
                async with asyncio.timeout(self.setting.environment.flush_timeout_s):
                    if news:
                        await self._consumer.commit(news)
            except TimeoutError:
                self._say_late()
                return
            for partition, to in safe.items():
                self._committed[partition] = to.offset
                if to.offset >= self._done[partition]:
                    del self._done[partition]

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        if self._is_over:
            return
        self._give_back(partitions)
        await self._flush(partitions)
        self._forget(partitions)
        await self._call(self._task.close, partitions)

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Another task has these partitions: nothing of them is committed."""
        if self._is_over:
            return
        self._give_back(partitions)
        self._forget(partitions)
        await self._call(self._task.close, partitions)

    def _forget(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self._done.pop(partition, None)
            self._committed.pop(partition, None)

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
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
            headers += error_headers(failure, record, self.setting.connector, self.setting.number)
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
