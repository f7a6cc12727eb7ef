"""A classic group with members becomes a consumer group."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.unit.coordinator.group.consumer.bench import GROUP, told, topic_id
from tests.unit.coordinator.group.consumer.both import CLASSIC_SESSION_MS, SETTINGS, Both, synced

from penstock.client.consumer_protocol import encode_assignment
from penstock.client.values import TopicPartition
from penstock.coordinator.group.consumer.values import STABLE, Current
from penstock.coordinator.group.records import key_version_of
from penstock.coordinator.group.settings import MigrationPolicy
from penstock.protocol.errors import ErrorCode


def policy(value: MigrationPolicy) -> Both:
    settings = SETTINGS.replace(consumer=SETTINGS.consumer.replace(migration_policy=value))
    return Both(settings, a=2, b=2)


def test_members_stay_with_what_they_have_and_come_to_their_targets_by_rejoining() -> None:
    bench = Both(a=2, b=2)
    one, two = bench.classic({"a": [0, 1]}, {"b": [0, 1]})
    generation, written = bench.classic_group.generation, len(bench.log)
    answer = bench.join("m1", "a")
    assert (answer.error_code, answer.member_epoch, told(answer)) == (0, generation + 1, {})
    assert len(bench.log) == written + 1, "one batch"
    assert (key_version_of(bench.log[-1].records[0][0]), bench.log[-1].records[0][1]) == (2, None)
    state = bench.group.state
    assert state.current(one) == Current(generation, generation, STABLE, {topic_id("a"): dict.fromkeys((0, 1), 1)})
    assert state.members[one].classic.session_timeout_ms == CLASSIC_SESSION_MS
    assert state.members[one].topics == ("a", "b")
    assert bench.classic_beat(one, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.classic_beat(two, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    target = state.target(one)[topic_id("a")]
    assert len(target) == 1, "the consumer gets the other one"
    joined = bench.classic_join(one, "a", "b", owned={"a": [0, 1]})
    assert (joined.generation_id, joined.leader, joined.members) == (generation, "", []), "it is to give one up"
    assert synced(bench.classic_sync(one, generation)) == {"a": list(target)}
    assert bench.classic_beat(one, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    assert told(bench.beat("m1", generation + 1)) is None, "it has not said that it has given it up"
    joined = bench.classic_join(one, "a", "b", owned={"a": list(target)})
    assert (joined.generation_id, joined.protocol_type, joined.protocol_name) == (generation + 1, "consumer", "range")
    assert synced(bench.classic_sync(one, generation + 1)) == {"a": list(target)}
    assert bench.classic_beat(one, generation + 1) == ErrorCode.NONE
    assert told(bench.beat("m1", generation + 1)) == {"a": [1 - target[0]]}


def test_what_a_member_has_not_given_up_yet_nobody_else_gets() -> None:
    """It said that it has a:1 when it joined, was assigned a:0 alone, and has not asked for that."""
    bench = Both(a=2)
    one = bench.classic_join("", "a").member_id
    bench.classic_join(one, "a", owned={"a": [0, 1]})
    bench.advance(1)
    data = {one: encode_assignment([TopicPartition("a", 0)])}
    bench.classic_sync(one, 1, data)
    bench.join("m1", "a")
    assert bench.group.state.current(one).assigned[topic_id("a")].keys() == {0, 1}
    assert told(bench.beat("m1", 2)) is None
    bench.classic_join(one, "a", owned={"a": [0]})
    assert told(bench.beat("m1", 2)) == {"a": [1]}


def test_parked_joins_and_syncs_are_told_to_join_again() -> None:
    bench = Both(a=2)
    one = bench.newcomer("a")
    bench.advance(1)
    bench.classic_sync(one, 1, {})
    two = bench.newcomer("a")
    assert bench.replies.get(("join", two)) is None
    bench.join("m1", "a")
    assert bench.replies["join", two].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert set(bench.group.state.members) == {one, two, "m1"}

    bench = Both(a=2)
    ids = [bench.newcomer("a") for _ in range(2)]
    bench.advance(1)
    for member_id in ids:
        bench.classic_join(member_id, "a")
    follower = next(one for one in ids if one != bench.classic_group.leader_id)
    assert bench.classic_sync(follower, bench.classic_group.generation) is None
    generation = bench.classic_group.generation
    bench.join("m1", "a")
    assert bench.replies["sync", follower].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.group.state.current(follower).epoch == generation


def test_what_nobody_has_yet_is_given_out_though_only_a_static_member_changes_its_protocol() -> None:
    bench = Both(a=2)
    bench.classic_join("", "a", group_instance_id="i1")
    bench.newcomer("a")
    bench.advance(1)
    bench.join("m1", "a", instance_id="i1")
    assert len(bench.group.state.members) == 2
    targets = bench.group.state.targets
    assert sum(len(indexes) for target in targets.values() for indexes in target.values()) == 2


def test_a_group_that_has_never_settled_goes_up_too() -> None:
    bench = Both(SETTINGS.replace(initial_rebalance_delay_ms=3_000), a=2)
    one = bench.newcomer("a")
    assert bench.join("m1", "a").member_epoch == 2
    assert bench.replies["join", one].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.classic_join(one, "a").generation_id == 2
    assert synced(bench.classic_sync(one, 2)) == {"a": [0]}


def protocol_type(bench: Both) -> None:
    bench.classic_group.protocol_type = "connect"


def two_owners(bench: Both) -> None:
    for member in bench.classic_group.members.values():
        member.assignment = encode_assignment([TopicPartition("a", 0)])


def malformed(bench: Both) -> None:
    for member in bench.classic_group.members.values():
        member.protocols = [("range", b"\0")]


@pytest.mark.parametrize("spoil", [protocol_type, two_owners, malformed])
def test_a_group_that_cannot_be_taken_over_stays_classic(spoil: Callable[[Both], None]) -> None:
    bench = Both(a=2, b=2)
    one, _ = bench.classic({"a": [0]}, {"a": [1]})
    spoil(bench)
    written = len(bench.log)
    answer = bench.join("m1", "a")
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "no consumer group" in (answer.error_message or "")
    assert (bench.kind, len(bench.log)) == ("classic", written)
    assert bench.classic_beat(one, bench.classic_group.generation) == ErrorCode.NONE


def test_user_data_in_an_assignment_refuses() -> None:
    bench = Both(a=2, b=2)
    bench.classic({"a": [0]}, user_data=b"mine")
    assert bench.join("m1", "a").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_of_more_members_than_a_consumer_group_may_have_stays_classic() -> None:
    bench = Both(SETTINGS.replace(consumer=SETTINGS.consumer.replace(max_size=1)), a=2, b=2)
    bench.classic({"a": [0]}, {"a": [1]})
    assert bench.join("m1", "a").error_code == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("value", list(MigrationPolicy))
def test_the_policy_says_whether_a_group_goes_up(value: MigrationPolicy) -> None:
    bench = policy(value)
    bench.classic({"a": [0, 1]})
    goes_up = value in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)
    assert bench.join("m1", "a").error_code == (ErrorCode.NONE if goes_up else ErrorCode.GROUP_ID_NOT_FOUND)
    assert bench.kind == ("consumer" if goes_up else "classic")


def test_a_heartbeat_that_does_not_join_changes_no_group() -> None:
    bench = Both(a=2, b=2)
    bench.classic({"a": [0, 1]})
    assert bench.beat("m1", 1).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert bench.beat("m1", 0, {}, subscribed_topic_names=["a"]).error_code == ErrorCode.INVALID_REQUEST
    assert bench.kind == "classic"


def test_it_is_classic_again_if_it_cannot_be_written() -> None:
    bench = Both(a=2, b=2)
    one, _ = bench.classic({"a": [0]}, {"a": [1]})
    bench.holds = True
    bench.join("m1", "a")
    bench.classic_join(one, "a", "b", owned={"a": [0]})
    assert bench.kind == "consumer"
    bench.fail()
    assert bench.replies["m1", 0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.replies["join", one].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.kind == "classic"
    assert bench.classic_beat(one, 1) == ErrorCode.NONE
    bench.restart()
    assert bench.classic_beat(one, 1) == ErrorCode.NONE


def test_another_coordinator_goes_on_with_it() -> None:
    bench = Both(a=2, b=2)
    one, _ = bench.classic({"a": [0]}, {"a": [1]})
    bench.join("m1", "a")
    bench.restart()
    assert [group.group_type for group in bench.shard.list_groups()] == ["consumer"]
    assert bench.classic_beat(one, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    bench.advance(CLASSIC_SESSION_MS)
    assert set(bench.group.state.members) == {"m1"}, "classic members have sessions of their own"
    assert bench.shard._table.image.group("classic", GROUP) is None
