"""The four compressions of Kafka, in the framings that its clients use; what comes out is bounded.

Snappy is written as Java writes it (blocks after the header of the xerial library) and read in that form or as one raw
block, as librdkafka writes it. LZ4 is written in independent blocks, the only ones that Java reads.

A small input may claim a huge output. Nothing here allocates more than `max_bytes` for it: an output buffer starts
small and grows in steps, and a block that tells its size is refused by it.
"""

import mmap
from collections.abc import Callable, Mapping
from enum import IntEnum
from struct import Struct
from typing import Final

import cramjam

from penstock.protocol.errors import DecodeError
from penstock.protocol.varint import Buffer


class Compression(IntEnum):
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class DecompressionLimitError(DecodeError):
    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"decompresses to more than {max_bytes} bytes")
        self.max_bytes = max_bytes


DEFAULT_LEVELS: Final = {Compression.GZIP: 6, Compression.LZ4: 1, Compression.ZSTD: 3}

_DECOMPRESS_INTO: Final[dict[Compression, Callable[[Buffer, memoryview], int]]] = {
    Compression.GZIP: cramjam.gzip.decompress_into,
    Compression.LZ4: cramjam.lz4.decompress_into,
    Compression.ZSTD: cramjam.zstd.decompress_into,
}
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK: Final = 32 * 1024
_INT32: Final = Struct(">i")
_FIRST_BUFFER: Final = 64 * 1024
_GROWTH: Final = 4
_MAPPED_BYTES: Final = 1 << 20
"""A buffer of so many bytes is a mapping: what is not filled costs nothing, and all goes back to the system."""
NEW_MEMORY: Final[Mapping[str, int]] = (
    {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
)
"""For `mmap.mmap`. What could be shared with other processes, as by default, takes twice as long to let go of."""
_BUFFER_IS_FULL: Final = "failed to write whole buffer"


def compress(codec: Compression, data: Buffer, level: int | None = None) -> bytes:
    """`level` None is the default of Kafka's clients."""
    if level is None:
        level = DEFAULT_LEVELS.get(codec)
    match codec:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            return bytes(cramjam.gzip.compress(data, level))
        case Compression.SNAPPY:
            return _compress_snappy(data)
        case Compression.LZ4:
            compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
            compressor.compress(bytes(data))
            return bytes(compressor.finish())
        case Compression.ZSTD:
            return bytes(cramjam.zstd.compress(data, level))


def decompress(codec: Compression, data: Buffer, max_bytes: int) -> Buffer:
    """DecompressionLimitError above `max_bytes`, DecodeError for data that the codec cannot read."""
    if codec is Compression.NONE:
        if len(data) > max_bytes:
            raise DecompressionLimitError(max_bytes)
        return data
    if codec is Compression.SNAPPY:
        return _decompress_snappy(data, max_bytes)
    return _decompress_growing(_DECOMPRESS_INTO[codec], data, max_bytes)


def _decompress_growing(decompress_into: Callable[[Buffer, memoryview], int], data: Buffer, max_bytes: int) -> Buffer:
    size = max(_FIRST_BUFFER, _GROWTH * len(data))
    while True:
        size = min(size, max_bytes)
        out = memoryview(bytearray(size) if size < _MAPPED_BYTES else mmap.mmap(-1, size, **NEW_MEMORY))
        try:
            return out[: decompress_into(data, out)]
        except cramjam.DecompressionError as error:
            if str(error) != _BUFFER_IS_FULL:
                raise DecodeError(f"compressed records: {error}") from None
            if size == max_bytes:
                raise DecompressionLimitError(max_bytes) from None
        size *= _GROWTH


def _compress_snappy(data: Buffer) -> bytes:
    view = memoryview(data)
    out = bytearray(_XERIAL_HEADER)
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
        out += _INT32.pack(len(block))
        out += block
    return bytes(out)


def _decompress_snappy(data: Buffer, max_bytes: int) -> Buffer:
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _decompress_block(view, max_bytes, max_bytes)
    out = bytearray()
    position = len(_XERIAL_HEADER)
    while position < len(view):
        if position + _INT32.size > len(view):
            raise DecodeError("a snappy stream ends within the length of a block")
        (length,) = _INT32.unpack_from(view, position)
        position += _INT32.size
        if not 0 <= length <= len(view) - position:
            raise DecodeError(f"a snappy block of {length} bytes with {len(view) - position} left")
        out += _decompress_block(view[position : position + length], max_bytes - len(out), max_bytes)
        position += length
    return out


def _decompress_block(block: memoryview, allowed: int, max_bytes: int) -> bytearray:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > allowed:
            raise DecompressionLimitError(max_bytes)
        out = bytearray(size)
        cramjam.snappy.decompress_raw_into(block, out)
    except cramjam.DecompressionError as error:
        raise DecodeError(f"compressed records: {error}") from None
    return out
