"""Whose offsets a consumer group takes and tells, and what becomes of them where the group is of another kind."""

from typing import Any

import pytest
from tests.unit.coordinator.group.consumer.bench import CALLER, GROUP, Bench, told, two

from penstock.coordinator.group.records import GroupRecord
from penstock.coordinator.group.settings import GroupSettings
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.messages.sync_group import SyncGroupRequest


def commit(bench: Bench, member_id: str, epoch: int, *partitions: int, version: int = 9) -> Any:
    request = OffsetCommitRequest(
        group_id=GROUP,
        member_id=member_id,
        generation_id_or_member_epoch=epoch,
        topics=[
            OffsetCommitRequestTopic(
                name="a",
                partitions=[
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=7) for index in partitions
                ],
            )
        ],
    )
    bench.take(bench.shard.commit("commit", request, version, bench.now_ms))
    codes = {one.error_code for topic in bench.replies["commit"].topics for one in topic.partitions}
    assert len(codes) == 1
    return codes.pop()


def join_classic(bench: Bench, member_id: str = "") -> Any:
    request = JoinGroupRequest(
        group_id=GROUP,
        member_id=member_id,
        protocol_type="consumer",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    bench.take(bench.shard.join("join", request, CALLER._replace(api_version=9), bench.now_ms))
    return bench.replies.get("join")


@pytest.mark.parametrize(
    ("member_id", "epoch", "partition", "version", "code"),
    [
        ("m1", 3, 0, 9, ErrorCode.NONE),
        ("m1", 3, 1, 9, ErrorCode.NONE),
        ("m1", 3, 0, 8, ErrorCode.UNSUPPORTED_VERSION),
        ("m1", 4, 0, 9, ErrorCode.STALE_MEMBER_EPOCH),
        ("m1", 2, 0, 9, ErrorCode.NONE),
        ("m1", 2, 1, 9, ErrorCode.STALE_MEMBER_EPOCH),
        ("m2", 2, 1, 9, ErrorCode.STALE_MEMBER_EPOCH),
        ("m9", 3, 0, 9, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, 0, 9, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_whose_offsets_are_taken(member_id: str, epoch: int, partition: int, version: int, code: ErrorCode) -> None:
    """m1 has partition 0 since epoch 2, m2 has partition 1 since epoch 3."""
    bench = two()
    assert commit(bench, member_id, epoch, partition, version=version) == code


def test_one_partition_that_is_not_held_refuses_the_whole_request() -> None:
    assert commit(two(), "m1", 2, 0, 1) == ErrorCode.STALE_MEMBER_EPOCH


def test_an_empty_group_takes_offsets_of_an_administrator() -> None:
    bench = Bench(a=1)
    bench.join("m1", "a")
    bench.beat("m1", -1)
    assert commit(bench, "", -1, 0) == ErrorCode.NONE


@pytest.mark.parametrize(
    ("member_id", "epoch", "code"),
    [
        (None, -1, ErrorCode.NONE),
        ("m1", 3, ErrorCode.NONE),
        ("m1", 2, ErrorCode.STALE_MEMBER_EPOCH),
        ("m1", 4, ErrorCode.STALE_MEMBER_EPOCH),
        ("m9", 3, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_is_told_offsets(member_id: str | None, epoch: int, code: ErrorCode) -> None:
    assert two().shard.check_fetch(GROUP, member_id, epoch) == code


def test_what_is_not_committed_counts_for_no_fetch() -> None:
    bench = two()
    bench.grow("a", 1)
    bench.holds = True
    bench.beat("m1", 3)
    assert bench.shard.check_fetch(GROUP, "m1", 3) == ErrorCode.NONE
    bench.commit()
    assert bench.shard.check_fetch(GROUP, "m1", 4) == ErrorCode.NONE


@pytest.mark.parametrize("is_restarted", [False, True])
def test_offsets_without_a_group_belong_to_whoever_comes(is_restarted: bool) -> None:
    bench = Bench(a=1)
    assert commit(bench, "", -1, 0) == ErrorCode.NONE
    if is_restarted:
        bench.restart()
    assert told(bench.join("m1", "a")) == {"a": [0]}
    assert bench.shard.offsets(GROUP)["a"][0].offset == 7
    assert [group.group_type for group in bench.shard.list_groups()] == ["consumer"]


def empty_classic() -> Bench:
    bench = Bench(a=1)
    member_id = join_classic(bench).member_id
    join_classic(bench, member_id)
    bench.advance(60_000)
    assert [(one.group_type, one.group_state) for one in bench.shard.list_groups()] == [("classic", "Empty")]
    return bench


def test_an_empty_classic_group_becomes_a_consumer_group() -> None:
    bench = empty_classic()
    bench.join("m1", "a")
    assert [group.group_type for group in bench.shard.list_groups()] == ["consumer"]
    bench.restart()
    assert bench.beat("m1", 2).error_code == ErrorCode.NONE


def test_it_is_classic_again_if_that_cannot_be_written() -> None:
    bench = empty_classic()
    bench.holds = True
    bench.join("m1", "a")
    bench.fail()
    assert [group.group_type for group in bench.shard.list_groups()] == ["classic"]


def test_a_classic_group_with_members_stays_what_it_is() -> None:
    bench = Bench(a=1)
    join_classic(bench, join_classic(bench).member_id)
    assert bench.join("m1", "a").error_code == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("fails", [False, True])
def test_an_empty_consumer_group_becomes_classic_by_a_join(fails: bool) -> None:
    bench = Bench(a=1)
    bench.join("m1", "a")
    bench.beat("m1", -1)
    bench.holds = True
    assert join_classic(bench).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.described().group_state == "Empty"
    assert join_classic(bench).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE, "it is not known yet what is there"
    if fails:
        bench.fail()
    bench.commit()
    assert bench.described().group_state == ("Empty" if fails else "")
    if not fails:
        assert join_classic(bench).error_code == ErrorCode.MEMBER_ID_REQUIRED
    bench.restart()
    assert [group.group_type for group in bench.shard.list_groups()] == (["consumer"] if fails else [])


def test_who_joins_a_classic_group_that_was_a_consumer_group_may_sync() -> None:
    bench = Bench(GroupSettings(initial_rebalance_delay_ms=0), a=1)
    bench.join("m1", "a")
    bench.beat("m1", -1)
    bench.holds = True
    join_classic(bench)
    bench.commit()
    member_id = join_classic(bench).member_id
    join_classic(bench, member_id)
    bench.advance(1)
    joined = bench.replies["join"]
    request = SyncGroupRequest(group_id=GROUP, member_id=member_id, generation_id=joined.generation_id)
    bench.take(bench.shard.sync("sync", request, bench.now_ms))
    bench.commit()
    assert bench.replies["sync"].error_code == ErrorCode.NONE


def test_a_tombstone_of_one_kind_leaves_a_group_of_the_other() -> None:
    bench = Bench(a=1)
    bench.join("m1", "a")
    image = bench.shard._table.image
    before = image.group("consumer", GROUP)
    image.apply(GroupRecord(GROUP, None))
    assert image.group("consumer", GROUP) is before is not None


def test_a_group_with_an_offset_about_to_be_pending_is_there_after_a_join_that_failed() -> None:
    bench = Bench(a=1)
    bench.holds = True
    partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=7)]
    request = OffsetCommitRequest(group_id=GROUP, topics=[OffsetCommitRequestTopic(name="a", partitions=partitions)])
    bench.take(bench.shard.commit_pending("pending", request, 8, 3, bench.now_ms))
    bench.join("m1", "a")
    pending, join = bench.under_way
    bench.under_way = [pending]
    bench.take(bench.shard.appended(join.write_id, ErrorCode.NOT_ENOUGH_REPLICAS, bench.now_ms))
    bench.commit()
    assert [group.group_id for group in bench.shard.list_groups()] == [GROUP]
