"""Cuts the bytes that a broker sends into frames: four bytes of length, then that many bytes. No IO.

Bytes are received where they stay until their frame is whole: an answer of a megabyte is not copied on its way to the
decoder, and the memory of one is used again for the next.
"""

from penstock.client.errors import AnswerTooLargeError, ProtocolViolationError

LENGTH_SIZE = 4
MAX_FRAME_BYTES = 1 << 28  # a TLS alert or a line of HTTP, read as a length, is more than this
SMALL_BYTES = 16 * 1024
"""The room that a connection has while nothing larger comes."""
KEPT_BYTES = 4 << 20
"""Room for a larger frame is given back when the next one is smaller,"""
LENT_BYTES = 64 << 20
"""and for one larger than this, which is more than a fetch asks for, as soon as the frame was given out: it stays."""


def staying(frame: memoryview) -> memoryview:
    """The frame, or a copy of it if its bytes are written over by what comes next: those that stay are read-only."""
    return frame if frame.readonly else memoryview(bytes(frame))


class FrameReader:
    """Says where the next bytes go (`room`), and which frames are whole then (`received`), without their lengths.

    `ProtocolViolationError` when a length cannot be, or is more than is taken: after that the reader is of no more use.
    """

    __slots__ = ("_begin", "_buffer", "_end", "_max_frame_bytes")

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._buffer = memoryview(bytearray(SMALL_BYTES))
        self._max_frame_bytes = max_frame_bytes
        self._begin = 0
        self._end = 0

    @property
    def in_mid_frame(self) -> bool:
        """Whether part of a frame has come: a connection that ends now has lost something."""
        return self._begin < self._end

    def room(self) -> memoryview:
        """Where the next bytes go; frames that were given out before are no longer what they were."""
        if self._begin == self._end and len(self._buffer) == SMALL_BYTES:  # as most often
            self._begin = self._end = 0
            return self._buffer
        size = max(self._needed(), SMALL_BYTES)
        waiting = self._buffer[self._begin : self._end]
        if size > len(self._buffer) or (len(self._buffer) > KEPT_BYTES >= size):
            self._buffer = memoryview(bytearray(size))
        if self._begin or waiting.obj is not self._buffer.obj:
            self._buffer[: len(waiting)] = waiting
            self._begin, self._end = 0, len(waiting)
        return self._buffer[self._end :]

    def received(self, count: int) -> list[memoryview]:
        """So many bytes came into the room; the frames that are whole now, oldest first, until `room` is called.

        Those that are read-only stay for as long as somebody has them.
        """
        self._end += count
        frames: list[memoryview] = []
        while (needed := self._needed()) <= self._end - self._begin:
            frames.append(self._buffer[self._begin + LENGTH_SIZE : self._begin + needed])
            self._begin += needed
        if self._begin == self._end and len(self._buffer) > LENT_BYTES:
            self._buffer = memoryview(bytearray(SMALL_BYTES))
            self._begin = self._end = 0
            frames = [frame.toreadonly() for frame in frames]
        return frames

    def end(self) -> None:
        """Give the room back: nothing comes any more."""
        self._buffer = memoryview(b"")
        self._begin = self._end = 0

    def _needed(self) -> int:
        """The size of the next frame with its length, as far as that is known."""
        if self._end - self._begin < LENGTH_SIZE:
            return LENGTH_SIZE
        length = int.from_bytes(self._buffer[self._begin : self._begin + LENGTH_SIZE], "big", signed=True)
        if not 0 < length <= MAX_FRAME_BYTES:
            raise ProtocolViolationError(f"a frame that claims {length} bytes")
        if length > self._max_frame_bytes:
            raise AnswerTooLargeError(f"an answer of {length} bytes, where {self._max_frame_bytes} are taken at most")
        return LENGTH_SIZE + length
