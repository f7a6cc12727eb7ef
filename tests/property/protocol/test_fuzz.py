"""Bytes that went wrong become a message or a DecodeError, nothing else, in bounded memory.

10,000 mutated frames for each API (spread over its versions) come from a fixed seed; all of them together take some
20 seconds on one core.
"""

import random
import tracemalloc
from collections.abc import Callable
from functools import partial

import pytest
from tests.property.protocol.samples import LENGTHS, filled, mutated

from penstock.protocol.codec import decode, encode
from penstock.protocol.compression import Compression
from penstock.protocol.errors import DecodeError
from penstock.protocol.messages.produce import ProduceRequest
from penstock.protocol.records import Record, decode_batch, encode_batch
from penstock.protocol.requests.api import ApiKey, api_of
from penstock.protocol.requests.fetch import parse_fetch
from penstock.protocol.requests.framing import decode_response, encode_request, parse_request_header
from penstock.protocol.requests.produce import parse_produce
from penstock.protocol.schema import Message

FRAMES = 10_000
SEED = 20_260
BYTES_PER_BYTE = 64  # an empty structure of two bytes becomes an object with slots
BYTES_AT_LEAST = 16 * 1024
PLACES = 300


def survives(parse: Callable[[], object]) -> bool:
    """Whether a parser made something of its bytes; any error but DecodeError fails the test."""
    try:
        parse()
    except DecodeError:
        return False
    return True


@pytest.mark.parametrize("key", ApiKey, ids=lambda key: key.name)
def test_mutated_requests(key: ApiKey) -> None:
    api, source = api_of(key), random.Random(SEED + key)
    cls = api.request_class
    survivors = 0
    for version in api.versions:
        data = encode(filled(cls), version)
        for _ in range(FRAMES // len(api.versions)):
            frame = mutated(data, source)
            survivors += survives(lambda frame=frame, version=version: decode(cls, version, frame))  # type: ignore[misc]
    assert 0 < survivors < FRAMES


@pytest.mark.parametrize("version", range(3, 14))
def test_mutated_produce_frames(version: int) -> None:
    cls = api_of(ApiKey.PRODUCE).request_class
    source = random.Random(SEED)
    data = encode(filled(cls), version)
    for _ in range(1000):
        frame = memoryview(mutated(data, source))
        as_slices = survives(lambda frame=frame: parse_produce(frame, 0, version))  # type: ignore[misc]
        assert as_slices == survives(lambda frame=frame: decode(cls, version, frame))  # type: ignore[misc]


@pytest.mark.parametrize("version", range(3, 14))
def test_mutated_produce_frames_with_one_batch(version: int) -> None:
    """They are read without the codec, which says what is right."""
    source = random.Random(SEED)
    request = filled(ProduceRequest)
    request.transactional_id = None
    del request.topic_data[1:], request.topic_data[0].partition_data[1:]
    data = encode(request, version)
    for _ in range(1000):
        frame = memoryview(mutated(data, source))
        as_slices = survives(lambda frame=frame: parse_produce(frame, 0, version))  # type: ignore[misc]
        assert as_slices == survives(lambda frame=frame: decode(ProduceRequest, version, frame))  # type: ignore[misc]
        if as_slices:
            parsed, (expected, _) = parse_produce(frame, 0, version), decode(ProduceRequest, version, frame)
            assert parsed[:3] == (expected.transactional_id, expected.acks, expected.timeout_ms)
            assert [
                (topic, index, None if records is None else bytes(records))
                for topic, partitions in parsed.topics
                for index, records in partitions
            ] == [
                (topic.topic_id if version >= 13 else topic.name, partition.index, partition.records)
                for topic in expected.topic_data
                for partition in topic.partition_data
            ]


@pytest.mark.parametrize("version", range(4, 19))
def test_mutated_fetch_frames(version: int) -> None:
    source = random.Random(SEED)
    data = encode(filled(api_of(ApiKey.FETCH).request_class), version)
    for _ in range(1000):
        frame = memoryview(mutated(data, source))
        survives(lambda frame=frame: parse_fetch(frame, 0, version))  # type: ignore[misc]


def test_mutated_headers() -> None:
    source = random.Random(SEED)
    frames = [encode_request(api_of(key).request_class(), api_of(key).versions[-1], 7, "me")[4:] for key in ApiKey]
    for _ in range(FRAMES):
        frame = mutated(source.choice(frames), source)
        survives(lambda frame=frame: parse_request_header(frame))  # type: ignore[misc]


def test_mutated_responses() -> None:
    source = random.Random(SEED)
    for key in ApiKey:
        api = api_of(key)
        version = api.versions[-1]
        data = b"\x00\x00\x00\x07" + b"\x00" * api.response_header_version(version)
        data += encode(filled(api.response_class), version)
        for _ in range(100):
            frame = mutated(data, source)
            survives(lambda frame=frame, version=version, key=key: decode_response(key, version, frame))  # type: ignore[misc]


@pytest.mark.parametrize("codec", Compression)
def test_mutated_batches(codec: Compression) -> None:
    source = random.Random(SEED)
    records = [Record(i, 1000 + i, b"key" * i, b"value" * i, [("header", b"x")]) for i in range(20)]
    data = bytes(encode_batch(records, compression=codec))
    assert decode_batch(data) == records
    for _ in range(2000):
        batch = mutated(data, source)
        survives(lambda batch=batch: decode_batch(batch, verify=False, max_bytes=1 << 20))  # type: ignore[misc]


def wild_lengths(data: bytes) -> list[bytes]:
    """Put each wild length over each place of a frame, or over many places of a long one."""
    places = range(0, len(data), 1 + len(data) // PLACES)
    return [data[:place] + length + data[place + len(length) :] for place in places for length in LENGTHS]


def peak_of(cls: type[Message], version: int, frames: list[bytes]) -> int:
    """The most bytes that one of the frames took.

    Each is measured from what was there before it: what refused frames leave behind in cycles waits for the
    collector, whose time depends on what else the process did. A frame that took much is tried again, as threads that
    earlier tests left behind allocate as well; what it takes itself it takes each time.
    """
    tracemalloc.start()
    try:
        grown = (least_growth_of(partial(decode, cls, version, frame)) for frame in frames)
        return max(grown, default=0)  # an empty request has no place for a length
    finally:
        tracemalloc.stop()


def least_growth_of(action: Callable[[], object]) -> int:
    grown = growth_of(action)
    return grown if grown < BYTES_AT_LEAST else min(grown, *(growth_of(action) for _ in range(3)))


def growth_of(action: Callable[[], object]) -> int:
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    survives(action)
    return tracemalloc.get_traced_memory()[1] - before


@pytest.mark.parametrize("key", ApiKey, ids=lambda key: key.name)
def test_a_wild_length_allocates_nothing(key: ApiKey) -> None:
    """A length of gigabytes, at whatever place of a frame, is refused before anything is allocated for it."""
    api = api_of(key)
    cls = api.request_class
    for version in sorted({api.versions[0], api.versions[-1]}):
        data = encode(filled(cls), version)
        decode(cls, version, data)
        assert peak_of(cls, version, wild_lengths(data)) < BYTES_AT_LEAST + BYTES_PER_BYTE * len(data)
