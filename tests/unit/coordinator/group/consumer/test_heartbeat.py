"""What a member of a consumer group is answered, and what of it is written."""

from typing import Any
from uuid import UUID

import pytest
from tests.unit.coordinator.group.consumer.bench import AT_ONCE, GROUP, REBALANCE_MS, SESSION_MS, Bench, told, two

from penstock.coordinator.group.consumer import topic_hashes
from penstock.coordinator.group.consumer.topics import SLICE_MS
from penstock.coordinator.group.settings import ConsumerSettings, GroupSettings
from penstock.metadata.records import ConfigRecord
from penstock.metadata.resources import ResourceType
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity

JOINS: dict[str, Any] = {"subscribed_topic_names": ["a"], "rebalance_timeout_ms": 1}


def test_the_first_member_gets_all_in_the_first_answer() -> None:
    bench = Bench(a=3, b=1)
    answer = bench.join("m1", "b", "a")
    assert (answer.error_code, answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == (
        0,
        "m1",
        2,
        100,
    )
    assert told(answer) == {"a": [0, 1, 2], "b": [0]}
    answer = bench.beat("m1", 2)
    assert (answer.error_code, answer.member_epoch, answer.assignment) == (0, 2, None)


def test_what_moves_is_given_up_before_it_is_given_out() -> None:
    bench = Bench(AT_ONCE, a=2)
    bench.join("m1", "a")
    assert told(bench.join("m2", "a")) == {}
    answer = bench.beat("m1", 2)
    assert (answer.member_epoch, told(answer)) == (2, {"a": [0]})
    assert bench.beat("m2", 3).assignment is None
    assert bench.beat("m1", 2, {"a": [0, 1]}).member_epoch == 2, "it has not given it up"
    answer = bench.beat("m1", 2, {"a": [0]})
    assert (answer.member_epoch, answer.assignment) == (3, None)
    assert told(bench.beat("m2", 3)) == {"a": [1]}


def test_a_member_that_goes_leaves_its_partitions_to_the_others() -> None:
    bench = two()
    assert bench.beat("m2", -1).member_epoch == -1
    answer = bench.beat("m1", 3)
    assert (answer.member_epoch, told(answer)) == (4, {"a": [0, 1]})
    assert bench.beat("m2", 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_silent_member_is_out_after_its_session() -> None:
    bench = two()
    bench.advance(SESSION_MS - 1)
    bench.beat("m1", 3)
    bench.advance(1)
    assert list(bench.group.state.members) == ["m1"]
    assert told(bench.beat("m1", 3)) == {"a": [0, 1]}


def test_a_member_that_gives_nothing_up_is_out_when_its_time_is_over_and_not_before() -> None:
    bench = Bench(AT_ONCE, a=2)
    bench.join("m1", "a")
    bench.join("m2", "a")
    bench.beat("m1", 2)
    bench.advance(REBALANCE_MS - 1)
    bench.beat("m1", 2, {"a": [0, 1]})
    assert bench.beat("m2", 3).assignment is None
    bench.advance(1)
    assert bench.beat("m1", 2, {"a": [0, 1]}).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert told(bench.beat("m2", 3)) == {"a": [0, 1]}


@pytest.mark.parametrize(
    ("epoch", "owned", "code"),
    [
        (4, None, ErrorCode.FENCED_MEMBER_EPOCH),
        (3, None, ErrorCode.NONE),
        (2, {"a": [0]}, ErrorCode.NONE),
        (2, {}, ErrorCode.NONE),
        (2, {"a": [0, 1]}, ErrorCode.FENCED_MEMBER_EPOCH),
        (2, None, ErrorCode.FENCED_MEMBER_EPOCH),
        (1, {}, ErrorCode.FENCED_MEMBER_EPOCH),
        (-3, None, ErrorCode.INVALID_REQUEST),
        (0, {}, ErrorCode.NONE),
    ],
)
def test_which_epochs_are_good(epoch: int, owned: dict[str, list[int]] | None, code: ErrorCode) -> None:
    bench = two()
    fields: dict[str, Any] = JOINS if epoch == 0 else {}
    answer = bench.beat("m1", epoch, owned, **fields)
    assert answer.error_code == code
    if code is ErrorCode.NONE:
        assert answer.member_epoch == 3


def test_who_has_gone_for_a_while_does_not_go_on_from_where_it_was() -> None:
    bench = Bench(AT_ONCE, a=2)
    bench.join("m1", "a", instance_id="one")
    bench.join("m2", "a")
    bench.beat("m1", 2)
    assert bench.beat("m1", 2, {"a": [0]}).member_epoch == 3
    bench.beat("m1", -2, instance_id="one")
    for epoch in (1, 2, 3):
        assert bench.beat("m1", epoch, {}, instance_id="one").error_code == ErrorCode.FENCED_MEMBER_EPOCH


@pytest.mark.parametrize(
    ("member_id", "epoch", "owned", "fields", "version", "code"),
    [
        ("", 0, {}, JOINS, 1, ErrorCode.INVALID_REQUEST),
        ("", 0, {}, JOINS, 0, ErrorCode.NONE),
        ("", 1, None, {}, 0, ErrorCode.INVALID_REQUEST),
        ("", -1, None, {}, 0, ErrorCode.INVALID_REQUEST),
        ("m", 0, {}, JOINS | {"rebalance_timeout_ms": -1}, 1, ErrorCode.INVALID_REQUEST),
        ("m", 0, None, JOINS, 1, ErrorCode.INVALID_REQUEST),
        ("m", 0, {"a": [0]}, JOINS, 1, ErrorCode.INVALID_REQUEST),
        ("m", 0, {}, JOINS | {"subscribed_topic_names": None}, 1, ErrorCode.INVALID_REQUEST),
        ("m", 0, {}, JOINS | {"subscribed_topic_names": None, "subscribed_topic_regex": ""}, 1, ErrorCode.NONE),
        ("m", 0, {}, JOINS | {"instance_id": " "}, 1, ErrorCode.INVALID_REQUEST),
        ("m", 0, {}, JOINS | {"rack_id": ""}, 1, ErrorCode.INVALID_REQUEST),
        ("m", -2, None, {}, 1, ErrorCode.INVALID_REQUEST),
        ("m", 0, {}, JOINS | {"server_assignor": "range"}, 1, ErrorCode.NONE),
        ("m", 0, {}, JOINS | {"server_assignor": "sticky"}, 1, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ("m", 0, {}, JOINS | {"subscribed_topic_regex": "a("}, 1, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ("m", 0, {}, JOINS | {"group_id": ""}, 1, ErrorCode.INVALID_REQUEST),
        ("m", 0, {}, JOINS | {"subscribed_topic_names": ["a"] * 10_001}, 1, ErrorCode.INVALID_REQUEST),
        ("m", 1, None, {}, 1, ErrorCode.GROUP_ID_NOT_FOUND),
        ("m", -1, None, {}, 1, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_what_is_refused(
    member_id: str, epoch: int, owned: Any, fields: dict[str, Any], version: int, code: ErrorCode
) -> None:
    bench = Bench(a=1)
    answer = bench.beat(member_id, epoch, owned, version=version, **fields)
    assert answer.error_code == code
    if code is not ErrorCode.NONE:
        assert bench.log == []
        assert [*bench.shard.list_groups()] == []
    else:
        assert answer.member_id


def test_who_comes_with_the_epoch_before_is_told_again_what_it_has() -> None:
    bench = two()
    assert told(bench.beat("m1", 2, {"a": [0]})) == {"a": [0]}


def test_a_group_may_be_full() -> None:
    bench = Bench(GroupSettings(consumer=ConsumerSettings(max_size=1)), a=1)
    bench.join("m1", "a")
    assert bench.join("m2", "a").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert bench.join("m1", "a").error_code == ErrorCode.NONE


# -- static members ---------------------------------------------------------------------------------------------------


def test_a_static_member_that_comes_back_has_its_place_again() -> None:
    bench = Bench(AT_ONCE, a=2)
    bench.join("m1", "a", instance_id="one")
    assert bench.join("m9", "a", instance_id="one").error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    epoch = bench.group.state.epoch
    assert bench.beat("m1", -2, instance_id="one").member_epoch == -2
    assert bench.group.state.epoch == epoch, "it is to come back, so nothing moves"
    answer = bench.join("m2", "a", instance_id="one")
    assert (answer.member_epoch, told(answer)) == (epoch, {"a": [0, 1]})
    assert bench.group.state.epoch == epoch
    assert list(bench.group.sessions) == ["m2"]
    assert bench.beat("m1", epoch, instance_id="one").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert bench.beat("m2", epoch, instance_id="two").error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_does_not_come_back_is_out_after_its_session() -> None:
    bench = Bench(a=2)
    bench.join("m1", "a", instance_id="one")
    bench.beat("m1", -2, instance_id="one")
    bench.advance(SESSION_MS)
    assert bench.group.state.state == "Empty"


# -- topics and expressions -------------------------------------------------------------------------------------------


def test_new_partitions_are_given_out() -> None:
    bench = two()
    bench.grow("a", 1)
    assert bench.beat("m1", 3).member_epoch == 4
    answer = bench.beat("m2", 3)
    assert (answer.member_epoch, told(answer)) == (4, {"a": [1, 2]})


def test_a_topic_of_the_same_name_is_another_one() -> None:
    bench = Bench(AT_ONCE, a=1)
    bench.join("m1", "a")
    bench.remove("a")
    bench.grow("a", 1, number=UUID(int=ord("z")))
    assert told(bench.beat("m1", 2, {"a": []})) == {"z": [0]}


def test_a_rack_makes_another_epoch() -> None:
    bench = Bench(AT_ONCE, a=1)
    bench.join("m1", "a")
    bench.rack(1, "here")
    assert bench.beat("m1", 2).member_epoch == 3


def test_a_rack_makes_another_epoch_of_a_large_group_when_its_topics_are_hashed() -> None:
    bench = Bench(AT_ONCE, a=topic_hashes.AT_ONCE)
    bench.join("m1", "a")
    bench.advance(SLICE_MS)
    assert bench.beat("m1", 2).member_epoch == 3, "the first one was made without a hash"
    bench.advance(SLICE_MS)
    assert bench.beat("m1", 3).member_epoch == 3
    bench.rack(1, "here")
    assert bench.beat("m1", 3).member_epoch == 3
    bench.advance(SLICE_MS)
    assert bench.beat("m1", 3).member_epoch == 4
    bench.restart()
    assert bench.beat("m1", 4).member_epoch == 4
    bench.advance(SLICE_MS)
    assert bench.beat("m1", 4).member_epoch == 4, "it is the hash that the group has"


def test_what_is_read_no_longer_is_taken_away_at_once() -> None:
    bench = Bench(a=1, b=1)
    bench.join("m1", "a", "b")
    answer = bench.beat("m1", 2, subscribed_topic_names=["b"])
    assert (answer.member_epoch, told(answer)) == (2, {"b": [0]})


def test_most_votes_choose_the_assignor() -> None:
    bench = Bench(AT_ONCE, a=2, b=2)
    bench.join("m1", "a", "b", server_assignor="range")
    bench.join("m2", "a", "b", server_assignor="range")
    bench.join("m3", "c", server_assignor="uniform")
    bench.join("m4", "c")
    assert bench.described().assignor_name == "range"
    assert bench.group.state.assignor_counts == bench.group.committed.assignor_counts == {"range": 2, "uniform": 1}
    for member_id in ("m3", "m4"):
        bench.beat(member_id, -1)
    assert bench.group.state.targets == {
        "m1": {UUID(int=97): (0,), UUID(int=98): (0,)},
        "m2": {UUID(int=97): (1,), UUID(int=98): (1,)},
    }


def test_the_pause_between_two_assignments() -> None:
    bench = Bench(a=2)
    bench.join("m1", "a")
    assert bench.join("m2", "a").member_epoch == 2
    assert bench.described().group_state == "Assigning"
    bench.advance(1_000)
    assert bench.beat("m2", 2).member_epoch == 3


def test_members_come_soon_after_an_assignment_and_less_and_less_often_until_it_is_as_often_as_ever() -> None:
    bench = two()
    told_ms = []
    for later_ms in (0, 100, 100, 1_000, 8_799, 1):
        bench.advance(later_ms)
        told_ms.append(bench.beat("m1", 3).heartbeat_interval_ms)
    assert told_ms == [100, 100, 100, 600, 4_999, 5_000]


def test_a_member_comes_when_the_next_assignment_is_due() -> None:
    bench = Bench(a=2)
    bench.join("m1", "a")
    bench.advance(10_000)
    assert bench.join("m2", "a").heartbeat_interval_ms == 100, "it has been worked out for this answer"
    bench.advance(300)
    assert bench.join("m3", "a").heartbeat_interval_ms == 700
    assert bench.beat("m1", 2).heartbeat_interval_ms == 700, "it is told with all the others"
    bench.advance(700)
    assert bench.beat("m3", bench.group.state.current("m3").epoch).heartbeat_interval_ms == 100


def test_an_assignment_of_the_future_neither_holds_up_the_next_one_nor_hurries_members() -> None:
    bench = two()
    bench.now_ms -= 3_600_000
    bench.restart()
    assert bench.beat("m1", 3).heartbeat_interval_ms == 5_000
    assert bench.join("m3", "a").member_epoch == 4
    assert bench.beat("m1", 3).heartbeat_interval_ms == 100


def test_the_members_of_a_large_group_take_turns() -> None:
    bench = Bench(a=1)
    for number in range(300):
        answer = bench.join(f"m{number}", "a")
    assert answer.heartbeat_interval_ms == 1_000, "when the next assignment is due"
    bench.advance(1_000)
    assert bench.beat("m0", bench.group.state.current("m0").epoch).heartbeat_interval_ms == 300


def test_a_group_has_limits_of_its_own() -> None:
    bench = two()
    configs = {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "99000"}
    for key, value in configs.items():
        bench.image.apply(ConfigRecord(resource_type=ResourceType.GROUP, resource_name=GROUP, name=key, value=value))
    bench.advance(40_000)
    assert bench.beat("m1", 3).heartbeat_interval_ms == 15_000, "within what the broker allows"
    bench.advance(49_999)
    assert list(bench.group.state.members) == ["m1"]
    bench.advance(1)
    assert bench.group.state.state == "Empty"


# -- ahead of the commit ----------------------------------------------------------------------------------------------


def test_answers_wait_for_all_that_they_rest_on() -> None:
    bench = two()
    bench.holds = True
    assert bench.join("m3", "a") is None
    assert bench.beat("m2", 3) is None, "it changes nothing, but what it was decided on may be lost"
    assert bench.beat("m9", 3) is None, "so may what a refusal was decided on"
    assert len(bench.described().members) == 2
    assert [group.group_state for group in bench.shard.list_groups()] == ["Stable"]
    bench.commit()
    assert bench.replies["m3", 0].member_epoch == 4
    assert bench.replies["m9", 3].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert len(bench.described().members) == 3


def test_a_write_that_fails_takes_ten_joins_back_and_their_timers() -> None:
    bench = two()
    bench.holds = True
    for number in range(10):
        bench.join(f"n{number}", "a")
    bench.beat("m1", -1)
    assert len(bench.group.sessions) == 11
    bench.fail()
    codes = {bench.replies[f"n{number}", 0].error_code for number in range(10)}
    assert codes == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert bench.replies["m1", -1].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert set(bench.group.sessions) == set(bench.group.state.members) == {"m1", "m2"}
    assert bench.group.state.epoch == 3
    bench.holds = False
    assert bench.beat("m1", 3).member_epoch == 3


def test_a_group_whose_first_write_fails_was_never_there() -> None:
    bench = Bench(a=1)
    bench.holds = True
    bench.join("m1", "a")
    assert [*bench.shard.list_groups()] == []
    assert bench.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    bench.fail()
    assert GROUP not in bench.shard._table.groups
    assert bench.beat("m1", 2).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_check_of_topics_that_could_not_be_written_is_made_again() -> None:
    bench = two()
    bench.grow("a", 1)
    bench.holds = True
    bench.beat("m1", 3)
    bench.fail()
    bench.holds = False
    assert bench.beat("m1", 3).member_epoch == 4


# -- targets that are worked out elsewhere ----------------------------------------------------------------------------


def test_the_next_coordinator_goes_on_with_epochs_and_timers() -> None:
    bench = Bench(AT_ONCE, a=2)
    bench.join("m1", "a")
    bench.join("m2", "a")
    bench.beat("m1", 2)
    before = bench.described()
    bench.restart()
    assert bench.described() == before
    bench.advance(REBALANCE_MS)
    assert list(bench.group.state.members) == ["m2"], "m1 has not given up what it was to"
    assert bench.beat("m2", 3).error_code == ErrorCode.NONE


def test_records_may_come_in_any_order() -> None:
    bench = two()
    last: dict[bytes, bytes | None] = {}
    for append in bench.log:
        last.update(append.records)
    before = bench.described()
    for turn in (1, -1):
        bench.log = [append.replace(records=list(last.items())[::turn]) for append in bench.log[:1]]
        bench.restart()
        found = bench.described()
        assert sorted(found.members, key=lambda one: one.member_id) == before.members
        assert (found.group_epoch, found.group_state) == (before.group_epoch, before.group_state)


def test_an_administrator_puts_members_out() -> None:
    bench = two()
    request = LeaveGroupRequest(
        group_id=GROUP, members=[MemberIdentity(member_id="m1"), MemberIdentity(member_id="nobody")]
    )
    bench.take(bench.shard.leave("leave", request, 5, bench.now_ms))
    codes = [member.error_code for member in bench.replies["leave"].members]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert list(bench.group.state.members) == ["m2"]


def test_an_empty_group_can_be_deleted_and_leaves_nothing() -> None:
    bench = two()
    bench.take(bench.shard.delete_group("delete", GROUP, bench.now_ms))
    assert bench.replies["delete"] == ErrorCode.NON_EMPTY_GROUP
    bench.beat("m1", -1)
    bench.beat("m2", -1)
    bench.take(bench.shard.delete_group("delete", GROUP, bench.now_ms))
    assert bench.replies["delete"] == ErrorCode.NONE
    last: dict[bytes, bytes | None] = {}
    for append in bench.log:
        last.update(append.records)
    assert set(last.values()) == {None}
    assert [*bench.shard.list_groups()] == []
