"""After a crash: find out how far a segment can be believed, and cut off the rest.

A batch is believed if its header makes sense, all of its bytes are there, its offsets follow the ones before it,
and its CRC is right. The first one that fails ends the log: it and all behind it were never promised to be on the
disk. The disk is asked, not the page cache, which may show what a failed sync did not bring there.
"""

from collections.abc import Callable

from penstock.log.disk import OpenFile
from penstock.log.segment import MAX_RELATIVE_OFFSET, Segment
from penstock.protocol.batch import ATTRIBUTES_AT, HEADER_SIZE, BatchHeader, read_header
from penstock.protocol.checksum import crc32c
from penstock.protocol.errors import DecodeError

CHUNK_BYTES = 1 << 20


def recover_segment(segment: Segment, index_interval_bytes: int, on_batch: Callable[[int, BatchHeader], None]) -> int:
    """Rebuilds the indexes, too, which the caller saves. `on_batch(position, header)` is called for each batch that
    stays. Returns the end offset.
    """
    file = segment.opened()
    file.forget_cache()
    file_size = file.size()
    segment.restart_indexes()
    segment.size = 0
    end_offset = segment.base_offset
    reader = _ChunkReader(file, file_size)
    while (header := _believable(reader, segment, end_offset)) is not None:
        on_batch(segment.size, header)
        segment.note_batch(
            header.base_offset, header.last_offset, header.size_in_bytes, header.max_timestamp, index_interval_bytes
        )
        end_offset = header.last_offset + 1
    if segment.size < file_size:
        file.truncate(segment.size)
    return end_offset


def _believable(reader: "_ChunkReader", segment: Segment, end_offset: int) -> BatchHeader | None:
    position = segment.size
    if reader.end - position < HEADER_SIZE:
        return None
    try:
        header = read_header(reader.read(HEADER_SIZE, position), 0)
    except DecodeError:
        return None
    if header.base_offset < end_offset or header.last_offset < header.base_offset:
        return None
    if header.last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
        return None
    return header if reader.crc(position + ATTRIBUTES_AT, position + header.size_in_bytes) == header.crc else None


class _ChunkReader:
    """It is for one walk through the file, in large pieces."""

    __slots__ = ("_chunk", "_file", "_start", "end")

    def __init__(self, file: OpenFile, end: int) -> None:
        self._file = file
        self._chunk = memoryview(b"")
        self._start = 0
        self.end = end

    def read(self, length: int, position: int) -> memoryview:
        """Fewer than `length` bytes only at the end."""
        offset = position - self._start
        if offset < 0 or offset + length > len(self._chunk):
            self._chunk = memoryview(self._file.read_at(min(CHUNK_BYTES, self.end - position), position))
            self._start = position
            offset = 0
        return self._chunk[offset : offset + length]

    def crc(self, start: int, end: int) -> int:
        """The bytes are read in pieces: a wrong length must not cost memory."""
        crc = 0
        while start < end:
            piece = self.read(min(end - start, CHUNK_BYTES), start)
            if not piece:
                return -1
            crc = crc32c(piece, crc)
            start += len(piece)
        return crc
