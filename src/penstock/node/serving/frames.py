"""Memory for frames: one buffer that all connections receive into, and a few large ones that are used again.

Touching new memory costs many times what touching warm memory does, so a large frame's buffer is given back and lent
again. A frame is handled within one call, so no handler keeps a slice of a buffer that was given back.
"""

import mmap

SHARED_BYTES = 256 * 1024
POOLED_FRAME_BYTES = 2 * 1024 * 1024
"""Larger frames get memory of their own that is not kept."""
MAX_POOLED_BUFFERS = 2
_SMALLEST_POOLED_BYTES = 64 * 1024


class FrameBuffers:
    """The receive memory of one node.

    `shared` is valid only between an event loop's `get_buffer` and the end of the `buffer_updated` that follows.
    """

    __slots__ = ("_spare", "max_frame_bytes", "shared")

    def __init__(self, max_frame_bytes: int) -> None:
        self.shared = memoryview(bytearray(SHARED_BYTES))
        self.max_frame_bytes = max_frame_bytes
        self._spare: list[memoryview] = []

    def take(self, size: int) -> memoryview:
        """A writable buffer of at least `size` bytes; its content is arbitrary."""
        if _SMALLEST_POOLED_BYTES <= size <= POOLED_FRAME_BYTES:
            for i, buffer in enumerate(self._spare):
                if len(buffer) >= size:
                    return self._spare.pop(i)
            size = -(-size // _SMALLEST_POOLED_BYTES) * _SMALLEST_POOLED_BYTES
        if size > POOLED_FRAME_BYTES:
            # Pages that the peer does not fill are never touched, so a length that is a lie costs nothing.
            return memoryview(mmap.mmap(-1, size))
        return memoryview(bytearray(size))

    def give(self, buffer: memoryview) -> None:
        if _SMALLEST_POOLED_BYTES <= len(buffer) <= POOLED_FRAME_BYTES and len(self._spare) < MAX_POOLED_BUFFERS:
            self._spare.append(buffer)
