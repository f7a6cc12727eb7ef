"""Cuts the bytes that a broker sends into frames: four bytes of length, then that many bytes. No IO."""

from penstock.client.errors import ProtocolViolationError

LENGTH_SIZE = 4
MAX_FRAME_BYTES = 1 << 28  # a TLS alert or a line of HTTP, read as a length, is more than this


class FrameReader:
    """Takes bytes as they come, gives back whole frames without their lengths.

    `ProtocolViolationError` when a length cannot be: after that the reader is of no more use.
    """

    __slots__ = ("_buffer", "_max_frame_bytes", "_needed")

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._buffer = bytearray()
        self._max_frame_bytes = max_frame_bytes
        self._needed = LENGTH_SIZE

    @property
    def in_mid_frame(self) -> bool:
        """Whether part of a frame has come: a connection that ends now has lost something."""
        return bool(self._buffer)

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes; return the frames that are now complete, oldest first."""
        self._buffer += data
        if len(self._buffer) < self._needed:
            return []
        frames: list[bytes] = []
        position = 0
        while (end := position + self._length_at(position)) <= len(self._buffer):
            frames.append(bytes(memoryview(self._buffer)[position + LENGTH_SIZE : end]))
            position = end
        del self._buffer[:position]
        return frames

    def _length_at(self, position: int) -> int:
        """The size of the frame at `position` with its prefix, as far as it is known; remembered as what is needed."""
        self._needed = LENGTH_SIZE
        if position + LENGTH_SIZE <= len(self._buffer):
            length = int.from_bytes(self._buffer[position : position + LENGTH_SIZE], "big", signed=True)
            if not 0 < length <= self._max_frame_bytes:
                raise ProtocolViolationError(f"a frame that claims {length} bytes")
            self._needed += length
        return self._needed
