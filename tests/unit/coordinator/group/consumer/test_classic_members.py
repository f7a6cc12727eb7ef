"""What classic members of a consumer group are answered."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.coordinator.group.consumer.bench import GROUP, told
from tests.unit.coordinator.group.consumer.both import (
    CLASSIC_REBALANCE_MS,
    CLASSIC_SESSION_MS,
    SETTINGS,
    Both,
    synced,
)

from penstock.coordinator.group.classic.join import MOST_PROTOCOLS
from penstock.coordinator.group.settings import Bounded, MigrationPolicy
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)


def with_one() -> tuple[Both, str]:
    """A consumer m1 and a classic member have one partition each, at epoch 3."""
    bench = Both(a=2)
    bench.join("m1", "a")
    one = bench.newcomer("a")
    bench.classic_sync(one, 3)
    bench.beat("m1", 2)
    bench.beat("m1", 2, {"a": [0]})
    bench.classic_join(one, "a")
    bench.classic_sync(one, 3)
    assert bench.described().group_state == "Stable"
    return bench, one


def test_a_newcomer_is_told_its_id_joins_and_gets_what_is_free() -> None:
    bench = Both(a=2)
    bench.join("m1", "a")
    written = len(bench.log)
    answer = bench.classic_join("", "a")
    assert (answer.error_code, len(bench.log)) == (ErrorCode.MEMBER_ID_REQUIRED, written)
    joined = bench.classic_join(answer.member_id, "a")
    assert (joined.error_code, joined.member_id, joined.generation_id) == (0, answer.member_id, 3)
    assert (joined.leader, joined.members, joined.protocol_name) == ("", [], "range")
    assert synced(bench.classic_sync(joined.member_id, 3)) == {}
    assert bench.classic_beat(joined.member_id, 3) == ErrorCode.NONE, "m1 has its partition still"
    assert told(bench.beat("m1", 2)) == {"a": [0]}
    bench.beat("m1", 2, {"a": [0]})
    assert bench.classic_beat(joined.member_id, 3) == ErrorCode.REBALANCE_IN_PROGRESS, "it is free"
    assert bench.classic_join(joined.member_id, "a").generation_id == 3
    assert synced(bench.classic_sync(joined.member_id, 3, protocol_type="consumer", protocol_name="range")) == {
        "a": [1]
    }
    types = {member.member_id: member.member_type for member in bench.described().members}
    assert types == {"m1": 1, joined.member_id: 0}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"version": 3}, ErrorCode.NONE),
        ({"group_instance_id": "i1"}, ErrorCode.NONE),
        ({"protocols": ("roundrobin", "range")}, ErrorCode.MEMBER_ID_REQUIRED),
        ({"protocols": ("roundrobin",)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"metadata": b"\0", "version": 3}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"session_timeout_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocols": ("range",) * MOST_PROTOCOLS}, ErrorCode.MEMBER_ID_REQUIRED),
        ({"protocols": ("range",) * (MOST_PROTOCOLS + 1)}, ErrorCode.INVALID_REQUEST),
        ({"group_instance_id": "i9", "member_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_may_join(fields: dict[str, Any], code: ErrorCode) -> None:
    bench, _ = with_one()
    answer = bench.classic_join(fields.pop("member_id", ""), "a", **fields)
    assert answer.error_code == code


def test_a_group_that_is_full_lets_nobody_in_but_members() -> None:
    bench, one = with_one()
    bench.shard.consumers._house.settings = SETTINGS.consumer.replace(max_size=2)
    assert bench.classic_join("", "a").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert bench.classic_join(one, "a", owned={"a": [1]}).error_code == ErrorCode.NONE


@pytest.mark.parametrize("policy", list(MigrationPolicy))
def test_classic_members_join_whatever_the_policy_but_where_it_is_disabled(policy: MigrationPolicy) -> None:
    bench = Both(SETTINGS.replace(consumer=SETTINGS.consumer.replace(migration_policy=policy)), a=2)
    bench.join("m1", "a")
    is_disabled = policy is MigrationPolicy.DISABLED
    expected = ErrorCode.INCONSISTENT_GROUP_PROTOCOL if is_disabled else ErrorCode.MEMBER_ID_REQUIRED
    assert bench.classic_join("", "a").error_code == expected


def test_who_was_put_out_and_says_that_it_owns_something_gives_it_up_first() -> None:
    bench, one = with_one()
    bench.classic_leave(one)
    bench.join("m2", "a")
    assert bench.classic_join(one, "a", owned={"a": [1]}).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.classic_join("", "a").error_code == ErrorCode.MEMBER_ID_REQUIRED


def test_a_member_that_changes_its_topics_opens_an_epoch() -> None:
    bench, one = with_one()
    bench.grow("b", 1)
    joined = bench.classic_join(one, "a", "b", owned={"a": [1]})
    assert joined.generation_id == 4
    assert synced(bench.classic_sync(one, 4)) in ({"a": [1], "b": [0]}, {"b": [0]})


# -- static members ---------------------------------------------------------------------------------------------------


def test_an_instance_that_comes_back_has_its_place_and_the_old_id_is_fenced() -> None:
    bench = Both(a=2)
    bench.join("m1", "a")
    one = bench.classic_join("", "a", group_instance_id="i1").member_id
    bench.beat("m1", 2)
    bench.beat("m1", 2, {"a": [0]})
    epoch = bench.classic_join(one, "a", group_instance_id="i1").generation_id
    two = bench.classic_join("", "a", group_instance_id="i1")
    assert (two.error_code, two.generation_id) == (0, epoch), "no new epoch"
    assert two.member_id != one
    assert synced(bench.classic_sync(two.member_id, epoch, group_instance_id="i1")) == {"a": [1]}
    assert bench.classic_beat(one, epoch, group_instance_id="i1") == ErrorCode.FENCED_INSTANCE_ID
    assert bench.classic_join(one, "a", group_instance_id="i1").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert bench.classic_beat(two.member_id, epoch, group_instance_id="i1") == ErrorCode.NONE


def test_an_instance_goes_from_one_protocol_to_the_other_and_back() -> None:
    bench = Both(a=2)
    bench.join("m1", "a")
    one = bench.classic_join("", "a", group_instance_id="i1").member_id
    assert bench.join("m2", "a", instance_id="i1").error_code == ErrorCode.NONE, "classic ones never say that they go"
    assert bench.classic_beat(one, 3, group_instance_id="i1") == ErrorCode.FENCED_INSTANCE_ID
    assert bench.group.state.classic_members == 0
    assert bench.join("m3", "a", instance_id="i1").error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    three = bench.classic_join("", "a", group_instance_id="i1")
    assert three.error_code == ErrorCode.NONE
    assert bench.beat("m2", 3, instance_id="i1").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert bench.group.state.classic_members == 1


# -- SyncGroup and Heartbeat ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("member_id", "generation", "fields", "code"),
    [
        ("x", 3, {}, ErrorCode.UNKNOWN_MEMBER_ID),
        ("m1", 3, {}, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", 3, {}, ErrorCode.NONE),
        ("", 2, {}, ErrorCode.ILLEGAL_GENERATION),
        ("", 4, {}, ErrorCode.ILLEGAL_GENERATION),
        ("", 3, {"group_instance_id": "i9"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", 3, {"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("", 3, {"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_whose_syncs_and_heartbeats_are_good(
    member_id: str, generation: int, fields: dict[str, Any], code: ErrorCode
) -> None:
    bench, one = with_one()
    assert bench.classic_sync(member_id or one, generation, **fields).error_code == code
    if not fields or "group_instance_id" in fields:
        assert bench.classic_beat(member_id or one, generation, **fields) == code


def test_a_member_that_has_a_new_target_is_called_back_by_both() -> None:
    bench, one = with_one()
    bench.join("m2", "a")
    assert bench.classic_beat(one, 3) == ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.classic_sync(one, 3).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_while_the_next_assignment_waits_members_go_on_with_what_they_have() -> None:
    bench, one = with_one()
    bench.shard.consumers._house.settings = SETTINGS.consumer.replace(assignment_interval=Bounded(60_000, 0, 60_000))
    bench.join("m2", "a")
    assert bench.described().group_state == "Assigning"
    assert bench.classic_beat(one, 3) == ErrorCode.NONE
    assert synced(bench.classic_sync(one, 3)) == {"a": [1]}


def test_an_assignment_waits_for_all_that_it_rests_on() -> None:
    bench, one = with_one()
    bench.holds = True
    bench.classic_join(one, "a", owned={"a": [1]}, session_timeout_ms=11_000)
    assert bench.replies.get(("join", one)) is None
    assert bench.classic_sync(one, 3) is None
    bench.commit()
    assert synced(bench.replies["sync", one]) == {"a": [1]}


# -- timers -----------------------------------------------------------------------------------------------------------


def test_a_silent_member_is_out_after_its_own_session() -> None:
    bench, one = with_one()
    bench.advance(CLASSIC_SESSION_MS - 1)
    bench.classic_beat(one, 3)
    bench.advance(CLASSIC_SESSION_MS - 1)
    assert one in bench.group.state.members
    bench.advance(1)
    assert set(bench.group.state.members) == {"m1"}


@pytest.mark.parametrize("joins", [False, True])
def test_who_is_called_and_does_not_come_is_out(joins: bool) -> None:
    bench, one = with_one()
    bench.join("m2", "a")
    assert bench.classic_beat(one, 3) == ErrorCode.REBALANCE_IN_PROGRESS
    bench.advance(5_000)
    epoch = bench.classic_join(one, "a").generation_id if joins else 3
    step_ms = 5_000
    for _ in range((CLASSIC_REBALANCE_MS - (0 if joins else step_ms)) // step_ms):
        assert one in bench.group.state.members
        bench.classic_beat(one, epoch)
        bench.advance(step_ms)
    assert one not in bench.group.state.members, "it has not synced" if joins else "it has not joined"


def test_who_has_synced_is_waited_for_no_more() -> None:
    bench, one = with_one()
    for _ in range(10):
        bench.advance(5_000)
        assert bench.classic_beat(one, 3) == ErrorCode.NONE
        bench.beat("m1", 3)


# -- offsets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("generation", "partition", "version", "code"),
    [
        (3, 1, 2, ErrorCode.NONE),
        (3, 0, 9, ErrorCode.NONE),
        (4, 1, 9, ErrorCode.ILLEGAL_GENERATION),
        (2, 1, 9, ErrorCode.ILLEGAL_GENERATION),
        (-1, 1, 9, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_whose_offsets_are_taken(generation: int, partition: int, version: int, code: ErrorCode) -> None:
    bench, one = with_one()
    partitions = [OffsetCommitRequestPartition(partition_index=partition, committed_offset=7)]
    request = OffsetCommitRequest(
        group_id=GROUP,
        member_id="" if generation < 0 else one,
        generation_id_or_member_epoch=generation,
        topics=[OffsetCommitRequestTopic(name="a", partitions=partitions)],
    )
    bench.take(bench.shard.commit("commit", request, version, bench.now_ms))
    assert bench.replies["commit"].topics[0].partitions[0].error_code == code


def test_who_may_be_told_offsets() -> None:
    bench, one = with_one()
    assert bench.shard.check_fetch(GROUP, one, 3) == ErrorCode.NONE
    assert bench.shard.check_fetch(GROUP, one, 2) == ErrorCode.ILLEGAL_GENERATION
    assert bench.shard.check_fetch(GROUP, "m1", 2) == ErrorCode.STALE_MEMBER_EPOCH
