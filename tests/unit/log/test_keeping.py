"""Rolling, retention, flushing, and full disks."""

import errno
import os
from errno import ENOSPC
from pathlib import Path

import pytest
from tests.unit.log.failing_disk import FailingDisk
from tests.unit.log.logs import NOW, all_batches, append, batch, open_log
from tests.unit.log.removed import remove_due

from penstock.log.config import LogConfig
from penstock.log.disk import Disk, OpenFile
from penstock.log.leader_epochs import LeaderEpochs
from penstock.log.names import LEADER_EPOCHS
from penstock.log.partition_log import PartitionLog
from penstock.log.producer_state import Producers
from penstock.log.removals import Removals
from penstock.log.retention import CHECK_INTERVAL_MS, SEGMENTS_AT_ONCE
from penstock.log.segment import MAX_RELATIVE_OFFSET
from penstock.protocol.batch import set_base_offset
from penstock.protocol.errors import ErrorCode, KafkaError

SIZE = len(batch(1))


def bases(log: PartitionLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_a_segment_takes_exactly_its_size(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=3 * SIZE))
    for _ in range(7):
        append(log, batch(1))
    assert bases(log) == [0, 3, 6]


def test_a_segment_ages_by_its_batches_timestamps(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_ms=1000))
    for delta in (0, 1000, 500, 1001, 2001, 2003):
        append(log, batch(1, timestamp_ms=NOW + delta), now_ms=NOW)
    assert bases(log) == [0, 3, 5]


def test_a_segment_without_timestamps_ages_by_the_clock(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_ms=1000))
    for delta in (0, 1000, 1001, 1500):
        append(log, batch(1, timestamp_ms=-1), now_ms=NOW + delta)
    assert bases(log) == [0, 2]


def test_a_full_index_rolls(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_index_bytes=5 * 12, index_interval_bytes=1))
    for number in range(12):
        append(log, batch(1, timestamp_ms=NOW + number))
    assert bases(log) == [0, 5, 10]


