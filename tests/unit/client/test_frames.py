"""Frames are found however the bytes are cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.errors import ProtocolViolationError
from penstock.client.frames import KEPT_BYTES, SMALL_BYTES, FrameReader, staying


def fed(reader: FrameReader, data: bytes) -> list[bytes]:
    """Put bytes where the reader wants them, as much at a time as there is room for."""
    found = []
    while data:
        room = reader.room()
        count = min(len(room), len(data))
        room[:count] = data[:count]
        found += [bytes(frame) for frame in reader.received(count)]
        data = data[count:]
    return found


@given(st.lists(st.binary(min_size=1, max_size=20), max_size=6), st.lists(st.integers(0, 150)))
def test_frames_come_out_whole_and_in_order(frames: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    reader = FrameReader()
    found = [frame for start, end in pairwise(edges) for frame in fed(reader, stream[start:end])]
    assert found == frames
    assert not reader.in_mid_frame


@pytest.mark.parametrize("length", [0, -1, 101, 2**31 - 1])
def test_an_impossible_length_is_refused_at_once(length: int) -> None:
    reader = FrameReader(max_frame_bytes=100)
    with pytest.raises(ProtocolViolationError, match=f"{length} bytes"):
        fed(reader, length.to_bytes(4, "big", signed=True))


def test_a_large_frame_is_received_where_it_is_read_and_its_room_serves_the_next_one() -> None:
    reader, large = FrameReader(), bytes(range(256)) * 4096
    stream = len(large).to_bytes(4, "big") + large
    assert fed(reader, stream + stream[:1000]) == [large]
    first = reader.room().obj
    assert fed(reader, stream[1000:]) == [large]
    assert reader.room().obj is first


def test_the_room_of_a_huge_frame_is_given_back() -> None:
    reader, huge = FrameReader(), b"x" * (KEPT_BYTES + 1)
    assert fed(reader, len(huge).to_bytes(4, "big") + huge) == [huge]
    assert len(reader.room()) < KEPT_BYTES
    assert fed(reader, b"\0\0\0\1y") == [b"y"]


def test_a_frame_that_was_lent_is_not_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.client.frames.LENT_BYTES", 2 * SMALL_BYTES)
    reader, large = FrameReader(), b"l" * (3 * SMALL_BYTES)
    stream = len(large).to_bytes(4, "big") + large
    frames: list[memoryview] = []
    while stream:
        room = reader.room()
        count = min(len(room), len(stream))
        room[:count] = stream[:count]
        frames += reader.received(count)
        stream = stream[count:]
    assert len(reader.room()) == SMALL_BYTES
    assert fed(reader, b"\0\0\0\x01n" + len(large).to_bytes(4, "big") + b"n" * len(large))[0] == b"n"
    assert [(bytes(frame), frame.readonly) for frame in frames] == [(large, True)]


def test_of_a_large_room_with_more_in_it_nothing_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.client.frames.LENT_BYTES", 2 * SMALL_BYTES)
    reader, large = FrameReader(), b"l" * (3 * SMALL_BYTES)
    assert fed(reader, len(large).to_bytes(4, "big") + large[:-1]) == []
    room = reader.room()
    reader._buffer = memoryview(bytearray(reader._buffer) + bytes(8))  # as where a larger frame was there before
    room = reader.room()
    room[:3] = b"l\0\0"
    (frame,) = reader.received(3)
    assert not frame.readonly, "the beginning of the next one is behind it"
    kept = staying(frame)
    reader.room()[:1] = b"n"
    frame[:] = b"n" * len(frame)
    assert kept == large
