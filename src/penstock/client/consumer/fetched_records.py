"""The records of one partition's part of a fetch, unpacked as they are asked for.

What the application is not to see is left out: records before the position (a fetch from the middle of a batch brings
the whole batch), control batches and, if it reads committed records only, those of aborted transactions.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import cast

from penstock.client.values import ConsumedRecord, TopicPartition
from penstock.protocol.batch import HEADER_SIZE, BatchHeader, check_crc
from penstock.protocol.compression import decompress
from penstock.protocol.errors import DecodeError
from penstock.protocol.messages.fetch import AbortedTransaction
from penstock.protocol.records import (
    DEFAULT_MAX_BYTES,
    Record,
    iterate_batches,
    iterate_records,
    iterate_unpacked,
)
from penstock.protocol.varint import Buffer

ABORT_MARKER = 0
LARGE_BYTES = 4 << 20
_MARKER_KEY = struct.Struct(">hh")  # version, type


def _owned(record: Record) -> Record:
    """Parts of a view become bytes."""
    record.key = None if record.key is None else bytes(record.key)
    record.value = None if record.value is None else bytes(record.value)
    record.headers = [(name, None if value is None else bytes(value)) for name, value in record.headers]
    return record


class FetchedRecords:
    """`next_offset` is the position behind the last record that was taken."""

    def __init__(
        self,
        partition: TopicPartition,
        data: Buffer,
        position: int,
        aborted: Sequence[AbortedTransaction] | None = None,
        *,
        check_crcs: bool = True,
        large_as_views: bool = False,
    ) -> None:
        self.partition = partition
        self.next_offset = position
        self.next_leader_epoch = -1
        self._data = data
        self._check_crcs = check_crcs
        self._large_as_views = large_as_views
        self._to_abort = sorted(aborted or (), key=lambda item: item.first_offset, reverse=True)
        self._aborted: dict[int, None] = {}
        self._records = self._iterate()
        self._error: DecodeError | None = None
        self.exhausted = False

    def take(self, limit: int) -> list[ConsumedRecord]:
        """Fewer than `limit` when there are no more, and then `exhausted` is set. DecodeError where the next one cannot
        be read.
        """
        taken: list[ConsumedRecord] = []
        while len(taken) < limit and self._error is None:
            try:
                record = next(self._records, None)
            except DecodeError as error:
                self._error = error
                break
            if record is None:
                self.exhausted = True
                break
            taken.append(record)
        if self._error is not None and not taken:
            raise self._error
        return taken

    def _iterate(self) -> Iterator[ConsumedRecord]:
        topic, number = self.partition
        for position, header in iterate_batches(self._data):
            if header.last_offset < self.next_offset:
                continue
            if self._check_crcs and not check_crc(self._data, position, header):
                raise DecodeError(f"the checksum of the batch at {self.partition} offset {header.base_offset} is wrong")
            if self._is_visible(position, header):
                first = self.next_offset
                for record in self._decoded(position, header):
                    if record.offset >= first:
                        self.next_offset = record.offset + 1
                        self.next_leader_epoch = header.partition_leader_epoch
                        yield ConsumedRecord(
                            topic,
                            number,
                            record.offset,
                            record.timestamp_ms,
                            record.key,
                            record.value,
                            record.headers,
                            header.is_log_append_time,
                            header.partition_leader_epoch,
                        )
            self.next_offset = header.last_offset + 1
            self.next_leader_epoch = header.partition_leader_epoch

    def _decoded(self, position: int, header: BatchHeader) -> Iterator[Record]:
        """The bytes of a large batch are not copied before they are cut into records."""
        payload = memoryview(self._data)[position + HEADER_SIZE : position + header.size_in_bytes]
        unpacked = decompress(header.compression, payload, DEFAULT_MAX_BYTES)
        if len(unpacked) < LARGE_BYTES:
            return iterate_unpacked(bytes(unpacked), header)
        views = iterate_unpacked(cast("bytes", memoryview(unpacked)), header)
        return views if self._large_as_views else map(_owned, views)

    def _is_visible(self, position: int, header: BatchHeader) -> bool:
        while self._to_abort and self._to_abort[-1].first_offset <= header.last_offset:
            self._aborted[self._to_abort.pop().producer_id] = None
        if header.is_control:
            if self._is_abort_marker(position, header):
                self._aborted.pop(header.producer_id, None)
            return False
        return not (header.is_transactional and header.producer_id in self._aborted)

    def _is_abort_marker(self, position: int, header: BatchHeader) -> bool:
        for record in iterate_records(self._data, position, header):
            if record.key is not None and len(record.key) >= _MARKER_KEY.size:
                return bool(_MARKER_KEY.unpack_from(record.key)[1] == ABORT_MARKER)
        return False
