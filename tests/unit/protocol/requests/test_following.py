"""Fetch as followers write and read it by hand, beside the messages that are generated."""

from uuid import UUID

import pytest

from penstock.protocol.errors import DecodeError
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from penstock.protocol.requests.fetch import FetchPartitionResult, TopicResults, encode_fetch_response, parse_fetch
from penstock.protocol.requests.following import (
    Followed,
    FollowerRequest,
    Position,
    encode_follower_request,
    read_follower_response,
)
from penstock.protocol.requests.framing import encode_request, read_request_header
from penstock.protocol.requests.topic_answers import NodeEndpoint

TOPIC, OTHER = UUID(int=1), UUID(int=2)
REQUEST = FollowerRequest("penstock-2", 2, 77, 500, 1, 10 << 20, 1 << 20)
VERSIONS = range(13, 19)


def asked(index: int) -> FetchPartition:
    return FetchPartition(
        partition=index,
        current_leader_epoch=4,
        fetch_offset=100 + index,
        last_fetched_epoch=3,
        log_start_offset=9,
        partition_max_bytes=1 << 20,
    )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("count", [0, 1, 200])
def test_a_request_is_written_as_the_message_is(version: int, count: int) -> None:
    message = FetchRequest(
        replica_id=2 if version < 15 else -1,
        replica_state=ReplicaState(replica_id=2, replica_epoch=77) if version >= 15 else ReplicaState(),
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=10 << 20,
        session_id=12,
        session_epoch=3,
        topics=[FetchTopic(topic_id=TOPIC, partitions=[asked(index) for index in range(count)])] if count else [],
        forgotten_topics_data=[ForgottenTopic(topic_id=OTHER, partitions=[1, 2])],
    )
    positions = [((TOPIC.bytes, index), Position(100 + index, 9, 4, 3)) for index in range(count)]
    written = encode_follower_request(REQUEST, version, 5, (12, 3), positions, [(OTHER.bytes, 1), (OTHER.bytes, 2)])
    assert written == encode_request(message, version, 5, "penstock-2")


@pytest.mark.parametrize("version", range(15, 19))
@pytest.mark.parametrize("count", [0, 1, 100])
def test_a_leader_reads_it_without_the_codec(version: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [(topic.bytes, index) for topic in (TOPIC, OTHER) for index in range(count)]
    positions = [(key, Position(100 + key[1], 9, 4, 3)) for key in keys]
    written = encode_follower_request(REQUEST, version, 5, (12, 3), positions, [])
    *_, position = read_request_header(written, 4)
    monkeypatch.setattr("penstock.protocol.requests.fetch.decode", None)
    read = parse_fetch(written, position, version)
    assert (read.replica_id, read.replica_epoch, read.session_id, read.session_epoch) == (2, 77, 12, 3)
    assert [(topic.topic_id.bytes, one.index) for topic in read.topics for one in topic.partitions] == keys


def told(topics: TopicResults, version: int, **more: object) -> list[Followed]:
    (response,) = encode_fetch_response(topics, version, 5, session_id=12, **more)  # type: ignore[arg-type]
    assert isinstance(response, bytes)
    found = read_follower_response(memoryview(response)[4:], version)
    assert found.session_id == 12
    return [one._replace(records=bytes(one.records)) for one in found.partitions]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_response_is_read(version: int) -> None:
    topics = [
        (TOPIC, [FetchPartitionResult(0, 0, 7, 7, 1, b"x" * 300), FetchPartitionResult(1, 6)]),
        (OTHER, [FetchPartitionResult(3, 0, 8, 8, 2)]),
    ]
    plain = [
        Followed((TOPIC.bytes, 0), 0, 7, 1, b"x" * 300),
        Followed((TOPIC.bytes, 1), 6, -1, -1),
        Followed((OTHER.bytes, 3), 0, 8, 2),
    ]
    assert told(topics, version) == plain
    parted = [(TOPIC, [FetchPartitionResult(2, diverging_epoch=(4, 90))]), *topics]
    assert told(parted, version) == [Followed((TOPIC.bytes, 2), 0, -1, -1, b"", (4, 90)), *plain]


def test_what_a_client_is_told_of_other_leaders_is_passed_over() -> None:
    topics = [(TOPIC, [FetchPartitionResult(1, 6, current_leader=(3, 5))])]
    endpoints = [NodeEndpoint(3, "other", 9092, None)]
    assert told(topics, 17, endpoints=endpoints) == [Followed((TOPIC.bytes, 1), 6, -1, -1)]
    assert told([], 17, endpoints=endpoints) == []


def test_a_response_that_is_cut_off_is_refused_wherever_it_ends() -> None:
    (response,) = encode_fetch_response([(TOPIC, [FetchPartitionResult(0, 0, 7, 7, 1, b"abc")])], 17, 5)
    assert isinstance(response, bytes)
    for size in range(4, len(response)):
        with pytest.raises(DecodeError):
            read_follower_response(memoryview(response)[4:size], 17)
