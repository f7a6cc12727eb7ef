"""Snapshots of many producers, or behind aborted transactions, which are written in a thread after a roll."""

from __future__ import annotations

import threading
from collections.abc import Callable
from errno import EIO, ENOSPC
from pathlib import Path
from typing import Any

import pytest
from tests.unit.log.failing_disk import FailingDisk
from tests.unit.log.logs import NOW, batch, open_log
from tests.unit.log.transactions import append_all, ended, written

from penstock.log import producer_snapshot, producer_snapshots
from penstock.log.config import LogConfig
from penstock.log.partition_log import PartitionLog
from penstock.log.producer_snapshot import decode_snapshot
from penstock.log.producer_state import Producers, snapshot_rows
from penstock.protocol.batch import read_header
from penstock.protocol.control.records import ControlType
from penstock.protocol.errors import KafkaError

MANY = producer_snapshots.MOST_AT_ONCE + 1


def send(log: PartitionLog, producer_id: int, sequence: int, epoch: int = 0) -> bool:
    """Whether it is a repetition."""
    sent = batch(1, producer=(producer_id, epoch, sequence))
    return log.append_as_leader(sent, leader_epoch=0, now_ms=NOW).is_duplicate


def rolled(path: Path, count: int = MANY, disk: FailingDisk | None = None) -> PartitionLog:
    """So many producers have written, and a segment has begun behind them."""
    log = open_log(path, disk=disk)
    for producer_id in range(count):
        send(log, producer_id, 0)
    log.load().roll(count, NOW)
    return log


def snapshots(path: Path) -> list[int]:
    return sorted(int(one.name.partition(".")[0]) for one in path.rglob("*.snapshot"))


def rows(path: Path, offset: int) -> list[Any]:
    return decode_snapshot((path / "t-0" / f"{offset:020}.snapshot").read_bytes())


@pytest.mark.parametrize(("count", "at_once"), [(MANY - 1, True), (MANY, False)])
def test_a_roll_leaves_many_producers_to_the_next_flush(tmp_path: Path, count: int, *, at_once: bool) -> None:
    log = rolled(tmp_path, count)
    assert snapshots(tmp_path) == ([count] if at_once else [])
    assert log.flush_is_due(NOW) != at_once
    assert not log.maybe_flush(NOW), "no records are due"
    assert snapshots(tmp_path) == [count]
    assert not log.flush_is_due(NOW)
    assert len(rows(tmp_path, count)) == count


def changes(log: PartitionLog) -> None:
    send(log, 3, 1)
    send(log, 4, 0, epoch=1)
    send(log, MANY, 0)


def test_it_says_what_held_at_the_roll_whatever_came_since(tmp_path: Path) -> None:
    log = rolled(tmp_path)
    changes(log)
    log.maybe_flush(NOW)
    assert rows(tmp_path, MANY) == [(one, 0, 0, one, 0, NOW, -1, -1) for one in range(MANY)]
    assert send(log, 3, 1), "and what came is known"


def test_a_start_takes_those_again_that_a_kill_has_left_out(tmp_path: Path) -> None:
    log = rolled(tmp_path)
    send(log, 3, 1)
    log.abandon()
    log = open_log(tmp_path)
    assert log.load().end_offset == MANY + 1
    assert log.flush_is_due(NOW)
    log.maybe_flush(NOW)
    assert snapshots(tmp_path) == [MANY]
    assert len(rows(tmp_path, MANY)) == MANY
    assert not log.flush_is_due(NOW)


@pytest.mark.parametrize("is_saved", [False, True])
def test_a_kill_before_or_after_it_is_written_forgets_nobody(tmp_path: Path, *, is_saved: bool) -> None:
    log = rolled(tmp_path)
    changes(log)
    if is_saved:
        log.maybe_flush(NOW)
    expected = list(log.producers.to_snapshot())
    log.abandon()
    assert sorted(open_log(tmp_path).producers.to_snapshot()) == sorted(expected)


