"""Deletions of very many offsets are cut into batches that a log takes."""

from random import Random

import pytest
from tests.unit.coordinator.group.slow_log import Log

from penstock.coordinator.effects import Append
from penstock.coordinator.group.records import TOMBSTONES_AT_ONCE, GroupMetadataValue, GroupRecord
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.shards.groups import GroupShard
from penstock.metadata.image import ClusterImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)


def test_a_large_group_is_deleted_in_batches_and_others_run_in_between() -> None:
    log = Log()
    log.commit("large", 2 * TOMBSTONES_AT_ONCE + 5)
    log.take(log.shard.delete_group("delete", "large", 0))
    assert log.run() == [TOMBSTONES_AT_ONCE, TOMBSTONES_AT_ONCE, 6]
    assert log.answers == [ErrorCode.NONE]
    assert [*log.shard.list_groups()] == []


@pytest.mark.parametrize(("offsets", "last"), [(-2, []), (-1, []), (0, [1])])
def test_a_deletion_has_no_empty_batch(offsets: int, last: list[int]) -> None:
    log = Log()
    log.commit("large", TOMBSTONES_AT_ONCE + offsets)
    log.take(log.shard.delete_group("delete", "large", 0))
    assert log.run() == [min(TOMBSTONES_AT_ONCE + offsets + 1, TOMBSTONES_AT_ONCE), *last]


def test_nothing_is_left_of_a_deletion_when_another_node_goes_on() -> None:
    log = Log()
    log.commit("orders", 1)
    log.take(log.shard.delete_group("delete", "orders", 0))
    log.take(log.shard.unload(0))
    assert log.answers == [ErrorCode.NOT_COORDINATOR]
    assert [*log.shard.list_groups()] == []


def test_who_waits_for_a_deletion_is_answered_where_another_node_goes_on_between_two_batches() -> None:
    log = Log()
    log.commit("large", 2 * TOMBSTONES_AT_ONCE)
    log.take(log.shard.delete_group("delete", "large", 0))
    log.settle()
    log.take(log.shard.unload(0))
    assert log.answers == [ErrorCode.NOT_COORDINATOR]


@pytest.mark.parametrize(("fails", "written"), [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])
def test_a_batch_that_fails_leaves_the_group_with_what_it_and_later_ones_would_have_taken(
    fails: int, written: int
) -> None:
    log = Log()
    log.commit("large", 2 * TOMBSTONES_AT_ONCE + 5)
    log.take(log.shard.delete_group("delete", "large", 0))
    for now_ms in range(1, written):
        log.take(log.shard.wake(now_ms))
    sizes = [TOMBSTONES_AT_ONCE, TOMBSTONES_AT_ONCE, 5]
    for _ in range(fails):
        log.settle()
    log.settle(ErrorCode.NOT_ENOUGH_REPLICAS)
    log.take(log.shard.wake(written))
    assert (log.answers, log.appends) == ([ErrorCode.COORDINATOR_NOT_AVAILABLE], [])
    assert log.offsets("large") == sum(sizes[fails:])
    (group,) = log.shard.list_groups()
    assert (group.group_id, group.group_state) == ("large", "Empty")
    log.answers.clear()
    log.take(log.shard.delete_group("again", "large", 0))
    log.run()
    assert log.answers == [ErrorCode.NONE]
    assert [*log.shard.list_groups()] == []


def test_a_group_without_offsets_is_there_again_when_its_deletion_fails() -> None:
    shard = GroupShard(GroupSettings(), Random(1), ClusterImage())
    shard.read(*GroupRecord("bare", GroupMetadataValue(protocol_type="consumer")).encode())
    shard.loaded(0)
    (append,) = shard.delete_group("delete", "bare", 0)
    assert isinstance(append, Append)
    shard.appended(append.write_id, ErrorCode.NOT_ENOUGH_REPLICAS, 0)
    assert [group.group_id for group in shard.classic_groups()] == ["bare"]


def test_a_deletion_takes_along_what_is_being_committed() -> None:
    log = Log()
    partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=7)]
    topics = [OffsetCommitRequestTopic(name="flights", partitions=partitions)]
    log.take(log.shard.commit("commit", OffsetCommitRequest(group_id="orders", topics=topics), 8, 0))
    log.take(log.shard.delete_group("delete", "orders", 0))
    log.settle()
    log.settle()
    assert log.answers[-1] is ErrorCode.NONE
    assert log.shard.offsets("orders") == {}
    assert [*log.shard.list_groups()] == []


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS])
def test_an_offset_that_is_being_deleted_is_not_called_gone(error: ErrorCode) -> None:
    log = Log()
    log.commit("orders", 1)
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    topics = [OffsetDeleteRequestTopic(name="flights", partitions=partitions)]
    for token in ("first", "second"):
        log.take(log.shard.delete_offsets(token, OffsetDeleteRequest(group_id="orders", topics=topics), 0))
    assert len(log.appends) == 1
    assert log.answers == []
    log.settle(error)
    expected = ErrorCode.NONE if error is ErrorCode.NONE else ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert [answer.error_code for answer in log.answers] == [expected] * 2  # type: ignore[attr-defined]
    assert log.offsets("orders") == (error is not ErrorCode.NONE)


def test_a_group_with_a_long_name_is_taken_away_in_batches_that_fit() -> None:
    log = Log()
    name = "g" * 32_000
    for begin in range(0, 60, 20):
        partitions = [OffsetCommitRequestPartition(partition_index=begin + n, committed_offset=n) for n in range(20)]
        topics = [OffsetCommitRequestTopic(name="flights", partitions=partitions)]
        log.take(log.shard.commit("commit", OffsetCommitRequest(group_id=name, topics=topics), 8, 0))
        log.settle()
    log.take(log.shard.delete_group("delete", name, 0))
    for now_ms in range(1, 10):
        log.take(log.shard.wake(now_ms))
    assert len(log.appends) > 1
    assert all(sum(len(key) for key, _ in append.records) < 1_000_000 for append in log.appends)
    while log.appends:
        log.settle()
    assert [*log.shard.list_groups()] == []
