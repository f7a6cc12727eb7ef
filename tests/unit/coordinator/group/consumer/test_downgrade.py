"""A consumer group in which only classic members are left is a classic one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.unit.coordinator.group.consumer.bench import SESSION_MS
from tests.unit.coordinator.group.consumer.both import SETTINGS, Both, synced

from penstock.client.consumer_protocol import decode_assignment
from penstock.coordinator.group.classic.group import GroupState
from penstock.coordinator.group.records import GROUP_KEY_VERSION, HISTORY_KEY_VERSION, decode_record, key_version_of
from penstock.coordinator.group.settings import MigrationPolicy
from penstock.protocol.errors import ErrorCode


def mixed(bench: Both | None = None, **fields: str) -> tuple[Both, str, str]:
    """A consumer m1 and two classic members that have come to their targets, at epoch 4; a has three partitions."""
    bench = bench or Both(a=3)
    bench.join("m1", "a", **fields)
    one, two = bench.newcomer("a"), bench.newcomer("a")
    for _ in range(2):
        epoch = bench.group.state.currents["m1"].epoch
        answer = bench.beat("m1", epoch, {"a": [0]})
        bench.beat("m1", answer.member_epoch, {"a": [0]})
        for member_id in (one, two):
            joined = bench.classic_join(member_id, "a")
            bench.classic_sync(member_id, joined.generation_id)
    assert bench.described().group_state == "Stable"
    assert bench.group.state.epoch == 4
    return bench, one, two


def leaves(bench: Both) -> None:
    bench.beat("m1", -1)


def is_put_out(bench: Both) -> None:
    bench.classic_leave("m1")


@pytest.mark.parametrize("goes", [leaves, is_put_out])
def test_the_last_consumer_goes_and_the_others_assign_among_themselves(goes: Callable[[Both], None]) -> None:
    bench, one, two = mixed()
    written = len(bench.log)
    goes(bench)
    assert len(bench.log) == written + 1, "one batch"
    *gone, (key, value), history = bench.log[-1].records
    assert key_version_of(history[0]) == HISTORY_KEY_VERSION
    assert all(tombstone is None for _, tombstone in gone)
    assert key_version_of(key) == GROUP_KEY_VERSION
    stored = decode_record(key, value)
    assert stored is not None
    group = bench.classic_group
    assert (group.state, group.generation, group.protocol_name) == (GroupState.PREPARING_REBALANCE, 4, "range")
    assert set(group.members) == {one, two}
    assert {tuple(decode_assignment(member.assignment)) for member in group.members.values()} == {
        (("a", 1),),
        (("a", 2),),
    }
    assert bench.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert bench.classic_beat(one, 4) == ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.classic_join(one, "a") is None
    assert bench.classic_join(two, "a").generation_id == 5
    assert bench.replies["join", one].leader == one
    assert len(bench.replies["join", one].members) == 2


def test_so_it_is_when_the_last_consumer_falls_silent() -> None:
    bench, *classic = mixed()
    for _ in range(SESSION_MS // 5_000):
        assert bench.kind == "consumer"
        bench.advance(5_000)
        for member_id in classic:
            bench.classic_beat(member_id, 4)
    assert bench.kind == "classic"


def test_a_consumer_that_goes_while_another_is_there_changes_no_protocol() -> None:
    bench, _, _ = mixed()
    bench.join("m2", "a")
    bench.beat("m2", -1)
    assert bench.kind == "consumer"
    bench.beat("m1", -1)
    assert bench.kind == "classic"


@pytest.mark.parametrize("policy", list(MigrationPolicy))
def test_the_policy_says_whether_a_group_goes_down(policy: MigrationPolicy) -> None:
    bench, _, _ = mixed()
    bench.shard.consumers._house.settings = SETTINGS.consumer.replace(migration_policy=policy)
    bench.beat("m1", -1)
    goes_down = policy in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)
    assert bench.kind == ("classic" if goes_down else "consumer")


def test_a_group_of_more_members_than_a_classic_one_may_have_stays() -> None:
    bench, _, _ = mixed(Both(SETTINGS.replace(max_size=1), a=3))
    bench.beat("m1", -1)
    assert bench.kind == "consumer"


def test_an_empty_group_is_not_classic() -> None:
    bench = Both(a=1)
    bench.join("m1", "a")
    bench.beat("m1", -1)
    assert bench.kind == "consumer"


def test_a_static_consumer_that_is_replaced_where_all_is_settled_needs_no_rebalance() -> None:
    bench, one, two = mixed(instance_id="i1")
    answer = bench.classic_join("", "a", group_instance_id="i1")
    assert (answer.error_code, answer.generation_id) == (ErrorCode.NONE, 4)
    assert bench.classic_group.state is GroupState.STABLE
    assert synced(bench.classic_sync(answer.member_id, 4, group_instance_id="i1")) == {"a": [0]}
    assert [bench.classic_beat(member_id, 4) for member_id in (one, two)] == [ErrorCode.NONE] * 2
    assert bench.beat("m1", 4, instance_id="i1").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    bench.restart()
    assert bench.classic_beat(one, 4) == ErrorCode.NONE


def test_one_that_reads_other_topics_joins_with_all_others() -> None:
    bench, one, two = mixed(instance_id="i1")
    bench.grow("b", 1)
    assert bench.classic_join("", "a", "b", group_instance_id="i1") is None
    assert bench.classic_group.state is GroupState.PREPARING_REBALANCE
    assert [bench.classic_beat(member_id, 4) for member_id in (one, two)] == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
    bench.classic_join(one, "a")
    bench.classic_join(two, "a")
    assert bench.replies["join", ""].generation_id == 5


def test_it_is_a_consumer_group_again_if_it_cannot_be_written() -> None:
    bench, one, two = mixed()
    bench.holds = True
    bench.beat("m1", -1)
    bench.classic_join(one, "a")
    assert bench.kind == "classic"
    bench.fail()
    assert bench.replies["m1", -1].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.replies["join", one].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (bench.kind, set(bench.group.state.members)) == ("consumer", {"m1", one, two})
    assert bench.described().group_state == "Stable"
    assert set(bench.group.sessions) == {"m1", one, two}


def test_another_coordinator_calls_the_members_back_too() -> None:
    bench, one, _ = mixed()
    bench.beat("m1", -1)
    bench.restart()
    assert bench.classic_group.state is GroupState.PREPARING_REBALANCE
    assert bench.classic_beat(one, 4) == ErrorCode.REBALANCE_IN_PROGRESS


def test_there_and_back_before_anything_is_committed() -> None:
    bench, one, two = mixed()
    bench.holds = True
    bench.beat("m1", -1)
    bench.join("m2", "a")
    assert (bench.kind, set(bench.group.state.members)) == ("consumer", {one, two, "m2"})
    bench.commit()
    assert bench.described().group_state in ("Reconciling", "Stable")
    bench.beat("m2", -1)
    assert bench.kind == "classic"


def test_targets_that_are_left_to_be_written_are_not() -> None:
    bench, _, _ = mixed()
    consumer = SETTINGS.consumer.replace(assigned_at_once=0)
    bench.settings = SETTINGS.replace(members_at_once=1, consumer=consumer)
    bench.restart()
    bench.join("m2", "a")
    bench.come_back()
    group = bench.group
    bench.beat("m2", -1)
    assert group.assigning is not None, "more of them are to be written"
    bench.beat("m1", -1)
    assert group.is_dead
    written = len(bench.log)
    bench.advance(10)
    assert len(bench.log) == written


def test_its_offsets_stay_and_no_timer_of_the_consumer_group_fires() -> None:
    bench, _, _ = mixed()
    group = bench.group
    timers = [*group.sessions.values(), *(wait.timer for wait in group.calls.values())]
    bench.beat("m1", -1)
    assert group.is_dead
    assert all(timer.deadline_ms is None for timer in timers)
    assert not group.sessions
    assert not group.calls
    assert bench.kind == "classic"