def test_a_stop_writes_a_later_one(tmp_path: Path) -> None:
    log = rolled(tmp_path)
    changes(log)
    log.close()
    assert snapshots(tmp_path) == [MANY, MANY + 3]
    assert send(open_log(tmp_path, is_clean=True, recovery_point=MANY + 3), 3, 1)


@pytest.mark.parametrize("to", [0, 5, MANY - 1])
@pytest.mark.parametrize("when", ["before", "while it is made"])
def test_a_cut_below_it_takes_it_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: int, when: str) -> None:
    log = rolled(tmp_path)
    if when == "before":
        log.truncate_to(to)
    else:
        encode = producer_snapshot.encode_snapshot

        def cut(found: Any) -> bytes:
            content = encode(found)
            log.truncate_to(to)
            return content

        monkeypatch.setattr(producer_snapshots, "encode_snapshot", cut)
    log.maybe_flush(NOW)
    monkeypatch.undo()
    assert snapshots(tmp_path) == []
    for producer_id in range(MANY):
        assert not send(log, MANY + producer_id, 0)
    log.abandon()
    assert len(open_log(tmp_path).producers) == to + MANY


def test_the_log_is_cut_before_or_after_the_file_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not between the look and the file: the cut would not know of it."""
    log, wrote, go_on = rolled(tmp_path), threading.Event(), threading.Event()
    replace = log.load()._snapshots._disk.replace_file

    class Slow(FailingDisk):
        def replace_file(self, path: str, content: bytes, *, durable: bool) -> None:
            wrote.set()
            go_on.wait(30)
            replace(path, content, durable=durable)

    monkeypatch.setattr(log.load()._snapshots, "_disk", Slow())
    saves = threading.Thread(target=log.maybe_flush, args=(NOW,))
    saves.start()
    assert wrote.wait(30)
    cuts = threading.Thread(target=log.truncate_to, args=(5,))
    cuts.start()
    go_on.set()
    saves.join()
    cuts.join()
    assert snapshots(tmp_path) == []


def test_of_many_the_last_but_one_is_left_out(tmp_path: Path) -> None:
    log = rolled(tmp_path)
    for number in range(1, producer_snapshots.MOST_WAITING + 2):
        send(log, 3, number)
        log.load().roll(MANY + number, NOW)
    log.maybe_flush(NOW)
    assert snapshots(tmp_path) == [MANY, MANY + 1, MANY + 2, MANY + producer_snapshots.MOST_WAITING + 1]
    assert [one for one in rows(tmp_path, MANY + 1) if one[0] == 3][-1][2] == 1


@pytest.mark.parametrize("is_saved", [False, True])
def test_a_cut_behind_it_goes_on_from_it(tmp_path: Path, *, is_saved: bool) -> None:
    """Also where the segments before it have gone."""
    log = rolled(tmp_path)
    for number in range(1, 4):
        send(log, 3, number)
    log.load().roll(MANY + 3, NOW)
    if is_saved:
        log.maybe_flush(NOW)
    log.advance_log_start(MANY)
    assert log.retire_below_start(NOW) == 1
    log.truncate_to(MANY + 1)
    assert len(log.producers) == MANY
    assert send(log, 3, 1)
    assert not send(log, 3, 2)


def test_few_producers_wait_behind_those_that_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = rolled(tmp_path)
    monkeypatch.setattr(producer_snapshots, "MOST_AT_ONCE", MANY)
    send(log, 3, 1)
    log.load().roll(MANY + 1, NOW)
    assert snapshots(tmp_path) == []
    log.maybe_flush(NOW)
    assert snapshots(tmp_path) == [MANY, MANY + 1]


def test_without_room_it_waits_and_records_are_flushed(tmp_path: Path) -> None:
    disk = FailingDisk()
    log = rolled(tmp_path, disk=disk)
    send(log, 3, 1)
    disk.fail("replace", ".snapshot", ENOSPC, always=True)
    log.maybe_flush(NOW + LogConfig().flush_ms)
    assert log.recovery_point == MANY + 1
    assert snapshots(tmp_path) == []
    disk.heal()
    assert log.flush_is_due(NOW)
    log.maybe_flush(NOW)
    assert snapshots(tmp_path) == [MANY]


def test_of_a_disk_that_fails_the_reason_is_told(tmp_path: Path) -> None:
    disk = FailingDisk()
    log = rolled(tmp_path, disk=disk)
    disk.fail("replace", ".snapshot", EIO)
    with pytest.raises(KafkaError, match="Input/output error"):
        log.maybe_flush(NOW)


def aborted(log: PartitionLog) -> None:
    """One transaction that is aborted, and the segment ends behind it."""
    append_all(log, written(9, 0), ended(9, ControlType.ABORT))
    log.load().roll(2, NOW)


def test_what_was_aborted_is_synced_before(tmp_path: Path) -> None:
    """A start after a crash believes the index of transactions up to the snapshot."""
    disk = FailingDisk()
    log = open_log(tmp_path, disk=disk)
    aborted(log)
    assert snapshots(tmp_path) == []
    disk.fail("sync", ".txnindex", EIO)
    with pytest.raises(KafkaError, match="Input/output error"):
        log.maybe_flush(NOW)
    assert snapshots(tmp_path) == []
    log = open_log(tmp_path)
    assert [one.producer_id for one in log.load().aborted_in(0, 2)] == [9]


def test_a_sync_that_fails_for_retention_is_no_lack_of_room(tmp_path: Path) -> None:
    """Another sync would not tell what the disk has."""
    disk = FailingDisk()
    log = open_log(tmp_path, disk=disk)
    aborted(log)
    log.advance_log_start(2)
    disk.fail("sync", ".txnindex", EIO)
    with pytest.raises(KafkaError, match="Input/output error"):
        log.retire_below_start(NOW)
    assert log.health.failure is not None


def test_each_index_is_synced_once(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    aborted(log)
    assert len(log.load().aborted.unsynced) == 1
    log.maybe_flush(NOW)
    assert log.load().aborted.unsynced == ()


@pytest.mark.parametrize(("has_room", "went", "left"), [(True, 3, [6]), (False, 1, [2])])
def test_what_no_snapshot_knows_of_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, went: int, left: list[int], *, has_room: bool
) -> None:
    """Retention removes segments; behind the last of them a snapshot has to be, or a kill forgets producers."""
    disk = FailingDisk()
    log = open_log(tmp_path, disk=disk)
    for sequence in range(2):
        send(log, 9, sequence)
    log.load().roll(2, NOW)
    monkeypatch.setattr(producer_snapshots, "MOST_AT_ONCE", 0)
    for sequence in range(2, 6):
        send(log, 9, sequence)
        if sequence % 2:
            log.load().roll(sequence + 1, NOW)
    log.advance_log_start(6)
    if not has_room:
        disk.fail("replace", ".snapshot", ENOSPC, always=True)
    assert log.retire_below_start(NOW) == went
    assert snapshots(tmp_path) == left
    log.abandon()
    again = open_log(tmp_path, log_start_offset=6)
    assert send(again, 9, 5), "it has come before"


def noted(producers: Producers) -> None:
    producers.note_batch(read_header(batch(1, producer=(1, 0, 1))), 7, 7, NOW + 5)


def of_a_newer_epoch(producers: Producers) -> None:
    producers.note_batch(read_header(batch(1, producer=(1, 1, 0))), 7, 7, NOW + 5)


def marked(producers: Producers) -> None:
    producers.note_transaction_end(read_header(ended(1, ControlType.COMMIT)), 7, 3)


def copied(producers: Producers) -> None:
    others = Producers()
    of_a_newer_epoch(others)
    producers.copy_from(others, 1)


def restored(producers: Producers) -> None:
    others = Producers()
    of_a_newer_epoch(others)
    producers.restore(others.to_snapshot())


@pytest.mark.parametrize(
    "change",
    [noted, of_a_newer_epoch, marked, copied, restored, Producers.clear, lambda producers: producers.forget(1)],
)
def test_what_is_frozen_does_not_change(change: Callable[[Producers], object]) -> None:
    producers = Producers()
    producers.note_batch(read_header(written(1, 0)), 3, 3, NOW)
    before = list(producers.to_snapshot())
    for _ in range(2):
        frozen = producers.frozen()
        change(producers)
        assert list(snapshot_rows(frozen)) == before
        assert list(producers.to_snapshot()) != before
        producers = Producers()
        producers.restore(before)


def test_a_producer_is_copied_once_for_each_time_that_it_is_frozen() -> None:
    producers = Producers()
    noted(producers)
    first = producers.get(1)
    noted(producers)
    assert producers.get(1) is first
    producers.frozen()
    noted(producers)
    second = producers.get(1)
    assert second is not first
    noted(producers)
    assert producers.get(1) is second


def half_known(path: Path, monkeypatch: pytest.MonkeyPatch) -> PartitionLog:
    """Of three rolls, at 2, 4 and 6, the second one left no snapshot; where the log now begins, at 4, no producer 9 has
    written any more.
    """
    log = open_log(path, LogConfig(retention_ms=-1))
    for sequence in range(2):
        send(log, 9, sequence)
    log.load().roll(2, NOW)
    monkeypatch.setattr(producer_snapshots, "MOST_AT_ONCE", 0)
    monkeypatch.setattr(producer_snapshots, "MOST_WAITING", 1)
    for sequence in range(5):
        send(log, 8, sequence)
        if sequence % 2:
            log.load().roll(sequence + 3, NOW)
    log.maybe_flush(NOW)
    assert snapshots(path) == [2, 6]
    log.advance_log_start(4)
    return log


def test_a_cut_at_the_high_watermark_forgets_no_producer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may take the snapshot along that retention relied on."""
    log = half_known(tmp_path, monkeypatch)
    assert log.apply_retention(NOW, high_watermark=5) == 1
    send(log, 8, 5)
    assert log.apply_retention(NOW, high_watermark=5) == 0
    assert snapshots(tmp_path) == [2, 6], "another one would be no better, and take as long"
    log.truncate_to(5)
    assert send(log, 9, 1), "it has come before"
    assert not send(log, 8, 3), "it was cut off"


