"""A crash at each call of the disk while a log is compacted: nothing is lost, and the next life goes on."""

from random import Random

import pytest
from tests.unit.log.compaction.rounds import COMPACTED, compact, last_values, pairs, records
from tests.unit.log.logs import NOW
from tests.unit.log.removed import remove_due

from penstock.log.disk import Disk
from penstock.log.open_files import OpenFiles
from penstock.log.partition_log import PartitionLog
from penstock.log.removals import Removals
from penstock.testing.simulator.disk import HostDisk, SimulatedDisk
from penstock.testing.simulator.loop import KilledError, Process, VirtualLoop


class Host:
    """A disk that outlives the processes which have one log on it."""

    def __init__(self, seed: int) -> None:
        self.disk = HostDisk(VirtualLoop(Random(seed)), Random(seed))
        self.process = Process("h")
        self.disk.on_crash = self.process.kill

    def start(self) -> tuple[PartitionLog, Disk]:
        self.process = Process("h")
        self.disk.on_crash = self.process.kill
        disk = SimulatedDisk(self.disk, self.process)
        disk.make_directory("d")
        disk.make_directory("d/t-0")
        return PartitionLog(OpenFiles(disk, 100), Removals(disk), "d/t-0", "t", 0, COMPACTED), disk


def write(log: PartitionLog, disk: Disk) -> dict[str, str]:
    """Records with keys that come again, tombstones and a producer; what a table has that is built from them."""
    for number in range(40):
        key, producer = f"k{number % 7}", (5, 0, number // 2) if number % 2 else None
        value = None if number % 11 == 3 else f"{number}{'v' * 60}"
        batch = pairs((key, value), timestamp_ms=NOW + number, producer=producer)
        log.append_as_leader(batch, leader_epoch=0, now_ms=NOW)
    log.flush()
    disk.sync_directory("d")
    disk.sync_directory("")
    return last_values(records(log))


def calls_of_a_round() -> int:
    host = Host(0)
    log, disk = host.start()
    write(log, disk)
    before = host.disk.calls
    compact(log, disk)
    return host.disk.calls - before


@pytest.mark.parametrize("loses_power", [False, True])
def test_a_crash_at_each_call_loses_nothing(loses_power: bool) -> None:
    calls = calls_of_a_round()
    assert calls > 30
    interrupted = 0
    for number in range(1, calls + 1):
        host = Host(number)
        log, disk = host.start()
        table = write(log, disk)
        host.disk.crash_in = number
        with pytest.raises(KilledError):
            compact(log, disk)
        if loses_power:
            host.disk.lose_power()
        log, disk = host.start()
        names = set(host.disk.directory("d/t-0").entries)
        interrupted += any(name.endswith(".log.swap") for name in names)
        found = records(log)
        assert last_values(found) == table, number
        assert [offset for offset, _, _ in found] == sorted({offset for offset, _, _ in found}), number
        assert log.log_end_offset == 40
        assert log.producers.get(5) is not None
        remove_due(log._removals, 0)
        names = set(host.disk.directory("d/t-0").entries)
        assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted", ".tmp"))]
        compact(log, disk)
        assert last_values(records(log)) == table, number
    assert interrupted > 5


def test_an_error_at_each_call_loses_nothing() -> None:
    for number in range(1, calls_of_a_round() + 1):
        host = Host(number)
        log, disk = host.start()
        table = write(log, disk)
        host.disk.error_in = number
        with pytest.raises(Exception):  # noqa: B017, PT011  of the disk, or what a log makes of it
            compact(log, disk)
        log, disk = host.start()
        assert last_values(records(log)) == table, number
        assert log.log_end_offset == 40
