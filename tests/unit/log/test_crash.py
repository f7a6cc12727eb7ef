"""After a crash at any point the log opens again, and holds every batch that lies whole before the damage."""

from pathlib import Path

import pytest
from tests.unit.log.logs import NOW, all_batches, append, batch, open_log, run_through
from tests.unit.log.removed import remove_due

from penstock.log.config import LogConfig
from penstock.log.disk import Disk, OpenFile
from penstock.log.partition_log import PartitionLog
from penstock.protocol.checksum import crc32c

CONFIG = LogConfig(segment_bytes=650, index_interval_bytes=100)
LAST = "00000000000000000016.log"


def build(path: Path) -> tuple[PartitionLog, list[tuple[int, int]]]:
    """A log with two sealed segments and an active one whose last three batches hold 1, 2 and 3 records."""
    log = open_log(path, CONFIG)
    for number, count in enumerate((4, 4, 4, 4, 1, 1, 2, 3)):
        append(log, batch(count, value=b"v" * (50 if count == 4 else 5)), epoch=number // 3)
    assert [segment.base_offset for segment in log.segments] == [0, 8, 16]
    return log, all_batches(log)


def reopen_and_check(path: Path, expected: list[tuple[int, int]], next_epoch: int) -> None:
    log = open_log(path, CONFIG)
    assert all_batches(log) == expected
    end_offset = expected[-1][1] + 1
    assert log.log_end_offset == end_offset
    assert all(start < end_offset for _, start in log.leader_epochs.entries)
    assert append(log, batch(1), epoch=next_epoch) == end_offset
    log.abandon()


def last_three(data: bytes) -> list[int]:
    """Where the last three batches begin, and the end."""
    starts = [0]
    while starts[-1] < len(data):
        starts.append(starts[-1] + 12 + int.from_bytes(data[starts[-1] + 8 : starts[-1] + 12], "big"))
    return starts[-4:]


def batches_before(expected: list[tuple[int, int]], starts: list[int], position: int) -> list[tuple[int, int]]:
    """What must be left when nothing from `position` of the last segment on can be believed."""
    whole = sum(end <= position for end in starts[1:])
    return expected[: len(expected) - 3 + whole]


@pytest.mark.parametrize("keeps_index", [True, False])
def test_cut_at_every_byte_of_the_last_three_batches(tmp_path: Path, keeps_index: bool) -> None:
    log, expected = build(tmp_path)
    if keeps_index:
        log.close()
    log.abandon()
    file = tmp_path / "t-0" / LAST
    data = file.read_bytes()
    starts = last_three(data)
    assert starts[-1] == len(data)
    for size in range(starts[0], len(data) + 1):
        file.write_bytes(data[:size])
        reopen_and_check(tmp_path, batches_before(expected, starts, size), next_epoch=9)


def test_corruption_at_every_byte_of_the_last_three_batches(tmp_path: Path) -> None:
    log, expected = build(tmp_path)
    log.abandon()
    file = tmp_path / "t-0" / LAST
    data = file.read_bytes()
    starts = last_three(data)
    for position in range(starts[0], len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0xFF
        file.write_bytes(damaged)
        log = open_log(tmp_path, CONFIG)
        begin = max(start for start in starts if start <= position)
        before = len(expected) - 3 + starts.index(begin)
        left = all_batches(log)
        if begin + 12 <= position < begin + 16:  # the leader epoch, which no checksum covers
            assert left == expected
        elif position < begin + 8 and len(left) > before:
            # a base offset that grew: no checksum covers it either, it is believed as it fits behind the others
            assert left[:before] == expected[:before]
            assert len(left) == before + 1
        else:
            assert left == expected[:before]
        log.abandon()


def test_zeros_behind_the_last_batch_are_cut_off(tmp_path: Path) -> None:
    log, expected = build(tmp_path)
    log.abandon()
    file = tmp_path / "t-0" / LAST
    data = file.read_bytes()
    file.write_bytes(data + bytes(5000))
    reopen_and_check(tmp_path, expected, next_epoch=9)
    assert file.read_bytes()[: len(data)] == data


def test_segments_behind_a_damaged_one_are_lost(tmp_path: Path) -> None:
    log, expected = build(tmp_path)
    log.abandon()
    first = tmp_path / "t-0" / "00000000000000000000.log"
    first.write_bytes(first.read_bytes()[:-1])
    reopen_and_check(tmp_path, expected[:1], next_epoch=9)
    assert not (tmp_path / "t-0" / LAST).exists()


def test_segments_before_the_recovery_point_are_believed(tmp_path: Path) -> None:
    log, expected = build(tmp_path)
    log.close()
    first = tmp_path / "t-0" / "00000000000000000000.log"
    damaged = bytearray(first.read_bytes())
    damaged[70] ^= 1
    first.write_bytes(damaged)
    again = open_log(tmp_path, CONFIG, recovery_point=16)
    assert again.log_end_offset == expected[-1][1] + 1
    again.abandon()
    assert open_log(tmp_path, CONFIG, recovery_point=3).log_end_offset == 0


def test_indexes_are_rebuilt_as_they_were(tmp_path: Path) -> None:
    log, _ = build(tmp_path)
    log.close()
    indexes = sorted(path for path in (tmp_path / "t-0").iterdir() if path.suffix == ".index")
    assert len(indexes) == 3
    assert any(path.stat().st_size for path in indexes)
    before = {path: path.read_bytes() for path in indexes}
    for path in indexes:
        path.write_bytes(b"\x00\x01\x02")
    again = open_log(tmp_path, CONFIG)
    again.load()
    again.close()
    assert {path: path.read_bytes() for path in indexes} == before


def test_missing_indexes_are_rebuilt_after_a_clean_shutdown(tmp_path: Path) -> None:
    log, expected = build(tmp_path)
    log.close()
    for path in (tmp_path / "t-0").iterdir():
        if path.suffix in {".index", ".timeindex"}:
            path.unlink()
    again = open_log(tmp_path, CONFIG, is_clean=True, recovery_point=log.log_end_offset)
    assert all_batches(again) == expected
    assert again.segments[0].largest_timestamp() == NOW
    assert (tmp_path / "t-0" / "00000000000000000000.timeindex").stat().st_size > 0


def test_an_unreadable_epoch_checkpoint_is_rebuilt_from_the_batches(tmp_path: Path) -> None:
    log, expected = build(tmp_path)
    epochs = log.leader_epochs.entries
    assert len(epochs) == 3
    log.close()
    (tmp_path / "t-0" / "leader-epoch-checkpoint").write_bytes(b"")
    again = open_log(tmp_path, CONFIG, is_clean=True, recovery_point=log.log_end_offset)
    assert all_batches(again) == expected
    assert again.leader_epochs.entries == epochs


def test_what_an_interrupted_deletion_leaves_is_removed(tmp_path: Path) -> None:
    log, expected = build(tmp_path)
    log.close()
    directory = tmp_path / "t-0"
    names = {path.name for path in directory.iterdir()}
    for name in ("00000000000000000005.log.deleted", "00000000000000000005.index", "leader-epoch-checkpoint.tmp"):
        (directory / name).write_bytes(b"x")
    log = open_log(tmp_path, CONFIG)
    assert all_batches(log) == expected
    remove_due(log._removals, 0)
    assert {path.name for path in directory.iterdir()} == names


def test_epochs_of_a_file_that_is_older_than_a_truncation_are_not_believed(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, batch(2), epoch=1)
    append(log, batch(2), epoch=7)
    checkpoint = tmp_path / "t-0" / "leader-epoch-checkpoint"
    stale = checkpoint.read_bytes()
    log.truncate_to(2)
    append(log, batch(1), epoch=5)
    log.abandon()
    checkpoint.write_bytes(stale)
    assert open_log(tmp_path).leader_epochs.entries == [(1, 0), (5, 2)]


def test_a_checkpoint_that_was_torn_in_its_last_number_is_not_believed(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, batch(20), epoch=1)
    append(log, batch(1), epoch=2)
    log.flush()
    log.abandon()
    checkpoint = tmp_path / "t-0" / "leader-epoch-checkpoint"
    assert checkpoint.read_bytes().endswith(b"\n2 20\n")
    checkpoint.write_bytes(checkpoint.read_bytes()[:-2])
    assert open_log(tmp_path, recovery_point=21).leader_epochs.entries == [(1, 0), (2, 20)]


class SyncedDisk(Disk):
    """Counts what is synced of directories."""

    __slots__ = ("synced",)

    def __init__(self) -> None:
        self.synced = 0

    def sync_directory(self, path: str) -> None:
        super().sync_directory(path)
        self.synced += 1


def test_segments_that_a_truncation_drops_are_gone_durably_before_others_take_their_place(tmp_path: Path) -> None:
    disk = SyncedDisk()
    log = open_log(tmp_path, CONFIG, disk=disk)
    for _ in range(6):
        append(log, batch(4, value=b"v" * 50))
    assert len(log.segments) == 3
    log.flush()
    disk.synced = 0
    log.truncate_to(4)
    assert disk.synced > 0
    assert log.recovery_point == 0, "the segment that was cut is synced by the next flush"


def three_segments(path: Path, config: LogConfig) -> None:
    log = open_log(path, config)
    for offset in range(3):
        append(log, batch(1))
        log.load().roll(offset + 1, NOW)
    log.abandon()
    (path / "t-0" / "00000000000000000001.log").write_bytes(b"")


def test_what_lies_behind_a_segment_that_a_power_cut_took_is_lost_as_well(tmp_path: Path) -> None:
    three_segments(tmp_path, LogConfig())
    log = open_log(tmp_path)
    assert all_batches(log) == [(0, 0)]
    assert append(log, batch(1)) == 1
    assert sorted(path.name for path in (tmp_path / "t-0").glob("*.log")) == [
        "00000000000000000000.log",
        "00000000000000000001.log",
    ]


def test_a_compacted_log_may_have_holes(tmp_path: Path) -> None:
    config = LogConfig(cleanup_policy=frozenset({"compact"}))
    three_segments(tmp_path, config)
    assert open_log(tmp_path, config).log_end_offset == 3


@pytest.mark.parametrize(("recovery_point", "end_offset"), [(0, 1), (1, 1), (2, 3), (3, 3)])
def test_a_log_that_was_compacted_once_keeps_what_lies_behind_holes(
    tmp_path: Path, recovery_point: int, end_offset: int
) -> None:
    """All of it is read, as its epochs are damaged. Below the recovery point no power cut has left a hole."""
    three_segments(tmp_path, LogConfig())
    (tmp_path / "t-0" / "leader-epoch-checkpoint").write_text("damaged")
    assert open_log(tmp_path, recovery_point=recovery_point).log_end_offset == end_offset


def test_a_closed_log_has_its_index_files_even_without_a_record(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.load()
    log.close()
    for suffix in (".log", ".index", ".timeindex"):
        assert (tmp_path / "t-0" / f"{0:020}{suffix}").stat().st_size == 0


def test_nothing_stays_behind_damage_to_come_back_after_the_next_crash(tmp_path: Path) -> None:
    """What is written in the place of a damaged batch may be as long as that, with a whole old batch behind it."""
    log = open_log(tmp_path)
    for _ in range(3):
        append(log, batch(1))
    log.abandon()
    file = tmp_path / "t-0" / f"{0:020d}.log"
    data = bytearray(file.read_bytes())
    data[len(data) // 3 + 70] ^= 1  # in the second of three
    file.write_bytes(data)
    log = open_log(tmp_path)
    assert log.log_end_offset == 1
    assert file.stat().st_size == len(data) // 3
    append(log, batch(1))
    log.abandon()
    assert all_batches(open_log(tmp_path)) == [(0, 0), (1, 1)]


def test_a_batch_that_ends_before_it_begins_is_not_believed(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, batch(1))
    append(log, batch(1))
    log.abandon()
    file = tmp_path / "t-0" / f"{0:020d}.log"
    data = bytearray(file.read_bytes())
    second = len(data) // 2
    data[second + 23 : second + 27] = (-1).to_bytes(4, "big", signed=True)  # lastOffsetDelta
    data[second + 17 : second + 21] = crc32c(data[second + 21 :]).to_bytes(4, "big")
    file.write_bytes(data)
    assert all_batches(open_log(tmp_path)) == [(0, 0)]


def test_the_disk_is_asked_and_not_the_page_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache may show what a failed sync did not bring to the disk."""
    log = open_log(tmp_path)
    append(log, batch(1))
    log.abandon()
    seen: list[str] = []
    forget, read = OpenFile.forget_cache, OpenFile.read_at

    def watched_forget(file: OpenFile) -> None:
        seen.append("forget")
        forget(file)

    def watched_read(file: OpenFile, length: int, position: int) -> bytes:
        seen.append("read")
        return read(file, length, position)

    monkeypatch.setattr(OpenFile, "forget_cache", watched_forget)
    monkeypatch.setattr(OpenFile, "read_at", watched_read)
    assert open_log(tmp_path).log_end_offset == 1
    assert seen[:2] == ["forget", "read"]


def test_what_was_recovered_once_knows_its_times_at_each_start(tmp_path: Path) -> None:
    """A segment that ends before its first index entry says in its time index when its latest record was."""
    config = LogConfig(segment_bytes=3 * len(batch(1)))
    log = open_log(tmp_path, config)
    for number in range(7):
        append(log, batch(1, timestamp_ms=NOW + number))
    log.abandon()
    log = open_log(tmp_path, config)
    log.load()
    log.close()
    log = open_log(tmp_path, config, is_clean=True, recovery_point=7)
    assert [segment.largest_timestamp() - NOW for segment in log.segments] == [2, 5, 6]
    found = run_through(log.search_timestamp(NOW + 1))
    assert found is not None
    assert found.offset == 1
