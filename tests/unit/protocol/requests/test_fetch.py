import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import DecodeError
from penstock.protocol.messages import fetch as messages
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.fetch import (
    MAX_SMALL_BYTES,
    SMALL_BYTES,
    VERSIONS,
    FetchFrame,
    FetchPartitionResult,
    encode_fetch_response,
    parse_fetch,
)
from penstock.protocol.requests.framing import decode_response
from penstock.protocol.requests.lent_records import LentFetchResponse
from penstock.protocol.requests.topic_answers import NodeEndpoint
from penstock.protocol.uuids import ZERO_UUID

TOPIC_ID = uuid.UUID(int=99)


@dataclass
class InFile:
    """Records somewhere else, which cannot be read there unless they are `readable`."""

    length: int
    readable: bool = False

    def __len__(self) -> int:
        return self.length

    def read(self) -> bytes:
        if not self.readable:
            raise OSError
        return b"r" * self.length


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_reads_the_same_in_every_version(version: int) -> None:
    partition = messages.FetchPartition(
        partition=4,
        current_leader_epoch=5,
        fetch_offset=6,
        last_fetched_epoch=7,
        log_start_offset=8,
        partition_max_bytes=9,
    )
    request = messages.FetchRequest(
        replica_id=1, replica_state=messages.ReplicaState(replica_id=1, replica_epoch=12),
        max_wait_ms=2, min_bytes=3, max_bytes=4, isolation_level=1, session_id=10, session_epoch=11, rack_id="rack",
        topics=[messages.FetchTopic(topic="topic", topic_id=TOPIC_ID, partitions=[partition])],
        forgotten_topics_data=[messages.ForgottenTopic(topic="old", topic_id=TOPIC_ID, partitions=[1, 2])],
    )  # fmt: skip
    got = parse_fetch(memoryview(b"??" + encode(request, version)), 2, version)
    assert (got.replica_id, got.replica_epoch) == (1, 12 if version >= 15 else -1)
    assert (got.max_wait_ms, got.min_bytes, got.max_bytes, got.isolation_level) == (2, 3, 4, 1)
    assert (got.session_id, got.session_epoch) == ((10, 11) if version >= 7 else (0, -1))
    assert got.rack_id == ("rack" if version >= 11 else "")
    (topic,) = got.topics
    assert (topic.name, topic.topic_id) == (("topic", ZERO_UUID) if version < 13 else ("", TOPIC_ID))
    (asked,) = topic.partitions
    assert (asked.index, asked.fetch_offset, asked.max_bytes) == (4, 6, 9)
    assert asked.log_start_offset == (8 if version >= 5 else -1)
    assert asked.current_leader_epoch == (5 if version >= 9 else -1)
    assert asked.last_fetched_epoch == (7 if version >= 12 else -1)
    assert [gone.partitions for gone in got.forgotten_topics] == ([[1, 2]] if version >= 7 else [])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("partitions", [0, 1, 2])
@pytest.mark.parametrize("replica", [-1, 1])
@pytest.mark.parametrize("extra", ["", "rack", "forgotten", "cluster", "topics", "tag"])
def test_a_request_that_is_read_by_hand_is_what_the_codec_makes_of_it(
    version: int, partitions: int, extra: str, replica: int
) -> None:
    asked = [
        messages.FetchPartition(
            partition=index + 4, current_leader_epoch=5, fetch_offset=1 << 40, log_start_offset=8, partition_max_bytes=9
        )
        for index in range(partitions)
    ]
    request = messages.FetchRequest(
        max_wait_ms=2, min_bytes=3, max_bytes=4, isolation_level=1, session_id=10, session_epoch=11,
        topics=[messages.FetchTopic(topic="topic", topic_id=TOPIC_ID, partitions=asked)],
    )  # fmt: skip
    if extra == "topics":
        request.topics *= 2
    if replica >= 0:
        request.replica_state = messages.ReplicaState(replica_id=replica, replica_epoch=12)
    if extra == "rack":
        request.rack_id = "a"
    elif extra == "forgotten":
        request.forgotten_topics_data = [messages.ForgottenTopic(topic="old", topic_id=TOPIC_ID, partitions=[1])]
    elif extra == "cluster":
        request.cluster_id = "id"
    elif extra == "tag" and asked:
        asked[0].replica_directory_id = TOPIC_ID
    body = encode(request, version)
    expected, _ = decode(FetchFrame, version, body)
    if expected.replica_state is not None:
        expected.replica_id = replica
    assert parse_fetch(memoryview(b"??" + body), 2, version) == expected
    for length in range(len(body)):
        with pytest.raises(DecodeError):
            parse_fetch(body[:length], 0, version)


def joined(parts: list[Any]) -> bytes:
    """Write the parts as a shell would, with each placeholder's bytes in its place."""
    return b"".join(b"r" * part.length if isinstance(part, InFile) else bytes(part) for part in parts)


def read_response(data: bytes, version: int) -> messages.FetchResponse:
    assert int.from_bytes(data[:4]) == len(data) - 4
    correlation_id, message = decode_response(ApiKey.FETCH, version, data[4:])
    assert correlation_id == 41
    assert isinstance(message, messages.FetchResponse)
    return message


