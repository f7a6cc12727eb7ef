import gzip
import tracemalloc

import cramjam
import pytest

from penstock.protocol.compression import Compression, DecompressionLimitError, compress, decompress
from penstock.protocol.errors import DecodeError

CODECS = [codec for codec in Compression if codec is not Compression.NONE]
TEXT = b"the same words again, " * 20_000


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("data", [b"", b"x", TEXT])
def test_there_and_back(codec: Compression, data: bytes) -> None:
    packed = compress(codec, memoryview(data))
    assert bytes(decompress(codec, packed, len(data))) == data
    assert bytes(decompress(codec, memoryview(packed), 1 << 30)) == data


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.ZSTD])
def test_a_level_is_obeyed(codec: Compression) -> None:
    varied = b"".join(str(i * i).encode() for i in range(20_000))
    assert len(compress(codec, varied, 19 if codec is Compression.ZSTD else 9)) < len(compress(codec, varied, 1))


@pytest.mark.parametrize("codec", Compression)
def test_the_limit_is_exact(codec: Compression) -> None:
    packed = compress(codec, TEXT)
    with pytest.raises(DecompressionLimitError, match=f"more than {len(TEXT) - 1} bytes"):
        decompress(codec, packed, len(TEXT) - 1)


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_is_refused_without_unpacking_it(codec: Compression) -> None:
    bomb = compress(codec, bytes(64 << 20))
    limit = 1 << 20
    tracemalloc.start()
    try:
        with pytest.raises(DecompressionLimitError):
            decompress(codec, bomb, limit)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * limit


@pytest.mark.parametrize("codec", CODECS)
def test_rubbish(codec: Compression) -> None:
    packed = compress(codec, TEXT)
    for broken in (packed[: len(packed) // 2], b"\xff" * 40, b"\xff" * 4):
        with pytest.raises(DecodeError):
            decompress(codec, broken, 1 << 22)


def test_gzip_of_others() -> None:
    assert bytes(decompress(Compression.GZIP, gzip.compress(TEXT), 1 << 20)) == TEXT
    assert gzip.decompress(compress(Compression.GZIP, TEXT)) == TEXT


def test_snappy_is_written_as_java_does_and_read_raw_as_well() -> None:
    packed = compress(Compression.SNAPPY, TEXT)
    assert packed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    length = int.from_bytes(packed[16:20])
    assert bytes(cramjam.snappy.decompress_raw(packed[20 : 20 + length])) == TEXT[: 32 * 1024]
    raw = bytes(cramjam.snappy.compress_raw(TEXT))
    assert bytes(decompress(Compression.SNAPPY, raw, 1 << 20)) == TEXT


@pytest.mark.parametrize("tail", [b"\x00\x00", b"\x00\x00\x00\x05abcd", b"\xff\xff\xff\xff"])
def test_a_broken_snappy_stream(tail: bytes) -> None:
    with pytest.raises(DecodeError, match="snappy"):
        decompress(Compression.SNAPPY, compress(Compression.SNAPPY, b"abc") + tail, 1 << 20)


def test_lz4_blocks_are_independent() -> None:
    """Java refuses frames in which a block refers to an earlier one."""
    packed = compress(Compression.LZ4, TEXT)
    assert packed[:4] == b"\x04\x22\x4d\x18"
    assert packed[4] & 0x20
