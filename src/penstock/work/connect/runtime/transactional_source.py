"""A source's task that writes its records and how far it is in the same transactions (KIP-618).

waiting --(older tasks are fenced)--> producer of its id --(its generation is the last one)--> running

So whoever reads committed records gets each of them once, however often the task was killed: what a transaction has
not committed is read from the source again, and what it has is not. Another worker that has the task becomes the
producer of the same id, and this one writes nothing more, though it may not know yet.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from penstock.client.errors import ClientError
from penstock.client.producer import Producer
from penstock.protocol.errors import KafkaError
from penstock.work.connect.api import Position, SourceRecord, SourceTask, TransactionContext
from penstock.work.connect.runtime.promises import INTERVAL, OFFSETS_TOPIC, Boundary, boundary_of
from penstock.work.connect.runtime.records import partition_name
from penstock.work.connect.runtime.running_tasks import IDLE_S, RunningSource, TaskSetting
from penstock.work.connect.runtime.supervisor import Attempt, pause
from penstock.work.connect.runtime.task_host import TaskHost

FIXED: Final = ("transactional.id", "enable.idempotence", "acks")
"""Settings of its producer that are not the user's."""
PATIENCE_MS: Final = 60_000
LONGEST_MS: Final = 900_000
"""What brokers allow by default (transaction.max.timeout.ms)."""


class OffsetsTopicError(Exception):
    pass


class TransactionalSource(RunningSource):
    def __init__(self, setting: TaskSetting, task: SourceTask, host: TaskHost, attempt: Attempt) -> None:
        """ValueError for a boundary that there is not."""
        super().__init__(setting, task, host, attempt)
        assert setting.environment.generations is not None
        self._generations = setting.environment.generations
        self._boundary = boundary_of(setting.config)
        interval_ms = INTERVAL.parse(setting.config.get(INTERVAL.name))
        self._interval_ms: int = setting.environment.flush_interval_ms if interval_ms is None else interval_ms
        self._transactions = TransactionContext() if self._boundary is Boundary.CONNECTOR else None
        self._offsets_topic = setting.environment.offsets_topic_of(setting.config)
        self._offsets: dict[str, tuple[Position, Position]] = {}
        self._is_open = False
        self._ended_at_s = 0.0

    def _new_producer(self) -> Producer:
        settings = self.setting.client("producer")
        lasts_ms = self._interval_ms if self._boundary is Boundary.INTERVAL else 0
        return self.setting.environment.clients.producer(
            {key: value for key, value in settings.items() if key not in FIXED},
            client_id=f"connector-producer-{self.setting.name}",
            transactional_id=self._generations.transactional_id(self.setting.connector, self.setting.number),
            transaction_timeout_ms=min(PATIENCE_MS + lasts_ms, LONGEST_MS),
        )

    async def _prepare(self, producer: Producer) -> bool:
        """FencedError, ProducerFencedError."""
        connector = self.setting.connector
        if not await self._generations.may_begin(connector, self._attempt.stopping):
            return False
        await producer.init_transactions()
        await self._generations.verify(connector, self._attempt.generation, self._host.owned_until_s)
        return True

    async def _read(self, producer: Producer) -> None:
        self._ended_at_s = asyncio.get_running_loop().time()
        try:
            while not self._attempt.stopping.is_set():
                records = await self._polled()
                await self._take(producer, records)
                await self._end_of_batch(producer)
                if not records:
                    await pause(self._attempt.stopping, IDLE_S)
            if self._boundary is not Boundary.CONNECTOR:
                await self._commit(producer)
        except Exception:
            with suppress(ClientError, KafkaError):
                await self._abort(producer)
            raise
        await self._abort(producer)

    async def _take(self, producer: Producer, records: Sequence[SourceRecord]) -> None:
        async for record, outgoing in self._conversion.of(records, self.setting.steps.to_topic):
            if outgoing is not None:
                topic = outgoing.record.topic
                if topic == self._offsets_topic:
                    raise OffsetsTopicError(
                        f"{self.setting.name} would write records to {topic}, which has how far it is: name another "
                        f"topic, or another one for that ({OFFSETS_TOPIC.name})"
                    )
                if topic not in self._topics:
                    await self._new_topics.make(topic)
                await self._begin(producer)
                await self._send(producer, outgoing)
                self.records += 1
            self._offsets[partition_name(record.source_partition)] = record.source_partition, record.source_offset
            if self._transactions is not None:
                await self._end_as_asked(producer, self._transactions.ends_at(record))

    async def _end_of_batch(self, producer: Producer) -> None:
        if self._transactions is not None:
            await self._end_as_asked(producer, self._transactions.take_batch())
            return
        passed_ms = (asyncio.get_running_loop().time() - self._ended_at_s) * 1000
        if self._boundary is Boundary.POLL or passed_ms >= self._interval_ms:
            await self._commit(producer)

    async def _end_as_asked(self, producer: Producer, commits: bool | None) -> None:
        """A source whose records are aborted goes on behind them: that is committed."""
        if commits is False:
            await self._abort(producer)
        if commits is not None:
            await self._commit(producer)

    async def _begin(self, producer: Producer) -> None:
        if not self._is_open:
            await producer.begin_transaction()
            self._is_open = True

    async def _commit(self, producer: Producer) -> None:
        """How far the task is goes last, so that the topic of all sources is not kept waiting for records."""
        self._ended_at_s = asyncio.get_running_loop().time()
        if not self._is_open and not self._offsets:
            return
        await self._begin(producer)
        await producer.flush()
        for key, value in self._host.rows(list(self._offsets.values())):
            await producer.send(self._offsets_topic, value, key=key)
        await producer.commit_transaction()
        self._host.copy(list(self._offsets.values()))
        self._is_open, self._offsets = False, {}
        await self._call(self._task.commit)

    async def _abort(self, producer: Producer) -> None:
        if self._is_open:
            self._is_open = False
            await producer.abort_transaction()
