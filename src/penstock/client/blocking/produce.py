"""Producing without an event loop: at most one batch per partition on its way, so that order needs no bookkeeping.

`send` returns when the requests are on the wire and collects the answers to the batches before: the caller makes the
next batches while the brokers store these. With idempotence a batch keeps its sequence through all its retries, so that
the broker stores it once (KIP-98).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.client.blocking import BlockingCluster, Pauses, TopicPartition, now_ms
from penstock.client.blocking.connection import BlockingConnection
from penstock.client.errors import raise_for
from penstock.client.messages import STORED, produce_request, producer_id_request
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.init_producer_id import InitProducerIdResponse
from penstock.protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from penstock.protocol.requests.api import ApiKey

ALL_REPLICAS = -1
NO_PRODUCER = -1
MAX_REQUEST_BYTES = 32 << 20
NEWEST_IN_TRANSACTIONS = 11
"""From version 12 on the leader adds partitions to transactions, and epochs are to rise with each (KIP-890)."""
SEQUENCES = 1 << 31
"""Sequences count up to here and start again from 0."""


@dataclass(slots=True)
class ProducerIdentity:
    """What makes an idempotent producer: its id, its epoch, and the next sequence of each partition.

    With a transactional id it writes one transaction, to which the partitions `added` belong.
    """

    producer_id: int = NO_PRODUCER
    epoch: int = -1
    transactional_id: str | None = None
    added: dict[TopicPartition, None] = field(default_factory=dict)
    sequences: dict[TopicPartition, int] = field(default_factory=dict)

    def take_sequences(self, partition: TopicPartition, count: int) -> int:
        """The sequence for a batch of so many records, -1 without idempotence."""
        if self.producer_id == NO_PRODUCER:
            return -1
        sequence = self.sequences.get(partition, 0)
        self.sequences[partition] = (sequence + count) % SEQUENCES
        return sequence


def new_identity(cluster: BlockingCluster) -> ProducerIdentity:
    def ask() -> ProducerIdentity:
        connection = cluster.any_broker()
        response = connection.request(ApiKey.INIT_PRODUCER_ID, producer_id_request(), InitProducerIdResponse)
        raise_for(response.error_code, "asking for a producer id (idempotent producer)")
        return ProducerIdentity(response.producer_id, response.producer_epoch)

    return cluster.retried(ask)


@dataclass(slots=True)
class _Flight:
    """One request on its way to a leader, or the reason why it could not be sent."""

    address: Address
    connection: BlockingConnection | OSError
    batches: dict[TopicPartition, bytes | bytearray]


class BlockingProducer:
    """Sends batches that the caller encoded. Not safe for threads."""

    def __init__(
        self,
        cluster: BlockingCluster,
        *,
        acks: int = ALL_REPLICAS,
        delivery_timeout_ms: int = 120_000,
        transactional_id: str | None = None,
    ) -> None:
        """With a transactional id the caller has added the partitions to its transaction."""
        assert acks != 0, "without an answer nothing could be tried again"
        self._cluster = cluster
        self._acks = acks
        self._transactional_id = transactional_id
        self._delivery_timeout_ms = delivery_timeout_ms
        self._flights: list[_Flight] = []
        self._connections: dict[Address, BlockingConnection] = {}

    def send(self, batches: Mapping[TopicPartition, bytes | bytearray]) -> None:
        """Send one encoded batch per partition, after all that was sent before has been stored.

        Raises KafkaError for a batch that the cluster refuses, also for those of the call before.
        """
        self.flush()
        for group in _requests(batches):
            self._flights += self._take_off(group)

    def flush(self) -> None:
        """Return when all that was sent has been stored."""
        begin_ms, pauses = now_ms(), Pauses()
        while self._flights:
            failed, error = self._land()
            if not failed:
                return
            if now_ms() - begin_ms > self._delivery_timeout_ms:
                raise error or KafkaError(ErrorCode.REQUEST_TIMED_OUT)
            if error is not None:
                pauses.take()
            self._flights = self._take_off(failed)

    def _take_off(self, batches: Mapping[TopicPartition, bytes | bytearray]) -> list[_Flight]:
        by_leader = self._cluster.retried(lambda: self._cluster.leaders_of(batches))
        return [
            self._send_to(address, {partition: batches[partition] for partition in partitions})
            for address, partitions in by_leader.items()
        ]

    def _send_to(self, address: Address, batches: dict[TopicPartition, bytes | bytearray]) -> _Flight:
        timeout_ms = self._cluster.settings.request_timeout_ms
        request = produce_request(
            batches, acks=self._acks, timeout_ms=timeout_ms, transactional_id=self._transactional_id
        )
        try:
            if address not in self._connections:
                self._connections[address] = self._cluster.own_connection(address)
            connection = self._connections[address]
            newest = None if self._transactional_id is None else NEWEST_IN_TRANSACTIONS
            connection.send(ApiKey.PRODUCE, request, connection.version_of(ApiKey.PRODUCE, newest))
        except OSError as error:
            self._drop(address)
            return _Flight(address, error, batches)
        return _Flight(address, connection, batches)

    def _drop(self, address: Address) -> None:
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """What is on its way may be stored or not."""
        while self._connections:
            self._cluster.give_back(*self._connections.popitem())

    def _land(self) -> tuple[dict[TopicPartition, bytes | bytearray], Exception | None]:
        """Read all answers; returns the batches to send again, and why: None if their leaders are known now."""
        failed: dict[TopicPartition, bytes | bytearray] = {}
        reason: Exception | None = None
        flights, self._flights = self._flights, []
        for flight in flights:
            try:
                if isinstance(flight.connection, OSError):
                    raise flight.connection
                response = flight.connection.receive(ProduceResponse)
            except OSError as error:
                self._drop(flight.address)
                again: Mapping[TopicPartition, Exception | None] = dict.fromkeys(flight.batches, error)
            else:
                again = self._not_stored(response)
            for partition, why in again.items():
                failed[partition] = flight.batches[partition]
                if why is not None:
                    self._cluster.forget_leader(partition[0])
                    reason = why
        return failed, reason

    def _not_stored(self, response: ProduceResponse) -> dict[TopicPartition, KafkaError | None]:
        """What is to be sent again, and why: None where the broker has named the leader."""
        again: dict[TopicPartition, KafkaError | None] = {}
        for topic in response.responses:
            for row in topic.partition_responses:
                error, partition = _error_of(topic.name, row), (topic.name, row.index)
                if error is not None:
                    is_led = error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER and self._cluster.learn_leader(
                        partition, row.current_leader, response.node_endpoints
                    )
                    again[partition] = None if is_led else error
        return again


def _error_of(topic: str, partition: PartitionProduceResponse) -> KafkaError | None:
    """An error that may pass; raises one that does not."""
    code = ErrorCode(partition.error_code)
    if code in STORED:
        return None
    error = KafkaError(code, f"writing to partition {partition.index} of topic {topic!r}{_details(partition)}")
    if not error.retriable:
        raise error
    return error


def _details(partition: PartitionProduceResponse) -> str:
    if partition.error_message:
        return f": {partition.error_message}"
    return "".join(
        f": record {item.batch_index}: {item.batch_index_error_message}" for item in partition.record_errors[:1]
    )


def _requests(
    batches: Mapping[TopicPartition, bytes | bytearray],
) -> Sequence[dict[TopicPartition, bytes | bytearray]]:
    """Each holds one batch per partition, so that a broker accepts it."""
    requests: list[dict[TopicPartition, bytes | bytearray]] = [{}]
    size = 0
    for partition, batch in batches.items():
        if requests[-1] and size + len(batch) > MAX_REQUEST_BYTES:
            requests.append({})
            size = 0
        requests[-1][partition] = batch
        size += len(batch)
    return requests
