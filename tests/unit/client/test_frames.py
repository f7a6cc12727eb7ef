"""Frames are found however the bytes are cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.errors import ProtocolViolationError
from penstock.client.frames import FrameReader


@given(st.lists(st.binary(min_size=1, max_size=20), max_size=6), st.lists(st.integers(0, 150)))
def test_frames_come_out_whole_and_in_order(frames: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    reader = FrameReader()
    found = [frame for start, end in pairwise(edges) for frame in reader.feed(stream[start:end])]
    assert found == frames
    assert not reader.in_mid_frame


@pytest.mark.parametrize("length", [0, -1, 101, 2**31 - 1])
def test_an_impossible_length_is_refused_at_once(length: int) -> None:
    reader = FrameReader(max_frame_bytes=100)
    with pytest.raises(ProtocolViolationError, match=f"claims {length} bytes"):
        reader.feed(length.to_bytes(4, "big", signed=True))
