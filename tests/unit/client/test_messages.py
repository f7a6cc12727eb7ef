"""What clients ask, and what they make of answers, in the versions that ask in different forms."""

from collections.abc import Callable

import pytest

from penstock.client.messages import (
    Committed,
    Membership,
    check_commit,
    commit_request,
    committed_in,
    committed_request,
    coordinator_in,
    coordinator_request,
    list_offsets_request,
    listed_offsets,
    metadata_request,
    produce_request,
    producer_id_request,
)
from penstock.client.values import IsolationLevel, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from penstock.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_topics_are_asked_for_by_name_or_all_or_none() -> None:
    assert metadata_request(None).topics is None
    assert metadata_request([]).topics == []
    some = metadata_request(["t"], create=True)
    assert [row.name for row in some.topics or ()] == ["t"]
    assert some.allow_auto_topic_creation
    assert not metadata_request(["t"]).allow_auto_topic_creation


@pytest.mark.parametrize(("version", "key", "keys"), [(3, "g", []), (4, "", ["g"])])
def test_a_coordinator_is_asked_for_in_both_forms(version: int, key: str, keys: list[str]) -> None:
    request = coordinator_request("g", version)
    assert (request.key, request.coordinator_keys, request.key_type) == (key, keys, 0)


def test_a_coordinator_is_found_in_both_forms() -> None:
    row = Coordinator(key="g", node_id=3, host="h", port=9)
    for answer in (FindCoordinatorResponse(node_id=3, host="h", port=9), FindCoordinatorResponse(coordinators=[row])):
        assert coordinator_in(answer, "g") == (3, Address("h", 9))
    row.error_code = DENIED
    for refusal in (FindCoordinatorResponse(error_code=DENIED), FindCoordinatorResponse(coordinators=[row])):
        with pytest.raises(KafkaError, match="coordinator of group 'g'"):
            coordinator_in(refusal, "g")


def test_a_producer_has_no_transaction() -> None:
    assert producer_id_request().transactional_id is None


def test_each_partition_has_its_batch() -> None:
    request = produce_request({T0: b"0", U0: b"2", T1: b"1"}, acks=-1, timeout_ms=7)
    assert (request.acks, request.timeout_ms) == (-1, 7)
    rows = {it.name: [(row.index, row.records) for row in it.partition_data] for it in request.topic_data}
    assert rows == {"t": [(0, b"0"), (1, b"1")], "u": [(0, b"2")]}


def test_offsets_by_time() -> None:
    request = list_offsets_request({T0: -1, T1: 5}, IsolationLevel.READ_COMMITTED, 7)
    assert (request.replica_id, request.isolation_level, request.timeout_ms) == (-1, 1, 7)
    assert [(row.partition_index, row.timestamp) for row in request.topics[0].partitions] == [(0, -1), (1, 5)]
    assert list_offsets_request({}, IsolationLevel.READ_UNCOMMITTED, 7, replica_id=-2).replica_id == -2
    rows = [
        ListOffsetsPartitionResponse(partition_index=0, offset=9, timestamp=8, leader_epoch=2),
        ListOffsetsPartitionResponse(partition_index=1, error_code=DENIED),
    ]
    found, refused = listed_offsets(ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=rows)]))
    assert found == {T0: OffsetAndTimestamp(9, 8, 2)}
    assert [(partition, error.code) for partition, error in refused.items()] == [(T1, DENIED)]


@pytest.mark.parametrize("version", [7, 8])
@pytest.mark.parametrize(("partitions", "asked"), [(None, None), ([], []), ([T0, U0, T1], [("t", [0, 1]), ("u", [0])])])
def test_commits_are_asked_for_by_partition_or_all(
    version: int, partitions: list[TopicPartition] | None, asked: list[tuple[str, list[int]]] | None
) -> None:
    request = committed_request("g", partitions, version, require_stable=True)
    assert request.require_stable
    assert not committed_request("g", partitions, version).require_stable
    assert len(request.groups) == (version >= 8)
    part = request.groups[0] if request.groups else request
    assert part.group_id == "g"
    assert (None if part.topics is None else [(it.name, it.partition_indexes) for it in part.topics]) == asked


def single(code: ErrorCode, of_row: ErrorCode) -> OffsetFetchResponse:
    rows = [
        OffsetFetchResponsePartition(partition_index=0, committed_offset=0, metadata="m", committed_leader_epoch=2),
        OffsetFetchResponsePartition(partition_index=1, committed_offset=-1, metadata=None, error_code=of_row),
        OffsetFetchResponsePartition(partition_index=2, committed_offset=5, metadata=None, committed_leader_epoch=-1),
    ]
    return OffsetFetchResponse(error_code=code, topics=[OffsetFetchResponseTopic(name="t", partitions=rows)])


def by_groups(code: ErrorCode, of_row: ErrorCode) -> OffsetFetchResponse:
    rows = [
        OffsetFetchResponsePartitions(**{name: getattr(row, name) for name in row.__fields__})
        for row in single(code, of_row).topics[0].partitions
    ]
    topics = [OffsetFetchResponseTopics(name="t", partitions=rows)]
    return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", error_code=code, topics=topics)])


@pytest.mark.parametrize("form", [single, by_groups])
def test_commits_are_found_in_both_forms(form: Callable[[ErrorCode, ErrorCode], OffsetFetchResponse]) -> None:
    found: Committed = committed_in(form(ErrorCode.NONE, ErrorCode.NONE), "g")
    assert found == {T0: OffsetAndMetadata(0, "m", 2), TopicPartition("t", 2): OffsetAndMetadata(5, "", -1)}
    for codes, about in (((DENIED, ErrorCode.NONE), "group 'g'"), ((ErrorCode.NONE, DENIED), "offset of t-1")):
        with pytest.raises(KafkaError, match=about):
            committed_in(form(*codes), "g")


def test_a_commit_says_who_commits_what() -> None:
    request = commit_request("g", {T0: OffsetAndMetadata(5, "m", 2)}, Membership(3, "id", "static"))
    assert (request.group_id, request.generation_id_or_member_epoch) == ("g", 3)
    assert (request.member_id, request.group_instance_id) == ("id", "static")
    (row,) = request.topics[0].partitions
    said = row.partition_index, row.committed_offset, row.committed_leader_epoch, row.committed_metadata
    assert said == (0, 5, 2, "m")
    assert commit_request("g", {}).generation_id_or_member_epoch == -1


def test_the_first_partition_whose_commit_was_refused_is_told() -> None:
    rows = [OffsetCommitResponsePartition(partition_index=n, error_code=code) for n, code in ((0, 0), (1, DENIED))]
    check_commit(OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=rows[:1])]))
    with pytest.raises(KafkaError, match="commit of t-1"):
        check_commit(OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=rows)]))