def test_offsets_that_do_not_fit_roll(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for offset in (0, MAX_RELATIVE_OFFSET, MAX_RELATIVE_OFFSET + 1):
        sent = batch(1)
        set_base_offset(sent, 0, offset)
        log.append_as_follower(sent)
    assert bases(log) == [0, MAX_RELATIVE_OFFSET + 1]


def test_an_empty_segment_that_begins_too_early_is_gone(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    sent = batch(1)
    set_base_offset(sent, 0, MAX_RELATIVE_OFFSET + 5)
    log.append_as_follower(sent)
    assert bases(log) == [5]
    log.close()
    assert {path.name[:20] for path in (tmp_path / "t-0").glob("0*") if path.suffix != ".snapshot"} == {f"{5:020}"}


def test_retention_by_size(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=2 * SIZE, retention_bytes=4 * SIZE, retention_ms=-1)
    log = open_log(tmp_path, config)
    for _ in range(9):
        append(log, batch(1))
    assert log.apply_retention(NOW, high_watermark=1) == 0
    assert log.apply_retention(NOW) == 2
    assert (bases(log), log.log_start_offset, log.size_bytes) == ([4, 6, 8], 4, 5 * SIZE)
    deleted = sorted(path.name for path in (tmp_path / "t-0").glob("*.log.deleted"))
    assert deleted == ["00000000000000000000.log.deleted", "00000000000000000002.log.deleted"]
    assert log.apply_retention(NOW) == 0


def test_retention_by_time_takes_the_active_segment_as_well(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=2 * SIZE, retention_ms=1000))
    for delta in (0, 10, 20):
        append(log, batch(1, timestamp_ms=NOW + delta))
    assert log.apply_retention(NOW + 1010) == 0
    assert log.next_deadline_ms(NOW + 20) == NOW + 1011
    assert log.apply_retention(NOW + 1011) == 1
    assert (bases(log), log.log_start_offset) == ([2], 2)
    assert log.apply_retention(NOW + 1021) == 1
    assert (bases(log), log.log_start_offset, log.log_end_offset) == ([3], 3, 3)
    assert log.apply_retention(NOW + 99_999) == 0
    assert append(log, batch(1)) == 3


def test_a_topic_that_is_only_compacted_deletes_only_below_the_log_start(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=2 * SIZE, retention_bytes=0, retention_ms=0, cleanup_policy=frozenset({"compact"}))
    log = open_log(tmp_path, config)
    for _ in range(7):
        append(log, batch(1))
    assert log.apply_retention(NOW + 1) == 0
    log.advance_log_start(5)
    assert log.apply_retention(NOW + 1) == 2
    assert (bases(log), log.log_start_offset) == ([4, 6], 5)
    with pytest.raises(KafkaError) as refusal:
        log.advance_log_start(8)
    assert refusal.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


class CountingFile(OpenFile):
    """Counts syncs, or lets them fail; takes only so many bytes, as a full disk does."""

    __slots__ = ("disk", "path")

    def __init__(self, fd: int, disk: "CountingDisk", path: str) -> None:
        super().__init__(fd)
        self.disk = disk
        self.path = path

    def sync(self) -> None:
        self.disk.synced.append(Path(self.path).name)

    def write_at(self, data: bytes | bytearray | memoryview, position: int) -> None:
        if self.disk.room is None or len(data) <= self.disk.room:
            return super().write_at(data, position)
        super().write_at(data[: self.disk.room], position)
        raise OSError(ENOSPC, "No space left on device")


class CountingDisk(Disk):
    __slots__ = ("room", "synced")

    def __init__(self) -> None:
        self.synced: list[str] = []
        self.room: int | None = None

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        file = super().open(path, create=create)
        fd, file.fd = file.fd, -1
        return CountingFile(fd, self, path)


@pytest.mark.parametrize("leads", [True, False])
def test_a_flush_is_due_after_so_many_messages(tmp_path: Path, leads: bool) -> None:
    """Until it is over, what came since the last one does not count as kept."""
    disk = CountingDisk()
    log = open_log(tmp_path, LogConfig(flush_messages=3), disk=disk)
    kept = []
    for offset in range(7):
        batches = batch(1)
        if leads:
            append(log, batches)
        else:
            set_base_offset(batches, 0, offset)
            log.append_as_follower(batches)
        kept.append(log.kept_offset)
        if offset % 4 == 3:
            log.flush()
            kept.append(log.kept_offset)
    assert kept == [1, 2, 0, 0, 4, 5, 6, 4]
    assert disk.synced.count("00000000000000000000.log") == 1, "no append waits for the disk"
    log.close()
    assert log.kept_offset == 7


def test_a_flush_after_a_roll_syncs_what_the_old_segment_has_as_well(tmp_path: Path) -> None:
    disk = CountingDisk()
    log = open_log(tmp_path, LogConfig(flush_messages=1, segment_bytes=150), disk=disk)
    for _ in range(3):
        append(log, batch(1))
    assert bases(log) == [0, 2]
    disk.synced.clear()
    log.flush()
    assert {name for name in disk.synced if name.endswith(".log")} == {f"{base:020}.log" for base in (0, 2)}


def test_flush_after_so_many_milliseconds(tmp_path: Path) -> None:
    disk = CountingDisk()
    log = open_log(tmp_path, LogConfig(flush_ms=100), disk=disk)
    append(log, batch(1), now_ms=NOW)
    append(log, batch(1), now_ms=NOW + 50)
    assert log.next_deadline_ms(NOW + 50) == NOW + 100
    assert not log.maybe_flush(NOW + 99)
    assert log.maybe_flush(NOW + 100)
    assert (log.recovery_point, log.is_dirty) == (2, False)
    assert not log.maybe_flush(NOW + 500)
    assert log.next_deadline_ms(NOW + 500) == NOW + 600


def test_without_flush_configs_the_page_cache_decides(tmp_path: Path) -> None:
    disk = CountingDisk()
    log = open_log(tmp_path, LogConfig(segment_bytes=2 * SIZE), disk=disk)
    for _ in range(3):
        append(log, batch(1))
    assert not log.maybe_flush(NOW + 59_999)
    assert disk.synced == []
    assert log.maybe_flush(NOW + 60_000)
    assert disk.synced[0] == "00000000000000000000.log"
    assert "00000000000000000002.log" not in disk.synced
    assert log.recovery_point == 2
    assert log.next_deadline_ms(NOW) == NOW + CHECK_INTERVAL_MS
    log.flush()
    assert log.recovery_point == 3


@pytest.mark.parametrize("room", [0, 1, 60, SIZE - 1])
def test_a_full_disk_leaves_the_log_as_it_was(tmp_path: Path, room: int) -> None:
    disk = CountingDisk()
    log = open_log(tmp_path, disk=disk)
    append(log, batch(1))
    disk.room = room
    for _ in range(2):
        with pytest.raises(KafkaError) as refusal:
            append(log, batch(1, producer=(1, 0, 0)))
        assert refusal.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert "No space left" in str(refusal.value)
    assert (tmp_path / "t-0" / "00000000000000000000.log").stat().st_size == SIZE
    assert len(log.producers) == 0
    disk.room = None
    assert append(log, batch(1, producer=(1, 0, 0))) == 1
    assert all_batches(log) == [(0, 0), (1, 1)]


@pytest.mark.parametrize("all_are_old", [False, True])
def test_retention_makes_room_on_a_full_disk(tmp_path: Path, all_are_old: bool) -> None:
    disk = FailingDisk()
    config = LogConfig(segment_bytes=2 * SIZE, retention_ms=1000)
    log = open_log(tmp_path, config, disk=disk)
    for number in range(9):
        is_young = number == 8 and not all_are_old
        append(log, batch(1, timestamp_ms=NOW + 5000 * is_young), epoch=number // 3)
    for call, where in (("replace", ""), ("write", ""), ("open", f"{9:020}.log")):
        disk.fail(call, where, ENOSPC, always=True)
    retired = [log.apply_retention(NOW + 2000) for _ in range(4)]
    assert sum(retired) == 4
    assert retired[-1] == 0, "the last one has to wait for room, and is not looked at again at once"
    assert log.is_loaded, "reading it in anew would take long"
    assert (bases(log), log.log_start_offset) == ([8], 8)
    assert log.load().epochs.entries == [(2, 8)]
    assert all_batches(log) == [(8, 8)]
    disk.heal()
    assert append(log, batch(1), epoch=3) == 9
    log.close()
    again = open_log(tmp_path, config, is_clean=True, recovery_point=10, log_start_offset=8)
    assert again.load().epochs.entries == [(2, 8), (3, 9)]


@pytest.mark.parametrize("how", ["cut", "closed", "killed"])
def test_a_term_whose_first_batch_found_no_room_is_none(tmp_path: Path, how: str) -> None:
    """Who follows asks with its latest term where logs part, and would hear for ever that it is not the leader's."""
    disk = FailingDisk()
    log = open_log(tmp_path, disk=disk)
    append(log, batch(1), epoch=3)
    disk.fail("write", ".log", ENOSPC)
    with pytest.raises(KafkaError):
        append(log, batch(1), epoch=5)
    if how == "cut":
        assert log.truncate_to(1) == 1
    elif how == "closed":
        log.close()
        log = open_log(tmp_path, is_clean=True, recovery_point=1)
    else:
        log.abandon()
        log = open_log(tmp_path)
    assert log.load().epochs.entries == [(3, 0)]
    saved = LeaderEpochs(disk, f"{log.directory}/{LEADER_EPOCHS}")
    assert saved.load()
    assert saved.entries == [(3, 0)]
    append(log, batch(1), epoch=6)
    assert log.load().epochs.entries == [(3, 0), (6, 1)]


@pytest.mark.parametrize("durable", [False, True])
def test_terms_that_found_no_room_are_written_when_the_log_is_closed(tmp_path: Path, durable: bool) -> None:
    """A clean start believes what the file says, and cuts only what begins at the log's end or behind it."""
    disk = FailingDisk()
    log = open_log(tmp_path, disk=disk)
    for epoch in (1, 1, 1, 3):
        append(log, batch(1), epoch=epoch)
    disk.fail("replace", LEADER_EPOCHS, ENOSPC, always=True)
    log.truncate_to(2)
    disk.heal()
    for _ in range(3):
        append(log, batch(1), epoch=1)
    log.close(durable=durable)
    assert open_log(tmp_path, is_clean=True, recovery_point=5).load().epochs.entries == [(1, 0)]


@pytest.mark.parametrize("broken", ["open", "replace_file"])
def test_a_roll_that_fails_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=2 * SIZE))
    append(log, batch(1, producer=(1, 0, 0)))
    append(log, batch(1, producer=(1, 0, 1)))

    def fail(*_: object, **__: object) -> None:
        raise OSError(ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Disk, broken, fail)
        with pytest.raises(KafkaError) as refusal:
            append(log, batch(1, producer=(1, 0, 2)))
        assert refusal.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert bases(log) == [0]
    assert append(log, batch(1, producer=(1, 0, 2))) == 2
    assert bases(log) == [0, 2]
    log.abandon()
    assert all_batches(open_log(tmp_path)) == [(0, 0), (1, 1), (2, 2)]


