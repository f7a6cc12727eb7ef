"""The task that carries a producer's batches to the partitions' leaders, and decides what each answer means."""

import asyncio
from collections.abc import Sequence
from typing import Final

from penstock.client.cluster import LED_ELSEWHERE, ClusterClient
from penstock.client.connection import Connection
from penstock.client.errors import ClientError, ConnectionFailedError, DeliveryTimedOutError, raise_for
from penstock.client.messages import STORED, produce_request, producer_id_request
from penstock.client.metadata import unavailable
from penstock.client.producer.accumulator import NO_SEQUENCE, Accumulator, PendingBatch
from penstock.client.producer.sequences import Sequences
from penstock.client.producer.transactions import Transactions
from penstock.client.settings import ProducerSettings
from penstock.client.values import NO_OFFSET, RecordMetadata, TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.init_producer_id import InitProducerIdResponse
from penstock.protocol.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse
from penstock.protocol.records import encode_batch

NEWEST_BY_NAME: Final = 12  # from version 13 on topics go by their ids
_TRACK_LOST = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)
"""Refusals after which it is not known whether the broker has the batch, or what it takes for the next one."""


class Sender:
    """`run` ends when it is stopped and nothing is on its way. `transactions`: those of a transactional producer."""

    def __init__(self, cluster: ClusterClient, accumulator: Accumulator, settings: ProducerSettings) -> None:
        self._cluster = cluster
        self._accumulator = accumulator
        self._settings = settings
        self._sequences = Sequences()
        self.transactions = (
            None if settings.transactional_id is None else Transactions(cluster, settings, self._sequences)
        )
        self._news = asyncio.Event()
        self._landed = asyncio.Event()
        self._in_flight: dict[int, int] = {}
        self._requests: dict[asyncio.Task[None], None] = {}
        self._failures: dict[TopicPartition | None, str] = {}
        """What went wrong the last time, in words: an error has the batch in its traceback. By partition, as long as
        something waits for it; with None what concerns all of them.
        """
        self.stopped = False

    def wake(self) -> None:
        """Look at the accumulator now: there is a record more, or an answer."""
        self._news.set()

    async def some_progress(self) -> None:
        """Wait until a batch is acknowledged or has failed."""
        self._landed.clear()
        await self._landed.wait()

    async def run(self) -> None:
        while True:
            self._news.clear()
            for batch in self._accumulator.drop_expired(self._now_ms()):
                self._give_up(batch, self._timed_out(batch))
            self._forget_failures()
            try:
                await self._send_ready()
            except Exception as error:  # a fault of ours: what waits is tried again until its time is over
                self._note(error)
            if self.stopped and not self._accumulator:  # what was left may have failed just now
                break
            next_ms = self._accumulator.next_ready_ms()
            try:
                async with asyncio.timeout(self._pause_s(next_ms)):
                    await self._news.wait()
            except TimeoutError:
                pass
        await asyncio.gather(*self._requests, return_exceptions=True)

    async def end(self, error: ClientError) -> None:
        """Nothing is sent any more, nor waited for: what is left fails."""
        requests = list(self._requests)
        for request in requests:
            request.cancel()
        for batch in self._accumulator.clear():
            self._give_up(batch, error)
        await asyncio.gather(*requests, return_exceptions=True)

    def abandon(self, error: ClientError) -> None:
        """Fails all batches but those in flight."""
        for batch in self._accumulator.drop_all():
            self._give_up(batch, error)

    def _pause_s(self, next_ms: float | None) -> float | None:
        if next_ms is None:
            return None
        pause_ms = next_ms - self._now_ms()
        # What is ready and yet was not sent waits for a leader, a producer id or a free place at its node.
        return (pause_ms if pause_ms > 0 else self._settings.retry_backoff_ms) / 1000

    def _give_up_what_failed(self) -> None:
        """Nothing more is sent in a transaction in which something has failed: who waits for the rest hears so now."""
        failure = None if self.transactions is None else self.transactions.failure
        if failure is not None:
            self.abandon(Transactions.end_of_all(failure))

    async def _send_ready(self) -> None:
        self._give_up_what_failed()
        ready = self._accumulator.ready(self._now_ms())
        first = {partition: self._accumulator.first(partition) for partition in ready}
        if not ready or not await self._has_identity() or not await self._know_leaders(ready):
            return
        if not await self._belong(ready):
            return
        nodes: dict[int, list[PendingBatch]] = {}
        sizes: dict[int, int] = {}
        for partition, batch in first.items():
            if not self._accumulator.is_next(batch):  # it was abandoned while something was waited for
                continue
            row = self._cluster.metadata.leader(partition)
            if row is None:
                self._note(unavailable(self._cluster.metadata, partition), partition)
                continue
            if self._in_flight.get(row.leader, 0) >= self._settings.max_in_flight_requests_per_connection:
                continue
            size = batch.size_bytes
            if sizes.get(row.leader, 0) and sizes[row.leader] + size > self._settings.max_request_size:
                continue
            sizes[row.leader] = sizes.get(row.leader, 0) + size
            nodes.setdefault(row.leader, []).append(self._accumulator.take(partition))
        for node_id, batches in nodes.items():
            self._in_flight[node_id] = self._in_flight.get(node_id, 0) + 1
            task = asyncio.create_task(self._send(node_id, batches), name=f"produce to node {node_id}")
            self._requests[task] = None
            task.add_done_callback(self._requests.pop)

    async def _has_identity(self) -> bool:
        """Get a producer id if one is needed; False while none is to be had."""
        if not self._settings.is_idempotent or self._sequences.identity is not None:
            return True
        if self.transactions is not None:  # it comes with the end of the transaction that has failed
            return False
        try:
            response = await self._cluster.to_any(producer_id_request(), InitProducerIdResponse)
            raise_for(response.error_code, "no producer id is to be had")
        except (ClientError, KafkaError) as error:
            self._note(error)
            if not isinstance(error, ConnectionFailedError) and not getattr(error, "retriable", False):
                for batch in self._accumulator.drop_all():
                    self._give_up(batch, error)
            return False
        self._note(None)
        self._sequences.identity = response.producer_id, response.producer_epoch
        return True

    async def _belong(self, partitions: Sequence[TopicPartition]) -> bool:
        """Have the partitions take part in the transaction; whether they do."""
        if self.transactions is None:
            return True
        try:
            await self.transactions.add(partitions)
        except (ClientError, KafkaError) as error:
            self.transactions.fail(error)
            for batch in self._accumulator.drop_all():
                self._give_up(batch, error)
            return False
        return True

    async def _know_leaders(self, ready: Sequence[TopicPartition]) -> bool:
        """Look up leaders that are not known; whether the cluster could be asked."""
        unknown = {p.topic for p in ready if self._cluster.metadata.leader(p) is None}
        old = {p.topic for p in ready if self._cluster.is_old([p.topic])}
        if unknown or old:
            try:
                await self._cluster.refresh(sorted(unknown | old))
            except (ClientError, KafkaError) as error:
                self._note(error)
                return False
            self._note(None)
            self._forget_sequences()
        return True

    def _forget_sequences(self) -> None:
        """Of topics that nobody has used for long, or that are gone. A transaction keeps its producer id."""
        topics = self._cluster.metadata.topics
        if self.transactions is None:
            self._sequences.keep(lambda partition: partition.topic in topics or partition in self._accumulator)

    async def _send(self, node_id: int, batches: Sequence[PendingBatch]) -> None:
        try:
            moved = await self._deliver(node_id, batches)
            if moved:
                await self._cluster.look_again(moved)
        finally:
            under_way = self._in_flight.pop(node_id) - 1
            if under_way:
                self._in_flight[node_id] = under_way
            self.wake()

    async def _deliver(self, node_id: int, batches: Sequence[PendingBatch]) -> list[TopicPartition]:
        """Settles each batch; returns the partitions whose leaders are to be looked up again."""
        try:
            connection = await self._cluster.connection(node_id)
            await connection.writable()
            batches = self._numbered(batches)
            if not batches:
                return []
            if self._settings.acks == 0:
                connection.send_without_answer(self._request(batches), newest=NEWEST_BY_NAME)
                for batch in batches:
                    self._succeed(batch, NO_OFFSET, -1)
                return []
            return await self._exchange(node_id, connection, batches)
        except (ClientError, KafkaError) as error:
            for batch in batches:
                self._fail(batch, error)
            return [batch.partition for batch in batches]
        except Exception as error:  # a fault of ours, or a record that cannot be encoded: no caller may wait for ever
            for batch in batches:
                self._accumulator.done(batch)
                self._give_up(batch, error)
            return []

    async def _exchange(
        self, node_id: int, connection: Connection, batches: Sequence[PendingBatch]
    ) -> list[TopicPartition]:
        response = await connection.request(self._request(batches), ProduceResponse, newest=self._newest)
        answers = {
            TopicPartition(topic.name, row.index): row
            for topic in response.responses
            for row in topic.partition_responses
        }
        led_elsewhere = {
            partition: row.current_leader for partition, row in answers.items() if row.error_code in LED_ELSEWHERE
        }
        learned = self._cluster.learn(node_id, led_elsewhere, response.node_endpoints)
        moved: list[TopicPartition] = []
        for batch in batches:
            row = answers.get(batch.partition)
            if row is None:
                self._fail(batch, ConnectionFailedError(f"{connection.address} did not answer for {batch.partition}"))
            elif row.error_code in STORED:
                self._succeed(batch, row.base_offset, row.log_append_time_ms)
            elif batch.partition in learned:
                about = row.error_message or f"record for {batch.partition}"
                self._fail(batch, KafkaError(ErrorCode(row.error_code), about), pause_ms=0)
            else:
                self._refused(batch, row)
                moved.append(batch.partition)
        return moved

    def _numbered(self, batches: Sequence[PendingBatch]) -> Sequence[PendingBatch]:
        """Those that may go. While there was no connection yet, another batch may have cost the producer its id: what
        has no numbers then waits for the next one.
        """
        if not self._settings.is_idempotent:
            return batches
        numbered: list[PendingBatch] = []
        for batch in batches:
            if self._sequences.number(batch):
                numbered.append(batch)
            else:
                self._accumulator.give_back(batch, self._now_ms())
        return numbered

    @property
    def _newest(self) -> int:
        return NEWEST_BY_NAME if self.transactions is None else self.transactions.newest_produce

    def _request(self, batches: Sequence[PendingBatch]) -> ProduceRequest:
        encoded: dict[TopicPartition, bytearray] = {}
        for batch in batches:
            encoded[batch.partition] = encode_batch(
                batch.records,
                compression=self._settings.compression_type,
                level=self._settings.compression_level,
                producer_id=batch.producer_id,
                producer_epoch=batch.producer_epoch,
                base_sequence=batch.base_sequence,
                is_transactional=self.transactions is not None,
            )
        return produce_request(
            encoded,
            acks=self._settings.acks,
            timeout_ms=self._settings.request_timeout_ms,
            transactional_id=self._settings.transactional_id,
        )

    # What became of a batch

    def _refused(self, batch: PendingBatch, row: PartitionProduceResponse) -> None:
        code = ErrorCode(row.error_code)
        if code == ErrorCode.MESSAGE_TOO_LARGE and len(batch.records) > 1:
            self._sequences.take_back(batch)
            self._accumulator.replace(batch)
            return
        if code == ErrorCode.UNKNOWN_PRODUCER_ID and self.transactions is None:
            # The broker dropped all it knew with old segments; all earlier batches were acknowledged: begin anew.
            self._sequences.reset(batch.partition)
            batch.base_sequence = NO_SEQUENCE
            self._accumulator.give_back(batch, self._now_ms())
            return
        if code not in _TRACK_LOST and not KafkaError(code).retriable:
            self._sequences.take_back(batch)
        details = "; ".join(item.batch_index_error_message or "" for item in row.record_errors)
        about = row.error_message or f"record for {batch.partition}"
        self._fail(batch, KafkaError(code, f"{about} ({details})" if details.strip("; ") else about))

    def _fail(self, batch: PendingBatch, error: ClientError | KafkaError, pause_ms: float | None = None) -> None:
        """Try again if that may help and there is time, after a pause that grows if none is given; else
        the record's senders get the error.
        """
        may_pass = isinstance(error, ConnectionFailedError) or (isinstance(error, KafkaError) and error.retriable)
        self._note(error, batch.partition)
        now_ms = self._now_ms()
        expired = now_ms >= batch.created_ms + self._settings.delivery_timeout_ms
        if may_pass and not expired and batch.attempts < self._settings.retries:
            if pause_ms is None:
                pause_ms = self._settings.backoff_ms(batch.attempts)
            batch.attempts += 1
            self._accumulator.give_back(batch, now_ms + pause_ms)
            return
        self._accumulator.done(batch)
        self._give_up(batch, self._timed_out(batch) if expired and may_pass else error)

    def _note(self, failure: Exception | None, partition: TopicPartition | None = None) -> None:
        """Remember the last failure of a partition; None forgets it."""
        if failure is None:
            self._failures.pop(partition, None)
        else:
            self._failures[partition] = str(failure)

    def _forget_failures(self) -> None:
        """Those of partitions for which nothing waits any more."""
        for partition in list(self._failures):
            if partition is not None and partition not in self._accumulator:
                del self._failures[partition]

    def _timed_out(self, batch: PendingBatch) -> DeliveryTimedOutError:
        last = self._failures.get(batch.partition) or self._failures.get(None)
        cause = f"; the last failure: {last}" if last else ""
        return DeliveryTimedOutError(
            f"{len(batch.records)} records for {batch.partition} could not be delivered within "
            f"{self._settings.delivery_timeout_ms} ms{cause}"
        )

    def _give_up(self, batch: PendingBatch, error: Exception) -> None:
        if batch.base_sequence != NO_SEQUENCE:
            self._sequences.reset(batch.partition)  # whether the broker has it is unknown
        if self.transactions is not None:
            self.transactions.fail(error)
        for delivery in batch.deliveries:
            if not delivery.done():
                delivery.set_exception(error)
                delivery.exception()  # a caller that drops the future gets no warning from the garbage collector
        self._landed.set()

    def _succeed(self, batch: PendingBatch, base_offset: int, log_append_time_ms: int) -> None:
        self._accumulator.done(batch)
        self._note(None, batch.partition)
        topic, partition = batch.partition
        for index, delivery in enumerate(batch.deliveries):
            if not delivery.done():
                offset = base_offset + index if base_offset >= 0 else NO_OFFSET
                timestamp_ms = log_append_time_ms if log_append_time_ms >= 0 else batch.records[index].timestamp_ms
                delivery.set_result(RecordMetadata(topic, partition, offset, timestamp_ms))
        self._landed.set()

    def _now_ms(self) -> float:
        return asyncio.get_running_loop().time() * 1000
