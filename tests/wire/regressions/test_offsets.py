"""Offsets: those that groups commit, and those that have a time or a name."""

import pytest
from tests.wire.raw_client import RawClient, batch_of

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

NOW = 1_700_000_000_000
BY_NAME = 9


def committed(client: RawClient, group: str, topic: str, version: int) -> tuple[int, int, str | None]:
    """Error code, offset and metadata string."""
    request = OffsetFetchRequest(
        group_id=group,
        topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0])],
        groups=[
            OffsetFetchRequestGroup(
                group_id=group, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
            )
        ],
    )
    answer = client.ask(request, version)
    group_answer = answer.groups[0] if version >= 8 else answer
    partition = group_answer.topics[0].partitions[0]
    return group_answer.error_code or partition.error_code, partition.committed_offset, partition.metadata


@pytest.mark.parametrize("version", range(1, 10))
def test_an_unknown_group_has_no_offset_and_no_error(client: RawClient, created: str, version: int) -> None:
    client.find_coordinator("nobody")
    assert committed(client, f"nobody-{version}", created, version) == (ErrorCode.NONE, -1, "")


@pytest.mark.parametrize("metadata", ["", "a note", "größe 水 𝄞", "m" * 4096])
@pytest.mark.parametrize("version", [2, 8, 9])
def test_the_metadata_string_comes_back_as_it_was(client: RawClient, created: str, metadata: str, version: int) -> None:
    client.find_coordinator(created)
    partition = OffsetCommitRequestPartition(committed_offset=7, committed_metadata=metadata)
    topic = OffsetCommitRequestTopic(name=created, partitions=[partition])
    answer = client.ask(OffsetCommitRequest(group_id=created, topics=[topic]), version)
    size = len(metadata.encode())
    assert answer.topics[0].partitions[0].error_code == (0 if size <= 4096 else ErrorCode.OFFSET_METADATA_TOO_LARGE)
    assert committed(client, created, created, BY_NAME) == (ErrorCode.NONE, 7, metadata)


def listed(client: RawClient, topic: str, timestamp: int, version: int = 11) -> tuple[int, int, int]:
    """Error code, timestamp and offset."""
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[partition])])
    answer = client.ask(request, version).topics[0].partitions[0]
    return answer.error_code, answer.timestamp, answer.offset


@pytest.fixture
def timed(client: RawClient, created: str) -> str:
    """Offsets 0 to 2 at NOW + 10 to 12, then 3 and 4 a while before them."""
    client.produce(created, batch_of(b"0", b"1", b"2", timestamp_ms=NOW + 10))
    client.produce(created, batch_of(b"3", b"4", timestamp_ms=NOW))
    return created


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (0, (0, NOW + 10, 0)),
        (NOW + 11, (0, NOW + 11, 1)),
        (NOW + 12, (0, NOW + 12, 2)),
        (NOW + 13, (0, -1, -1)),
        (-1, (0, -1, 5)),
        (-2, (0, -1, 0)),
        (-3, (0, NOW + 12, 2)),
        (-4, (0, -1, 0)),
        (-5, (0, -1, -1)),
    ],
)
def test_times_and_names(client: RawClient, timed: str, timestamp: int, expected: tuple[int, int, int]) -> None:
    assert listed(client, timed, timestamp) == expected


@pytest.mark.parametrize(("timestamp", "since"), [(-3, 7), (-4, 8), (-5, 9)])
def test_a_name_is_not_known_before_its_version(client: RawClient, timed: str, timestamp: int, since: int) -> None:
    assert listed(client, timed, timestamp, since)[0] == ErrorCode.NONE
    assert listed(client, timed, timestamp, since - 1)[0] == ErrorCode.UNSUPPORTED_VERSION


def test_an_empty_log_has_ends_and_no_times(client: RawClient, created: str) -> None:
    assert [listed(client, created, timestamp) for timestamp in (-1, -2, -3, 0)] == [
        (0, -1, 0),
        (0, -1, 0),
        (0, -1, -1),
        (0, -1, -1),
    ]
