"""What a log knows of its segments after a power cut, wherever that comes between appends and flushes."""

from random import Random

import pytest
from tests.unit.log.logs import NOW, append, batch, run_through

from penstock.log.config import LogConfig
from penstock.log.disk import Disk
from penstock.log.open_files import OpenFiles
from penstock.log.partition_log import PartitionLog
from penstock.log.removals import Removals
from penstock.testing.simulator.disk import HostDisk, SimulatedDisk
from penstock.testing.simulator.loop import Process, VirtualLoop

BATCHES = 12
CONFIG = LogConfig(segment_bytes=3 * len(batch(1)), index_interval_bytes=0)


def open_log(host: HostDisk, recovery_point: int = 0, *, is_clean: bool = False) -> tuple[PartitionLog, Disk]:
    disk = SimulatedDisk(host, Process("h"))
    disk.make_directory("d")
    disk.make_directory("d/t-0")
    return PartitionLog(
        OpenFiles(disk, 100), Removals(disk), "d/t-0", "t", 0, CONFIG, recovery_point=recovery_point, is_clean=is_clean
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
