"""What a log knows of its segments after a power cut, wherever that comes between appends and flushes."""

from random import Random

import pytest
from tests.unit.log.logs import NOW, append, batch, run_through
from tests.unit.log.transactions import append_all, ended, written

from penstock.log.aborted_transactions import AbortedTransaction, AbortedTransactions
from penstock.log.config import LogConfig
from penstock.log.disk import Disk
from penstock.log.open_files import OpenFiles
from penstock.log.partition_log import PartitionLog
from penstock.log.producer_snapshots import replay
from penstock.log.producer_state import Producers
from penstock.log.removals import Removals
from penstock.protocol.control.records import ControlType
from penstock.testing.simulator.disk import HostDisk, SimulatedDisk
from penstock.testing.simulator.loop import Process, VirtualLoop

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
