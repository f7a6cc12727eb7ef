"""What was held for partitions goes to the broker that leads them now, each as a request of its own."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Protocol, cast

from penstock.client.connection import Connection
from penstock.client.errors import ClientError, ConnectionFailedError
from penstock.client.link import Link
from penstock.log.record_checks import InvalidRecords
from penstock.node.links.hand_over import Held, Outcome, unknown
from penstock.protocol.errors import DecodeError, ErrorCode
from penstock.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

NOT_YET: Final = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
)
NEWEST_BY_NAME: Final = 12


class Numbered(Protocol):
    topic: str
    index: int


class HeldRecords(Held, Protocol):
    partition: Numbered
    records: bytes
    acks: int
    timeout_ms: int
    transactional_id: str | None
    version: int
    """Of the request, which says what its client knows of transactions."""

    def appended(self, base_offset: int, log_append_time_ms: int, log_start_offset: int) -> None:
        """The new leader has appended it, and all replicas if that was asked for."""


class SucceedingBroker:
    """A connection to a broker, opened for the first request that is held; what is lost on it is not sent again."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]]) -> None:
        self._link = Link(connect)
        self.is_used = False

    def prepare(self) -> None:
        if not self.is_used:
            self.is_used = True
            self._link.open()

    async def reach(self) -> None:
        try:
            await self._link.opened()
        except ClientError as error:
            raise unknown(error) from error

    async def send(self, held: Held) -> Outcome:
        connection, records = self._link.connection, cast("HeldRecords", held)
        try:
            if connection is None:
                raise ConnectionFailedError("the connection is closed")
            newest = min(records.version, NEWEST_BY_NAME)
            answer = connection.submit(request_for(records), ProduceResponse, newest=newest)
            row = (await connection.answered(answer)).responses[0].partition_responses[0]
        except (ClientError, DecodeError) as error:
            raise unknown(error) from error
        return Outcome(row.error_code not in NOT_YET, partial(answer_held, records, row))

    def hang_up(self) -> None:
        self._link.give_up("handed over")

    async def close(self) -> None:
        await self._link.close()


def request_for(held: HeldRecords) -> ProduceRequest:
    """With acks=0 an answer is asked for all the same, so that the records are known to have arrived."""
    data = PartitionProduceData(index=held.partition.index, records=held.records)
    topic = TopicProduceData(name=held.partition.topic, partition_data=[data])
    return ProduceRequest(
        transactional_id=held.transactional_id,
        acks=held.acks or 1,
        timeout_ms=held.timeout_ms,
        topic_data=[topic],
    )


def answer_held(held: HeldRecords, row: PartitionProduceResponse) -> None:
    if not row.error_code:
        held.appended(row.base_offset, row.log_append_time_ms, row.log_start_offset)
        return
    errors = [(error.batch_index, error.batch_index_error_message or "") for error in row.record_errors]
    held.refused(InvalidRecords(ErrorCode(row.error_code), row.error_message or "", errors))
