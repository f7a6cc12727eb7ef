import pytest

from penstock.protocol import batch
from penstock.protocol.batch import HEADER_SIZE, BatchHeader, UnsupportedMagicError, check_crc, read_header
from penstock.protocol.compression import Compression
from penstock.protocol.errors import DecodeError
from penstock.protocol.records import Record, decode_batch, encode_batch

RECORDS = [Record(offset=i, timestamp_ms=1000 + i, key=b"k", value=b"v") for i in range(3)]


def test_the_layout_is_kafkas() -> None:
    assert HEADER_SIZE == 61
    data = encode_batch(
        RECORDS, base_offset=7, producer_id=9, producer_epoch=2, base_sequence=4, partition_leader_epoch=5
    )
    header = read_header(data)
    assert header == BatchHeader(7, len(data) - 12, 5, 2, header.crc, 0, 2, 1000, 1002, 9, 2, 4, 3)
    assert (header.size_in_bytes, header.last_offset, header.last_sequence) == (len(data), 9, 6)


def test_bytes_by_hand() -> None:
    data = encode_batch([Record(timestamp_ms=1, key=None, value=b"x")])
    assert data.hex(" ", 4) == bytes.fromhex(
        "0000000000000000 00000039 ffffffff 02 156266bb 0000 00000000 0000000000000001 0000000000000001"
        " ffffffffffffffff ffff ffffffff 00000001 0e 00 00 00 01 02 78 00"
    ).hex(" ", 4)


@pytest.mark.parametrize("codec", Compression)
def test_attributes(codec: Compression) -> None:
    header = read_header(encode_batch(RECORDS, compression=codec, is_transactional=True, is_control=True))
    assert header.compression is codec
    assert header.is_transactional
    assert header.is_control
    assert not header.is_log_append_time
    plain = read_header(encode_batch(RECORDS))
    assert not plain.is_transactional
    assert not plain.is_control
    assert plain.last_sequence == -1


def test_an_unknown_compression() -> None:
    header = read_header(encode_batch(RECORDS))._replace(attributes=6)
    with pytest.raises(DecodeError, match="6"):
        _ = header.compression


def test_a_sequence_starts_again_at_zero() -> None:
    header = read_header(encode_batch(RECORDS, producer_id=1, producer_epoch=0, base_sequence=2**31 - 1))
    assert header.last_sequence == 1


def test_offset_and_epoch_are_patched_without_touching_the_checksum() -> None:
    data = bytearray(b"..") + encode_batch(RECORDS)
    batch.set_base_offset(data, 2, 1 << 40)
    batch.set_partition_leader_epoch(data, 2, 77)
    header = read_header(data, 2)
    assert (header.base_offset, header.partition_leader_epoch) == (1 << 40, 77)
    assert check_crc(data, 2, header)
    assert [record.offset for record in decode_batch(data, 2)] == [1 << 40, (1 << 40) + 1, (1 << 40) + 2]


def test_log_append_time_is_the_time_of_every_record() -> None:
    data = bytearray(b"..") + encode_batch(RECORDS)
    view = memoryview(data)
    batch.set_max_timestamp(view, 2, 5555)
    header = read_header(view, 2)
    assert header.is_log_append_time
    assert header.max_timestamp == 5555
    assert check_crc(view, 2, header)
    assert [record.timestamp_ms for record in decode_batch(view, 2)] == [5555] * 3


def test_a_flipped_bit_fails_the_checksum() -> None:
    data = encode_batch(RECORDS)
    for position in range(batch.ATTRIBUTES_AT, len(data)):
        data[position] ^= 1
        assert not check_crc(data, 0, read_header(data))
        data[position] ^= 1
    assert check_crc(data, 0, read_header(data))


def test_what_is_no_header() -> None:
    data = encode_batch(RECORDS)
    with pytest.raises(DecodeError, match="60 are left"):
        read_header(data[:60])
    with pytest.raises(DecodeError, match="smaller than its header"):
        read_header(data[:8] + (48).to_bytes(4) + data[12:])
    for magic in (0, 1, 3):
        other = data[:16] + bytes((magic,)) + data[17:]
        for size in (30, len(data)):
            with pytest.raises(UnsupportedMagicError) as caught:
                read_header(other[:size])
            assert caught.value.magic == magic