@pytest.mark.parametrize("version", VERSIONS)
def test_placeholders_stand_between_the_parts(version: int) -> None:
    big, empty = InFile(200), InFile(0)
    answers = [
        ("a", [FetchPartitionResult(0, records=big), FetchPartitionResult(1, records=b"xy")]),
        ("b", [FetchPartitionResult(2, records=empty), FetchPartitionResult(3, records=b"z" * 20_000)]),
        ("c", [FetchPartitionResult(4, records=InFile(1))]),
    ]
    topics = [(name if version < 13 else TOPIC_ID, results) for name, results in answers]
    parts = encode_fetch_response(topics, version, 41, throttle_time_ms=3, error_code=70, session_id=8)
    assert [part for part in parts if isinstance(part, InFile)] == [big, InFile(1)]
    assert all(parts)
    message = read_response(joined(parts), version)
    assert message.throttle_time_ms == 3
    assert (message.error_code, message.session_id) == ((70, 8) if version >= 7 else (0, 0))
    records = [[partition.records for partition in topic.partitions] for topic in message.responses]
    assert records == [[b"r" * 200, b"xy"], [b"", b"z" * 20_000], [b"r"]]
    names = [(topic.topic, topic.topic_id) for topic in message.responses]
    assert names == [(name, ZERO_UUID) if version < 13 else ("", TOPIC_ID) for name in "abc"]


def test_small_records_are_read_as_long_as_they_are_not_too_many() -> None:
    lengths = [SMALL_BYTES + 1, *[SMALL_BYTES] * (MAX_SMALL_BYTES // SMALL_BYTES), 1]
    results = [FetchPartitionResult(index, records=InFile(size, True)) for index, size in enumerate(lengths)]
    parts = encode_fetch_response([("a", results)], 12, 41)
    assert [part for part in parts if isinstance(part, InFile)] == [results[0].records, results[-1].records]
    (topic,) = read_response(joined(parts), 12).responses
    assert [partition.records for partition in topic.partitions] == [b"r" * size for size in lengths]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("records", [b"xyz", InFile(3)])
@pytest.mark.parametrize("aborted", [None, (), [(8, 12, 20, 21), (9, 14, 30, 31)], [(8, it) for it in range(200)]])
def test_what_is_said_of_a_partition(version: int, records: Any, aborted: Sequence[tuple[int, ...]] | None) -> None:
    result = FetchPartitionResult(7, 74, 100, 90, 10, records, aborted, diverging_epoch=(4, 44))
    topic = "a" if version < 13 else TOPIC_ID
    message = read_response(joined(encode_fetch_response([(topic, [result])], version, 41)), version)
    (got,) = message.responses[0].partitions
    assert (got.partition_index, got.error_code, got.high_watermark, got.last_stable_offset) == (7, 74, 100, 90)
    assert got.log_start_offset == (10 if version >= 5 else -1)
    assert (got.aborted_transactions is None) == (aborted is None)
    told = [(one.producer_id, one.first_offset) for one in got.aborted_transactions or ()]
    assert told == [one[:2] for one in aborted or ()]
    assert got.preferred_read_replica == -1
    diverging = got.diverging_epoch
    assert (diverging.epoch, diverging.end_offset) == ((4, 44) if version >= 12 else (-1, -1))
    assert got.records is not None
    assert len(got.records) == 3


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("diverging_epoch", [None, (4, 44)])
def test_who_leads_and_where_to_read_is_told_as_far_as_the_version_can(
    version: int, diverging_epoch: tuple[int, int] | None
) -> None:
    result = FetchPartitionResult(
        7, 6, diverging_epoch=diverging_epoch, current_leader=(3, 9), preferred_replica=5, records=b"xyz"
    )
    topic = "a" if version < 13 else TOPIC_ID
    endpoints = [NodeEndpoint(3, "höst" * 50, 9092, None), NodeEndpoint(4, "other", 9093, "rack")]
    message = read_response(
        joined(encode_fetch_response([(topic, [result])], version, 41, endpoints=endpoints)), version
    )
    (got,) = message.responses[0].partitions
    assert got.records == b"xyz"
    assert got.preferred_read_replica == (5 if version >= 11 else -1)
    assert (got.current_leader.leader_id, got.current_leader.leader_epoch) == ((3, 9) if version >= 12 else (-1, -1))
    assert got.diverging_epoch.epoch == (4 if version >= 12 and diverging_epoch else -1)
    told = [(node.node_id, node.host, node.port, node.rack) for node in message.node_endpoints]
    assert told == (endpoints if version >= 16 else [])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_response_of_nothing(version: int) -> None:
    (only,) = encode_fetch_response([], version, 41)
    assert read_response(joined([only]), version).responses == []


@pytest.mark.parametrize("version", VERSIONS)
def test_a_follower_reads_what_a_leader_writes_and_leaves_the_records_where_they_are(version: int) -> None:
    answers = [
        FetchPartitionResult(7, 0, 100, 90, 10, b"records", current_leader=(2, 3)),
        FetchPartitionResult(8, 74, diverging_epoch=(4, 44)),
    ]
    topic: Any = "a" if version < 13 else TOPIC_ID
    data = bytearray(joined(encode_fetch_response([(topic, answers)], version, 41, session_id=8)))
    _, message = decode_response(ApiKey.FETCH, version, memoryview(data)[4:], LentFetchResponse)
    assert isinstance(message, LentFetchResponse)
    assert message.session_id == (8 if version >= 7 else 0)
    (told,) = message.responses
    assert (told.topic, told.topic_id) == (("a", ZERO_UUID) if version < 13 else ("", TOPIC_ID))
    good, bad = told.partitions
    assert (good.partition_index, good.error_code, good.high_watermark) == (7, 0, 100)
    assert good.log_start_offset == (10 if version >= 5 else -1)
    assert good.diverging_epoch.epoch == -1
    assert (bad.partition_index, bad.error_code) == (8, 74)
    diverging = bad.diverging_epoch
    assert (diverging.epoch, diverging.end_offset) == ((4, 44) if version >= 12 else (-1, -1))
    assert isinstance(good.records, memoryview)
    assert bytes(good.records) == b"records"
    data[data.index(b"records")] = ord("R")
    assert bytes(good.records) == b"Records"
