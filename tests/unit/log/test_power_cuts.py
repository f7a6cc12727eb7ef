"""What a log knows of its segments after a power cut, wherever that comes between appends and flushes."""

from random import Random
from typing import cast

import pytest
from tests.unit.log.logs import NOW, append, batch, run_through
from tests.unit.log.transactions import append_all, ended, written

from penstock.log import producer_snapshots
from penstock.log.aborted_transactions import AbortedTransaction, AbortedTransactions
from penstock.log.config import LogConfig
from penstock.log.disk import Disk
from penstock.log.log_content import SEALED_FLUSH_DELAY_MS
from penstock.log.open_files import OpenFiles
from penstock.log.partition_log import PartitionLog
from penstock.log.producer_snapshots import replay
from penstock.log.producer_state import Producers
from penstock.log.removals import Removals
from penstock.protocol.batch import read_header
from penstock.protocol.control.records import ControlType
from penstock.testing.simulator.disk import HostDisk, SimulatedDisk
from penstock.testing.simulator.loop import Process, VirtualLoop

FLUSH_MS = 1 << 40
BATCHES = 12
CONFIG = LogConfig(segment_bytes=3 * len(batch(1)), index_interval_bytes=0)


def open_log(
    host: HostDisk, recovery_point: int = 0, *, is_clean: bool = False, config: LogConfig = CONFIG
) -> tuple[PartitionLog, Disk]:
    disk = SimulatedDisk(host, Process("h"))
    disk.make_directory("d")
    disk.make_directory("d/t-0")
    return PartitionLog(
        OpenFiles(disk, 100), Removals(disk), "d/t-0", "t", 0, config, recovery_point=recovery_point, is_clean=is_clean
    ), disk


@pytest.mark.parametrize("flushed", range(BATCHES))
def test_sealed_segments_know_their_latest_timestamps(flushed: int) -> None:
    """Compaction and retention go by them. What a flush had brought to the disk is not read again after the cut."""
    for seed in range(10):
        host = HostDisk(VirtualLoop(Random(seed)), Random(seed))
        log, disk = open_log(host)
        disk.sync_directory("d")
        disk.sync_directory("")
        for number in range(BATCHES):
            append(log, batch(1, timestamp_ms=NOW + number))
            if number <= flushed:
                log.flush()
        host.lose_power()
        again, _ = open_log(host, recovery_point=log.recovery_point)
        assert again.log_end_offset > flushed
        latest = [segment.largest_timestamp() - NOW for segment in again.segments if segment.size]
        assert latest == [*range(2, again.log_end_offset - 1, 3), again.log_end_offset - 1]
        found = run_through(again.search_timestamp(NOW + flushed))
        assert found is not None
        assert found.offset == flushed


@pytest.mark.parametrize("seed", range(30))
def test_what_was_aborted_is_known_after_a_power_cut(seed: int) -> None:
    """Of entries that were not synced the disk may have anything: all, none, or zeros, which look like an entry."""
    random = Random(seed)
    host = HostDisk(VirtualLoop(Random(seed)), Random(seed))
    config, count = (CONFIG, 40) if seed % 2 else (LogConfig(segment_bytes=20_000), 300)
    log, disk = open_log(host, config=config)
    disk.sync_directory("d")
    disk.sync_directory("")
    sequences = dict.fromkeys(range(3), 0)
    for _ in range(count):
        producer_id = random.randrange(3)
        if random.random() < 0.4:
            append_all(log, ended(producer_id, random.choice((ControlType.ABORT, ControlType.COMMIT))))
        else:
            append_all(log, written(producer_id, sequences[producer_id]))
            sequences[producer_id] += 1
        if random.random() < 0.1:
            log.flush()
        if random.random() < 4 / count:
            log.close()
            log, _ = open_log(host, recovery_point=log.log_end_offset, is_clean=True, config=config)
    host.lose_power()
    again, disk = open_log(host, recovery_point=log.recovery_point, config=config)
    end_offset, producers = again.log_end_offset, Producers()
    expected = AbortedTransactions(disk, "d/t-0")
    replay(producers, Remembering(expected), again.segments, 0)  # type: ignore[arg-type]
    assert again.load().aborted.between(0, end_offset + 1) == expected.between(0, end_offset + 1)
    assert again.last_stable_offset(end_offset) == producers.last_stable_offset(end_offset)


class Remembering:
    """Notes in memory alone."""

    def __init__(self, aborted: AbortedTransactions) -> None:
        self._aborted = aborted

    def note(self, entry: AbortedTransaction, base_offset: int) -> None:
        self._aborted._add(entry)


def test_a_log_that_was_closed_knows_its_latest_timestamp() -> None:
    """Of the two indexes a power cut may take either, if they were not flushed with the batches."""
    for seed in range(20):
        host = HostDisk(VirtualLoop(Random(seed)), Random(seed))
        log, disk = open_log(host)
        disk.sync_directory("d")
        disk.sync_directory("")
        for number in range(3):
            append(log, batch(1, timestamp_ms=NOW - number))
            log.flush()
        log.close()
        host.lose_power()
        again, _ = open_log(host, recovery_point=3, is_clean=True)
        again.load()
        assert [segment.largest_timestamp() for segment in again.segments] == [NOW]


def test_a_snapshot_of_what_was_cut_off_does_not_come_back_with_a_power_cut() -> None:
    """It would be taken for one of other records, which got the same offsets."""
    for seed in range(20):
        host = HostDisk(VirtualLoop(Random(seed)), Random(seed))
        log, disk = open_log(host)
        disk.sync_directory("d")
        disk.sync_directory("")
        for number in range(2):
            append(log, batch(1, producer=(number, 0, 0)))
        log.close()
        log, _ = open_log(host, 2, is_clean=True)
        log.truncate_to(1)
        append(log, batch(1, producer=(7, 0, 0)))
        log.flush()
        host.lose_power()
        again, _ = open_log(host, log.recovery_point)
        assert [one.producer_id for one in again.producers] == [0, 7]


