import pytest

from penstock.protocol.errors import DecodeError
from penstock.protocol.varint import (
    MAX_TAGGED_FIELDS,
    check_tagged_fields,
    decode_uvarint,
    decode_varint,
    encode_compact,
    encode_uvarint,
    encode_varint,
    skip_tagged_fields,
)


@pytest.mark.parametrize(
    ("value", "raw"),
    [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (16384, "808001"), (2**32 - 1, "ffffffff0f")],
)
def test_unsigned(value: int, raw: str) -> None:
    assert encode_uvarint(value).hex() == raw
    assert decode_uvarint(b"?" + bytes.fromhex(raw) + b"?", 1) == (value, 1 + len(raw) // 2)


@pytest.mark.parametrize(
    ("value", "raw"), [(0, "00"), (-1, "01"), (1, "02"), (-64, "7f"), (64, "8001"), (-(2**63), "ff" * 9 + "01")]
)
def test_signed(value: int, raw: str) -> None:
    assert encode_varint(value).hex() == raw
    assert decode_varint(bytes.fromhex(raw), 0) == (value, len(raw) // 2)


def test_too_long() -> None:
    with pytest.raises(DecodeError, match="five bytes"):
        decode_uvarint(b"\xff" * 6, 0)
    with pytest.raises(DecodeError, match="ten bytes"):
        decode_varint(b"\xff" * 11, 0)


def test_cut_off() -> None:
    with pytest.raises(IndexError):
        decode_uvarint(b"\xff\xff", 0)
    with pytest.raises(IndexError):
        decode_varint(b"\xff\xff", 0)


@pytest.mark.parametrize("length", [*range(300), 16_382, 16_383, 16_384, 1 << 21, (1 << 35) - 2])
def test_numbers_at_the_edges_of_their_lengths(length: int) -> None:
    assert encode_compact(length) == encode_uvarint(length + 1)
    for value in (length, length + 1):
        raw = encode_uvarint(value)
        assert len(raw) == max(-(-value.bit_length() // 7), 1)
        assert decode_uvarint(b"-" + raw + b"-", 1) == (value, len(raw) + 1)
    for value in (length, -length, -length - 1):
        raw = encode_varint(value)
        assert decode_varint(b"-" + raw, 1) == (value, len(raw) + 1)


def test_the_longest_numbers() -> None:
    assert decode_uvarint(b"\xff\xff\xff\xff\x0f", 0) == ((1 << 32) - 1, 5)
    assert decode_varint(encode_varint(-(1 << 63)), 0) == (-(1 << 63), 10)
    with pytest.raises(DecodeError, match="more than five"):
        decode_uvarint(b"\xff\xff\xff\xff\xff\x01", 0)
    with pytest.raises(DecodeError, match="more than ten"):
        decode_varint(b"\xff" * 10 + b"\x01", 0)


def test_tagged_fields_are_passed_over_to_the_last_byte() -> None:
    fields = b"".join(encode_uvarint(tag) + encode_uvarint(tag) + b"x" * tag for tag in range(200))
    buffer = b"--" + fields + b"--"
    end = 2 + len(fields)
    assert skip_tagged_fields(buffer, 2, 200, end) == end
    assert skip_tagged_fields(buffer, 2, 0, end) == 2
    with pytest.raises(DecodeError, match="declares a length of 199 with 198 bytes left"):
        skip_tagged_fields(buffer, 2, 200, end - 1)
    check_tagged_fields(MAX_TAGGED_FIELDS)
    with pytest.raises(DecodeError, match="1001 tagged fields"):
        skip_tagged_fields(b"", 0, MAX_TAGGED_FIELDS + 1, 0)
