from pathlib import Path

import pytest
from tests.unit.log.logs import NOW, all_batches, append, batch, batches_of, open_log

from penstock.log.config import LogConfig
from penstock.log.disk import OpenFile
from penstock.log.segment import Segment
from penstock.protocol.batch import HEADER_SIZE, read_header
from penstock.protocol.errors import ErrorCode, KafkaError


def test_append_assigns_offsets_and_epoch_in_place(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert append(log, batch(3), epoch=7) == 0
    sent = batch(2)
    assert append(log, sent, epoch=7) == 3
    header = read_header(sent, 0)
    assert (header.base_offset, header.partition_leader_epoch) == (3, 7)
    assert log.log_end_offset == 5
    assert bytes(sent) == log.read(4, 1 << 20).read()


def test_read_from_the_middle_of_a_batch_returns_the_whole_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, batch(10))
    append(log, batch(10))
    assert batches_of(log.read(13, 1 << 20).read()) == [(10, 19)]
    assert batches_of(log.read(5, 1 << 20).read()) == [(0, 9), (10, 19)]


def test_max_bytes_never_stops_the_first_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, batch(10))
    append(log, batch(10))
    assert batches_of(log.read(0, 1).read()) == [(0, 9)]
    assert log.read(0, 1, at_least_one_batch=False).length == 0
    size = log.read(0, 1).length
    assert log.read(0, size + 5).length == size + 5


def test_headers_are_those_of_whole_batches(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(3):
        append(log, batch(10))
    size = log.read(0, 1).length
    for cut_off in (1, HEADER_SIZE - 1, HEADER_SIZE, HEADER_SIZE + 1, size - 1, size):
        found = log.read(10, size + cut_off)
        whole = [(0, 10), (size, 20)] if cut_off == size else [(0, 10)]
        headers = [(position - found.position, header.base_offset) for position, header in log.headers_of(found)]
        assert headers == whole


def test_nothing_beyond_the_upper_offset_is_served(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(4):
        append(log, batch(10))
    assert batches_of(log.read(0, 1 << 20, upper_offset=20).read()) == [(0, 9), (10, 19)]
    assert batches_of(log.read(0, 1 << 20, upper_offset=25).read()) == [(0, 9), (10, 19)]
    assert log.read(20, 1 << 20, upper_offset=25).length == 0
    assert log.read(20, 1 << 20, upper_offset=20).length == 0
    assert batches_of(log.read(30, 1 << 20, upper_offset=99).read()) == [(30, 39)]


def test_read_outside_the_log_is_out_of_range(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, batch(2))
    assert log.read(2, 100).length == 0
    log.advance_log_start(1)
    for offset in (0, 3, -1):
        with pytest.raises(KafkaError) as refusal:
            log.read(offset, 100)
        assert refusal.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("is_clean", [True, False])
def test_log_reopens_as_it_was(tmp_path: Path, is_clean: bool) -> None:
    config = LogConfig(segment_bytes=400, index_interval_bytes=100)
    log = open_log(tmp_path, config)
    for count in range(1, 20):
        append(log, batch(count), epoch=count // 5)
    expected = all_batches(log)
    epochs = log.leader_epochs.entries
    assert len(log.segments) > 3
    if is_clean:
        log.close()
    else:
        log.abandon()
    again = open_log(tmp_path, config, is_clean=is_clean, recovery_point=log.log_end_offset if is_clean else 0)
    assert all_batches(again) == expected
    assert again.leader_epochs.entries == epochs
    assert append(again, batch(1)) == log.log_end_offset


def test_a_slice_outlives_its_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=400, retention_bytes=0))
    for _ in range(12):
        append(log, batch(1))
    kept = log.read(0, 1 << 20)
    before = kept.read()
    assert log.apply_retention(NOW) > 1
    assert log.log_start_offset > 0
    assert kept.read() == before
    assert batches_of(before)[0] == (0, 0)


def test_segments_share_a_bounded_number_of_descriptors(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=200), max_open=3)
    for _ in range(40):
        append(log, batch(1))
    assert len(log.segments) == 20
    assert len(all_batches(log)) == 40
    assert sum(segment.file is not None for segment in log.segments) <= 3


def test_what_lies_before_an_offset_goes_at_once(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=200))
    for epoch in (1, 1, 2, 2):
        append(log, batch(5, value=bytes(10)), epoch=epoch)
    log.retire_before(12)
    assert [segment.base_offset for segment in log.segments] == [10, 15]
    assert (log.log_start_offset, log.leader_epochs.entries) == (12, [(2, 12)])
    assert not (tmp_path / "t-0" / "00000000000000000005.log").exists()
    assert log.size_bytes == sum(segment.size for segment in log.segments)
    log.retire_before(20)
    assert (log.log_start_offset, log.log_end_offset) == (20, 20)
    with pytest.raises(KafkaError):
        log.retire_before(21)


