from pathlib import Path
from random import Random
from uuid import UUID

import pytest
from tests.unit.log.directories.opened import write_high_watermarks
from tests.unit.log.logs import NOW, append, batch

from penstock.log.config import LogConfig
from penstock.log.directories.directory import LogDirectories
from penstock.log.dump import (
    BrokenTail,
    DumpedBatch,
    FileKind,
    OffsetEntry,
    TimeEntry,
    dump_leader_epochs,
    dump_offset_checkpoint,
    dump_offset_index,
    dump_partition_metadata,
    dump_producer_snapshot,
    dump_segment,
    dump_time_index,
    kind_of,
)


def test_every_file_of_a_log_directory_can_be_dumped(tmp_path: Path) -> None:
    directories = LogDirectories([str(tmp_path)], node_id=1, random=Random(1))
    config = LogConfig(index_interval_bytes=1)
    log = directories.create("t", 0, UUID(int=7), config)
    size = len(batch(2))
    for number in range(3):
        append(log, batch(2, timestamp_ms=NOW + number, producer=(5, 0, 2 * number)), epoch=number)
    write_high_watermarks(directories, {("t", 0): 6})
    directories.close()

    found: dict[FileKind, list[str]] = {}
    for path in sorted(path for path in tmp_path.rglob("*") if path.is_file()):
        kind = kind_of(str(path))
        if kind is not None:
            found.setdefault(kind, []).append(str(path))
    assert set(found) == set(FileKind)
    (segment,) = found[FileKind.SEGMENT]
    batches = list(dump_segment(segment))
    assert [b.position for b in batches] == [0, size, 2 * size]
    for number, dumped in enumerate(batches):
        assert isinstance(dumped, DumpedBatch)
        assert dumped.is_valid
        assert [record.offset for record in dumped.records()] == [2 * number, 2 * number + 1]
        assert dumped.header.partition_leader_epoch == number
    assert list(dump_offset_index(found[FileKind.OFFSET_INDEX][0])) == [
        OffsetEntry(offset=3, position=size),
        OffsetEntry(offset=5, position=2 * size),
    ]
    assert list(dump_time_index(found[FileKind.TIME_INDEX][0])) == [
        TimeEntry(timestamp_ms=NOW + 1, offset=3),
        TimeEntry(timestamp_ms=NOW + 2, offset=5),
    ]
    entries = dump_producer_snapshot(found[FileKind.PRODUCER_SNAPSHOT][0])
    told = [(entry.producer_id, entry.last_sequence, entry.last_offset) for entry in entries]
    assert told == [(5, 1, 1), (5, 3, 3), (5, 5, 5)]
    assert dump_leader_epochs(found[FileKind.LEADER_EPOCHS][0]) == [(0, 0), (1, 2), (2, 4)]
    checkpoints = {Path(path).name: dump_offset_checkpoint(path) for path in found[FileKind.OFFSET_CHECKPOINT]}
    assert checkpoints == {
        "recovery-point-offset-checkpoint": {("t", 0): 6},
        "log-start-offset-checkpoint": {},
        "replication-offset-checkpoint": {("t", 0): 6},
    }
    assert dump_partition_metadata(found[FileKind.PARTITION_METADATA][0]) == UUID(int=7)


def test_a_broken_segment_is_dumped_as_far_as_it_makes_sense(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    whole = bytes(batch(2))
    damaged = bytearray(whole)
    damaged[-1] ^= 1
    path.write_bytes(whole + damaged + whole[:-1])
    first, second, tail = dump_segment(str(path))
    assert isinstance(first, DumpedBatch)
    assert first.is_valid
    assert isinstance(second, DumpedBatch)
    assert not second.is_valid
    assert isinstance(tail, BrokenTail)
    assert (tail.position, tail.size) == (2 * len(whole), len(whole) - 1)
    path.write_bytes(whole + b"x" * 90)
    first, tail = dump_segment(str(path))
    assert isinstance(tail, BrokenTail)
    assert (tail.position, tail.size) == (len(whole), 90)
    path.write_bytes(whole * 2)
    assert len(list(dump_segment(str(path), max_bytes=len(whole)))) == 1
    assert len(list(dump_segment(str(path), max_bytes=3 * len(whole)))) == 2


def test_an_index_that_its_segment_does_not_need_yet_has_no_entries(tmp_path: Path) -> None:
    offsets, times = (str(tmp_path / f"00000000000000000000.{suffix}") for suffix in ("index", "timeindex"))
    with pytest.raises(FileNotFoundError):
        list(dump_offset_index(offsets))
    (tmp_path / "00000000000000000000.log").write_bytes(batch(2))
    assert list(dump_offset_index(offsets)) == []
    assert list(dump_time_index(times)) == []


def test_indexes_that_a_running_broker_has_filled_up_with_zeros(tmp_path: Path) -> None:
    offsets = tmp_path / "00000000000000000100.index"
    offsets.write_bytes((7).to_bytes(4, "big") + (64).to_bytes(4, "big") + bytes(800))
    assert list(dump_offset_index(str(offsets))) == [OffsetEntry(offset=107, position=64)]
    times = tmp_path / "00000000000000000100.timeindex"
    times.write_bytes(NOW.to_bytes(8, "big") + (7).to_bytes(4, "big") + bytes(1200))
    assert list(dump_time_index(str(times))) == [TimeEntry(timestamp_ms=NOW, offset=107)]
