"""A flush in a thread of its own, and what happens to the log meanwhile."""

import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.log.logs import NOW, append, batch, open_log

from penstock.log.config import LogConfig
from penstock.log.disk import Disk
from penstock.log.leader_epochs import LeaderEpochs
from penstock.log.log_content import LogContent
from penstock.log.partition_log import PartitionLog
from penstock.log.segment import Segment
from penstock.log.segments import Segments
from penstock.protocol.errors import KafkaError


def after_the_sync(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> None:
    """The next flush is passed by `meanwhile` when its first file is on the disk."""
    sync = Segment.flush
    once = [meanwhile]

    def sync_then(segment: Segment) -> None:
        sync(segment)
        if once:
            once.pop()()

    monkeypatch.setattr(Segment, "flush", sync_then)


def test_an_append_beside_a_flush_is_flushed_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path, LogConfig(flush_ms=100))
    append(log, batch(1), now_ms=NOW)
    written, flushed = threading.Event(), threading.Event()
    note_batch = Segment.note_batch

    def note_later(segment: Segment, first: int, last: int, size: int, timestamp_ms: int, interval: int) -> None:
        written.set()
        assert flushed.wait(10)
        note_batch(segment, first, last, size, timestamp_ms, interval)

    monkeypatch.setattr(Segment, "note_batch", note_later)
    other = threading.Thread(target=lambda: append(log, batch(1), now_ms=NOW + 10))

    def half_an_append() -> None:
        other.start()
        assert written.wait(10)

    after_the_sync(monkeypatch, half_an_append)
    log.flush()
    flushed.set()
    other.join()
    assert (log.recovery_point, log.log_end_offset) == (1, 2)
    assert log.maybe_flush(NOW + 110)
    assert not log.is_dirty


def test_a_flush_that_lacks_room_is_still_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path, LogConfig(flush_ms=100))
    append(log, batch(1), now_ms=NOW)

    def fail() -> None:
        raise OSError(errno.ENOSPC, "no room")

    after_the_sync(monkeypatch, fail)
    with pytest.raises(KafkaError):
        log.flush()
    assert log.maybe_flush(NOW + 100)
    assert log.recovery_point == 1


def test_what_is_cut_off_beside_a_flush_is_not_taken_for_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path)
    for _ in range(3):
        append(log, batch(1))

    def cut_and_grow() -> None:
        log.truncate_to(1)
        for _ in range(4):
            append(log, batch(1), epoch=1)

    after_the_sync(monkeypatch, cut_and_grow)
    log.flush()
    assert log.recovery_point <= 1


def test_no_flush_begins_before_another_one_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path)
    append(log, batch(1))
    content, found = log.load(), []
    after_the_sync(monkeypatch, lambda: found.append(content._flushing.acquire(blocking=False)))
    log.flush()
    assert found == [False]