def test_who_has_read_everything_goes_on_without_a_look_into_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path)
    append(log, batch(3))
    assert log.read(0, 1 << 20).length == log.size_bytes
    first = log.size_bytes
    for _ in range(3):
        append(log, batch(2))
    monkeypatch.setattr(OpenFile, "read_at", None)
    found = log.read(3, 1 << 20)
    assert (found.position, found.length) == (first, log.size_bytes - first)


@pytest.mark.parametrize("upper_offset", [None, 5])
@pytest.mark.parametrize("max_bytes", [1, 200, 1 << 20])
def test_a_place_to_go_on_gives_what_a_look_into_the_file_gives(
    tmp_path: Path, max_bytes: int, upper_offset: int | None
) -> None:
    def read(was_at_the_end: bool) -> bytes:
        (directory := tmp_path / str(was_at_the_end)).mkdir()
        log = open_log(directory)
        append(log, batch(3, value=b"long" * 30))
        append(log, batch(2))
        if was_at_the_end:
            log.read(0, 1 << 20)
        log.truncate_to(3)
        if was_at_the_end:
            log.read(0, 1 << 20)
        for _ in range(3):
            append(log, batch(2, value=b"other"))
        log.read(5, 1 << 20)
        return log.read(3, max_bytes, upper_offset=upper_offset).read()

    assert read(True) == read(False)


def test_only_a_segment_of_the_log_is_in_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, batch(1))
    other = Segment(log._open_files, str(tmp_path), log.segments.active.base_offset, 0)
    assert log.segments.active in log.segments
    assert other not in log.segments
    strangers: list[object] = ["a word", None]
    assert not any(one in log.segments for one in strangers)


def test_a_reader_misses_nothing_where_a_log_is_cut_between_its_segments(tmp_path: Path) -> None:
    """A copy may end where no batch does; a cut there leaves a segment that was sealed, and was read before."""
    log = open_log(tmp_path)
    for _ in range(3):
        append(log, batch(1))
    log.end_at(20)
    append(log, batch(1))
    log.close()
    log = open_log(tmp_path, is_clean=True, recovery_point=21)
    assert all_batches(log) == [(0, 0), (1, 1), (2, 2), (20, 20)]
    assert log.truncate_to(10) == 10
    assert append(log, batch(1)) == 10
    for _ in range(2):
        assert all_batches(log) == [(0, 0), (1, 1), (2, 2), (10, 10)]


@pytest.mark.parametrize("offset", [6, 7])
def test_what_is_not_there_is_not_cut(tmp_path: Path, offset: int) -> None:
    """Of a log that ends sooner only a term goes that has no batch."""
    log = open_log(tmp_path)
    for _ in range(3):
        append(log, batch(2))
    log.flush()
    content = log.load()
    content.epochs.assign(9, 6)
    content.cut_to(offset)
    assert (content.cuts, content.end_offset, content.recovery_point, content.rewritten_below) == (0, 6, 6, 0)
    assert content.epochs.entries == [(0, 0)]
    assert all_batches(log) == [(0, 1), (2, 3), (4, 5)]


def test_what_lies_behind_an_offset_is_counted_from_its_batch_on(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=300, index_interval_bytes=1))
    sizes = [len(sent) for count in (3, 1, 2, 4, 1, 5) for sent in [batch(count)] if append(log, sent) >= 0]
    assert len(log.segments) > 2
    for offset in range(log.log_end_offset + 2):
        before = sum(last < offset for _, last in all_batches(log))
        assert log.segments.bytes_from(offset) == sum(sizes[before:])


@pytest.mark.parametrize("start", range(13))
@pytest.mark.parametrize("is_reopened", [False, True])
def test_a_cut_of_the_batch_in_which_a_log_begins_begins_it_anew(
    tmp_path: Path, start: int, *, is_reopened: bool
) -> None:
    """Whatever is cut, what is left lies whole between the beginning and the cut, and nothing before it."""
    for offset in range(start, 13):
        path = tmp_path / f"{offset}"
        path.mkdir()
        log = open_log(path, LogConfig(segment_bytes=250))
        for _ in range(4):
            append(log, batch(3))
        log.advance_log_start(start)
        if is_reopened:
            log.close()
            log = open_log(path, LogConfig(segment_bytes=250), is_clean=True, recovery_point=12, log_start_offset=start)
        whole = [last + 1 for last in (2, 5, 8, 11) if last < offset and last >= start]
        end = log.truncate_to(offset)
        assert end == log.log_end_offset
        assert start <= end <= max(offset, start)
        assert all_batches(log) == [(last - 3, last - 1) for last in whole]
        assert append(log, batch(1)) == end
        assert log.read(end, 1).read()


def test_a_segment_that_was_removed_needs_no_flush_and_one_that_is_there_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=200))
    for _ in range(4):
        append(log, batch(2))

    def flush(segment: Segment) -> None:
        raise FileNotFoundError(segment.path)

    monkeypatch.setattr(Segment, "flush", flush)
    first = log.segments[0]
    with pytest.raises(FileNotFoundError):
        log.segments.flush([first])
    log.retire_before(log.segments[1].base_offset)
    log.segments.flush([first])
