"""What is kept of a commit, and what of it is refused."""

from random import Random

import pytest

from penstock.coordinator.effects import Append, Reply
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.shards.groups import GroupShard
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

INTERVAL_MS = 20_000


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
        GroupSettings(offset_metadata_max_bytes=5, offsets_retention_check_interval_ms=INTERVAL_MS), Random(1)
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


def test_a_group_whose_first_commit_fails_has_never_been() -> None:
    shard = started()
    topic = OffsetCommitRequestTopic(name="flights", partitions=[OffsetCommitRequestPartition(committed_offset=7)])
    request = OffsetCommitRequest(group_id="reports", topics=[topic])
    (append,) = shard.commit("token", request, 8, 0)
    assert isinstance(append, Append)
    shard.appended(append.write_id, ErrorCode.NOT_ENOUGH_REPLICAS, 0)
    assert shard.list_groups() == []
