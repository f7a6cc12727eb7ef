import contextlib
from collections.abc import Callable, Iterable

import pytest

from penstock.protocol.batch import read_header, write_crc
from penstock.protocol.compression import Compression, DecompressionLimitError
from penstock.protocol.errors import DecodeError
from penstock.protocol.records import (
    Record,
    decode_batch,
    encode_batch,
    iterate_batches,
    iterate_records,
    iterate_times,
    iterate_unpacked,
    keys_and_values,
    unpack_records,
)

RECORDS = [
    Record(10, 1_700_000_000_000, b"key", b"value", [("h", b"1"), ("h", None), ("ü", b"")]),
    Record(11, 1_699_999_999_000, None, b"v" * 300),
    Record(12, 1_700_000_000_001, b"", None),
    Record(13, 1_700_000_900_000, b"k" * 70, b""),
]


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("level", [None, 1, 9])
def test_there_and_back(codec: Compression, level: int | None) -> None:
    data = encode_batch(RECORDS, base_offset=10, compression=codec, level=level)
    assert decode_batch(data) == RECORDS
    assert decode_batch(memoryview(b"--" + data + b"--"), 2) == RECORDS
    header = read_header(data)
    assert (header.base_timestamp, header.max_timestamp) == (1_700_000_000_000, 1_700_000_900_000)


def test_compression_is_worth_it() -> None:
    many = [Record(i, i, b"key", b"the same value again and again" * 10) for i in range(200)]
    plain = len(encode_batch(many))
    for codec in Compression:
        if codec is not Compression.NONE:
            assert len(encode_batch(many, compression=codec)) < plain / 5


def test_a_wrong_checksum() -> None:
    data = encode_batch(RECORDS)
    data[-1] ^= 1
    with pytest.raises(DecodeError, match="checksum of the batch at offset 0"):
        decode_batch(data)


def test_a_batch_that_is_cut_off() -> None:
    data = encode_batch(RECORDS)
    for end in range(len(data)):
        with pytest.raises(DecodeError):
            decode_batch(data[:end])


@pytest.mark.parametrize(
    ("count", "message"),
    [(3, "left behind"), (5, "record at byte"), (-1, "declares -1"), (2**31 - 1, "declares 2147483647")],
)
def test_a_wrong_count(count: int, message: str) -> None:
    data = encode_batch(RECORDS)
    data[57:61] = count.to_bytes(4, signed=True)
    write_crc(data, 0, len(data))
    with pytest.raises(DecodeError, match=message):
        decode_batch(data)


@pytest.mark.parametrize("codec", [c for c in Compression if c is not Compression.NONE])
def test_a_bomb_is_refused(codec: Compression) -> None:
    data = encode_batch([Record(0, 0, None, bytes(4_000_000))], compression=codec)
    assert len(data) < 400_000
    with pytest.raises(DecompressionLimitError):
        decode_batch(data, max_bytes=1_000_000)
    assert decode_batch(data, max_bytes=4_000_100)[0].value == bytes(4_000_000)


def test_batches_of_a_buffer() -> None:
    one, other = encode_batch(RECORDS, base_offset=5), encode_batch(RECORDS[:1], base_offset=9)
    both = bytes(one + other)
    found = list(iterate_batches(both))
    assert [(position, header.base_offset) for position, header in found] == [(0, 5), (len(one), 9)]
    assert [position for position, _ in iterate_batches(both[:-1])] == [0]
    assert [record.offset for record in iterate_records(both, *found[1])] == [9]


MANY = [*RECORDS, *(Record(14 + n, 1_700_000_000_000 + n, b"%d" % n, None if n % 3 else b"v" * n) for n in range(300))]


@pytest.mark.parametrize("codec", Compression)
def test_keys_and_values_alone(codec: Compression) -> None:
    data = encode_batch(MANY, compression=codec)
    header = read_header(data)
    found = keys_and_values(unpack_records(data, 0, header), header)
    assert found == [(record.key, record.value) for record in MANY]


def test_keys_and_values_of_damaged_records() -> None:
    data = encode_batch(RECORDS)
    header = read_header(data)
    whole = unpack_records(data, 0, header)
    for at in range(len(whole)):
        for damage in (0x01, 0x40, 0x80, 0xFF):
            bent = bytearray(whole)
            bent[at] ^= damage
            with contextlib.suppress(DecodeError):
                assert len(keys_and_values(bytes(bent), header)) == len(RECORDS)
        with pytest.raises(DecodeError):
            keys_and_values(whole[:at], header)
    with pytest.raises(DecodeError, match="are left behind"):
        keys_and_values(whole + b"x", header)
    with pytest.raises(DecodeError, match="declares 1000 records"):
        keys_and_values(whole, header._replace(record_count=1000))


@pytest.mark.parametrize("by_broker", [False, True])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_times_alone(codec: Compression, by_broker: bool) -> None:
    """They are those of the records, from an offset that is not 0 on."""
    data = bytearray(encode_batch(MANY, base_offset=10, compression=codec))
    if by_broker:
        data[22] |= 0x08  # the type of timestamp
        write_crc(data, 0, len(data))
    header = read_header(data)
    assert header.is_log_append_time is by_broker
    records = list(iterate_records(data, 0, header))
    assert [record.offset for record in records] == [record.offset for record in MANY]
    found = list(iterate_times(unpack_records(data, 0, header), header))
    assert found == [(record.timestamp_ms, record.offset) for record in records]
    assert (len({time for time, _ in found}) == 1) is by_broker


def test_times_of_damaged_records() -> None:
    data = encode_batch(RECORDS)
    header = read_header(data)
    whole = unpack_records(data, 0, header)
    for at in range(len(whole)):
        for damage in (0x01, 0x40, 0x80, 0xFF):
            bent = bytearray(whole)
            bent[at] ^= damage
            with contextlib.suppress(DecodeError):
                assert len(list(iterate_times(bytes(bent), header))) == len(RECORDS)
        with pytest.raises(DecodeError):
            list(iterate_times(whole[:at], header))
    for count in (-1, 1000):
        with pytest.raises(DecodeError, match=f"declares {count} records"):
            list(iterate_times(whole, header._replace(record_count=count)))


@pytest.mark.parametrize("read", [iterate_times, keys_and_values, iterate_unpacked])
def test_as_many_records_may_be_declared_as_could_be_there(read: Callable[..., Iterable[object]]) -> None:
    smallest = unpack_records(data := encode_batch([Record(0, 0, None, None)] * 5), 0, read_header(data))
    header = read_header(data)
    assert len(smallest) == 5 * 7
    assert len(list(read(smallest, header))) == 5
    with pytest.raises(DecodeError, match="declares 6 records in 35 bytes"):
        list(read(smallest, header._replace(record_count=6)))
    assert list(read(b"", header._replace(record_count=0))) == []


def test_records_of_another_client() -> None:
    """What kafka-python builds is what we build, and each reads the other's."""
    from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=9999,
    )
    for delta, record in enumerate(RECORDS[:1] + RECORDS[3:]):
        builder.append(delta, record.timestamp_ms, record.key, record.value, record.headers)
    theirs = bytes(builder.build())
    assert [(r.timestamp_ms, r.key, r.value, r.headers) for r in decode_batch(theirs)] == [
        (r.timestamp_ms, r.key, r.value, r.headers) for r in RECORDS[:1] + RECORDS[3:]
    ]
    ours = bytes(encode_batch(RECORDS, base_offset=10, compression=Compression.GZIP))
    assert DefaultRecordBatch(ours).validate_crc()
    read = [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in DefaultRecordBatch(ours)]
    assert read == [(r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in RECORDS]
