"""What the headers of a record ask for, and what is refused: by name of the record, and never delivered early."""

from pathlib import Path

import pytest
from tests.unit.log.logs import NOW, open_log
from tests.unit.log.transactions import ended, verified

from penstock.log import delayed_records, record_checks
from penstock.log.config import LOG_APPEND_TIME, LogConfig
from penstock.log.record_checks import InvalidRecords, UnlookedError
from penstock.log.validation import CLIENT, COORDINATOR, LOOKED_AT, PATIENT, AppendOrigin, AppendResult
from penstock.protocol.batch import DELAYED, read_header
from penstock.protocol.compression import Compression
from penstock.protocol.control.records import ControlType
from penstock.protocol.delayed import CANCELS, HASTENS, Held, Row, hash_of, hold, size_of
from penstock.protocol.due import Due, cut, moved_batch, moved_in, spans
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.records import Record, decode_batch, encode_batch, unpack_records

DAY_MS = 24 * 3_600_000
CONFIG = LogConfig(penstock_delay_enable=True, penstock_delay_max_ms=DAY_MS)
Headers = list[tuple[str, bytes | None]]

AT, DELAY, ID = "penstock-deliver-at", "penstock-delay", "penstock-delay-id"
CANCEL, HASTEN = "penstock-delay-cancel", "penstock-delay-now"


def record(*headers: tuple[str, bytes | None], value: bytes | None = b"v") -> Record:
    return Record(timestamp_ms=NOW, key=b"k", value=value, headers=list(headers))


def append(path: Path, *records: Record, config: LogConfig = CONFIG, **options: object) -> tuple[AppendResult, bytes]:
    log = open_log(path, config)
    batch = memoryview(encode_batch(records, **options))  # type: ignore[arg-type]
    result = log.append_as_leader(batch, leader_epoch=0, now_ms=NOW, origin=CLIENT)
    return result, log.read(result.base_offset, 1 << 20).read()


def rows(path: Path, *records: Record, config: LogConfig = CONFIG, **options: object) -> list[Row]:
    _, data = append(path, *records, config=config, **options)
    header = read_header(data)
    assert header.is_held
    assert (header.base_offset, header.last_offset) == (0, len(records) - 1)
    return list(Held(data, header).rows())


def test_records_that_ask_for_nothing_lie_as_they_came(tmp_path: Path) -> None:
    past, whatever = (AT, b"%d" % (NOW - 1)), ("any", b"thing")
    _, data = append(tmp_path, record(), record(past), record(whatever), record((DELAY, b"0")))
    assert not read_header(data).attributes & DELAYED
    assert [one.headers for one in decode_batch(data)] == [[], [past], [whatever], [(DELAY, b"0")]]


def test_one_that_has_to_wait_holds_its_batch(tmp_path: Path) -> None:
    asked = record((AT, b"%d" % (NOW + 5))), record(), record((DELAY, b"7"), (ID, b"x"))
    assert rows(tmp_path, *asked) == [Row(0, NOW + 5, 0), Row(1, NOW, 0), Row(2, NOW + 7, hash_of(b"x"))]


@pytest.mark.parametrize("codec", Compression)
def test_what_is_held_is_what_was_sent(codec: Compression, tmp_path: Path) -> None:
    asked = [record((DELAY, b"%d" % (1 + number)), value=b"%d" % number) for number in range(5)]
    _, data = append(tmp_path, *asked, compression=codec, producer_id=4, producer_epoch=1, base_sequence=9)
    header = read_header(data)
    held = Held(data, header)
    assert held.compression == codec
    assert [one.value for one in held.records()] == [one.value for one in asked]
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (4, 1, 9, 13)


def test_an_id_holds_a_record_that_is_due(tmp_path: Path) -> None:
    """It takes the place of what waits under it, in the log's order."""
    asked = (
        record((ID, b"x")),
        record((ID, b"x"), (CANCEL, b""), value=None),
        record((ID, b"y"), (HASTEN, None), value=None),
    )
    assert [row.due_ms for row in rows(tmp_path, *asked)] == [NOW, CANCELS, HASTENS]


