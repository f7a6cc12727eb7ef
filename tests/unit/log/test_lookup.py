from pathlib import Path

import pytest
from tests.unit.log.logs import NOW, append, batch, open_log, run_through

from penstock.log import lookup
from penstock.log.config import LogConfig
from penstock.log.log_holder import LentError
from penstock.log.lookup import Search, TimestampOffset
from penstock.log.segment import Segment
from penstock.protocol.batch import MAX_TIMESTAMP_AT, write_crc
from penstock.protocol.compression import Compression
from penstock.protocol.records import Record, encode_batch

CONFIG = LogConfig(segment_bytes=300, index_interval_bytes=1)
TIMES = (5, 9, 2, 7, 9, 1, 12, 3)


def test_the_exact_record_is_found_by_time(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    records = [Record(i, NOW + time, b"k", b"v") for i, time in enumerate(TIMES)]
    append(log, memoryview(encode_batch(records, compression=Compression.LZ4)), epoch=4)
    assert run_through(log.search_timestamp(NOW + 8)) == TimestampOffset(NOW + 9, 1, 4)
    assert run_through(log.search_timestamp(NOW + 10)) == TimestampOffset(NOW + 12, 6, 4)
    assert run_through(log.search_timestamp(NOW + 13)) is None
    log.advance_log_start(2)
    assert run_through(log.search_timestamp(NOW + 8)) == TimestampOffset(NOW + 9, 4, 4)


def test_the_first_record_of_the_latest_time_is_the_maximum(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    assert run_through(log.search_max_timestamp()) is None
    for time in (*TIMES, 12, 3):
        append(log, batch(1, timestamp_ms=NOW + time))
    assert len(log.segments) > 2
    assert run_through(log.search_max_timestamp()) == TimestampOffset(NOW + 12, 6, 0)
    log.close()
    again = open_log(tmp_path, CONFIG, is_clean=True, recovery_point=10)
    assert run_through(again.search_max_timestamp()) == TimestampOffset(NOW + 12, 6, 0)
    assert run_through(again.search_timestamp(NOW + 6)) == TimestampOffset(NOW + 9, 1, 0)


def test_records_without_a_timestamp_are_not_found(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, batch(1, timestamp_ms=-1))
    assert run_through(log.search_max_timestamp()) is None
    assert run_through(log.search_timestamp(0)) is None


def steps(search: Search) -> tuple[list[str], TimestampOffset | None]:
    """What a search does on its way: a pause where others have their turn, work where a thread is to help."""
    taken = []
    try:
        work = next(search)
        while True:
            taken.append("pause" if work is None else "work")
            work = search.send(None if work is None else work())
    except StopIteration as stop:
        return taken, stop.value


def test_a_search_pauses_after_so_many_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "BATCHES_A_STEP", 3)
    log = open_log(tmp_path, LogConfig(index_interval_bytes=1 << 20))
    for _ in range(7):
        append(log, batch(2))
    assert steps(log.search_timestamp(NOW + 1)) == ([], None), "the segment is too old"
    times = [0] * 9 + [5]
    append(log, memoryview(encode_batch([Record(i, NOW + time, b"k", b"v") for i, time in enumerate(times)])))
    assert steps(log.search_timestamp(NOW + 1)) == (["pause"] * 2, TimestampOffset(NOW + 5, 23, 0)), (
        "behind 3 and 6 batches"
    )


def test_a_search_asks_each_segment_once_and_pauses_on_its_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it looks at is counted, as it must grow with the segments and not with their square."""
    asked = []

    def equals(one: Segment, other: object) -> bool:
        asked.append(one)
        return one is other

    monkeypatch.setattr(lookup, "SEGMENTS_A_STEP", 10)
    monkeypatch.setattr(Segment, "__eq__", equals)
    log = open_log(tmp_path, LogConfig(segment_bytes=len(batch(1))))
    for _ in range(60):
        append(log, batch(1))
    assert steps(log.search_timestamp(NOW + 1)) == (["pause"] * 6, None)
    assert steps(log.search_max_timestamp()) == (["pause"] * 6, TimestampOffset(NOW, 0, 0))
    assert not asked, "no search among all segments for each of them"
    assert steps(log.search_timestamp(NOW))[1] == TimestampOffset(NOW, 0, 0)


@pytest.mark.parametrize(
    ("most", "compression", "expected"),
    [
        (0, Compression.NONE, ["work"]),
        (-1, Compression.NONE, []),
        (-1, Compression.LZ4, ["work"]),
    ],
)
def test_what_takes_long_to_unpack_is_work_for_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, compression: Compression, expected: list[str]
) -> None:
    log = open_log(tmp_path)
    sent = batch(2, compression=compression)
    length = int.from_bytes(sent[8:12], "big")
    monkeypatch.setattr(lookup, "LOOKED_INTO_AT_ONCE_BYTES", length + (most == -1) - 1)
    append(log, sent)
    assert steps(log.search_timestamp(NOW)) == (expected, TimestampOffset(NOW, 0, 0))


@pytest.mark.parametrize(("count", "offset"), [(3, 1), (4, 0)])
def test_a_batch_of_too_many_records_is_found_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, offset: int
) -> None:
    monkeypatch.setattr(lookup, "MAX_UNPACKED_RECORDS", 3)
    log = open_log(tmp_path)
    append(log, memoryview(encode_batch([Record(i, NOW + i * 5, b"k", b"v") for i in range(count)])))
    found = run_through(log.search_timestamp(NOW + 1))
    assert found is not None
    assert found.offset == offset


def test_a_batch_that_claims_a_time_that_no_record_has_is_found_as_a_whole(tmp_path: Path) -> None:
    """Kafka goes on; but each may take half a second to look into, and a client can make very many."""
    log = open_log(tmp_path)
    for count in (2, 3, 3, 3):
        claims = bytearray(batch(count, compression=Compression.LZ4))
        claims[MAX_TIMESTAMP_AT : MAX_TIMESTAMP_AT + 8] = (NOW + 50).to_bytes(8, "big")
        write_crc(claims, 0, len(claims))
        append(log, memoryview(claims))
    found = ["work"], TimestampOffset(NOW + 50, 0, 0)
    assert steps(log.search_timestamp(NOW + 20)) == steps(log.search_max_timestamp()) == found
    log.advance_log_start(1)
    found = ["work"] * 2, TimestampOffset(NOW + 50, 2, 0)
    assert steps(log.search_timestamp(NOW + 20)) == found, "what the first one claims may lie before"
    assert steps(log.search_timestamp(NOW)) == (["work"], TimestampOffset(NOW, 1, 0)), "it has records of that time"


def test_segments_that_go_during_a_search_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "BATCHES_A_STEP", 1)
    log = open_log(tmp_path, LogConfig(segment_bytes=2 * len(batch(1)), index_interval_bytes=1 << 20))
    for time in (5, 1, 5, 5, 5, 5):
        append(log, batch(1, timestamp_ms=NOW + time))
    log.advance_log_start(1)
    search = log.search_timestamp(NOW + 5)
    assert next(search) is None
    log.retire_before(4)
    assert run_through(search) == TimestampOffset(NOW + 5, 4, 0)


def test_what_lies_below_the_log_start_is_not_found(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=2 * len(batch(1))))
    for _ in range(5):
        append(log, batch(1))
    log.advance_log_start(3)
    assert run_through(log.search_timestamp(NOW)) == TimestampOffset(NOW, 3, 0)


def test_a_search_goes_no_further_while_a_thread_has_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "SEGMENTS_A_STEP", 2)
    log = open_log(tmp_path, CONFIG)
    for _ in range(9):
        append(log, batch(1))
    for search in (log.search_timestamp(NOW + 1), log.search_max_timestamp()):
        assert next(search) is None
        log.lend()
        with pytest.raises(LentError):
            next(search)
        log.take_back(is_whole=True)