def test_a_torn_tail_that_could_not_be_cut_is_cut_before_the_next_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = CountingDisk()
    log = open_log(tmp_path, disk=disk)
    append(log, batch(1))
    disk.room = 300

    def fail(self: OpenFile, size: int) -> None:
        raise OSError(ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(CountingFile, "truncate", fail)
        with pytest.raises(KafkaError):
            append(log, batch(5, value=b"v" * 100))
    disk.room = None
    append(log, batch(1))
    assert (tmp_path / "t-0" / "00000000000000000000.log").stat().st_size == 2 * SIZE
    log.close()
    again = open_log(tmp_path, is_clean=True, recovery_point=2)
    append(again, batch(1))
    assert all_batches(again) == [(0, 0), (1, 1), (2, 2)]


@pytest.mark.parametrize("working_renames", range(4))
def test_a_truncation_that_fails_half_way_leaves_what_the_next_start_goes_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, working_renames: int
) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=2 * SIZE))
    for _ in range(8):
        append(log, batch(1))
    left = [working_renames]
    rename = Disk.rename

    def fail_later(self: Disk, source: str, target: str) -> None:
        if not left[0]:
            raise OSError(errno.EIO, "Input/output error")
        left[0] -= 1
        rename(self, source, target)

    with monkeypatch.context() as patch:
        patch.setattr(Disk, "rename", fail_later)
        with pytest.raises(KafkaError) as refusal:
            log.truncate_to(3)
        assert refusal.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (log.is_loaded, log.is_trusted) == (False, False)
    log = open_log(tmp_path, LogConfig(segment_bytes=2 * SIZE))
    offsets = [first for first, _ in all_batches(log)]
    assert offsets == list(range(log.log_end_offset))
    assert 3 < log.log_end_offset <= 8
    assert log.truncate_to(3) == 3
    assert append(log, batch(1)) == 3
    assert all_batches(log) == [(offset, offset) for offset in range(4)]