def test_no_flush_passes_over_names_that_another_thread_has_only_begun_to_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As compaction does. Else records of a segment would be kept that a power cut takes with its name."""
    log = open_log(tmp_path)
    append(log, batch(1))
    log.flush()
    log.load().roll(1, NOW)
    append(log, batch(1))
    sync_directory = Disk.sync_directory
    begun, synced = [log.flush], []

    def sync_beside(disk: Disk, path: str) -> None:
        if begun:
            begun.pop()()
            assert log.directory in synced
        sync_directory(disk, path)
        synced.append(path)

    monkeypatch.setattr(Disk, "sync_directory", sync_beside)
    log.segments.sync_names()
    assert not begun
    assert not log.segments.has_new_names


def test_a_segment_that_is_removed_while_names_are_synced_is_synced_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path)
    segments = log.load().segments
    remove = Disk.remove

    def sync_then(disk: Disk, path: str) -> None:
        segments.sync_names()
        remove(disk, path)

    monkeypatch.setattr(Disk, "remove", sync_then)
    segments.replace_active(5, NOW)
    assert segments.has_new_names


def test_what_comes_while_a_flush_is_under_way_is_not_kept_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path, LogConfig(flush_messages=1))
    append(log, batch(1))
    after_the_sync(monkeypatch, lambda: append(log, batch(1)))
    log.flush()
    assert (log.kept_offset, log.log_end_offset) == (1, 2)
    log.flush()
    assert log.kept_offset == 2


def test_a_flush_that_begins_within_a_cut_does_not_take_what_was_cut_off_for_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path, LogConfig(flush_messages=1))
    append(log, batch(1))
    log.end_at(4)
    append(log, batch(2))
    distrust_from = LogContent._distrust_from

    def flush_then(content: LogContent, offset: int) -> None:
        distrust_from(content, offset)
        content.flush()

    monkeypatch.setattr(LogContent, "_distrust_from", flush_then)
    log.truncate_to(3)  # in a hole: no batch is cut
    append(log, batch(1), epoch=1)
    assert (log.kept_offset, log.log_end_offset) == (3, 4)


def test_epochs_that_are_saved_while_others_are_synced_are_synced_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk()
    epochs = LeaderEpochs(disk, f"{tmp_path}/epochs")
    epochs.assign(1, 0)
    synced, saved = threading.Event(), threading.Event()
    sync_directory, save = Disk.sync_directory, LeaderEpochs._save

    def sync_then_wait(disk: Disk, path: str) -> None:
        sync_directory(disk, path)
        synced.set()
        assert saved.wait(10)

    def save_then_wait(epochs: LeaderEpochs, entries: list[tuple[int, int]]) -> None:
        save(epochs, entries)
        saved.set()
        thread.join(10)

    with monkeypatch.context() as patch:
        patch.setattr(Disk, "sync_directory", sync_then_wait)
        patch.setattr(LeaderEpochs, "_save", save_then_wait)
        thread = threading.Thread(target=epochs.sync)
        thread.start()
        assert synced.wait(10)
        epochs.assign(2, 5)
    found: list[str] = []
    monkeypatch.setattr(Disk, "sync_directory", lambda _, path: found.append(path))
    epochs.sync()
    assert found == [str(tmp_path)]


@pytest.mark.parametrize("is_put_away", [True, False])
def test_files_may_be_missing_of_a_log_alone_that_was_put_away_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_put_away: bool
) -> None:
    flushes: list[Callable[[PartitionLog], object]] = [PartitionLog.flush, lambda log: log.maybe_flush(NOW + 100)]
    for index, flush in enumerate(flushes):
        (path := tmp_path / str(index)).mkdir()
        log = open_log(path, LogConfig(flush_ms=100))
        append(log, batch(1), now_ms=NOW)

        def lose(log: PartitionLog = log) -> None:
            if is_put_away:
                log.abandon()
            raise FileNotFoundError(log.directory)

        after_the_sync(monkeypatch, lose)
        monkeypatch.setattr(Segments, "__contains__", lambda *_: True)
        if is_put_away:
            assert not flush(log)
            assert log.health.failure is None
            continue
        with pytest.raises(KafkaError, match=log.directory):
            flush(log)
        assert log.health.failure is not None


def test_no_segment_is_passed_over_while_others_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop may retire segments between any two lines of a flush."""
    log = open_log(tmp_path, LogConfig(segment_bytes=100))
    for _ in range(6):
        append(log, batch(1))
    content = log.load()
    unflushed = content.segments[3:]
    content.recovery_point = 4
    bases, has_retired = content.segments._bases, threading.Event()

    class Watched(list[int]):
        """Who looks for a place in it has found one when the oldest go."""

        def __getitem__(self, number: Any) -> Any:
            found = super().__getitem__(number)
            if not has_retired.is_set():
                has_retired.set()
                content.segments.retire_oldest(2, 0)
            return found

    content.segments._bases = Watched(bases)
    synced: list[Segment] = []
    monkeypatch.setattr(Segment, "flush", lambda segment: synced.append(segment))
    log.flush()
    assert synced == unflushed
