"""The log against a naive twin, a list of batches, under random appends, rolls, cuts, reads, restarts and crashes."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.log.logs import NOW, batches_of, open_log, run_through

from penstock.log.config import LogConfig
from penstock.protocol.errors import KafkaError
from penstock.protocol.records import Record, decode_batch, encode_batch


@dataclass(frozen=True)
class TwinBatch:
    base_offset: int
    timestamps: tuple[int, ...]
    size: int
    producer: tuple[int, int] | None  # producer id, base sequence
    epoch: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + len(self.timestamps) - 1


class LogAndTwin(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name)
        self.batches: list[TwinBatch] = []
        self.history: list[TwinBatch] = []  # with those that retention has deleted: producers are remembered
        self.epochs: list[tuple[int, int]] = []
        self.start = 0
        self.end = 0
        self.epoch = 0

    @initialize(segment_bytes=st.integers(400, 1500), interval=st.sampled_from([1, 100, 4096]))
    def begin(self, segment_bytes: int, interval: int) -> None:
        self.config = LogConfig(
            segment_bytes=segment_bytes, index_interval_bytes=interval, message_timestamp_after_max_ms=10**9
        )
        self.log = open_log(self.path, self.config, max_open=2)

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.abandon()
        self.folder.cleanup()

    # appends

    @rule(offsets=st.lists(st.integers(0, 50), min_size=1, max_size=4), pid=st.sampled_from([None, None, 1, 2]))
    def append(self, offsets: list[int], pid: int | None) -> None:
        producer = None if pid is None else (pid, self.next_sequence(pid))
        self.send(tuple(NOW + delta for delta in offsets), producer)

    def send(self, timestamps: tuple[int, ...], producer: tuple[int, int] | None) -> None:
        records = [Record(i, timestamp, b"k", b"v" * (timestamp % 60)) for i, timestamp in enumerate(timestamps)]
        pid, sequence = producer or (-1, -1)
        data = encode_batch(records, producer_id=pid, producer_epoch=0 if producer else -1, base_sequence=sequence)
        result = self.log.append_as_leader(memoryview(data), leader_epoch=self.epoch, now_ms=NOW)
        sent = TwinBatch(self.end, timestamps, len(data), producer, self.epoch)
        assert (result.base_offset, result.last_offset) == (sent.base_offset, sent.last_offset)
        assert not result.is_duplicate
        if not self.epochs or self.epochs[-1][0] < self.epoch:
            self.epochs = [entry for entry in self.epochs if entry[1] < self.end]
            self.epochs.append((self.epoch, self.end))
        self.batches.append(sent)
        self.history.append(sent)
        self.end = sent.last_offset + 1

    def last_of(self, pid: int) -> TwinBatch | None:
        written = [batch for batch in self.history if batch.producer and batch.producer[0] == pid]
        return written[-1] if written else None

    def next_sequence(self, pid: int) -> int:
        last = self.last_of(pid)
        return last.producer[1] + len(last.timestamps) if last and last.producer else 0

    @rule(pid=st.sampled_from([1, 2]))
    def repeat_last_batch(self, pid: int) -> None:
        last = self.last_of(pid)
        if last is None or last.producer is None:
            return
        records = [Record(i, NOW, b"k", b"") for i in range(len(last.timestamps))]
        data = encode_batch(records, producer_id=pid, producer_epoch=0, base_sequence=last.producer[1])
        result = self.log.append_as_leader(memoryview(data), leader_epoch=self.epoch, now_ms=NOW)
        assert result.is_duplicate
        assert (result.base_offset, result.last_offset) == (last.base_offset, last.last_offset)

    @rule()
    def next_leader(self) -> None:
        self.epoch += 1

    # cuts

    def cut_twin(self, end: int) -> None:
        self.batches = [batch for batch in self.batches if batch.last_offset < end]
        self.history = [batch for batch in self.history if batch.last_offset < end]
        self.epochs = [entry for entry in self.epochs if entry[1] < end]
        self.end = end

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.end + 1))
        if offset >= self.end:
            assert self.log.truncate_to(offset) == self.end
            return
        kept = [batch for batch in self.batches if batch.last_offset < offset]
        first = self.log.segments[0].base_offset
        end = offset if offset <= first else kept[-1].last_offset + 1 if kept else first
        begins_anew = offset <= first or end < self.start
        end = max(end, self.start)
        assert self.log.truncate_to(offset) == end
        self.cut_twin(0 if begins_anew else end)
        self.end = end

    @rule(forward=st.integers(0, 20))
    def truncate_fully(self, forward: int) -> None:
        self.cut_twin(0)
        self.start = self.end = self.log.log_end_offset + forward
        self.log.truncate_fully_and_start_at(self.end)

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        self.log.advance_log_start(offset)
        self.log.apply_retention(NOW)
        if offset > self.start:
            self.start = offset
            self.forget_epochs_before_the_start()
        self.batches = [batch for batch in self.batches if batch.last_offset >= offset or batch in self.in_log()]

    def forget_epochs_before_the_start(self) -> None:
        before = [epoch for epoch, start in self.epochs if start <= self.start]
        self.epochs = [entry for entry in self.epochs if entry[1] > self.start]
        if before:
            self.epochs.insert(0, (before[-1], self.start))

    def in_log(self) -> list[TwinBatch]:
        return [batch for batch in self.batches if batch.base_offset >= self.log.segments[0].base_offset]

    # restarts

    def reopen(self, *, is_clean: bool) -> None:
        self.log = open_log(
            self.path,
            self.config,
            is_clean=is_clean,
            recovery_point=self.end if is_clean else 0,
            log_start_offset=self.start,
            max_open=2,
        )

    @rule()
    def restart(self) -> None:
        self.log.close()
        self.reopen(is_clean=True)

    @rule(cut=st.integers(0, 300))
    def crash(self, cut: int) -> None:
        active = self.log.segments[-1]
        size = max(0, active.size - cut)
        active.opened().truncate(size)
        position, end = 0, active.base_offset
        for batch in self.batches:
            if batch.base_offset >= active.base_offset:
                position += batch.size
                if position > size:
                    break
                end = batch.last_offset + 1
        in_log = self.in_log()
        self.log.abandon()
        self.cut_twin(end)
        self.epochs = []  # the batches say them anew
        for batch in in_log:
            if batch.last_offset < end and (not self.epochs or self.epochs[-1][0] < batch.epoch):
                self.epochs.append((batch.epoch, batch.base_offset))
        self.forget_epochs_before_the_start()
        self.reopen(is_clean=False)
        if self.start > self.end:
            self.cut_twin(0)
            self.end = self.start

    # reads

    @rule(data=st.data(), max_bytes=st.integers(0, 2000), at_least_one=st.booleans())
    def read(self, data: st.DataObject, max_bytes: int, at_least_one: bool) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        upper = data.draw(st.integers(0, self.end + 5))
        data_read = self.log.read(offset, max_bytes, upper_offset=upper, at_least_one_batch=at_least_one).read()
        wanted = [batch for batch in self.batches if batch.last_offset >= offset and batch.last_offset < upper]
        if offset >= upper or not wanted:
            assert not data_read
            return
        found = batches_of(data_read)
        assert found == [(batch.base_offset, batch.last_offset) for batch in wanted[: len(found)]]
        bases = [segment.base_offset for segment in self.log.segments if segment.base_offset > wanted[0].base_offset]
        in_segment = sum(batch.size for batch in wanted if not bases or batch.base_offset < bases[0])
        at_least = wanted[0].size if at_least_one else 0
        fits = max_bytes if max_bytes >= wanted[0].size else 0
        assert len(data_read) == max(min(in_segment, fits), at_least)

    @rule(wanted_ms=st.integers(NOW - 1, NOW + 51))
    def look_up_time(self, wanted_ms: int) -> None:
        records = [
            (timestamp, batch.base_offset + i)
            for batch in self.batches
            for i, timestamp in enumerate(batch.timestamps)
            if batch.base_offset + i >= self.start
        ]
        hits = [record for record in records if record[0] >= wanted_ms]
        found = run_through(self.log.search_timestamp(wanted_ms))
        assert (None if found is None else (found.timestamp_ms, found.offset)) == (hits[0] if hits else None)

    @rule()
    def look_up_epochs(self) -> None:
        assert self.log.leader_epochs.entries == self.epochs
        for number, (epoch, _) in enumerate(self.epochs):
            end = self.epochs[number + 1][1] if number + 1 < len(self.epochs) else self.end
            assert self.log.end_offset_for_epoch(epoch) == (epoch, end)

    @precondition(lambda self: hasattr(self, "log"))
    @invariant()
    def offsets_agree(self) -> None:
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
        assert self.log.size_bytes == sum(segment.size for segment in self.log.segments)

    @rule()
    def read_everything(self) -> None:
        found: list[tuple[int, int]] = []
        offset = self.start
        while offset < self.end:
            data = self.log.read(offset, 1 << 20).read()
            found += batches_of(data)
            if not data:
                break
            decode_batch(data)
            offset = found[-1][1] + 1
        wanted = [batch for batch in self.batches if batch.last_offset >= self.start]
        assert found == [(batch.base_offset, batch.last_offset) for batch in wanted]
        with pytest.raises(KafkaError):
            self.log.read(self.end + 1, 1)


LogAndTwin.TestCase.settings = settings(
    max_examples=100,
    stateful_step_count=30,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
TestLogAndTwin = LogAndTwin.TestCase
