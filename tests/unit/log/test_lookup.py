from pathlib import Path

from tests.unit.log.logs import NOW, append, batch, open_log

from penstock.log.config import LogConfig
from penstock.log.lookup import TimestampOffset
from penstock.protocol.compression import Compression
from penstock.protocol.records import Record, encode_batch

CONFIG = LogConfig(segment_bytes=300, index_interval_bytes=1)
TIMES = (5, 9, 2, 7, 9, 1, 12, 3)


def test_the_exact_record_is_found_by_time(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    records = [Record(i, NOW + time, b"k", b"v") for i, time in enumerate(TIMES)]
    append(log, memoryview(encode_batch(records, compression=Compression.LZ4)), epoch=4)
    assert log.offset_for_timestamp(NOW + 8) == TimestampOffset(NOW + 9, 1, 4)
    assert log.offset_for_timestamp(NOW + 10) == TimestampOffset(NOW + 12, 6, 4)
    assert log.offset_for_timestamp(NOW + 13) is None
    log.advance_log_start(2)
    assert log.offset_for_timestamp(NOW + 8) == TimestampOffset(NOW + 9, 4, 4)


def test_the_first_record_of_the_latest_time_is_the_maximum(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    assert log.max_timestamp() is None
    for time in (*TIMES, 12, 3):
        append(log, batch(1, timestamp_ms=NOW + time))
    assert len(log.segments) > 2
    assert log.max_timestamp() == TimestampOffset(NOW + 12, 6, 0)
    log.close()
    again = open_log(tmp_path, CONFIG, is_clean=True, recovery_point=10)
    assert again.max_timestamp() == TimestampOffset(NOW + 12, 6, 0)
    assert again.offset_for_timestamp(NOW + 6) == TimestampOffset(NOW + 9, 1, 0)


def test_records_without_a_timestamp_are_not_found(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, batch(1, timestamp_ms=-1))
    assert log.max_timestamp() is None
    assert log.offset_for_timestamp(0) is None
