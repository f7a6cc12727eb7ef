"""A piece of a segment file: what a read returns, so that the bytes can go from file to socket untouched."""

from penstock.log.disk import OpenFile


class LogSlice:
    """`length` bytes from `position` of an open file; they begin with a batch and may end inside one. All records lie
    before `end_offset`. The slice keeps the file open: it can be read even if the segment is closed, renamed or deleted
    meanwhile. Only a truncation, which leaders do not do, can make the bytes fewer. Bytes that were sent are taken off
    its beginning.
    """

    __slots__ = ("end_offset", "file", "length", "position")

    def __init__(self, file: OpenFile, position: int, length: int, end_offset: int) -> None:
        self.file = file
        self.position = position
        self.length = length
        self.end_offset = end_offset

    def __len__(self) -> int:
        return self.length

    def read(self) -> bytes:
        return self.file.read_at(self.length, self.position) if self.length else b""


EMPTY_SLICE = LogSlice(OpenFile(-1), 0, 0, 0)