def test_what_is_kept_for_that_goes_when_a_later_snapshot_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = half_known(tmp_path, monkeypatch)
    assert [log.apply_retention(NOW, high_watermark=committed) for committed in (5, 5, 6)] == [1, 0, 1]
    log.truncate_to(6)
    assert send(log, 9, 1), "it has come before"


def test_no_append_writes_snapshots_so_that_segments_can_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_snapshots, "MOST_AT_ONCE", 0)
    log = open_log(tmp_path, LogConfig(segment_bytes=100))
    for sequence in range(3):
        send(log, 9, sequence)
    log.advance_log_start(2)
    send(log, 9, 3)
    assert (log.segments.base_offsets, snapshots(tmp_path)) == ([0, 1, 2, 3], [])
    log.maybe_flush(NOW)
    send(log, 9, 4)
    assert (log.segments.base_offsets, snapshots(tmp_path)) == ([2, 3, 4], [2, 3])


@pytest.mark.parametrize(("may_write", "left"), [(False, [1]), (True, [1, 2, 5])])
def test_what_a_snapshot_does_not_know_stays_though_its_producers_have_expired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: list[int], *, may_write: bool
) -> None:
    """A start after a crash would go on from it: from a transaction, say, whose end has gone."""
    monkeypatch.setattr(producer_snapshots, "MOST_AT_ONCE", 0)
    log = open_log(tmp_path)
    send(log, 9, 0)
    log.close(durable=False)
    send(log, 9, 1)
    log.end_at(5)
    log.producers.expire(NOW + (1 << 40), 1)
    log.advance_log_start(5)
    assert log.load().known(1, 5, may_write=may_write) == may_write
    assert snapshots(tmp_path) == left
