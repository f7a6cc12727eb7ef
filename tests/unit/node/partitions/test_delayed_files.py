"""What a leader that delivers reads of the files in which records wait, and in which directory."""

import shutil
from pathlib import Path

import pytest
from tests.unit.log.logs import open_log
from tests.unit.node.partitions.test_delayed import NOW_MS, One, in_days, one

from penstock.log.disk import OpenFile
from penstock.protocol.delayed import PART_RECORDS
from penstock.protocol.records import Record, encode_batch

__all__ = ["one"]


def test_a_new_leader_reads_what_waits_and_what_has_come_in_small_steps(one: One) -> None:
    """Of some thousand records each, also where they take few bytes."""
    for _ in range(60):
        one.send(*[b"v"] * 50, headers=[("penstock-delay", b"1")])
    one.restart()
    assert one.run() >= 3_000 // 1_500
    one.run(10)
    one.restart()
    assert one.run() >= 6_000 // 1_500


def test_a_new_leader_reads_when_records_are_due_and_not_the_records(one: One, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(5):
        one.send(*[bytes(1_000)] * 200, headers=in_days(9))
    one.restart()
    assert one.host.log.log_end_offset == 1_000
    read, sizes = OpenFile.read_at, list[int]()

    def counted(self: OpenFile, length: int, position: int) -> bytes:
        found = read(self, length, position)
        sizes.append(len(found))
        return found

    monkeypatch.setattr(OpenFile, "read_at", counted)
    one.run()
    assert one.waiting()[0] == 1_000
    assert sum(sizes) < 1_000 * 1_000 // 10


def test_what_waits_comes_also_when_its_log_has_moved_to_another_directory(one: One, tmp_path: Path) -> None:
    """What was known of the files of a batch, of which some has come, is void then."""
    delays = [b"1"] * PART_RECORDS + [b"1000"]
    records = [Record(timestamp_ms=NOW_MS, value=delay, headers=[("penstock-delay", delay)]) for delay in delays]
    one.host.append(bytes(encode_batch(records)), acks=-1)
    one.run(2)
    log = one.host.log
    shutil.copytree(log.directory, tmp_path / "other" / "t-0")
    copy = open_log(tmp_path / "other")
    log.lend()
    shutil.rmtree(log.directory)
    log.take_back(is_whole=True)
    log.take_over(copy, copy.directory)
    one.run(1_000)
    assert one.values() == delays
    assert log.health.failure is None
