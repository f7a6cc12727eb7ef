"""Cases of Kafka's own tests of consumer groups that have members of the classic protocol."""

from typing import Any

import pytest
from tests.unit.coordinator.group.consumer.bench import GROUP, REBALANCE_MS, Bench, told
from tests.unit.coordinator.group.consumer.both import SETTINGS, Both, synced
from tests.unit.coordinator.group.consumer.test_classic_members import with_one
from tests.unit.coordinator.group.consumer.test_downgrade import mixed

from penstock.coordinator.group.settings import MigrationPolicy
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

PATTERN: dict[str, Any] = {"subscribed_topic_names": None, "subscribed_topic_regex": "a"}


def leave(bench: Bench, *members: MemberIdentity) -> list[ErrorCode]:
    bench.take(bench.shard.leave("leave", LeaveGroupRequest(group_id=GROUP, members=list(members)), 5, bench.now_ms))
    return [ErrorCode(member.error_code) for member in bench.replies["leave"].members]


def test_in_a_full_group_an_instance_has_its_place_and_no_other_one_has() -> None:
    bench = Both(SETTINGS.replace(consumer=SETTINGS.consumer.replace(max_size=2)), a=2)
    bench.join("m1", "a")
    assert bench.classic_join("", "a", group_instance_id="i").error_code == ErrorCode.NONE
    assert bench.classic_join("", "a", group_instance_id="i").error_code == ErrorCode.NONE
    assert bench.classic_join("", "a", group_instance_id="j").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert len(bench.group.state.members) == 2


def test_an_instance_that_comes_again_may_read_other_topics() -> None:
    bench = Both(a=1, b=1)
    bench.join("m1", "c")
    one = bench.classic_join("", "a", group_instance_id="i").member_id
    epoch = bench.group.state.epoch
    joined = bench.classic_join(one, "a", "b", owned={"a": [0]}, group_instance_id="i")
    assert joined.generation_id == epoch + 1
    assert synced(bench.classic_sync(one, epoch + 1, group_instance_id="i")) == {"a": [0], "b": [0]}


def test_the_old_id_of_an_instance_is_fenced_when_it_syncs() -> None:
    bench = Both(a=1)
    bench.join("m1", "a")
    one = bench.classic_join("", "a", group_instance_id="i").member_id
    epoch = bench.classic_join("", "a", group_instance_id="i").generation_id
    assert bench.classic_sync(one, epoch, group_instance_id="i").error_code == ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize("topics", [("a",), ("a", "b")])
def test_a_classic_member_takes_the_place_of_one_with_an_expression(topics: tuple[str, ...]) -> None:
    bench = Both(a=1, b=1)
    bench.join("m0", "c")
    bench.join("m1", instance_id="i", **PATTERN)
    bench.come_back()
    bench.beat("m1", bench.group.state.current("m1").epoch, instance_id="i")
    bench.beat("m1", -2, instance_id="i")
    assert bench.group.state.expressions
    epoch = bench.group.state.epoch
    joined = bench.classic_join("", *topics, group_instance_id="i")
    member = bench.group.state.members[joined.member_id]
    assert (joined.error_code, member.pattern or "", member.topics) == (ErrorCode.NONE, "", topics)
    assert bench.group.state.epoch == epoch + 1
    assert not bench.group.state.expressions


def test_so_a_group_becomes_classic_when_the_last_consumer_gives_nothing_up() -> None:
    bench, *classic = mixed()
    bench.join("m2", "a")
    bench.beat("m2", -1)
    for member_id in classic:
        bench.classic_leave(member_id)
    bench.beat("m1", bench.group.state.current("m1").epoch, {"a": [0]})
    one = bench.newcomer("a")
    answer = bench.beat("m1", bench.group.state.current("m1").epoch)
    assert told(answer) is not None
    for _ in range(REBALANCE_MS // 5_000):
        assert bench.kind == "consumer"
        epoch = bench.group.state.current("m1").epoch
        bench.beat("m1", epoch, {"a": [0, 1, 2]})
        generation = bench.group.state.current(one).epoch
        bench.classic_join(one, "a")
        bench.classic_sync(one, generation)
        bench.advance(5_000)
    assert bench.kind == "classic"


def test_members_of_all_kinds_leave_together() -> None:
    bench = Both(a=3)
    bench.join("m1", "a")
    two = bench.classic_join("", "a", group_instance_id="i2").member_id
    bench.classic_join("", "a", group_instance_id="i3")
    bench.join("m4", "a", instance_id="i4")
    one = bench.newcomer("a")
    epoch = bench.group.state.epoch
    assert leave(
        bench,
        MemberIdentity(member_id=one),
        MemberIdentity(member_id=two, group_instance_id="i2"),
        MemberIdentity(group_instance_id="i3"),
        MemberIdentity(member_id=two, group_instance_id="i4"),
        MemberIdentity(group_instance_id="nobody"),
    ) == [*[ErrorCode.NONE] * 3, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNKNOWN_MEMBER_ID]
    assert (set(bench.group.state.members), bench.group.state.epoch) == ({"m1", "m4"}, epoch + 1)


def test_who_is_put_out_takes_its_expression_along() -> None:
    bench, _ = with_one()
    bench.join("m2", **PATTERN)
    bench.come_back()
    bench.beat("m2", bench.group.state.current("m2").epoch)
    assert bench.group.state.expressions
    assert leave(bench, MemberIdentity(member_id="m2")) == [ErrorCode.NONE]
    assert not bench.group.state.expressions


def test_where_nobody_is_put_out_nothing_is_written() -> None:
    bench, _ = with_one()
    written = len(bench.log)
    found = leave(bench, MemberIdentity(member_id="x"), MemberIdentity(group_instance_id="y"))
    assert found == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    assert len(bench.log) == written


@pytest.mark.parametrize("policy", list(MigrationPolicy))
def test_an_empty_group_goes_from_one_protocol_to_the_other_whatever_the_policy(policy: MigrationPolicy) -> None:
    bench = Both(SETTINGS.replace(consumer=SETTINGS.consumer.replace(migration_policy=policy)), a=1)
    (one,) = bench.classic({"a": [0]})
    bench.classic_leave(one)
    assert (bench.kind, bench.join("m1", "a").error_code, bench.kind) == ("classic", ErrorCode.NONE, "consumer")
    bench.beat("m1", -1)
    assert bench.classic_join("", "a").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE, "it makes way first"
    bench.newcomer("a")
    assert bench.kind == "classic"


@pytest.mark.parametrize("policy", list(MigrationPolicy))
def test_offsets_without_a_group_make_room_whatever_the_policy(policy: MigrationPolicy) -> None:
    bench = Both(SETTINGS.replace(consumer=SETTINGS.consumer.replace(migration_policy=policy)), a=1)
    topic = OffsetCommitRequestTopic(
        name="a", partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=7)]
    )
    bench.take(bench.shard.commit("c", OffsetCommitRequest(group_id=GROUP, topics=[topic]), 9, bench.now_ms))
    assert told(bench.join("m1", "a")) == {"a": [0]}
    assert (bench.kind, bench.shard.offsets(GROUP)["a"][0].offset) == ("consumer", 7)
