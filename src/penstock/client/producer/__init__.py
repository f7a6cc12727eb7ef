"""Sends records. Three ways to call it:

    async with Producer("127.0.0.1:9092") as producer:
        await producer.send("clicks", b"fire and forget")                      # queued; the outcome is not awaited
        where = await producer.send_and_wait("clicks", b"value", key=b"user")   # delivered, at this offset
        await producer.send("clicks", b"value", callback=lambda where, error: ...)

With `transactional_id` records go in transactions, each of which is read wholly or not at all (`read_committed`); what
a consumer has read is committed in it:

    async with producer.transaction():
        await producer.send("words", b"value")
        await producer.send_offsets_to_transaction(consumer)

`send` returns as soon as the record is in a batch; it waits only for the topic's metadata and for room in the buffer
(max.block.ms at most). The future that it gives ends when the record is acknowledged, or when delivery.timeout.ms is
over. Closing sends what is left. A partitioner of one's own is given as an object, or named by `partitioner.class`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, Self

from penstock.client.cluster import ClusterClient, is_passing
from penstock.client.errors import (
    BufferExhaustedError,
    ClientError,
    ProducerClosedError,
    ProducerFencedError,
    TransactionFailedError,
    TransactionStateError,
)
from penstock.client.metadata import TopicMetadata
from penstock.client.producer.accumulator import Accumulator, size_of
from penstock.client.producer.partitioners import DefaultPartitioner, Partitioner, partitioner_named
from penstock.client.producer.sender import Sender
from penstock.client.producer.transactions import PreparedTransaction, Reader, Transactions
from penstock.client.properties import as_properties
from penstock.client.settings import ProducerSettings
from penstock.client.values import OffsetAndMetadata, RecordMetadata, TopicPartition
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.records import Record

INTERRUPTED_CLOSE_MS: Final = 1_000
Callback = Callable[[RecordMetadata | None, BaseException | None], None]


class Producer:
    def __init__(
        self,
        bootstrap_servers: str | Sequence[Address],
        settings: ProducerSettings | None = None,
        partitioner: Partitioner | None = None,
    ) -> None:
        """ValueError for a `partitioner.class` that is not there, or transactions without idempotence."""
        self._settings = settings or ProducerSettings()
        if self._settings.transactional_id is not None and not self._settings.is_idempotent:
            raise ValueError("transactions need acks=all and enable.idempotence=true")
        self.cluster = ClusterClient(bootstrap_servers, self._settings)
        self._default_partitioner = DefaultPartitioner(self._settings.batch_size, self._settings.random)
        if partitioner is None and self._settings.partitioner_class is not None:
            partitioner = partitioner_named(self._settings.partitioner_class)
        if partitioner is not None:
            partitioner.configure({**as_properties(self._settings), **self._settings.partitioner_settings})
        self._partitioner = partitioner
        self._accumulator = Accumulator(self._settings)
        self._sender = Sender(self.cluster, self._accumulator, self._settings)
        self._sending: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        interrupted = kind is not None and issubclass(kind, asyncio.CancelledError | KeyboardInterrupt)
        await self.close(timeout_ms=INTERRUPTED_CLOSE_MS if interrupted else None)

    async def start(self) -> None:
        """Raises ClientError."""
        await self.cluster.start()
        self._sending = asyncio.create_task(self._sender.run(), name="producer")

    # -- transactions -------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """Commit what is sent within, or abort it if anything fails. ProducerFencedError if another one has the id."""
        await self.begin_transaction()
        try:
            yield self
            await self._deliver()
        except ProducerFencedError:
            raise
        except BaseException:
            await self.abort_transaction()
            raise
        try:
            await self._transactions.end(commits=True)
        except KafkaError as error:
            if not is_passing(error):
                with suppress(ClientError, KafkaError):
                    await self.abort_transaction()
            raise

    async def init_transactions(self, *, keep_prepared: bool = False) -> PreparedTransaction | None:
        """Fence earlier producers of this transactional.id, and abort what they left open; the first begin does it.

        With `keep_prepared` what they left open is returned, and `complete_transaction` is to say how it ends.
        """
        return await self._transactions.initialize(keep_prepared=keep_prepared)

    async def begin_transaction(self) -> None:
        await self._transactions.begin()

    async def send_offsets_to_transaction(
        self, reader: Reader | str, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None
    ) -> None:
        """Commit with the transaction what a consumer has read (its positions, by default), or a group's offsets."""
        if offsets is None:
            if isinstance(reader, str):
                raise TypeError("of a group that is only named, the offsets must be given")
            offsets = reader.positions()
        await self._transactions.add_offsets(offsets, reader)

    async def commit_transaction(self) -> None:
        """Wait for all that was sent, and commit; from now on nothing more may be sent. A TransactionFailedError leaves
        nothing but to abort it.

        If it is not known whether it was committed (ConnectionFailedError), call it again.
        """
        await self._deliver()
        await self._transactions.end(commits=True)

    async def abort_transaction(self) -> None:
        """Records that are on their way fail with TransactionFailedError."""
        with self._transactions.taking_no_more():
            self._sender.abandon(TransactionFailedError("the transaction was aborted"))
            while self._accumulator:
                self._sender.wake()
                await self._sender.some_progress()
                self._sender.abandon(TransactionFailedError("the transaction was aborted"))
        await self._transactions.end(commits=False)

    async def prepare_transaction(self) -> PreparedTransaction:
        """Wait for all that was sent; from now on the transaction can be committed, also by the next producer.

        What is returned is to be kept, by whoever decides. It needs `transaction.two.phase.commit.enable`.
        """
        with self._transactions.taking_no_more():
            await self.flush()
        return self._transactions.prepare()

    async def complete_transaction(self, decided: PreparedTransaction | None) -> bool:
        """Commit the prepared transaction if it is the one that was decided to commit, else abort it. Returns whether
        it was committed now; a transaction that had ended before is left alone.
        """
        return await self._transactions.complete(decided)

    async def _deliver(self) -> None:
        with self._transactions.taking_no_more():
            await self.flush()
        self._transactions.check()

    @property
    def _transactions(self) -> Transactions:
        if self._sender.transactions is None:
            raise TransactionStateError("a producer of transactions needs a transactional.id")
        return self._sender.transactions

    # -- records ------------------------------------------------------------------------------------------------------

    async def close(self, timeout_ms: int | None = None) -> None:
        """Send what is left, for `timeout_ms` at most (None: until each record is delivered or its time is over), and
        abort a transaction that is open and not prepared. Records that are left then fail with ProducerClosedError.
        """
        if self._sending is None:
            return
        self._sender.stopped = True
        self._accumulator.flushing += 1
        self._sender.wake()
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await self._sending
                if self._sender.transactions is not None:
                    await self._sender.transactions.close()
        except TimeoutError:
            pass
        finally:
            self._sending = None
            waited = "" if timeout_ms is None else f" after waiting for {timeout_ms} ms"
            await self._sender.end(ProducerClosedError(f"the producer was closed{waited}"))
            await self.cluster.close()
            if self._partitioner is not None:
                self._partitioner.close()

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        callback: Callback | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """The record is queued; the future tells its offset. `partition` overrides the partitioner."""
        self._check_open()
        transactions = self._sender.transactions
        present = None if transactions is None else transactions.present()
        _check_bytes(key, value, headers)
        known = self.cluster.metadata.topics.get(topic)
        if known is None or not known.partitions:
            known = await self._look_up(topic)
        now_ms = self._settings.now_ms() if timestamp_ms is None else timestamp_ms
        record = Record(timestamp_ms=now_ms, key=key, value=value, headers=list(headers))
        size = size_of(record)
        if size > self._settings.max_request_size:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a record of {size} bytes is over max.request.size ({self._settings.max_request_size})",
            )
        if partition is None:
            partition = self._choose(known, record, size)
        where = TopicPartition(topic, partition)
        if where.partition not in known.partitions:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {topic!r} has no partition {where.partition}: it has {len(known.partitions)}",
            )
        if not self._accumulator.has_room(size):
            await self._make_room(size)
        self._check_open()
        if transactions is not None and transactions.present() != present:
            raise TransactionFailedError("the transaction was ended while this record waited to be queued")
        loop = asyncio.get_running_loop()
        delivery: asyncio.Future[RecordMetadata] = loop.create_future()
        if callback is not None:
            _call_back(delivery, callback)
        if self._accumulator.append(where, record, size, delivery, loop.time() * 1000):
            self._sender.wake()
            await asyncio.sleep(0)  # a caller that never waits for anything must not keep the sender from its work
        return delivery

    def _check_open(self) -> None:
        if self._sending is None or self._sender.stopped:
            raise ProducerClosedError("this producer is not open: send between start() and close()")

    async def send_and_wait(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        return await (
            await self.send(topic, value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms)
        )

    async def flush(self) -> None:
        """Send all that is queued now, without lingering, and wait until each record is delivered or given up. Nobody
        waits for what others send meanwhile.
        """
        self._accumulator.flushing += 1
        self._sender.wake()
        try:
            for partition, last in self._accumulator.waiting():
                while self._accumulator.holds(partition, last):
                    await self._sender.some_progress()
        finally:
            self._accumulator.flushing -= 1

    def _choose(self, topic: TopicMetadata, record: Record, size: int) -> int:
        key, rows = record.key, topic.partitions
        if self._partitioner is not None:
            return self._partitioner.partition(topic.name, key, record.value, self.cluster.metadata)
        available = self._available(topic) if key is None else []
        return self._default_partitioner.partition(topic.name, key, size, len(rows), available)

    def _available(self, topic: TopicMetadata) -> list[int]:
        """The partitions that have a leader, or those of them that are led in this client's rack, if any (KIP-1123)."""
        led = [row for row in topic.partitions.values() if row.leader >= 0]
        if self._settings.partitioner_rack_aware and self._settings.client_rack:
            brokers, rack = self.cluster.metadata.brokers, self._settings.client_rack
            near = [row.partition for row in led if row.leader in brokers and brokers[row.leader].rack == rack]
            if near:
                return near
        return [row.partition for row in led]

    async def _look_up(self, topic: str) -> TopicMetadata:
        return await self.cluster.topic(
            topic, create=self._settings.allow_auto_create_topics, timeout_ms=self._settings.max_block_ms
        )

    async def _make_room(self, size: int) -> None:
        try:
            async with asyncio.timeout(self._settings.max_block_ms / 1000):
                while not self._accumulator.has_room(size):
                    self._sender.wake()
                    await self._sender.some_progress()
        except TimeoutError:
            raise BufferExhaustedError(
                f"the producer's buffer of {self._settings.buffer_memory} bytes stayed full for "
                f"{self._settings.max_block_ms} ms: the cluster takes records slower than they are sent"
            ) from None


def _check_bytes(key: object, value: object, headers: Sequence[tuple[object, object]]) -> None:
    """Text would fail only when its batch is encoded, and would fail the other records in it."""
    for what, data in (("key", key), ("value", value)):
        if data is not None and not isinstance(data, bytes):
            raise TypeError(f"a record's {what} is bytes or None, not {type(data).__name__}: encode it first")
    for name, data in headers:
        if not isinstance(name, str) or (data is not None and not isinstance(data, bytes)):
            raise TypeError("a header is a name (str) and a value (bytes or None)")


def _call_back(delivery: asyncio.Future[RecordMetadata], callback: Callback) -> None:
    def done(future: asyncio.Future[RecordMetadata]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        callback(None if error else future.result(), error)

    delivery.add_done_callback(done)
