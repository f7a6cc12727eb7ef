"""A broker as far as one partition goes whose records wait: its log on a disk, its role, and the delivery of the node.

Killed, it loses all but its files; the clock is its own and may be set; the disk may be full.
"""

from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.unit.log.logs import open_log
from tests.unit.log.transactions import verified

from penstock.log.config import LogConfig
from penstock.log.partition_log import PartitionLog
from penstock.log.producer_snapshots import transaction_ends
from penstock.log.validation import CLIENT, COORDINATOR, AppendResult
from penstock.metadata.topics import PartitionImage
from penstock.node.environment.alarm import Turns
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.protocol.batch import BatchHeader, read_header
from penstock.protocol.records import iterate_batches

TOPIC_ID = UUID(int=1)
MOST_BYTES = 2_000
CONFIG = LogConfig(segment_bytes=2_500, retention_bytes=5_000, penstock_delay_enable=True)


class SteppedAlarm:
    """Rings when the world says so, not by an event loop."""

    def __init__(self, ring: Callable[[], None], now_ms: Any) -> None:
        self.ring = ring
        self.due_ms: int | None = None
        now_ms.__self__.alarms.append(self)

    def set(self, due_ms: int) -> None:
        self.due_ms = due_ms if self.due_ms is None else min(due_ms, self.due_ms)

    def cancel(self) -> None:
        self.due_ms = None

    def end(self) -> None:
        self.cancel()


class SteppedTurns(Turns):
    """It is the turn of who comes."""

    def add(self, step: Callable[[], None]) -> None:
        step()


class Host:
    def __init__(self, number: int, path: Path, time_ms: Callable[[], int]) -> None:
        self.id = number
        self.skew_ms = 0
        self.alarms: list[SteppedAlarm] = []
        self.is_full = False
        self.high_watermark = 0
        """As it was last written down."""
        self._path, self._time_ms = path, time_ms
        path.mkdir()
        self._start_offset = 0
        self.partition: IsrPartition | None = None

    def now_ms(self) -> int:
        return self._time_ms() + self.skew_ms

    def boot(self) -> None:
        log = open_log(self._path, CONFIG, log_start_offset=self._start_offset)
        self.partition = IsrPartition(log, TOPIC_ID, high_watermark=self.high_watermark)

    def kill(self) -> None:
        """Between two calls; what it wrote is in its files."""
        assert self.partition is not None
        self._start_offset = self.partition.log.log_start_offset
        self.partition.log.abandon()
        self.partition = None
        self.alarms.clear()

    @property
    def log(self) -> PartitionLog:
        assert self.partition is not None
        return self.partition.log

    @property
    def leads(self) -> bool:
        return self.partition is not None and self.partition.leader is not None

    def obey(self, image: PartitionImage) -> None:
        assert self.partition is not None
        self.partition.obey(self.id, image, self.now_ms())
        self.partition.deliver(SteppedTurns(self.now_ms))

    def append(self, batch: bytes, *, acks: int) -> AppendResult:
        """Of a client, or the marker of a coordinator. Raises KafkaError."""
        assert self.partition is not None
        written, origin = memoryview(bytearray(batch)), CLIENT
        header = read_header(written)
        if header.is_marker:
            for _, coordinator_epoch in transaction_ends(written):
                self.partition.check_marker(header, coordinator_epoch, 0)
            origin = COORDINATOR
        elif header.is_transactional:
            verified(self.log, written)
        return self.partition.append(written, acks=acks, now_ms=self.now_ms(), origin=origin)

    def ring(self) -> bool:
        """What is due; whether anything was."""
        due = [alarm for alarm in self.alarms if alarm.due_ms is not None and alarm.due_ms <= self.now_ms()]
        for alarm in due:
            alarm.due_ms = None
            alarm.ring()
        return bool(due)

    def retain(self) -> None:
        assert self.partition is not None
        self.log.apply_retention(self.now_ms(), high_watermark=self.partition.needed_from)

    def batches(self, first: int, end: int) -> Iterator[tuple[memoryview, BatchHeader]]:
        """Whole ones from the offset on that begin before the end."""
        while first < end:
            data = memoryview(self.log.read(first, MOST_BYTES).read())
            read = [(data[at : at + one.size_in_bytes], one) for at, one in iterate_batches(data)]
            yield from takewhile(lambda each: each[1].base_offset < end, read)
            first = read[-1][1].last_offset + 1

    def follow(self, leader: "Host") -> None:
        """What differs from the leader's log goes: of both the epochs say so, and here the bytes."""
        assert self.partition is not None
        mine, other = self.log, leader.log
        if mine.log_end_offset < other.log_start_offset:
            mine.truncate_fully_and_start_at(other.log_start_offset, durable=True)
            self.partition.was_cut()
            return
        first = max(mine.log_start_offset, other.log_start_offset)
        theirs = {header.base_offset: bytes(batch) for batch, header in leader.batches(first, other.log_end_offset)}
        end = other.log_end_offset
        for batch, header in self.batches(first, mine.log_end_offset):
            if header.last_offset >= first and theirs.get(header.base_offset) != bytes(batch):
                end = min(end, header.base_offset)
                break
        if end < mine.log_end_offset:
            mine.truncate_to(end)
            self.partition.was_cut()

    def fetch(self, leader: "Host") -> None:
        assert self.partition is not None
        assert leader.partition is not None
        if self.log.log_end_offset < leader.log.log_start_offset:
            self.log.truncate_fully_and_start_at(leader.log.log_start_offset, durable=True)
            self.partition.was_cut()
        end = self.log.log_end_offset
        leader.partition.on_fetched(self.id, end, 0, leader.now_ms(), self.log.log_start_offset)
        found = list(leader.batches(end, leader.log.log_end_offset))[:3]
        data = b"".join(bytes(batch) for batch, _ in found)
        self.partition.append_fetched(data, leader.partition.high_watermark, leader.log.log_start_offset)