class History:
    """A log of which versions are remembered: after a power cut it begins as one of those since the last flush."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.host = HostDisk(VirtualLoop(Random(seed)), Random(seed))
        self.config = LogConfig(
            flush_ms=FLUSH_MS,
            segment_bytes=self.random.choice((400, 900, 5_000)),
            index_interval_bytes=self.random.choice((0, 200)),
        )
        self.log, disk = open_log(self.host, config=self.config)
        disk.sync_directory("d")
        disk.sync_directory("")
        self.batches: list[tuple[int, int, int, bytes]] = []
        self.versions = [list(self.batches)]
        self.epoch = self.number = self.checkpoint = self.cuts = 0
        self.awaits_flush = False

    def step(self) -> None:
        kind = self.random.randrange(24)
        if kind < 10:
            self.append()
        elif kind < 14:
            self.flush(everything=kind < 12)
        elif kind < 18 and self.batches:
            self.cut()
        elif kind == 18:
            self.epoch += 1
        elif kind == 19:
            self.checkpoint = max(self.log.recovery_point, 0)
        elif kind == 20:
            self.versions, self.checkpoint = [] if self.log.is_dirty else self.versions, self.end
            self.log.close()
            self.log, _ = open_log(self.host, self.end, is_clean=True, config=self.config)
            self.awaits_flush = False
            self.check()
        elif kind > 21:
            self.crash(loses_power=kind == 22)
        self.versions.append(list(self.batches))
        assert self.log.log_end_offset == self.end
        assert self.log.recovery_point <= self.end
        assert self.log.flush_is_due(NOW + FLUSH_MS) is (self.awaits_flush or self.log.load()._snapshots.is_waiting)

    @property
    def end(self) -> int:
        return self.batches[-1][1] + 1 if self.batches else 0

    def append(self) -> None:
        self.number += 1
        count, value = self.random.randint(1, 3), b"%d" % self.number * self.random.choice((1, 20))
        sent = batch(count, timestamp_ms=NOW + self.random.randrange(50), value=value, producer=(1, self.number, 0))
        base_offset = append(self.log, sent, epoch=self.epoch)
        self.batches.append((base_offset, base_offset + count - 1, self.epoch, bytes(sent)))
        self.awaits_flush = True

    def flush(self, *, everything: bool) -> None:
        if everything:
            self.versions = [] if self.log.is_dirty else self.versions
            self.awaits_flush = self.awaits_flush and not self.log.is_dirty
            self.log.flush()
            assert not self.log.is_dirty
        else:
            active, now_ms = self.log.segments[-1], NOW + SEALED_FLUSH_DELAY_MS
            is_due = (
                self.awaits_flush and active.created_ms is not None and self.log.recovery_point < active.base_offset
            )
            waits = self.log.load()._snapshots.is_waiting
            assert self.log.flush_is_due(now_ms) is (is_due or waits)
            assert self.log.maybe_flush(now_ms) is is_due
            assert not is_due or self.log.recovery_point >= active.base_offset

    def cut(self) -> None:
        offset = self.random.randrange(self.batches[0][0], self.end + 1)
        self.batches = [one for one in self.batches if one[1] < offset]
        assert self.log.truncate_to(offset) == self.end
        self.epoch += self.random.randrange(2)

    def crash(self, *, loses_power: bool) -> None:
        kept = [one for one in self.batches if one[1] < self.log.recovery_point]
        self.log.abandon()
        self.awaits_flush = False
        if loses_power:
            self.host.lose_power()
        self.log, _ = open_log(self.host, self.checkpoint, config=self.config)
        found, offset = list[tuple[int, int, int, bytes]](), 0
        while offset < self.log.log_end_offset:
            data = self.log.read(offset, 1).read()
            header = read_header(data)
            found.append((header.base_offset, header.last_offset, header.partition_leader_epoch, data))
            offset = header.last_offset + 1
        assert found[: len(kept)] == kept
        if not loses_power:
            assert found == self.batches
        assert any(found == version[: len(found)] for version in [self.batches, *self.versions])
        self.cuts += loses_power
        self.batches = found
        if loses_power:
            self.versions = []
        self.check()

    def check(self) -> None:
        """What is known of the records is what they say."""
        epochs: list[tuple[int, int]] = []
        for base_offset, _, epoch, _ in self.batches:
            if not epochs or epochs[-1][0] < epoch:
                epochs.append((epoch, base_offset))
        assert self.log.leader_epochs.entries == epochs
        producers = Producers()
        replay(producers, cast("AbortedTransactions", None), self.log.segments, 0)
        assert list(self.log.producers.to_snapshot()) == list(producers.to_snapshot())
        for segment in self.log.segments:
            end_offset = min(
                (one for one in self.log.segments.base_offsets if one > segment.base_offset), default=self.end
            )
            its = [
                content for base_offset, *_, content in self.batches if segment.base_offset <= base_offset < end_offset
            ]
            assert segment.largest_timestamp() == max((read_header(one).max_timestamp for one in its), default=-1)


@pytest.mark.parametrize("seed", range(40))
def test_a_log_is_after_a_power_cut_what_it_was_since_the_last_flush(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """In half of the histories all snapshots of producers wait for a flush."""
    if seed % 2 == 0:
        monkeypatch.setattr(producer_snapshots, "MOST_AT_ONCE", -1)
    """However it was appended to, cut, flushed and closed; and what it says of itself fits what it holds."""
    history = History(seed)
    for _ in range(120):
        history.step()
    assert history.cuts
