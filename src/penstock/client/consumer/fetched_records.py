"""The records of one partition's part of a fetch, unpacked as they are asked for.

What the application is not to see is left out: records before the position (a fetch from the middle of a batch brings
the whole batch), control batches and, if it reads committed records only, those of aborted transactions.
"""

import struct
from collections.abc import Iterator, Sequence

from penstock.client.values import ConsumedRecord, TopicPartition
from penstock.protocol.batch import BatchHeader, check_crc
from penstock.protocol.errors import DecodeError
from penstock.protocol.messages.fetch import AbortedTransaction
from penstock.protocol.records import iterate_batches, iterate_records

ABORT_MARKER = 0
_MARKER_KEY = struct.Struct(">hh")  # version, type


class FetchedRecords:
    """`next_offset` is the position behind the last record that was taken."""

    def __init__(
        self,
        partition: TopicPartition,
        data: bytes,
        position: int,
        aborted: Sequence[AbortedTransaction] | None = None,
        *,
        check_crcs: bool = True,
    ) -> None:
        self.partition = partition
        self.next_offset = position
        self.next_leader_epoch = -1
        self._data = data
        self._check_crcs = check_crcs
        self._to_abort = sorted(aborted or (), key=lambda item: item.first_offset, reverse=True)
        self._aborted: dict[int, None] = {}
        self._records = self._iterate()
        self.exhausted = False

    def take(self, limit: int) -> list[ConsumedRecord]:
        """Fewer than `limit` when there are no more, and then `exhausted` is set. DecodeError."""
        taken: list[ConsumedRecord] = []
        while len(taken) < limit:
            record = next(self._records, None)
            if record is None:
                self.exhausted = True
                break
            taken.append(record)
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
                for record in iterate_records(self._data, position, header):
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
                        )
            self.next_offset = header.last_offset + 1
            self.next_leader_epoch = header.partition_leader_epoch

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
