"""A round of compaction: of each key the last record stays, with all that belongs to it."""

import os
from pathlib import Path

import pytest
from tests.unit.log.compaction.rounds import COMPACTED, NOW, Pair, batches, compact, last_values, pairs, plain, records
from tests.unit.log.logs import append, open_log, run_through
from tests.unit.log.recorded_disk import RecordedDisk

from penstock.log.compaction import cleaning
from penstock.log.compaction.batches import UncleanableError
from penstock.log.compaction.cleaning import run_round
from penstock.log.compaction.plain_keys import BYTES_PER_KEY
from penstock.log.compaction.preparing import Buffers, look_at, prepare
from penstock.log.compaction.rounds import Cleaned, Moved, Summary
from penstock.log.disk import Disk, OpenFile
from penstock.log.partition_log import PartitionLog
from penstock.log.validation import AppendOrigin
from penstock.node.serving.slices import at_once
from penstock.protocol.compression import Compression
from penstock.protocol.control.records import ControlType, control_batch, control_record
from penstock.protocol.errors import DecodeError
from penstock.protocol.records import Record, encode_batch

PAD = "v" * 60


def roll(log: PartitionLog) -> None:
    """Begin a new segment, so that all before it can be compacted."""
    log.load().roll(log.log_end_offset, NOW)


def filled(path: Path, *sent: memoryview, disk: Disk | None = None, epoch: int = 0) -> PartitionLog:
    log = open_log(path, COMPACTED, disk=disk)
    for batch in sent:
        append(log, batch, epoch=epoch)
    roll(log)
    append(log, pairs(("active", "1")))
    return log


@pytest.mark.parametrize("codec", list(Compression))
def test_the_last_record_of_each_key_stays_as_it_was(tmp_path: Path, codec: Compression) -> None:
    log = filled(
        tmp_path,
        pairs(("a", "1"), ("b", "1"), ("c", "1"), compression=codec),
        pairs(("a", "2"), ("b", "2"), timestamp_ms=NOW + 10, compression=codec),
        pairs(("a", "3"), timestamp_ms=NOW + 20, compression=codec),
        epoch=7,
    )
    end_offset = log.log_end_offset
    compact(log, Disk())
    assert records(log) == [(2, "c", "1"), (4, "b", "2"), (5, "a", "3"), (6, "active", "1")]
    first, second, third, _ = batches(log)
    assert [header.compression for header, _ in (first, second, third)] == [codec] * 3
    assert [(header.base_offset, header.last_offset, header.record_count) for header, _ in (first, second)] == [
        (0, 2, 1),
        (3, 4, 1),
    ]
    assert [record.timestamp_ms for _, found in batches(log) for record in found] == [NOW + 2, NOW + 11, NOW + 20, NOW]
    assert first[0].max_timestamp == NOW + 2
    assert {header.partition_leader_epoch for header, _ in (first, second, third)} == {7}
    assert all(record.headers == [("h", b"x")] for _, found in batches(log) for record in found)
    assert (log.log_start_offset, log.log_end_offset) == (0, end_offset)


def test_a_batch_of_which_nothing_goes_keeps_its_bytes(tmp_path: Path) -> None:
    log = filled(tmp_path, pairs(("a", "1"), ("b", "1"), compression=Compression.GZIP), pairs(("c", "1")))
    before = log.read(0, 1 << 20).read()
    compact(log, Disk())
    assert log.read(0, 1 << 20).read() == before


def test_what_is_clean_may_end_within_a_segment(tmp_path: Path) -> None:
    """As after the log was cut there."""
    log = filled(tmp_path, pairs(("a", "1")), pairs(("b", "1")), pairs(("b", "2")))
    log.cleaned_to = 1
    assert compact(log, Disk()).keys == 1
    assert records(log) == [(0, "a", "1"), (2, "b", "2"), (3, "active", "1")]


def test_a_segment_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning, "MIN_BUFFER_BYTES", 200)
    log = filled(tmp_path, *(pairs((f"k{number % 5}", str(number))) for number in range(10)))
    size = sum(segment.size for segment in log.segments[:-1])
    assert compact(log, Disk(), buffers=Buffers(io_bytes=200)) == Summary(
        end_offset=10,
        bytes_read=size,
        bytes_written=sum(segment.size for segment in log.segments[:-1]),
        records_read=10,
        records_written=5,
        keys=5,
        capacity=int(Buffers().dedupe_bytes * 0.9) // BYTES_PER_KEY,
    )
    assert records(log) == [(number, f"k{number - 5}", str(number)) for number in range(5, 10)] + [(10, "active", "1")]


