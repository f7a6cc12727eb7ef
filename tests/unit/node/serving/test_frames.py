"""Memory for frames is lent again, and never kept without bound."""

from __future__ import annotations

import asyncio
import mmap
from itertools import pairwise
from typing import ClassVar
from weakref import ref

import pytest

from penstock.node.serving.frames import GIVEN_BACK_BYTES, MAX_POOLED_BUFFERS, POOLED_FRAME_BYTES, FrameBuffers, Mapping

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


async def test_a_huge_frame_takes_pages_only_as_they_are_filled() -> None:
    buffers = FrameBuffers(max_frame_bytes=100 * MEGABYTE)
    huge = buffers.take(100 * MEGABYTE)
    assert isinstance(huge.obj, mmap.mmap)
    assert not huge.readonly
    buffers.give(huge)
    assert buffers.take(POOLED_FRAME_BYTES) is not huge


class Given(Mapping):
    """Tells what is given back."""

    __slots__ = ()
    told: ClassVar[list[tuple[int, ...]]] = []

    def madvise(self, *of: int) -> None:
        super().madvise(*of)
        self.told.append(of)


@pytest.mark.skipif(not hasattr(mmap.mmap, "madvise"), reason="this system gives back all at once")
@pytest.mark.parametrize("in_a_thread", [False, True])
async def test_the_memory_of_a_huge_frame_goes_back_a_little_in_each_turn(in_a_thread: bool) -> None:
    Given.told.clear()
    mapping: list[Given] = [Given(2 * GIVEN_BACK_BYTES + 5)]
    mapping[0][:] = b"x" * len(mapping[0])
    Given.told.clear()
    if in_a_thread:
        await asyncio.get_running_loop().run_in_executor(None, mapping.clear)
    else:
        mapping.clear()
    counts = []
    for _ in range(5):
        await asyncio.sleep(0)
        counts.append(len(Given.told))
    starts = (0, GIVEN_BACK_BYTES, 2 * GIVEN_BACK_BYTES)
    assert [of[1:] for of in Given.told] == list(zip(starts, (GIVEN_BACK_BYTES, GIVEN_BACK_BYTES, 5), strict=True))
    assert all(later - earlier <= 1 for earlier, later in pairwise(counts)), counts


def test_memory_whose_loop_is_gone_goes_at_once() -> None:
    async def take() -> Mapping:
        return Mapping(GIVEN_BACK_BYTES)

    mapping = asyncio.run(take())
    found = ref(mapping)
    del mapping
    assert found() is None
