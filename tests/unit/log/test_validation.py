from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.log.logs import NOW, append, batch, open_log, run_through

from penstock.log import record_checks
from penstock.log.config import DAY_MS, LogConfig
from penstock.log.partition_log import PartitionLog
from penstock.log.record_checks import InvalidRecords
from penstock.log.rolling import must_roll
from penstock.log.segment import Segment
from penstock.log.validation import AppendOrigin, parse_follower_batches
from penstock.protocol.batch import check_crc, read_header, write_crc
from penstock.protocol.compression import Compression
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.records import Record, decode_batch, encode_batch


def refusal_of(log: PartitionLog, data: memoryview | bytearray) -> KafkaError:
    with pytest.raises(KafkaError) as refusal:
        append(log, memoryview(data))
    assert log.log_end_offset == 0
    assert log.size_bytes == 0
    return refusal.value


@pytest.mark.parametrize("position", [17, 21, 30, 60, 70])
def test_a_wrong_crc_is_corrupt(tmp_path: Path, position: int) -> None:
    data = bytearray(batch(3))
    data[position] ^= 1
    assert refusal_of(open_log(tmp_path), data).code == ErrorCode.CORRUPT_MESSAGE


def test_a_cut_off_batch_is_corrupt(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    data = batch(3)
    for size in range(1, len(data)):
        assert refusal_of(log, data[:size]).code in {
            ErrorCode.CORRUPT_MESSAGE,
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        }


def test_an_old_format_is_not_supported(tmp_path: Path) -> None:
    data = bytearray(batch(3))
    data[16] = 1
    assert refusal_of(open_log(tmp_path), data).code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


def test_nothing_or_two_batches_are_no_produce_request(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert refusal_of(log, bytearray()).code == ErrorCode.INVALID_RECORD
    two = bytearray(batch(1)) + bytearray(batch(1))
    assert refusal_of(log, two).code == ErrorCode.INVALID_RECORD


def test_too_large(tmp_path: Path) -> None:
    data = batch(3)
    assert refusal_of(open_log(tmp_path, LogConfig(max_message_bytes=len(data) - 1)), data).code == (
        ErrorCode.MESSAGE_TOO_LARGE
    )
    assert refusal_of(open_log(tmp_path, LogConfig(segment_bytes=len(data) - 1)), data).code == (
        ErrorCode.RECORD_LIST_TOO_LARGE
    )
    append(open_log(tmp_path, LogConfig(max_message_bytes=len(data), segment_bytes=len(data))), data)


def test_headers_that_contradict_themselves(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for position, value in ((26, 9), (60, 9)):  # last offset delta, record count
        data = bytearray(batch(3))
        data[position] = value
        write_crc(data, 0, len(data))
        assert refusal_of(log, data).code == ErrorCode.INVALID_RECORD
    data = bytearray(batch(3))
    data[7] = 1
    assert refusal_of(log, data).code == ErrorCode.INVALID_RECORD


def test_more_records_than_bytes_and_unknown_codecs(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    data = bytearray(batch(3))
    data[23:27] = (10**6 - 1).to_bytes(4, "big")
    data[57:61] = (10**6).to_bytes(4, "big")
    write_crc(data, 0, len(data))
    assert refusal_of(log, data).code == ErrorCode.INVALID_RECORD
    data = bytearray(batch(3))
    data[22] |= 5
    write_crc(data, 0, len(data))
    assert refusal_of(log, data).code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    append(log, memoryview(encode_batch([Record(0, NOW, None, None)] * 3)))


def test_clients_may_not_write_control_batches_nor_transactions_without_producer(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    records = [Record(0, NOW, b"\0\0\0\1", b"")]
    for data in (
        encode_batch(records, is_control=True),
        encode_batch(records, is_transactional=True),
        encode_batch(records, producer_id=1, producer_epoch=0, base_sequence=-1),
    ):
        assert refusal_of(log, data).code == ErrorCode.INVALID_RECORD


def test_each_keyless_record_of_a_compacted_topic_is_named(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(cleanup_policy=frozenset({"compact"})))
    keys = (b"a", None, b"b", None)
    data = encode_batch([Record(i, NOW, key, b"v") for i, key in enumerate(keys)], compression=Compression.GZIP)
    refusal = refusal_of(log, data)
    assert isinstance(refusal, InvalidRecords)
    assert refusal.code == ErrorCode.INVALID_RECORD
    assert [index for index, _ in refusal.record_errors] == [1, 3]
    assert append(log, batch(2)) == 0


def test_each_record_out_of_the_bounds_of_time_is_named(tmp_path: Path) -> None:
    config = LogConfig(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=500)
    log = open_log(tmp_path, config)
    times = (NOW - 1000, NOW - 1001, NOW + 500, NOW + 501, -1)
    refusal = refusal_of(log, encode_batch([Record(i, time, b"k", b"v") for i, time in enumerate(times)]))
    assert isinstance(refusal, InvalidRecords)
    assert refusal.code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in refusal.record_errors] == [1, 3]


def test_the_future_is_refused_by_default_and_the_past_is_not(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert refusal_of(log, batch(1, timestamp_ms=NOW + 3_600_001)).code == ErrorCode.INVALID_TIMESTAMP
    append(log, batch(1, timestamp_ms=NOW + 3_600_000))
    append(log, batch(1, timestamp_ms=NOW - 5000 * DAY_MS))


def test_log_append_time_stamps_the_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(message_timestamp_type="LogAppendTime"))
    result = log.append_as_leader(batch(2, timestamp_ms=5), leader_epoch=0, now_ms=NOW)
    assert result.log_append_time_ms == NOW
    data = log.read(0, 1000).read()
    header = read_header(data, 0)
    assert header.is_log_append_time
    assert header.max_timestamp == NOW
    assert [record.timestamp_ms for record in decode_batch(data)] == [NOW, NOW]
    found = run_through(log.search_timestamp(NOW))
    assert found is not None
    assert found.offset == 0


@pytest.mark.parametrize("name", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_a_topic_packs_batches_in_its_own_codec(tmp_path: Path, name: str) -> None:
    log = open_log(tmp_path, LogConfig(compression_type=name))
    for codec in Compression:
        append(log, batch(4, value=b"v" * 50, compression=codec, producer=(5, 0, int(codec) * 4)))
    for codec in Compression:
        data = log.read(int(codec) * 4, 1).read()
        header = read_header(data, 0)
        assert header.compression.name == ("NONE" if name == "uncompressed" else name.upper())
        assert (header.base_offset, header.producer_id, header.base_sequence) == (int(codec) * 4, 5, int(codec) * 4)
        assert [record.value for record in decode_batch(data)] == [b"v" * 50] * 4


def test_what_must_be_unpacked_is_bounded(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(compression_type="uncompressed"))
    data = encode_batch([Record(0, NOW, b"k", bytes(80 << 20))], compression=Compression.ZSTD)
    assert len(data) < 1 << 20
    assert refusal_of(log, data).code == ErrorCode.MESSAGE_TOO_LARGE


def test_an_empty_log_may_begin_inside_a_batch(tmp_path: Path) -> None:
    """As that of a leader which was told to delete records, but not all of a batch."""
    (tmp_path / "leader").mkdir()
    leader, follower = open_log(tmp_path / "leader"), open_log(tmp_path)
    for _ in range(2):
        append(leader, batch(4))
    follower.truncate_fully_and_start_at(2)
    data = memoryview(bytearray(leader.read(2, 1 << 20).read()))
    assert follower.append_as_follower(data[:-1]) == 3
    assert (follower.log_start_offset, follower.log_end_offset) == (2, 4)
    with pytest.raises(KafkaError) as refusal:
        follower.append_as_follower(data)
    assert refusal.value.code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert follower.append_as_follower(memoryview(bytearray(leader.read(4, 1 << 20).read()))) == 7
    assert follower.read(2, 1 << 20).read() == leader.read(2, 1 << 20).read()
    follower.truncate_fully_and_start_at(2)
    assert follower.append_as_follower(memoryview(b"")) == 1
    assert follower.append_as_follower(data[:70]) == -1, "it is asked for again from where the batch begins"


def test_a_follower_takes_batches_as_they_are_and_only_whole(tmp_path: Path) -> None:
    (tmp_path / "leader").mkdir()
    leader = open_log(tmp_path / "leader")
    for epoch in (3, 4, 4):
        append(leader, batch(2), epoch=epoch)
    data = bytearray(leader.read(0, 1 << 20).read())
    follower = open_log(tmp_path)
    assert follower.append_as_follower(memoryview(data)[:-1]) == 3
    assert follower.leader_epochs.entries == [(3, 0), (4, 2)]
    with pytest.raises(KafkaError) as refusal:
        follower.append_as_follower(memoryview(data))
    assert refusal.value.code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert follower.append_as_follower(memoryview(bytearray(leader.read(4, 1 << 20).read()))) == 5
    assert follower.read(0, 1 << 20).read() == bytes(data)
    data[-1] ^= 1
    (tmp_path / "other").mkdir()
    with pytest.raises(KafkaError) as refusal:
        open_log(tmp_path / "other").append_as_follower(memoryview(data))
    assert refusal.value.code == ErrorCode.CORRUPT_MESSAGE


def test_a_follower_writes_what_comes_together_at_once_and_ends_up_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Segments, indexes, epochs and producers are those of a log that got its batches one by one."""
    config = LogConfig(segment_bytes=2000, index_interval_bytes=200)
    for name in ("leader", "singly", "together"):
        (tmp_path / name).mkdir()
    leader, singly, together = (open_log(tmp_path / name, config) for name in ("leader", "singly", "together"))
    for number in range(60):
        append(leader, batch(2, producer=(7, 0, 2 * number)), epoch=3 + number // 25)
    offset = 0
    while offset < leader.log_end_offset:
        data = bytearray(leader.read(offset, 1 << 20).read())
        for position, header in parse_follower_batches(memoryview(data), offset):
            singly.append_as_follower(memoryview(data)[position : position + header.size_in_bytes])
        offset = singly.log_end_offset
    written: list[int] = []
    write = Segment.write

    def noted(segment: Segment, data: memoryview) -> None:
        written.append(len(data))
        write(segment, data)

    monkeypatch.setattr(Segment, "write", noted)
    offset = 0
    while offset < leader.log_end_offset:
        together.append_as_follower(memoryview(bytearray(leader.read(offset, 1 << 20).read())))
        offset = together.log_end_offset
    assert len(written) < 30
    assert together.leader_epochs.entries == singly.leader_epochs.entries == [(3, 0), (4, 50), (5, 100)]
    assert together.segments.size_bytes == singly.segments.size_bytes
    for log in (singly, together):
        log.close()
    files = sorted(path.name for path in (tmp_path / "singly").rglob("*") if path.is_file())
    assert len(files) > 12
    for name in files:
        (mine,), (other,) = ((tmp_path / log).rglob(name) for log in ("together", "singly"))
        assert mine.read_bytes() == other.read_bytes(), name


def test_what_a_coordinator_writes_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_checks, "_check_contents", None)
    log = open_log(tmp_path, LogConfig(cleanup_policy=frozenset({"compact"}), message_timestamp_before_max_ms=1))
    log.append_as_leader(batch(2), leader_epoch=0, now_ms=NOW, origin=AppendOrigin.COORDINATOR)
    assert log.log_end_offset == 2


def test_what_a_coordinator_writes_gets_the_codec_of_the_topic(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(compression_type="gzip"))
    log.append_as_leader(batch(2), leader_epoch=0, now_ms=NOW, origin=AppendOrigin.COORDINATOR)
    assert read_header(log.read(0, 1000).read(), 0).compression == Compression.GZIP


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_plain_bytes_with_the_bit_of_a_codec_are_refused(tmp_path: Path, codec: Compression) -> None:
    log = open_log(tmp_path)
    data = bytearray(batch(3))
    data[22] |= codec
    write_crc(data, 0, len(data))
    assert refusal_of(log, data).code == ErrorCode.INVALID_RECORD
    append(log, batch(3, compression=codec))


@pytest.mark.parametrize("latest_ms", [NOW, 0, -1])
@pytest.mark.parametrize(("count", "config"), [(1, LogConfig()), (3, LogConfig(validates_records=True))])
def test_a_latest_timestamp_that_no_record_has_is_mended(
    tmp_path: Path, count: int, config: LogConfig, latest_ms: int
) -> None:
    log = open_log(tmp_path, config)
    data = bytearray(batch(count, timestamp_ms=latest_ms))
    data[35:43] = (NOW + 3_000_000).to_bytes(8, "big")
    write_crc(data, 0, len(data))
    append(log, memoryview(data))
    kept = log.read(0, 1000).read()
    assert read_header(kept, 0).max_timestamp == latest_ms
    assert check_crc(kept, 0, read_header(kept, 0))
    found = run_through(log.search_max_timestamp())
    assert latest_ms == (-1 if found is None else found.timestamp_ms)


def test_records_that_make_no_sense_are_refused_where_they_are_all_looked_at(tmp_path: Path) -> None:
    data = bytearray(batch(3, compression=Compression.SNAPPY))
    data[61:] = bytes(len(data) - 61)
    write_crc(data, 0, len(data))
    assert refusal_of(open_log(tmp_path, LogConfig(validates_records=True)), data).code == ErrorCode.INVALID_RECORD


@given(
    sizes=st.lists(st.integers(1, 400), min_size=1, max_size=30),
    segment_bytes=st.integers(500, 3000),
    segment_ms=st.integers(1, 50),
    interval=st.integers(0, 600),
    index_entries=st.integers(2, 12),
    steps_ms=st.integers(0, 20),
)
def test_what_surely_fits_needs_no_new_segment(
    sizes: list[int], segment_bytes: int, segment_ms: int, interval: int, index_entries: int, steps_ms: int
) -> None:
    config = LogConfig(
        segment_bytes=segment_bytes,
        segment_ms=segment_ms,
        segment_jitter_ms=segment_ms // 2,
        index_interval_bytes=interval,
        segment_index_bytes=index_entries * 8,
    )
    with TemporaryDirectory() as directory:
        log = open_log(Path(directory), config)
        for number, size in enumerate(sizes):
            content, sent = log.load(), batch(1, value=b"v" * size, timestamp_ms=NOW + number * steps_ms)
            segment, rolls = content.segments.active, len(content.segments)
            must = must_roll(segment, config, len(sent), log.log_end_offset, NOW + number * steps_ms, NOW)
            append(log, sent)
            assert len(content.segments) - rolls == must


def test_the_rolls_of_a_topic_are_spread_by_rolling_some_earlier(tmp_path: Path) -> None:
    config = LogConfig(segment_ms=10_000, segment_jitter_ms=5_000)
    log = open_log(tmp_path, config)
    append(log, batch(1, timestamp_ms=NOW))
    segment = log.load().segments.active
    aged = [must_roll(segment, config, 100, 1, NOW + age_ms, NOW) for age_ms in range(5_000, 10_001)]
    assert aged == sorted(aged), "once it must, it must"
    assert not aged[0]
    assert aged[-1], "never later than without the jitter"
    assert 0 < aged.index(True) < 5_000


@pytest.mark.parametrize(("few", "little", "is_work"), [(3, 0, False), (2, 0, True), (3, -1, True), (100, 100, False)])
def test_few_and_small_records_are_looked_at_at_once(
    monkeypatch: pytest.MonkeyPatch, few: int, little: int, is_work: bool
) -> None:
    sent = batch(3)
    monkeypatch.setattr(record_checks, "FEW_RECORDS", few)
    monkeypatch.setattr(record_checks, "LITTLE_BYTES", len(sent) + little)
    header, config = read_header(sent), LogConfig(validates_records=True)
    if not is_work:
        assert record_checks.look_at_few_records(sent, header, config, NOW, "t")[0] == sent
        return
    with pytest.raises(record_checks.UnlookedError) as unlooked:
        record_checks.look_at_few_records(sent, header, config, NOW, "t")
    assert unlooked.value.look() == sent


@pytest.mark.parametrize("sent", [2, 3, 4, 9])
@pytest.mark.parametrize(
    "settings", [{"cleanup_policy": frozenset({"compact"})}, {"message_timestamp_before_max_ms": 5}]
)
def test_of_very_many_refused_records_some_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: int, settings: dict[str, Any]
) -> None:
    monkeypatch.setattr(record_checks, "MAX_RECORD_ERRORS", 3)
    log = open_log(tmp_path, LogConfig(**settings))
    with pytest.raises(InvalidRecords) as refused:
        append(log, batch(sent, timestamp_ms=NOW - 6, key=None))
    assert [number for number, _ in refused.value.record_errors] == list(range(min(sent, 3)))
    assert str(refused.value.message).startswith(f"{sent if sent < 3 else 'at least 3'} records")


@pytest.mark.parametrize(
    ("codec", "level"), [("gzip", 3), ("lz4", 7), ("zstd", 11), ("snappy", None), ("uncompressed", None)]
)
def test_each_codec_has_its_own_level(monkeypatch: pytest.MonkeyPatch, codec: str, level: int | None) -> None:
    asked = list[object]()

    def recompress(batch: memoryview, *about: object, max_bytes: int) -> bytes:
        asked.append(about[1:])
        return bytes(batch)

    monkeypatch.setattr(record_checks, "recompress_batch", recompress)
    levels = {"compression_gzip_level": 3, "compression_lz4_level": 7, "compression_zstd_level": 11}
    for chosen in (levels, dict.fromkeys(levels, -1)):
        config = LogConfig(compression_type=codec).replace(**chosen)
        for sent in Compression:
            record_checks.look_at_records(data := batch(2, compression=sent), read_header(data), config, NOW, "t")
    target = record_checks.CODECS[codec]
    assert asked == [(target, level)] * 4 + [(target, None)] * 4


def test_what_grows_as_its_topic_packs_it_may_be_too_large(tmp_path: Path) -> None:
    config = LogConfig(compression_type="uncompressed", max_message_bytes=1_000)
    log, fits = open_log(tmp_path, config), 1_000 - len(batch(1, value=b""))
    refusal = refusal_of(log, batch(1, value=bytes(fits + 1), compression=Compression.GZIP))
    assert refusal.code == ErrorCode.MESSAGE_TOO_LARGE
    append(log, batch(1, value=bytes(fits - 2), compression=Compression.GZIP))  # with a longer length in front


@pytest.mark.parametrize(
    ("max_message_bytes", "unpacked"), [(1, 64 << 20), (1 << 20, 64 << 20), ((1 << 20) + 1, (64 << 20) + 64)]
)
def test_records_may_take_much_when_they_are_unpacked(max_message_bytes: int, unpacked: int) -> None:
    assert record_checks.max_unpacked_bytes(LogConfig(max_message_bytes=max_message_bytes)) == unpacked


@pytest.mark.parametrize("count", [3, 4])
def test_of_very_many_records_none_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(record_checks, "MAX_UNPACKED_RECORDS", 3)
    log = open_log(tmp_path, LogConfig(validates_records=True))
    if count == 3:
        append(log, batch(count))
    else:
        assert refusal_of(log, batch(count)).code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(("count", "delta"), [(0, -1), (-1, -2), (4, 3), (3, 3), (2, 2)])
def test_a_header_counts_records_that_can_be_there(tmp_path: Path, count: int, delta: int) -> None:
    """Three of the smallest lie in the batch."""
    data = bytearray(encode_batch([Record(0, NOW, None, None)] * 3))
    data[23:27], data[57:61] = delta.to_bytes(4, "big", signed=True), count.to_bytes(4, "big", signed=True)
    write_crc(data, 0, len(data))
    assert refusal_of(open_log(tmp_path), data).code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("start", "kept"), [(3, None), (4, (4, 8)), (5, (5, 8)), (7, (7, 8)), (8, ErrorCode.UNKNOWN_SERVER_ERROR)]
)
def test_an_empty_log_begins_within_the_first_batch_or_before_it(
    tmp_path: Path, start: int, kept: tuple[int, int] | ErrorCode | None
) -> None:
    data = memoryview(bytearray(encode_batch([Record(0, NOW, b"k", b"v")] * 4, base_offset=4)))
    log = open_log(tmp_path)
    log.truncate_fully_and_start_at(start)
    if isinstance(kept, ErrorCode):
        with pytest.raises(KafkaError) as refusal:
            log.append_as_follower(data)
        assert (refusal.value.code, log.log_end_offset) == (kept, start)
        return
    assert log.append_as_follower(data) == 7
    assert (log.log_start_offset, log.log_end_offset) == (kept or (start, 8))
    assert log.read(log.log_end_offset - 1, 1 << 20).read() == bytes(data)


def test_a_batch_that_ends_before_it_begins_comes_from_no_leader(tmp_path: Path) -> None:
    data = bytearray(encode_batch([Record(0, NOW, b"k", b"v")]))
    data[23:27] = (-1).to_bytes(4, "big", signed=True)
    write_crc(data, 0, len(data))
    with pytest.raises(KafkaError, match="ends before it begins"):
        open_log(tmp_path).append_as_follower(memoryview(data))