def test_a_batch_may_be_larger_than_what_is_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning, "MIN_BUFFER_BYTES", 100)  # less than a batch
    log = filled(tmp_path, *(pairs(("a", f"{number}{PAD}"), ("b", f"{number}{PAD}")) for number in range(3)))
    compact(log, Disk(), buffers=Buffers(io_bytes=1))
    assert records(log) == [(4, "a", f"2{PAD}"), (5, "b", f"2{PAD}"), (6, "active", "1")]


def test_no_step_moves_more_than_what_is_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning, "MIN_BUFFER_BYTES", 1)
    log = open_log(tmp_path, COMPACTED.replace(segment_bytes=10_000))
    for number in range(30):
        append(log, pairs((f"k{number}", PAD * 4 if number == 10 else PAD)))
    roll(log)
    found = look_at(log, log.log_end_offset, NOW)
    work, _ = at_once(prepare(log, found, Buffers(io_bytes=400), NOW))
    largest, size = len(pairs(("k10", PAD * 4))), log.segments[0].size
    moved = [step.count for step in run_round(work, plain(1 << 20, 0.9), Disk()) if isinstance(step, Moved)]
    assert max(moved) <= 2 * max(400, largest)
    assert sum(count > 2 * 400 for count in moved) <= 1, "only that of the large batch"
    assert sum(moved) == 3 * size, "read twice, and written"


def open_names() -> list[str]:
    """Of files of this process, where the system tells them."""
    folder = Path("/proc/self/fd")
    links = [str(one) for one in folder.iterdir()] if folder.exists() else []
    return [os.readlink(link) for link in links if os.path.lexists(link)]


def test_what_comes_out_of_a_round_is_synced_and_closed_before_it_is_swapped_in(tmp_path: Path) -> None:
    disk = RecordedDisk(tmp_path)
    log = filled(tmp_path, pairs(("a", "1")), pairs(("a", "2")), disk=disk)
    work, segments = at_once(prepare(log, look_at(log, log.log_end_offset, NOW), Buffers(), NOW))
    disk.take()
    (cleaned,) = (step for step in run_round(work, plain(1 << 20, 0.9), disk) if isinstance(step, Cleaned))
    new = f"t-0/{0:020d}"
    indexes = [f"{new}.index.cleaned", f"{new}.timeindex.cleaned"]
    assert disk.take() == [
        *(f"remove {name}" for name in indexes),
        *(f"{call} {new}.log.cleaned" for call in ("write", "sync")),
        *(f"write {name}" for name in indexes[1:]),
        *(f"sync {name}" for name in indexes[1:]),
    ]
    assert not any(name.endswith(".cleaned") for name in open_names())
    assert log.swap_in(segments, NOW, cleaned.gone)
    assert log._removals.next_deadline_ms() == NOW + COMPACTED.file_delete_delay_ms


def test_a_second_round_changes_nothing_that_is_clean(tmp_path: Path) -> None:
    log = filled(tmp_path, *(pairs((f"k{number % 5}", PAD)) for number in range(30)))
    compact(log, Disk())
    before = records(log)
    append(log, pairs(("k1", "new")))
    roll(log)
    summary = compact(log, Disk())
    assert summary.keys == 2
    assert records(log) == [record for record in before if record[1] != "k1"] + [(31, "k1", "new")]


def test_small_segments_become_one_with_its_indexes(tmp_path: Path) -> None:
    log = filled(tmp_path, *(pairs((f"k{number % 5}", PAD)) for number in range(60)))
    assert len(log.segments) > 5
    for _ in range(3):
        compact(log, Disk())
    assert len(log.segments) == 2
    assert log.size_bytes == sum(segment.size for segment in log.segments)
    assert [offset for offset, _, _ in records(log)] == [55, 56, 57, 58, 59, 60]
    for offset in range(61):
        assert batches_from(log, offset) == max(offset, 55)
    assert run_through(log.search_timestamp(NOW)) is not None
    left = sorted(name.name for name in (tmp_path / "t-0").iterdir() if not name.name.endswith(".deleted"))
    assert [name for name in left if "00000" in name] == [
        f"{0:020d}.index",
        f"{0:020d}.log",
        f"{0:020d}.timeindex",
        f"{60:020d}.log",
    ]
    log.close()
    again = open_log(tmp_path, COMPACTED, is_clean=True, recovery_point=61)
    assert [offset for offset, _, _ in records(again)] == [55, 56, 57, 58, 59, 60]


def batches_from(log: PartitionLog, offset: int) -> int:
    """The first record that a reader gets who asks for an offset."""
    data = log.read(offset, 1).read()
    return int.from_bytes(data[:8], "big") + int.from_bytes(data[23:27], "big")