def test_a_topic_may_delay_all_it_gets(tmp_path: Path) -> None:
    config = LogConfig(penstock_delay_enable=True, penstock_delay_ms=60)
    asked = record((AT, b"nonsense"), (AT, b"twice")), record()
    assert [row.due_ms for row in rows(tmp_path, *asked, config=config)] == [NOW + 60, NOW + 60]


REFUSED: dict[str, tuple[Headers, bytes | None]] = {
    "text": ([(AT, b"tomorrow")], b"v"),
    "a sign": ([(DELAY, b"-1")], b"v"),
    "digits of others": ([(DELAY, "٣".encode())], b"v"),
    "nothing": ([(DELAY, b"")], b"v"),
    "null": ([(DELAY, None)], b"v"),
    "too long": ([(AT, b"1" * 16)], b"v"),
    "very long": ([(AT, b"1" * (1 << 20))], b"v"),
    "too far": ([(DELAY, b"%d" % (DAY_MS + 1))], b"v"),
    "too far ahead": ([(AT, b"%d" % (NOW + DAY_MS + 1))], b"v"),
    "twice": ([(DELAY, b"1"), (DELAY, b"1")], b"v"),
    "two times": ([(DELAY, b"1"), (AT, b"1")], b"v"),
    "an empty id": ([(ID, b"")], b"v"),
    "no id": ([(ID, None)], b"v"),
    "a long id": ([(ID, b"x" * 1_025)], b"v"),
    "cancels no id": ([(CANCEL, b"")], None),
    "cancels with a value": ([(CANCEL, b""), (ID, b"x")], b"v"),
    "cancels later": ([(CANCEL, b""), (ID, b"x"), (DELAY, b"1")], None),
    "cancels and hastens": ([(CANCEL, b""), (ID, b"x"), (HASTEN, b"")], None),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_makes_no_sense_is_refused_by_record(case: str, tmp_path: Path) -> None:
    headers, value = REFUSED[case]
    log = open_log(tmp_path, CONFIG.replace(max_message_bytes=1 << 22))
    batch = memoryview(encode_batch([record(), record(*headers, value=value), record((DELAY, b"5"))]))
    with pytest.raises(InvalidRecords) as refused:
        log.append_as_leader(batch, leader_epoch=0, now_ms=NOW, origin=CLIENT)
    assert refused.value.code == ErrorCode.INVALID_RECORD
    assert [number for number, _ in refused.value.record_errors] == [1]
    assert log.log_end_offset == 0
    assert len(str(refused.value.message)) < 1_000


ACCEPTED: dict[str, tuple[Headers, int]] = {
    "as many digits as may be": ([(DELAY, b"0" * 14 + b"5")], NOW + 5),
    "as far as may be": ([(DELAY, b"%d" % DAY_MS)], NOW + DAY_MS),
    "as far ahead as may be": ([(AT, b"%d" % (NOW + DAY_MS))], NOW + DAY_MS),
    "as long an id as may be": ([(ID, b"x" * 1_024)], NOW),
    "a time that has come": ([(AT, b"1"), (ID, b"x")], NOW),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_what_makes_just_sense_waits(case: str, tmp_path: Path) -> None:
    headers, due_ms = ACCEPTED[case]
    assert [row.due_ms for row in rows(tmp_path, record(*headers))] == [due_ms]


@pytest.mark.parametrize("count", [4, 5])
def test_of_very_many_records_none_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(delayed_records, "MOST_RECORDS", 4)
    asked = [record((DELAY, b"5"))] * count
    if count == 4:
        assert len(rows(tmp_path, *asked)) == 4
        return
    with pytest.raises(KafkaError) as refused:
        append(tmp_path, *asked)
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE


def test_so_many_refused_records_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_checks, "MAX_RECORD_ERRORS", 3)
    with pytest.raises(InvalidRecords) as refused:
        append(tmp_path, record(), *[record((DELAY, b"x"))] * 5)
    assert [number for number, _ in refused.value.record_errors] == [1, 2, 3]


def test_what_a_transaction_holds_belongs_to_it(tmp_path: Path) -> None:
    producer = {"producer_id": 1, "producer_epoch": 2, "base_sequence": 0}
    batch = memoryview(encode_batch([record(), record((DELAY, b"5"))], is_transactional=True, **producer))  # type: ignore[arg-type]
    log = open_log(tmp_path, CONFIG)
    verified(log, batch)
    log.append_as_leader(batch, leader_epoch=0, now_ms=NOW, origin=CLIENT)
    header = read_header(log.read(0, 1 << 20).read())
    assert header.is_held
    assert header.is_transactional
    assert header[9:12] == (1, 2, 0)
    assert log.producers.is_open(1, 0)
    marker = ended(1, ControlType.COMMIT, epoch=2)
    log.append_as_leader(marker, leader_epoch=0, now_ms=NOW, origin=COORDINATOR)
    assert not log.producers.is_open(1, 0)


def due(waited_at: int, one: Record) -> Due:
    """As it is cut out of a batch in which it is the second."""
    batch = encode_batch([record(), one])
    data = unpack_records(batch, 0, read_header(batch))
    return cut(data, spans(data, 2)[1], waited_at)


@pytest.mark.parametrize("config", [CONFIG, LogConfig()], ids=["may wait", "nothing waits"])
@pytest.mark.parametrize("origin", [CLIENT, PATIENT])
def test_no_client_says_that_records_have_waited(config: LogConfig, origin: AppendOrigin, tmp_path: Path) -> None:
    """Not in a topic without the key, either: a leader would believe it once that is on."""
    moved = memoryview(moved_batch([due(0, record())], Compression.NONE, now_ms=NOW))
    with pytest.raises(KafkaError, match="only a leader"):
        open_log(tmp_path, config).append_as_leader(moved, leader_epoch=0, now_ms=NOW, origin=origin)


def test_no_client_writes_what_is_held(tmp_path: Path) -> None:
    held = bytes(encode_batch([record()]))
    wrapped = hold(held, read_header(held), [Row(-1, NOW + 5, 0)], now_ms=NOW, unpacked_bytes=0)
    with pytest.raises(KafkaError, match="control batches"):
        open_log(tmp_path, CONFIG).append_as_leader(memoryview(wrapped), leader_epoch=0, now_ms=NOW, origin=CLIENT)


def test_a_thread_looks_at_many_and_the_result_is_held(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    batch = memoryview(encode_batch([record((DELAY, b"5")) for _ in range(1_000)]))
    with pytest.raises(UnlookedError) as unlooked:
        log.append_as_leader(batch, leader_epoch=0, now_ms=NOW, origin=PATIENT)
    result = log.append_as_leader(unlooked.value.look(), leader_epoch=0, now_ms=NOW, origin=LOOKED_AT)
    assert (result.base_offset, result.last_offset) == (0, 999)
    assert log.append_as_leader(batch, leader_epoch=0, now_ms=NOW, origin=CLIENT).base_offset == 1_000


@pytest.mark.parametrize("at", [17, 22, -1])
def test_what_a_thread_looked_at_is_whole_and_a_clients(tmp_path: Path, at: int) -> None:
    """A batch of which nothing waits is checked as any other, and so is one that is no client's."""
    batch = bytearray(encode_batch([record() for _ in range(3)]))
    log = open_log(tmp_path, CONFIG)
    log.append_as_leader(memoryview(bytearray(batch)), leader_epoch=0, now_ms=NOW, origin=LOOKED_AT)
    batch[at] ^= 1
    with pytest.raises(KafkaError):
        log.append_as_leader(memoryview(batch), leader_epoch=0, now_ms=NOW, origin=LOOKED_AT)
    assert log.log_end_offset == 3


def test_what_a_thread_looked_at_has_the_time_of_its_append(tmp_path: Path) -> None:
    """Else retention would believe whatever time its producer thought of."""
    log = open_log(tmp_path, CONFIG.replace(message_timestamp_type=LOG_APPEND_TIME))
    record_of_later = Record(timestamp_ms=NOW + 1_000 * DAY_MS, value=b"v", headers=[(DELAY, b"5")])
    batch = memoryview(encode_batch([record_of_later] * 1_000))
    with pytest.raises(UnlookedError) as unlooked:
        log.append_as_leader(batch, leader_epoch=0, now_ms=NOW, origin=PATIENT)
    log.append_as_leader(unlooked.value.look(), leader_epoch=0, now_ms=NOW, origin=LOOKED_AT)
    assert read_header(log.read(0, 1 << 20).read()).max_timestamp == NOW


def test_of_large_records_few_are_unpacked_at_a_time(tmp_path: Path) -> None:
    values = [b"", *(b"%d" % number * 300_000 for number in range(9)), b""]
    asked = [record((DELAY, b"5"), ("other", value), value=value) for value in values]
    _, data = append(tmp_path, *asked, compression=Compression.GZIP)
    held = Held(data, read_header(data))
    assert [one.value for one in held.records()] == values
    parts = {held.numbers_of_part(number) for number in range(len(values))}
    assert max(map(len, parts)) == 2
    assert sum(map(len, parts)) == len(values)


def test_one_that_is_too_large_to_be_unpacked_in_a_moment_cannot_wait(tmp_path: Path) -> None:
    most = CONFIG.max_message_bytes
    with pytest.raises(InvalidRecords, match=r"record 1: of \d+ bytes, unpacked, it cannot wait: max.message.bytes"):
        append(tmp_path, record((DELAY, b"5")), record(value=bytes(most)), compression=Compression.ZSTD)
    append(tmp_path, record(), record(value=bytes(most)), compression=Compression.ZSTD)
    with pytest.raises(InvalidRecords, match="record 0: ") as refused:
        append(tmp_path, record((DELAY, b"")), record((DELAY, b"5"), value=bytes(most)), compression=Compression.ZSTD)
    assert [number for number, _ in refused.value.record_errors] == [0], "what is wrong with it is said first"
    waits = record((DELAY, b"5"), value=bytes(500))
    for less, may_wait in ((0, True), (1, False)):
        config = CONFIG.replace(max_message_bytes=size_of(waits) - less)
        (path := tmp_path / str(less)).mkdir()
        if may_wait:
            append(path, waits, config=config, compression=Compression.ZSTD)
        else:
            with pytest.raises(InvalidRecords, match="it cannot wait"):
                append(path, waits, config=config, compression=Compression.ZSTD)


def test_a_producer_goes_on_behind_what_is_held_and_may_repeat_it(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)

    def send(sequence: int, *records: Record) -> AppendResult:
        batch = encode_batch(records, producer_id=7, producer_epoch=0, base_sequence=sequence)
        return log.append_as_leader(memoryview(batch), leader_epoch=0, now_ms=NOW, origin=CLIENT)

    first = send(0, record((DELAY, b"5")), record())
    assert (first.base_offset, first.last_offset) == (0, 1)
    assert send(2, record()).base_offset == 2
    assert send(0, record((DELAY, b"5")), record())[:2] == (0, 1)
    log.abandon()
    log = open_log(tmp_path, CONFIG, is_clean=False)
    assert send(0, record((DELAY, b"5")), record())[:2] == (0, 1)
    assert send(2, record()).is_duplicate
    assert send(3, record((DELAY, b"5"))).base_offset == 3


def test_what_has_waited_says_where_and_has_the_time_of_its_delivery() -> None:
    told = [("penstock-delay-offset", b"3"), ("penstock-delay-offset", b"9" * 5_000)]  # by whoever produced it
    old = Record(timestamp_ms=1, key=b"k", value=b"v", headers=[(ID, b"x"), *told])
    batch = moved_batch([due(40, old)], Compression.ZSTD, now_ms=NOW)
    assert [tuple(one) for one in moved_in(batch, read_header(batch))] == [(40, hash_of(b"x"))]
    (record,) = decode_batch(batch)
    assert (record.timestamp_ms, record.key, record.value) == (NOW, b"k", b"v")
    assert record.headers == [*old.headers, ("penstock-delay-offset", b"40")]


@pytest.mark.parametrize("value", [b"", b"\x00\x00\x00\x00\x00\x09", b"\x00\x01\x00\x00\x00\x00"])
def test_a_batch_that_no_leader_wrote_is_no_held_one(value: bytes) -> None:
    for key in (b"\x00\x00\x00\x64", b"k", None):
        batch = encode_batch([Record(key=key, value=value)], is_control=True)
        with pytest.raises(DecodeError, match="the batch at offset 0"):
            Held(bytes(batch), read_header(batch))
