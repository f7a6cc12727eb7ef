"""Tasks of connectors while they run: what a source reads goes to topics; of a sink see `running_sink`.

A source's offsets are stored after its records are in Kafka, a sink's positions are committed after they were flushed:
after a crash some records come again, and none is missing.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

from penstock.client.admin import Admin
from penstock.client.producer import Producer
from penstock.protocol.value import Value, fresh
from penstock.work.connect.api import (
    RetriableError,
    SourceContext,
    SourceRecord,
    SourceTask,
    Task,
    TransactionContext,
    WorkerContext,
)
from penstock.work.connect.calls import LONG_S
from penstock.work.connect.clients import Clients
from penstock.work.connect.config import with_prefix
from penstock.work.connect.conversion import Conversion, OutgoingRecord, Steps
from penstock.work.connect.errors import ErrorPolicy
from penstock.work.connect.metrics import Metric
from penstock.work.connect.providers import Providers
from penstock.work.connect.runtime.deliveries import Delivery, Submitted
from penstock.work.connect.runtime.generations import Generations
from penstock.work.connect.runtime.new_topics import NewTopics, topic_groups
from penstock.work.connect.runtime.supervisor import Attempt, pause
from penstock.work.connect.runtime.task_host import TaskHost

IDLE_S: Final = 0.1
"""How long a source without records is left alone."""
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
        self._failing_since_s: float | None = None
        self._is_told = False

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

    async def _send(self, producer: Producer, outgoing: OutgoingRecord) -> Delivery:
        record = outgoing.record
        delivery = await producer.send(
            record.topic,
            outgoing.value,
            key=outgoing.key,
            headers=outgoing.headers,
            partition=record.partition,
            timestamp_ms=record.timestamp_ms,
        )
        self._note(record.topic)
        return delivery

    def _note(self, topic: str) -> None:
        if topic not in self._topics:
            self._topics.add(topic)
            self._host.uses(topic)

    def _tries_again(self, error: RetriableError) -> None:
        """The first of several such errors is logged. If they go on for long, the status says so."""
        now_s = asyncio.get_running_loop().time()
        if self._failing_since_s is None:
            self._failing_since_s = now_s
            logger.warning("%s tries again: %s", self.setting.name, self._attempt.discreet(str(error)))
        elif not self._is_told and now_s - self._failing_since_s >= LONG_S:
            self._is_told = True
            self._attempt.lasts(f"it has been trying again for {LONG_S:g} s: {error}")

    def _went_well(self) -> None:
        self._failing_since_s = None
        if self._is_told:
            self._is_told = False
            self._attempt.lasts("")

    def _say_late(self) -> None:
        limit_s = self.setting.environment.flush_timeout_s
        logger.warning(
            "%s: how far it is was not stored within %g s (offset.flush.timeout.ms)", self.setting.name, limit_s
        )


class RunningSource(RunningTask):
    def __init__(self, setting: TaskSetting, task: SourceTask, host: TaskHost, attempt: Attempt) -> None:
        super().__init__(setting, task, host, attempt)
        self._task = task
        self._conversion = Conversion(
            setting.steps.may_block, self._attempt.calls, ErrorPolicy(setting.errors, setting.name, attempt.discreet)
        )
        self._submitted = Submitted()
        groups = topic_groups(setting.config) if setting.environment.makes_topics else ()
        self._new_topics = NewTopics(groups, setting.admin)

    async def run(self) -> None:
        async with self._new_producer() as producer:
            if await self._prepare(producer):
                async with self._host.offsets_known(self.setting.config):
                    await self._run(producer)

    async def _run(self, producer: Producer) -> None:
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
        """Whether the task is to run at all."""
        return True

    async def _read(self, producer: Producer) -> None:
        loop = asyncio.get_running_loop()
        flushed_at = loop.time()
        while not self._attempt.stopping.is_set():
            records = await self._polled()
            await self._take(producer, records)
            if not records:
                await pause(self._attempt.stopping, IDLE_S)
            if (loop.time() - flushed_at) * 1000 >= self.setting.environment.flush_interval_ms:
                await self._flush()
                flushed_at = loop.time()
        await self._flush()

    async def _polled(self) -> list[SourceRecord]:
        try:
            records = list(await self._call(self._task.poll) or ())
        except RetriableError as error:
            self._tries_again(error)
            return []
        self._went_well()
        return records

    async def _take(self, producer: Producer, records: Sequence[SourceRecord]) -> None:
        async for record, outgoing in self._conversion.of(records, self.setting.steps.to_topic):
            delivery = None
            if outgoing is not None:
                if outgoing.record.topic not in self._topics:
                    await self._new_topics.make(outgoing.record.topic)
                delivery = await self._send(producer, outgoing)
                self.records += 1
            self._submitted.moved_on(record, delivery)

    async def _flush(self) -> None:
        """Offsets are stored of what is in Kafka; what takes too long comes with the next flush."""
        is_all = await self._in_time(self._submitted.settled())
        safe = self._submitted.take_safe()
        if not safe:
            return
        if not await self._in_time(self._host.store(list(safe.values()))):
            self._submitted.give_back(safe)
        elif is_all:
            await self._call(self._task.commit)

    async def _in_time(self, step: Coroutine[Any, Any, None]) -> bool:
        try:
            async with asyncio.timeout(self.setting.environment.flush_timeout_s):
                await step
        except TimeoutError:
            self._say_late()
            return False
        return True