def test_a_new_segment_was_last_written_when_the_newest_of_the_old_ones_was(tmp_path: Path) -> None:
    log, disk = filled(tmp_path, pairs(("a", "1"))), Disk()
    roll(log)
    append(log, pairs(("a", "2")))
    for number, segment in enumerate(log.segments):
        disk.set_modified_ms(segment.path, NOW + number)
    compact(log, disk)
    assert [disk.modified_ms(segment.path) for segment in log.segments] == [NOW + 1, NOW + 2]


def test_a_reader_of_an_old_segment_reads_on(tmp_path: Path) -> None:
    log = filled(tmp_path, *(pairs(("k", PAD)) for _ in range(30)))
    slices = [log.read(offset, 1 << 20) for offset in (0, 10)]
    before = [one.read() for one in slices]
    compact(log, Disk())
    assert [one.read() for one in slices] == before


def test_a_segment_ends_where_the_next_one_begins(tmp_path: Path) -> None:
    """A start that does not know yet that the log is compacted takes gaps between segments for losses."""
    log = filled(tmp_path, *(pairs((f"k{number % 5}", PAD)) for number in range(60)))
    compact(log, Disk())
    whole = records(log)
    log.abandon()
    again = open_log(tmp_path, COMPACTED.replace(cleanup_policy=frozenset({"delete"})))
    assert records(again) == whole


# tombstones


def test_a_tombstone_gets_its_horizon_and_goes_when_that_is_over(tmp_path: Path) -> None:
    log = filled(tmp_path, pairs(("a", "1"), ("b", "1")), pairs(("a", None), ("c", "1"), timestamp_ms=NOW + 5))
    compact(log, Disk(), now_ms=NOW + 100)
    assert records(log)[:-1] == [(1, "b", "1"), (2, "a", None), (3, "c", "1")]
    header, found = batches(log)[1]
    assert header.has_delete_horizon
    assert header.base_timestamp == NOW + 100 + COMPACTED.delete_retention_ms
    assert [record.timestamp_ms for record in found] == [NOW + 5, NOW + 6]
    compact(log, Disk(), now_ms=NOW + 1099)
    assert (2, "a", None) in records(log)
    compact(log, Disk(), now_ms=NOW + 1100)
    assert records(log)[:-1] == [(1, "b", "1"), (3, "c", "1")]
    assert [record.timestamp_ms for record in batches(log)[1][1]] == [NOW + 6]


def test_times_of_the_append_are_kept_with_a_horizon(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACTED.replace(message_timestamp_type="LogAppendTime"))
    append(log, pairs(("a", None), ("b", "1"), timestamp_ms=5), now_ms=NOW + 77)
    roll(log)
    append(log, pairs(("z", "1")))
    compact(log, Disk(), now_ms=NOW + 100)
    header, found = batches(log)[0]
    assert header.has_delete_horizon
    assert header.is_log_append_time
    assert (header.max_timestamp, [record.timestamp_ms for record in found]) == (NOW + 77, [NOW + 77] * 2)


# producers


def test_an_active_producers_last_batch_keeps_its_sequence(tmp_path: Path) -> None:
    log = filled(
        tmp_path,
        pairs(("a", "1"), producer=(9, 0, 0)),
        pairs(("a", "2"), ("b", "1"), producer=(9, 0, 1), compression=Compression.LZ4),
        pairs(("a", "3"), ("b", "2")),
    )
    compact(log, Disk())
    assert records(log) == [(3, "a", "3"), (4, "b", "2"), (5, "active", "1")]
    empty = batches(log)[0][0]
    assert (empty.producer_id, empty.base_sequence, empty.last_sequence, empty.record_count) == (9, 1, 2, 0)
    assert (empty.base_offset, empty.last_offset, empty.max_timestamp) == (1, 2, NOW + 1)
    found = run_through(log.search_timestamp(NOW))
    assert found is not None
    assert found.offset == 3, "it has no record of that time"
    log.abandon()
    again = open_log(tmp_path, COMPACTED)
    known = again.producers.get(9)
    assert known is not None
    assert known.last_sequence == 2


def test_the_rounds_last_batch_keeps_its_offsets(tmp_path: Path) -> None:
    log = filled(tmp_path, pairs(("a", "1")), pairs(("x", "1")))
    compact(log, Disk())
    append(log, pairs(("x", "2")))
    append(log, pairs(("y", "2")))
    roll(log)
    end_offset = log.log_end_offset
    append(log, pairs(("y", "3")))
    roll(log)
    append(log, pairs(("z", "3")))
    compact(log, Disk())
    compact(log, Disk(), now_ms=NOW + 1)
    assert end_offset == 5
    assert [header.last_offset for header, _ in batches(log)] == [0, 2, 3, 5, 6]


