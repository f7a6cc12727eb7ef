"""A log in memory, as far as a `Partition` looks at one: records that outlive the process of their host."""

import json
from typing import Any

from penstock.log.config import LogConfig
from penstock.log.validation import AppendResult
from penstock.protocol.errors import ErrorCode, KafkaError

Record = tuple[int, str]
"""The leader epoch and the value; the offset is the place in the list."""
UNDEFINED = -1


class MemoryLog:
    topic, partition, config = "t", 0, LogConfig()

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.checked = 0
        """So many records have been compared with what is committed."""
        self.log_start_offset = self.cleaned_to = 0
        self.leader_epochs = self

    @property
    def log_end_offset(self) -> int:
        return len(self.records)

    kept_offset = log_end_offset

    @property
    def latest(self) -> int:
        return self.records[-1][0] if self.records else UNDEFINED

    latest_epoch = latest

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        if epoch < 0 or epoch > self.latest:
            return UNDEFINED, UNDEFINED
        end = len(self.records)
        while end and self.records[end - 1][0] > epoch:
            end -= 1
        return (self.records[end - 1][0] if end else epoch), end

    def append_as_leader(self, batches: Any, *, leader_epoch: int, now_ms: int, origin: object) -> AppendResult:
        assert leader_epoch >= self.latest, "an older leader appends"
        self.records.append((leader_epoch, str(batches, "utf-8")))
        offset = len(self.records) - 1
        return AppendResult(offset, offset, -1, self.log_start_offset, False)

    def append_as_follower(self, batches: memoryview) -> None:
        offset, records = json.loads(bytes(batches))
        if offset != len(self.records):
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the offsets do not follow")
        self.records += [(epoch, value) for epoch, value in records]

    def read(self, offset: int, most: int) -> bytes:
        found = self.records[offset : offset + most]
        return json.dumps([offset, found]).encode() if found else b""

    def truncate_to(self, offset: int) -> int:
        del self.records[offset:]
        self.checked = min(self.checked, offset)
        return len(self.records)
