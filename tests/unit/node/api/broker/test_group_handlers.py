"""The handlers of groups where they do more than hand on: versions, topics that are not there, filters."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.node.coordinators.test_groups import join_request, stable
from tests.unit.node.group_node import FLIGHTS_ID, GroupNode, ask, context

from penstock.node.api.broker.delete_groups import delete_groups
from penstock.node.api.broker.describe_groups import describe_groups
from penstock.node.api.broker.heartbeat import heartbeat
from penstock.node.api.broker.join_group import join_group
from penstock.node.api.broker.leave_group import leave_group
from penstock.node.api.broker.list_groups import GROUPS_A_STEP, list_groups
from penstock.node.api.broker.offset_commit import offset_commit
from penstock.node.api.broker.offset_delete import offset_delete
from penstock.node.api.broker.offset_fetch import PARTITIONS_A_STEP, offset_fetch
from penstock.node.api.broker.sync_group import sync_group
from penstock.node.serving.late_answer import LateAnswer
from penstock.node.serving.slices import at_once
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.delete_groups import DeleteGroupsRequest
from penstock.protocol.messages.describe_groups import DescribeGroupsRequest
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from penstock.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.protocol.messages.list_groups import ListGroupsRequest
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from penstock.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from penstock.protocol.messages.sync_group import SyncGroupRequest
from penstock.protocol.requests.api import ApiKey, api_of
from penstock.protocol.uuids import ZERO_UUID

UNKNOWN_ID = FLIGHTS_ID.__class__(int=99)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[GroupNode]:
    node = GroupNode(tmp_path)
    node.create_flights()
    node.create_offsets_topic()
    await node.ready()
    yield node
    await node.stop()


def commit_topic(name: str, partitions: dict[int, int], topic_id: object = ZERO_UUID) -> OffsetCommitRequestTopic:
    topic = OffsetCommitRequestTopic(name=name)
    if topic_id is not ZERO_UUID:
        topic = topic.replace(topic_id=topic_id)
    topic.partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata=f"at {offset}")
        for index, offset in partitions.items()
    ]
    return topic


async def commit(node: GroupNode, version: int, *topics: OffsetCommitRequestTopic) -> dict[tuple[str, int], str]:
    """What became of each partition, after a way over the wire and back."""
    request, _ = decode(
        OffsetCommitRequest,
        version,
        encode(OffsetCommitRequest(group_id="reports", topics=list(topics)), version),
    )
    response = await ask(offset_commit, node, version, request)
    answer, _ = decode(OffsetCommitResponse, version, encode(response, version))
    return {
        (topic.name or str(topic.topic_id.int), one.partition_index): ErrorCode(one.error_code).name
        for topic in answer.topics
        for one in topic.partitions
    }


@pytest.mark.parametrize("version", range(2, 10))
async def test_commits_of_what_exists_are_taken_and_others_refused(node: GroupNode, version: int) -> None:
    results = await commit(node, version, commit_topic("flights", {0: 5, 7: 6}), commit_topic("nowhere", {0: 1}))
    assert results == {
        ("flights", 0): "NONE",
        ("flights", 7): "UNKNOWN_TOPIC_OR_PARTITION",
        ("nowhere", 0): "UNKNOWN_TOPIC_OR_PARTITION",
    }
    assert await commit(node, version, commit_topic("nowhere", {0: 1})) == {
        ("nowhere", 0): "UNKNOWN_TOPIC_OR_PARTITION"
    }


async def test_commits_by_topic_id(node: GroupNode) -> None:
    results = await commit(node, 10, commit_topic("", {1: 5, 7: 6}, FLIGHTS_ID), commit_topic("", {0: 1}, UNKNOWN_ID))
    assert results == {
        ("8", 1): "NONE",
        ("8", 7): "UNKNOWN_TOPIC_OR_PARTITION",
        ("99", 0): "UNKNOWN_TOPIC_ID",
    }
    assert await fetch(node, 10) == {("8", 1): (5, "at 5", "NONE")}
    assert await fetch(node, 9) == {("flights", 1): (5, "at 5", "NONE")}


async def test_offsets_of_a_deleted_topic_are_not_those_of_its_successor(node: GroupNode) -> None:
    await commit(node, 10, commit_topic("", {1: 5}, FLIGHTS_ID))
    node.broker.image.topics["flights"].topic_id = UNKNOWN_ID
    assert await fetch(node, 9) == {("flights", 1): (-1, "", "NONE")}


async def fetch(
    node: GroupNode, version: int, topics: dict[str, list[int]] | None = None, group: str = "reports"
) -> dict[tuple[str, int], tuple[int, str | None, str]]:
    request = OffsetFetchRequest(group_id=group, topics=None)
    if topics is not None:
        request.topics = [
            OffsetFetchRequestTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()
        ]
    new_topics = None
    if topics is not None:
        ids = {"flights": FLIGHTS_ID}
        new_topics = [
            OffsetFetchRequestTopics(name=name, topic_id=ids.get(name, UNKNOWN_ID), partition_indexes=indexes)
            for name, indexes in topics.items()
        ]
    request.groups = [OffsetFetchRequestGroup(group_id=group, topics=new_topics)]
    sent, _ = decode(OffsetFetchRequest, version, encode(request, version))
    response = await ask(offset_fetch, node, version, sent)
    answer, _ = decode(OffsetFetchResponse, version, encode(response, version))
    if version < 8:
        assert answer.error_code == ErrorCode.NONE
        return {
            (topic.name, one.partition_index): (one.committed_offset, one.metadata, ErrorCode(one.error_code).name)
            for topic in answer.topics
            for one in topic.partitions
        }
    (only,) = answer.groups
    assert (only.group_id, only.error_code) == (group, ErrorCode.NONE)
    return {
        (topic.name or str(topic.topic_id.int), one.partition_index): (
            one.committed_offset,
            one.metadata,
            ErrorCode(one.error_code).name,
        )
        for topic in only.topics
        for one in topic.partitions
    }


@pytest.mark.parametrize("version", range(1, 10))
async def test_offsets_and_metadata_come_back_as_they_were(node: GroupNode, version: int) -> None:
    await commit(node, 8, commit_topic("flights", {0: 5}))
    assert await fetch(node, version, {"flights": [0, 2], "nowhere": [0]}) == {
        ("flights", 0): (5, "at 5", "NONE"),
        ("flights", 2): (-1, "", "NONE"),
        ("nowhere", 0): (-1, "", "NONE"),
    }
    assert await fetch(node, version, {"flights": [0]}, group="unknown") == {("flights", 0): (-1, "", "NONE")}
    if version >= 2:
        assert await fetch(node, version) == {("flights", 0): (5, "at 5", "NONE")}
        assert await fetch(node, version, group="unknown") == {}


async def test_a_group_that_is_named_again_is_told_of_once_in_all_that_is_asked_about_it(node: GroupNode) -> None:
    await commit(node, 8, commit_topic("flights", {0: 5, 1: 6}))

    async def told(*topics: list[OffsetFetchRequestTopics] | None) -> list[tuple[str, list[int]]]:
        asked = [OffsetFetchRequestGroup(group_id="reports", topics=some) for some in topics]
        (group,) = (await ask(offset_fetch, node, 9, OffsetFetchRequest(groups=asked))).groups
        return [(topic.name, [one.partition_index for one in topic.partitions]) for topic in group.topics]

    def of(name: str, *indexes: int) -> list[OffsetFetchRequestTopics]:
        return [OffsetFetchRequestTopics(name=name, partition_indexes=list(indexes))]

    assert await told(of("flights", 1, 1), of("gates", 0), of("flights", 0, 1)) == [("flights", [1, 0]), ("gates", [0])]
    assert await told(of("gates", 0), None, of("gates", 1)) == [("flights", [0, 1])]


async def test_very_many_offsets_are_told_in_slices(node: GroupNode) -> None:
    asked = OffsetFetchRequestTopics(name="flights", partition_indexes=list(range(10 * PARTITIONS_A_STEP)))
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="reports", topics=[asked])])
    answer = offset_fetch(node.broker, context(9, 9), request)
    assert isinstance(answer, Awaitable)
    (group,) = (await answer).groups
    assert len(group.topics[0].partitions) == 10 * PARTITIONS_A_STEP


async def test_an_unknown_topic_id_is_an_error(node: GroupNode) -> None:
    assert await fetch(node, 10, {"nowhere": [0], "flights": [0]}) == {
        ("99", 0): (-1, "", "UNKNOWN_TOPIC_ID"),
        ("8", 0): (-1, "", "NONE"),
    }


async def test_a_wrong_coordinator_is_said_where_the_version_has_room(node: GroupNode) -> None:
    await node.groups.stop()
    asked = [OffsetFetchRequestTopic(name="flights", partition_indexes=[0])]
    first = await ask(offset_fetch, node, 1, OffsetFetchRequest(group_id="g", topics=asked))
    assert first.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    second = await ask(offset_fetch, node, 2, OffsetFetchRequest(group_id="g", topics=asked))
    assert (second.error_code, second.topics) == (ErrorCode.NOT_COORDINATOR, [])
    eighth = await ask(offset_fetch, node, 8, OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g")]))
    assert eighth.groups[0].error_code == ErrorCode.NOT_COORDINATOR
    refused = await commit(node, 8, commit_topic("flights", {0: 5}))
    assert refused == {("flights", 0): "NOT_COORDINATOR"}


async def join(node: GroupNode, group: str, version: int = 3) -> JoinGroupResponse:
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=60_000,
        protocol_type="connect",
        protocols=[JoinGroupRequestProtocol(name="sessioned", metadata=b"url")],
    )
    answer = await ask(join_group, node, version, request)
    assert isinstance(answer, JoinGroupResponse)
    return answer


async def test_no_group_id_is_invalid(node: GroupNode) -> None:
    assert (await join(node, "")).error_code == ErrorCode.INVALID_GROUP_ID
    for handler, request in (
        (sync_group, SyncGroupRequest()),
        (heartbeat, HeartbeatRequest()),
        (leave_group, LeaveGroupRequest()),
    ):
        assert (await ask(handler, node, 3, request)).error_code == ErrorCode.INVALID_GROUP_ID


async def test_the_handlers_of_one_member(node: GroupNode) -> None:
    required = await join(node, "workers", 9)
    assert required.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert required.member_id.startswith("anna-")
    joined = await join(node, "workers")
    leave = LeaveGroupRequest(group_id="workers", members=[MemberIdentity(member_id=required.member_id)])
    assert (await ask(leave_group, node, 5, leave)).members[0].error_code == ErrorCode.NONE
    beat = HeartbeatRequest(group_id="workers", member_id=joined.member_id, generation_id=1)
    assert (await ask(heartbeat, node, 4, beat)).error_code == ErrorCode.NONE
    described = await ask(describe_groups, node, 3, DescribeGroupsRequest(groups=["workers"]))
    (group,) = described.groups
    assert (group.group_state, group.protocol_type) == ("CompletingRebalance", "connect")
    assert (group.members[0].client_id, group.members[0].client_host) == ("anna", "/10.0.0.1")
    assert group.authorized_operations == -(1 << 31)


async def test_a_group_is_told_of_once_however_often_it_is_named(node: GroupNode) -> None:
    asked = DescribeGroupsRequest(groups=["none", "other", "none"])
    assert [group.group_id for group in (await ask(describe_groups, node, 6, asked)).groups] == ["none", "other"]


async def test_describe_and_list(node: GroupNode) -> None:
    await join(node, "workers")
    await commit(node, 8, commit_topic("flights", {0: 5}))
    asked = DescribeGroupsRequest(groups=["reports", "nobody"], include_authorized_operations=True)
    for version, expected in ((5, ErrorCode.NONE), (6, ErrorCode.GROUP_ID_NOT_FOUND)):
        reports, nobody = (await ask(describe_groups, node, version, asked)).groups
        assert (reports.group_state, nobody.group_state) == ("Empty", "Dead")
        assert (reports.error_code, nobody.error_code) == (ErrorCode.NONE, expected)
        of_nobody = -(1 << 31) if expected else reports.authorized_operations
        assert (reports.authorized_operations, nobody.authorized_operations) == (0b110101001000, of_nobody)
    for request, names in (
        (ListGroupsRequest(), ["reports", "workers"]),
        (ListGroupsRequest(states_filter=["empty"]), ["reports"]),
        (ListGroupsRequest(states_filter=["Stable", "CompletingRebalance"]), ["workers"]),
        (ListGroupsRequest(types_filter=["Classic"]), ["reports", "workers"]),
        (ListGroupsRequest(types_filter=["consumer"]), []),
    ):
        answer = await ask(list_groups, node, 5, request)
        assert sorted(group.group_id for group in answer.groups) == names


async def test_very_many_groups_are_listed_in_steps(node: GroupNode) -> None:
    for number in range(2 * GROUPS_A_STEP):
        topics = [commit_topic("flights", {0: 5})]
        await ask(offset_commit, node, 8, OffsetCommitRequest(group_id=f"g-{number}", topics=topics))
    steps = list_groups(node.broker, context(16, 5), ListGroupsRequest())
    assert [next(steps) for _ in range(2)] == [None] * 2
    assert len(at_once(steps).groups) == 2 * GROUPS_A_STEP


async def test_delete_groups_and_offsets(node: GroupNode) -> None:
    await join(node, "workers")
    await commit(node, 8, commit_topic("flights", {0: 5, 1: 6}))
    topics = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
        )
        for name, indexes in (("flights", [0, 9]), ("nowhere", [0]))
    ]
    deleted = await ask(offset_delete, node, 0, OffsetDeleteRequest(group_id="reports", topics=topics))
    assert [topic.name for topic in deleted.topics] == ["flights", "nowhere"], "each topic is answered once"
    assert {(t.name, p.partition_index): p.error_code for t in deleted.topics for p in t.partitions} == {
        ("flights", 0): ErrorCode.NONE,
        ("flights", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("nowhere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert await fetch(node, 8) == {("flights", 1): (6, "at 6", "NONE")}
    request = DeleteGroupsRequest(groups_names=["reports", "workers", "nobody", "reports"])
    answer = await ask(delete_groups, node, 2, request)
    assert [(result.group_id, ErrorCode(result.error_code).name) for result in answer.results] == [
        ("reports", "NONE"),
        ("workers", "NON_EMPTY_GROUP"),
        ("nobody", "GROUP_ID_NOT_FOUND"),
    ]
    assert await fetch(node, 8) == {}


@pytest.mark.parametrize("version", range(6))
async def test_leaving_a_group_that_is_not_there(node: GroupNode, version: int) -> None:
    leavers = [MemberIdentity(member_id="m"), MemberIdentity(member_id="n", group_instance_id="i")]
    request = LeaveGroupRequest(group_id="nobody", member_id="m", members=leavers if version >= 3 else [])
    answer = await ask(leave_group, node, version, request)
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    if version >= 3:
        assert answer.error_code == ErrorCode.NONE
        told = [(member.member_id, member.group_instance_id, member.error_code) for member in answer.members]
        assert told == [("m", None, unknown), ("n", "i", unknown)]
    else:
        assert answer.error_code == unknown


def test_what_is_served() -> None:
    from penstock.node.serving.handler import load_handlers

    served = {api_of(key).key.name: (handler.lowest, handler.newest) for key, handler in load_handlers().items()}
    expected = {
        "OFFSET_COMMIT": (2, 10),
        "OFFSET_FETCH": (1, 10),
        "FIND_COORDINATOR": (0, 6),
        "JOIN_GROUP": (0, 9),
        "HEARTBEAT": (0, 4),
        "LEAVE_GROUP": (0, 5),
        "SYNC_GROUP": (0, 5),
        "DESCRIBE_GROUPS": (0, 6),
        "LIST_GROUPS": (0, 5),
        "DELETE_GROUPS": (0, 3),
        "OFFSET_DELETE": (0, 0),
    }
    assert {name: served[name] for name in expected} == expected


async def test_members_that_wait_are_no_tasks(node: GroupNode) -> None:
    """Thousands of them may wait, and be told all at once."""
    first = await stable(node)
    tasks, told = asyncio.all_tasks(), dict[str, list[JoinGroupResponse]](waits=[], gone=[])
    for name, heard in told.items():
        waiting = join_group(node.broker, context(ApiKey.JOIN_GROUP, 3), join_request())
        assert isinstance(waiting, LateAnswer)
        waiting.listen(cast("Any", SimpleNamespace(told=heard.append)))
        if name == "gone":
            waiting.call_off()
    assert asyncio.all_tasks() == tasks
    again = join_group(node.broker, context(ApiKey.JOIN_GROUP, 3), join_request(member=first.member_id))
    assert not isinstance(again, LateAnswer), "all are there"
    assert [one.generation_id for one in told["waits"]] == [again.generation_id]  # type: ignore[union-attr]
    assert told["gone"] == []
