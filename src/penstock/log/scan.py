"""Walk over the batches of a segment file by their headers, without reading their records.

A walk reads blocks and steps from header to header; a batch that is larger than what is left of the block costs one
more read. Recovery, which trusts nothing, has its own walk in `recovery`.
"""

from collections.abc import Iterator
from struct import Struct

from penstock.log.disk import OpenFile
from penstock.protocol.batch import HEADER_SIZE, LENGTH_END, BatchHeader, read_header
from penstock.protocol.errors import ErrorCode, KafkaError

BLOCK_BYTES = 8 << 10

_SPAN = Struct(">qi11xi")  # base offset, batch length, last offset delta: all that a look-up by offset needs


def _walk(file: OpenFile, position: int, end: int) -> Iterator[tuple[int, bytes, int]]:
    """(position, block, where in the block the header begins) of each batch in [position, end)."""
    block = b""
    block_position = position
    while position < end:
        start = position - block_position
        if start + HEADER_SIZE > len(block):
            block = file.read_at(min(BLOCK_BYTES, end - position), position)
            block_position = position
            start = 0
            if len(block) < HEADER_SIZE:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"no batch header at position {position}")
        yield position, block, start
        length = int.from_bytes(block[start + 8 : start + 12], "big", signed=True)
        if length < HEADER_SIZE - LENGTH_END:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"impossible batch length {length} at position {position}")
        position += length + LENGTH_END


def batch_spans(file: OpenFile, position: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """(position, size, base offset, last offset) of each batch in [position, end); CORRUPT_MESSAGE for nonsense."""
    unpack_from = _SPAN.unpack_from
    for where, block, start in _walk(file, position, end):
        base_offset, length, delta = unpack_from(block, start)
        yield where, length + LENGTH_END, base_offset, base_offset + delta


def batch_headers(file: OpenFile, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each batch in [position, end); CORRUPT_MESSAGE or DecodeError for nonsense."""
    for where, block, start in _walk(file, position, end):
        yield where, read_header(block, start)