def test_files_and_directories_are_removed_when_they_are_due(tmp_path: Path) -> None:
    removals = Removals(Disk())
    (tmp_path / "file").touch()
    (tmp_path / "directory" / "below").mkdir(parents=True)
    removals.schedule(str(tmp_path / "file"), 100)
    removals.schedule(str(tmp_path / "directory"), 200)
    assert removals.next_deadline_ms() == 100
    assert (remove_due(removals, 99), remove_due(removals, 100)) == (0, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["directory"]
    assert (remove_due(removals, 200), removals.next_deadline_ms()) == (1, None)
    assert not list(tmp_path.iterdir())


def test_what_has_no_timestamps_is_as_old_as_its_file(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=2 * SIZE, retention_ms=1000))
    append(log, batch(1, timestamp_ms=-1))
    os.utime(tmp_path / "t-0" / f"{0:020d}.log", ns=(0, NOW * 1_000_000))
    assert log.apply_retention(NOW + 1000) == 0
    assert log.apply_retention(NOW + 1001) == 1


def test_segments_below_the_beginning_go_when_that_is_asked_for(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=len(batch(2))))
    for _ in range(3):
        append(log, batch(2))
    assert log.retire_below_start(NOW) == 0
    log.advance_log_start(3)
    assert bases(log) == [0, 2, 4]
    assert log.retire_below_start(NOW) == 1
    assert bases(log) == [2, 4]


def test_producers_are_looked_at_once_while_many_segments_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=len(batch(1)), retention_ms=-1))
    for _ in range(2 * SEGMENTS_AT_ONCE + 2):
        append(log, batch(1))
    log.advance_log_start(2 * SEGMENTS_AT_ONCE + 1)
    looks: list[int] = []
    monkeypatch.setattr(Producers, "expire", lambda _, now_ms, expiration_ms: looks.append(now_ms))
    went = [log.apply_retention(now_ms) for now_ms in (1, 2, 3, 4)]
    assert went == [SEGMENTS_AT_ONCE, SEGMENTS_AT_ONCE, 1, 0]
    assert looks == [1, 4]
