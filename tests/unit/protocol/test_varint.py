import pytest

from penstock.protocol.errors import DecodeError
from penstock.protocol.varint import decode_uvarint, decode_varint, encode_uvarint, encode_varint


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
