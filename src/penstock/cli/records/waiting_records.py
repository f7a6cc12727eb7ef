"""The records of a topic that wait until they are due: whoever can read the topic can find them in its log."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from penstock.client.admin import Admin
from penstock.client.replica_offsets import replica_fetch_request
from penstock.client.values import EARLIEST, LATEST, TopicPartition
from penstock.protocol.batch import BatchHeader, check_crc
from penstock.protocol.delayed import DELAY_ID, Held
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.messages.fetch import FetchResponse
from penstock.protocol.records import iterate_batches
from penstock.replication.delayed.machine import DelayedRecords

READ_BYTES: Final = 4 << 20
NEEDLESS: Final = 10_000
"""So many records that wait no longer are kept in mind, or as many as wait or may come to, before they are looked for.
"""


class WaitingRecord(NamedTuple):
    """`offset` is the one that its producer was told. `due_ms` is 0 for one that is to go now."""

    partition: TopicPartition
    offset: int
    due_ms: int
    id: bytes | None
    key: bytes | None
    size: int
    """Of its value."""


async def waiting_records(admin: Admin, partitions: Iterable[TopicPartition]) -> list[WaitingRecord]:
    """In the order in which each partition delivers them. Reads the partitions' logs. Raises KafkaError, ClientError,
    DecodeError.
    """
    wanted = list(partitions)
    begins = await admin.offsets(dict.fromkeys(wanted, EARLIEST))
    ends = await admin.offsets(dict.fromkeys(wanted, LATEST))
    found: list[WaitingRecord] = []
    for partition in wanted:
        log = _Log(admin, partition)
        await log.read(begins[partition].offset, ends[partition].offset)
        found += log.waiting()
    return found


class _Log:
    def __init__(self, admin: Admin, partition: TopicPartition) -> None:
        self._admin = admin
        self._partition = partition
        self._records = DelayedRecords(0)
        self._seen: dict[int, WaitingRecord] = {}
        self._most_seen = NEEDLESS

    async def read(self, offset: int, end: int) -> None:
        self._records = DelayedRecords(offset)
        while self._records.position < end:
            data = await self._fetch(self._records.position)
            before = self._records.position
            for position, header in iterate_batches(data):
                if not check_crc(data, position, header):
                    raise DecodeError(f"{self._partition}: the checksum of batch {header.base_offset} is wrong")
                self._take(data[position : position + header.size_in_bytes], header)
            if self._records.position == before:
                return
            self._forget()

    def waiting(self) -> list[WaitingRecord]:
        entries = self._records.waiting.entries()
        return [self._seen[entry.waited_at]._replace(due_ms=entry.due_ms) for entry in entries]

    def _take(self, batch: bytes, header: BatchHeader) -> None:
        if not self._records.concerns(header):
            self._records.pass_over(header)
            return
        if header.is_held:
            held = Held(batch, header)
            for row, record in zip(held.rows(), held.records(), strict=True):
                id_ = dict(record.headers).get(DELAY_ID)
                size = len(record.value or b"")
                self._seen[row.waited_at] = WaitingRecord(
                    self._partition, row.waited_at, row.due_ms, id_, record.key, size
                )
        while not self._records.take(batch, header):
            pass

    def _forget(self) -> None:
        if len(self._seen) <= self._most_seen:
            return
        unsettled = self._records.unsettled_from
        left = {at: seen for at, seen in self._seen.items() if unsettled is not None and at >= unsettled}
        left |= {entry.waited_at: self._seen[entry.waited_at] for entry in self._records.waiting.entries()}
        self._seen, self._most_seen = left, 2 * len(left) + NEEDLESS

    async def _fetch(self, offset: int) -> bytes:
        cluster, (topic, _) = self._admin.cluster, self._partition
        leader = cluster.metadata.leader(self._partition)
        if leader is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{self._partition} has no leader now")
        ids = {topic: cluster.metadata.topics[topic].topic_id}
        request = replica_fetch_request({self._partition: offset}, ids, bytes_each=READ_BYTES)
        response = await cluster.to_node(leader.leader, request, FetchResponse)
        data = response.responses[0].partitions[0] if not response.error_code else None
        code = ErrorCode(response.error_code if data is None else data.error_code)
        if data is None or code:
            raise KafkaError(code, f"{self._partition} cannot be read")
        return bytes(data.records or b"")