def test_markers_stay(tmp_path: Path) -> None:
    log = filled(tmp_path, pairs(("a", "1")), pairs(("a", "2")))
    marker = control_batch([control_record(ControlType.LEADER_CHANGE, bytes(6), NOW)], base_offset=0, epoch=0)
    log.append_as_leader(memoryview(marker), leader_epoch=0, now_ms=NOW, origin=AppendOrigin.COORDINATOR)
    roll(log)
    append(log, pairs(("b", "1")))
    for now_ms in (NOW, NOW + COMPACTED.delete_retention_ms, NOW + 3 * COMPACTED.delete_retention_ms):
        log.cleaned_to = 0
        compact(log, Disk(), now_ms=now_ms)
        assert [header.is_control for header, _ in batches(log)] == [False, False, True, False]


# what cannot be compacted


def test_a_damaged_batch_is_not_written_anew(tmp_path: Path) -> None:
    log = filled(tmp_path, pairs(("a", "1")), pairs(("a", "2")))
    file = tmp_path / "t-0" / "00000000000000000000.log"
    damaged = bytearray(file.read_bytes())
    damaged[-1] ^= 1
    file.write_bytes(damaged)
    with pytest.raises(UncleanableError, match="CRC of the batch at offset 1 "):
        compact(log, Disk())


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("length", [0, 1 << 20, -1])
def test_a_batch_whose_length_makes_no_sense_ends_the_round(tmp_path: Path, number: int, length: int) -> None:
    log = filled(tmp_path, pairs(("a", "1")), pairs(("a", "2")))
    file, at = tmp_path / "t-0" / f"{0:020d}.log", number * len(pairs(("a", "1")))
    damaged = bytearray(file.read_bytes())
    damaged[at + 8 : at + 12] = length.to_bytes(4, "big", signed=True)
    file.write_bytes(damaged)
    with pytest.raises(DecodeError):
        compact(log, Disk())


@pytest.mark.parametrize("missing", [1, 60, 61, 75, 200])
def test_a_file_that_is_shorter_than_its_segment_ends_the_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: int
) -> None:
    log = filled(tmp_path, pairs(("a", "1")), pairs(("a", "2")))
    path = tmp_path / "t-0" / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[:-missing])
    reads, read_at = iter(range(20)), OpenFile.read_at

    def read(file: OpenFile, length: int, position: int) -> bytes:
        assert next(reads, None) is not None, "it reads the same again and again"
        return read_at(file, length, position)

    monkeypatch.setattr(OpenFile, "read_at", read)
    with pytest.raises(DecodeError):
        compact(log, Disk())


def test_records_without_keys_go(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACTED.replace(cleanup_policy=frozenset({"delete"})))
    for number in range(3):
        append(log, keyless() if number == 1 else pairs(("a", str(number))))
    log.config = COMPACTED
    roll(log)
    append(log, pairs(("b", "1")))
    summary = compact(log, Disk())
    assert (summary.records_written, summary.records_read) == (1, 3)
    assert records(log) == [(2, "a", "2"), (3, "b", "1")]


def keyless() -> memoryview:
    return memoryview(encode_batch([Record(0, NOW, None, b"v")]))


def test_where_keys_do_not_fit_several_rounds_do_it(tmp_path: Path) -> None:
    sent: list[Pair] = [(f"k{number % 20}", f"{number}{PAD}") for number in range(100)]
    log = filled(tmp_path, *(pairs(pair) for pair in sent))
    whole = last_values(records(log))
    small = Buffers(dedupe_bytes=7 * BYTES_PER_KEY, load_factor=1.0, io_bytes=1)
    ends: list[int] = []
    while not ends or ends[-1] < 100:
        ends.append(compact(log, Disk(), buffers=small).end_offset)
        assert last_values(records(log)) == whole
    assert ends[:3] == [7, 14, 21]
    assert len(records(log)) == 21


def test_a_batch_with_more_keys_than_there_is_room_for_is_named(tmp_path: Path) -> None:
    log = filled(tmp_path, pairs(*((f"k{number}", "v") for number in range(10))))
    with pytest.raises(UncleanableError, match=r"a batch of 10 records at offset 0 has more keys"):
        compact(log, Disk(), buffers=Buffers(dedupe_bytes=7 * BYTES_PER_KEY, load_factor=1.0))


def test_a_segment_that_was_cut_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    log = filled(tmp_path, *(pairs((f"k{number}", PAD)) for number in range(30)))
    old = log.segments[0:2]
    log.truncate_to(3)
    assert not log.swap_in(old, NOW)
    assert log.log_end_offset == 3
    log.abandon()
    assert not log.swap_in(old, NOW), "it is not read in"
    assert not log.is_loaded
