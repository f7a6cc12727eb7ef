"""Fetch responses about one partition, read in each version."""

from uuid import UUID

import pytest

from penstock.client.blocking.fetch import parse_fetch_response
from penstock.protocol.codec import encode
from penstock.protocol.errors import DecodeError, ErrorCode
from penstock.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

VERSIONS = (*range(4, 12), *range(13, 17))
TAGS_BEHIND_RECORDS = 3


def response(version: int, records: bytes | None = b"records") -> memoryview:
    partition = PartitionData(
        partition_index=3,
        high_watermark=50,
        last_stable_offset=40,
        log_start_offset=10,
        aborted_transactions=[AbortedTransaction(producer_id=7, first_offset=12)],
        records=records,
    )
    topic = FetchableTopicResponse(topic="flights", topic_id=UUID(int=7), partitions=[partition])
    return memoryview(encode(FetchResponse(responses=[topic]), version))


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_is_read(version: int) -> None:
    fetched = parse_fetch_response(response(version), version)
    assert bytes(fetched.records) == b"records"
    assert (fetched.high_watermark, fetched.last_stable_offset) == (50, 40)
    assert fetched.log_start_offset == (10 if version >= 5 else -1)
    assert fetched.aborted == [(7, 12)]


@pytest.mark.parametrize("version", VERSIONS)
def test_null_records_are_no_records(version: int) -> None:
    assert len(parse_fetch_response(response(version, None), version).records) == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_no_transactions_are_none_that_were_aborted(version: int) -> None:
    topic = FetchableTopicResponse(partitions=[PartitionData(aborted_transactions=None)])
    fetched = parse_fetch_response(memoryview(encode(FetchResponse(responses=[topic]), version)), version)
    assert fetched.aborted == []


def test_a_leader_is_told_only_of_a_partition_that_it_does_not_lead() -> None:
    assert parse_fetch_response(response(16), 16).current_leader is None


def test_an_error_of_the_whole_response() -> None:
    frame = memoryview(encode(FetchResponse(error_code=ErrorCode.INVALID_REQUEST), 11))
    assert parse_fetch_response(frame, 11).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("counts", [[], [0], [2], [1, 1], [0, 1]])
def test_a_response_about_another_number_of_partitions_is_refused(counts: list[int]) -> None:
    topics = [FetchableTopicResponse(partitions=[PartitionData()] * count) for count in counts]
    with pytest.raises(DecodeError, match="another number of partitions"):
        parse_fetch_response(memoryview(encode(FetchResponse(responses=topics), 16)), 16)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_response_that_ends_too_early_is_refused(version: int) -> None:
    whole = response(version)
    for length in range(len(whole) - (TAGS_BEHIND_RECORDS if version >= 13 else 0)):
        with pytest.raises(DecodeError):
            parse_fetch_response(whole[:length], version)


@pytest.mark.parametrize("version", [13, 16])
def test_who_leads_instead_is_read_where_it_is_said_where(version: int) -> None:
    row = PartitionData(
        partition_index=3,
        error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
        current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=5),
        records=None,
    )
    topic = FetchableTopicResponse(topic_id=UUID(int=7), partitions=[row])
    there = NodeEndpoint(node_id=2, host="other", port=9093)
    answer = FetchResponse(responses=[topic], node_endpoints=[there] if version >= 16 else [])
    fetched = parse_fetch_response(memoryview(encode(answer, version)), version)
    assert fetched.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    expected = (LeaderIdAndEpoch(leader_id=2, leader_epoch=5), [there]) if version >= 16 else (None, [])
    assert (fetched.current_leader, fetched.node_endpoints) == expected
