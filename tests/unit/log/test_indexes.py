import os
import stat
from pathlib import Path

import pytest
from tests.unit.log.logs import NOW, append, batch, open_log

from penstock.log.config import LogConfig
from penstock.log.disk import Disk
from penstock.log.entry_file import SPILL_BYTES, CorruptIndexError
from penstock.log.leader_epochs import LeaderEpochs
from penstock.log.offset_index import OffsetIndex
from penstock.log.time_index import TimeIndex


def test_offset_index_finds_the_entry_below_in_memory_and_in_the_file(tmp_path: Path) -> None:
    index = OffsetIndex(Disk(), str(tmp_path / "a.index"), 1000)
    count = 3 * SPILL_BYTES // 8 + 10
    for number in range(count):
        index.append(1000 + 10 * number + 9, 100 * number)
    assert index.entries.saved == 3 * SPILL_BYTES // 8
    for number in (0, 1, 77, index.entries.saved - 1, index.entries.saved, count - 1):
        assert index.position_before(1000 + 10 * number + 9) == 100 * number
        assert index.position_before(1000 + 10 * number + 18) == 100 * number
    assert index.position_before(1000) == 0
    index.truncate_to(100 * 77)
    assert len(index.entries) == 77
    assert index.position_before(10**6) == 7600


def test_offset_index_has_kafkas_layout(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(index_interval_bytes=1))
    for _ in range(3):
        append(log, batch(10))
    size = log.size_bytes // 3
    log.close()
    content = (tmp_path / "t-0" / "00000000000000000000.index").read_bytes()
    expected = b"".join(n.to_bytes(4, "big") for n in (19, size, 29, 2 * size))
    assert content == expected


def test_time_index_has_kafkas_layout(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(index_interval_bytes=1))
    for delta in (0, 5, 3, 8):
        append(log, batch(10, timestamp_ms=NOW + delta))
    log.close()
    content = (tmp_path / "t-0" / "00000000000000000000.timeindex").read_bytes()
    entries = ((NOW + 5, 19), (NOW + 8, 39))
    assert content == b"".join(time.to_bytes(8, "big") + offset.to_bytes(4, "big") for time, offset in entries)


def test_a_closed_segment_ends_with_its_latest_timestamp(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, batch(2, timestamp_ms=NOW))
    log.close()
    content = (tmp_path / "t-0" / "00000000000000000000.timeindex").read_bytes()
    assert content == NOW.to_bytes(8, "big") + (1).to_bytes(4, "big")


def test_damaged_indexes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(13))
    with pytest.raises(CorruptIndexError):
        TimeIndex(Disk(), str(path), 0).load()
    path.write_bytes((5).to_bytes(4, "big") + (500).to_bytes(4, "big"))
    with pytest.raises(CorruptIndexError):
        OffsetIndex(Disk(), str(path), 0).load(segment_size=500)
    OffsetIndex(Disk(), str(path), 0).load(segment_size=501)


def epochs(tmp_path: Path, *entries: tuple[int, int]) -> LeaderEpochs:
    found = LeaderEpochs(Disk(), str(tmp_path / "leader-epoch-checkpoint"))
    for epoch, start in entries:
        found.assign(epoch, start)
    return found


def test_end_offsets_of_epochs(tmp_path: Path) -> None:
    found = epochs(tmp_path, (2, 0), (3, 10), (6, 25))
    assert [found.end_offset_for(epoch, 40) for epoch in (-1, 1, 2, 3, 4, 5, 6, 7)] == [
        (-1, -1),
        (1, 0),
        (2, 10),
        (3, 25),
        (3, 25),
        (3, 25),
        (6, 40),
        (-1, -1),
    ]
    assert [found.epoch_at(offset) for offset in (0, 9, 10, 24, 25, 99)] == [2, 2, 3, 3, 6, 6]


def test_epochs_are_cut_at_both_ends(tmp_path: Path) -> None:
    found = epochs(tmp_path, (2, 0), (3, 10), (6, 25))
    found.truncate_from_start(12)
    assert found.entries == [(3, 12), (6, 25)]
    found.truncate_from_end(25)
    assert found.entries == [(3, 12)]
    found.assign(2, 30)
    assert found.entries == [(3, 12)]
    found.assign(9, 12)
    assert found.entries == [(9, 12)]
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n1\n9 12\n"


def test_time_index_that_is_truncated_before_its_first_entry_is_empty(tmp_path: Path) -> None:
    index = TimeIndex(Disk(), str(tmp_path / "a.timeindex"), 10)
    index.maybe_append(1000, 10)
    index.maybe_append(2000, 20)
    index.truncate_to(20)
    assert len(index.entries) == 1
    index.truncate_to(10)
    assert len(index.entries) == 0
    index.truncate_to(10)
    assert len(index.entries) == 0


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    disk, path = Disk(), tmp_path / "a.log"
    before = os.umask(0)
    try:
        disk.open(str(path), create=True).close()
        disk.replace_file(str(tmp_path / "a"), b"", durable=False)
    finally:
        os.umask(before)
    assert [stat.S_IMODE(one.stat().st_mode) for one in (path, tmp_path / "a")] == [0o600, 0o600]
