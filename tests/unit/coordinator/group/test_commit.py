"""What is kept of a commit, and what of it is refused."""

from random import Random

import pytest

from penstock.coordinator.effects import Append, Reply
from penstock.coordinator.group.classic.member import Caller
from penstock.coordinator.group.records import GroupMetadataValue, GroupRecord
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.shards.groups import GroupShard
from penstock.metadata.image import ClusterImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.messages.sync_group import SyncGroupRequest

INTERVAL_MS = 20_000
JOIN = JoinGroupRequest(
    group_id="reports",
    session_timeout_ms=10_000,
    rebalance_timeout_ms=10_000,
    protocol_type="consumer",
    protocols=[JoinGroupRequestProtocol(name="range")],
)


def commit(shard: GroupShard, *metadata: str | None) -> list[int]:
    """Commit an offset for a partition with each of these metadata; the errors."""
    partitions = [
        OffsetCommitRequestPartition(partition_index=number, committed_offset=7, committed_metadata=text)
        for number, text in enumerate(metadata)
    ]
    topics = [OffsetCommitRequestTopic(name="flights", partitions=partitions)]
    effects = shard.commit("token", OffsetCommitRequest(group_id="reports", topics=topics), 8, 0)
    for append in [effect for effect in effects if isinstance(effect, Append)]:
        effects += shard.appended(append.write_id, ErrorCode.NONE, 0)
    (reply,) = [effect for effect in effects if isinstance(effect, Reply)]
    return [partition.error_code for partition in reply.response.topics[0].partitions]  # type: ignore[attr-defined]


def started() -> GroupShard:
    shard = GroupShard(
        GroupSettings(offset_metadata_max_bytes=5, offsets_retention_check_interval_ms=INTERVAL_MS),
        Random(1),
        ClusterImage(),
    )
    shard.loaded(0)
    return shard


def test_metadata_are_kept_and_none_are_empty_ones() -> None:
    shard = started()
    assert commit(shard, "half", None, "") == [ErrorCode.NONE] * 3
    kept = shard.offsets("reports")["flights"]
    assert [offset.metadata for offset in kept.values()] == ["half", "", ""]


def test_metadata_that_are_too_large_are_refused_and_nothing_else() -> None:
    shard = started()
    assert commit(shard, "12345", "123456", None) == [
        ErrorCode.NONE,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.NONE,
    ]
    assert list(shard.offsets("reports")["flights"]) == [0, 2]


def test_offsets_are_looked_through_once_in_an_interval() -> None:
    shard = started()
    assert shard.next_deadline_ms() == INTERVAL_MS
    shard.wake(INTERVAL_MS)
    assert shard.next_deadline_ms() == 2 * INTERVAL_MS


@pytest.mark.parametrize(("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_generation_of_a_group_that_is_not_there_is_refused(version: int, code: ErrorCode) -> None:
    shard = started()
    topic = OffsetCommitRequestTopic(name="flights", partitions=[OffsetCommitRequestPartition(committed_offset=7)])
    request = OffsetCommitRequest(group_id="reports", generation_id_or_member_epoch=0, topics=[topic])
    (reply,) = shard.commit("token", request, version, 0)
    assert isinstance(reply, Reply)
    assert reply.response.topics[0].partitions[0].error_code == code  # type: ignore[attr-defined]


def commits_that_fail(shard: GroupShard, count: int) -> list[str]:
    """Commits of the group `reports` are under way together; the groups that are there afterwards."""
    topic = OffsetCommitRequestTopic(name="flights", partitions=[OffsetCommitRequestPartition(committed_offset=7)])
    request = OffsetCommitRequest(group_id="reports", topics=[topic])
    effects = [effect for _ in range(count) for effect in shard.commit("token", request, 8, 0)]
    first = effects[0]
    assert isinstance(first, Append)
    replies = shard.appended(first.write_id, ErrorCode.NOT_ENOUGH_REPLICAS, 0)
    assert len([one for one in replies if isinstance(one, Reply)]) == count
    return [group.group_id for group in shard.list_groups()]


@pytest.mark.parametrize("count", [1, 2])
def test_a_group_whose_first_commit_fails_has_never_been(count: int) -> None:
    assert commits_that_fail(started(), count) == []


def test_a_group_that_was_there_stays_when_a_commit_fails() -> None:
    with_offsets = started()
    commit(with_offsets, None)
    assert commits_that_fail(with_offsets, 1) == ["reports"]
    without = GroupShard(GroupSettings(), Random(1), ClusterImage())
    without.read(*GroupRecord("reports", GroupMetadataValue(protocol_type="consumer")).encode())
    without.loaded(0)
    assert commits_that_fail(without, 1) == ["reports"]
    with_a_member_to_come = started()
    with_a_member_to_come.join("join", JOIN, Caller("c", "/h", 4), 0)
    assert commits_that_fail(with_a_member_to_come, 1) == ["reports"]


def test_a_member_that_was_asked_is_waited_for_until_its_commit_is_in_the_log() -> None:
    shard = GroupShard(GroupSettings(initial_rebalance_delay_ms=0), Random(1), ClusterImage())
    shard.loaded(0)
    shard.join("join", JOIN, Caller("c", "/h", 3), 0)
    (joined,) = [effect.response for effect in shard.wake(0) if isinstance(effect, Reply)]
    assert isinstance(joined, JoinGroupResponse)
    member = {"group_id": "reports", "member_id": joined.member_id, "generation_id": 1}
    (assigned,) = shard.sync("sync", SyncGroupRequest(**member), 0)  # type: ignore[arg-type]
    assert isinstance(assigned, Append)
    shard.appended(assigned.write_id, ErrorCode.NONE, 0)
    shard.classic_groups()[0].members[joined.member_id].commits_when_asked = True
    assert shard.have_members_commit("all", 1_000, 0) == []
    assert shard.asks_for_commit(HeartbeatRequest(**member))  # type: ignore[arg-type]
    topic = OffsetCommitRequestTopic(name="flights", partitions=[OffsetCommitRequestPartition(committed_offset=7)])
    request = OffsetCommitRequest(
        group_id="reports", generation_id_or_member_epoch=1, member_id=joined.member_id, topics=[topic]
    )
    for error, over in ((ErrorCode.NOT_ENOUGH_REPLICAS, []), (ErrorCode.NONE, [Reply("all", 0)])):
        (append,) = shard.commit("commit", request, 8, 0)
        assert isinstance(append, Append)
        ended = shard.appended(append.write_id, error, 0)
        assert [effect for effect in ended if isinstance(effect, Reply) and effect.token == "all"] == over
    shard.have_members_commit("all", 1_000, 0)
    assert Reply("all", 1) in shard.unload(0)
