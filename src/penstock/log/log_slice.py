"""A piece of a segment file: what a read returns, so that the bytes can go from file to socket untouched."""

from penstock.log.disk import OpenFile


class LogSlice:
    """`length` bytes from `position` of an open file; they begin with a batch and may end inside one.

    The slice keeps the file open: as long as it is referred to, `fd` stays valid for pread and sendfile, even if
    the segment is closed, renamed or deleted meanwhile. Only a truncation, which leaders do not do, can make the
    bytes fewer.
    """

    __slots__ = ("file", "length", "position")

    def __init__(self, file: OpenFile | None, position: int, length: int) -> None:
        self.file = file
        self.position = position
        self.length = length

    @property
    def fd(self) -> int:
        """The descriptor to read from; do not ask an empty slice."""
        assert self.file is not None, "an empty slice has no file"
        return self.file.fd

    def read(self) -> bytes:
        return self.file.read_at(self.length, self.position) if self.file is not None else b""


EMPTY_SLICE = LogSlice(None, 0, 0)
