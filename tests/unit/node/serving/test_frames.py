"""Memory for frames is lent again, and never kept without bound."""

from __future__ import annotations

import mmap

from penstock.node.serving.frames import MAX_POOLED_BUFFERS, POOLED_FRAME_BYTES, FrameBuffers

MEGABYTE = 1 << 20


def test_a_large_buffer_is_lent_again() -> None:
    buffers = FrameBuffers(max_frame_bytes=100 * MEGABYTE)
    first = buffers.take(MEGABYTE + 5)
    assert len(first) >= MEGABYTE + 5
    buffers.give(first)
    assert buffers.take(MEGABYTE) is first


def test_no_more_than_a_few_are_kept() -> None:
    buffers = FrameBuffers(max_frame_bytes=100 * MEGABYTE)
    taken = [buffers.take(MEGABYTE) for _ in range(MAX_POOLED_BUFFERS + 2)]
    for buffer in taken:
        buffers.give(buffer)
    again = [buffers.take(MEGABYTE) for _ in taken]
    assert sum(any(buffer is old for old in taken) for buffer in again) == MAX_POOLED_BUFFERS


def test_a_huge_frame_takes_pages_only_as_they_are_filled() -> None:
    buffers = FrameBuffers(max_frame_bytes=100 * MEGABYTE)
    huge = buffers.take(100 * MEGABYTE)
    assert isinstance(huge.obj, mmap.mmap)
    assert not huge.readonly
    buffers.give(huge)
    assert buffers.take(POOLED_FRAME_BYTES) is not huge
