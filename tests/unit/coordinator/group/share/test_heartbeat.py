"""Members of a share group join, live and leave; they have what is initialized, and no other member has to wait."""

from collections import Counter

import pytest
from tests.unit.coordinator.group.share.bench import AT_ONCE, CALLER, GROUP, SESSION_MS, Bench, told, topic_id

from penstock.coordinator.group.records import HistoryRecord
from penstock.coordinator.group.settings import GroupSettings, ShareSettings
from penstock.metadata.records import ConfigRecord, RemoveTopicRecord
from penstock.metadata.resources import ResourceType
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest
from penstock.protocol.messages.offset_commit import OffsetCommitRequest
from penstock.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest


def test_a_member_gets_partitions_once_they_have_begun_at_the_share_coordinator() -> None:
    bench = Bench(a=2)
    bench.keeps = True
    joined = bench.join("m1", "a")
    assert (joined.error_code, joined.member_epoch, told(joined)) == (0, 2, {})
    assert told(bench.beat("m1", 2)) is None, "nothing has begun yet"
    bench.come_back()
    assert bench.states.starts(GROUP, topic_id("a")) == {0: -1, 1: -1}
    answer = bench.beat("m1", 2)
    assert (answer.member_epoch, told(answer)) == (3, {"a": [0, 1]})
    assert told(bench.beat("m1", 3)) is None, "it knows that"


def test_nobody_gets_what_has_not_begun() -> None:
    bench = Bench(a=1)
    bench.keeps = True
    bench.join("m1", "a")
    assert told(bench.join("m2", "a")) == {}
    assert bench.settle("m1", "m2") == {"m1": {}, "m2": {}}


def test_members_share_partitions_and_nobody_gives_anything_up_first() -> None:
    bench = Bench(a=1)
    bench.join("m1", "a")
    bench.join("m2", "a")
    assert bench.settle("m1", "m2") == {"m1": {"a": [0]}, "m2": {"a": [0]}}


def test_all_partitions_belong_to_somebody_and_all_members_have_some() -> None:
    bench = Bench(a=7)
    members = ["m1", "m2", "m3"]
    for member_id in members:
        bench.join(member_id, "a")
    has = bench.settle(*members)
    counts = Counter(index for one in has.values() for index in one.get("a", []))
    assert counts == dict.fromkeys(range(7), 1)
    bench.beat("m3", -1)
    has = bench.settle("m1", "m2")
    assert sorted(index for one in has.values() for index in one.get("a", [])) == list(range(7))


def test_partitions_that_come_later_begin_at_0_and_are_given_out() -> None:
    bench = Bench(a=1)
    bench.join("m1", "a")
    bench.settle("m1")
    bench.grow("a", 2)
    assert bench.settle("m1") == {"m1": {"a": [0, 1, 2]}}
    assert bench.states.starts(GROUP, topic_id("a")) == {0: -1, 1: 0, 2: 0}
    bench.grow("a", 1)
    bench.grow("b", 1)
    bench.beat("m1", bench.group.state.current("m1").epoch, subscribed_topic_names=["a", "b"])
    assert bench.settle("m1") == {"m1": {"a": [0, 1, 2, 3], "b": [0]}}
    assert bench.states.starts(GROUP, topic_id("a"))[3] == 0
    assert bench.states.starts(GROUP, topic_id("b")) == {0: -1}, "a new topic begins where the strategy says"


def test_a_topic_that_comes_later_is_given_out_and_one_that_goes_is_forgotten() -> None:
    bench = Bench(a=1)
    bench.join("m1", "a", "b")
    bench.settle("m1")
    bench.grow("b", 1)
    assert bench.settle("m1") == {"m1": {"a": [0], "b": [0]}}
    bench.remove("a")
    assert bench.settle("m1") == {"m1": {"b": [0]}}
    assert list(bench.shard.shared(GROUP)) == [topic_id("b")]


def test_what_fails_to_begin_is_tried_again_and_given_out_then() -> None:
    bench = Bench(a=1)
    bench.states.refuses = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    bench.join("m1", "a")
    assert bench.settle("m1") == {"m1": {}}
    asked = len(bench.states.asked_for)
    bench.advance(40_000)
    assert 5 < len(bench.states.asked_for) - asked < 20, "pauses grow"
    bench.states.refuses = None
    bench.beat("m1", bench.group.state.current("m1").epoch)
    bench.advance(31_000)
    assert bench.settle("m1") == {"m1": {"a": [0]}}


def test_an_errand_that_fails_is_tried_again() -> None:
    bench = Bench(a=1)
    bench.keeps = True
    bench.join("m1", "a")
    bench.come_back(ErrorCode.NETWORK_EXCEPTION)
    bench.keeps = False
    bench.advance(1_000)
    assert bench.settle("m1") == {"m1": {"a": [0]}}


def test_another_coordinator_goes_on_with_what_was_to_begin() -> None:
    bench = Bench(a=1)
    bench.keeps = True
    bench.join("m1", "a")
    bench.keeps = False
    bench.restart()
    assert bench.settle("m1") == {"m1": {"a": [0]}}
    bench.restart()
    assert bench.settle("m1") == {"m1": {"a": [0]}}
    assert bench.group.committed.current("m1").assigned == {topic_id("a"): (0,)}


def test_what_was_begun_is_not_begun_anew_by_the_next_coordinator() -> None:
    """It was done, but the record that says so was lost: meanwhile nothing was read, and nothing is lost either."""
    bench = Bench(a=1)
    bench.keeps = True
    bench.join("m1", "a")
    bench.holds = True
    bench.come_back()
    bench.fail()
    bench.holds = bench.keeps = False
    bench.advance(1_000)
    assert bench.settle("m1") == {"m1": {"a": [0]}}


def test_which_epochs_are_good() -> None:
    bench = Bench(a=1)
    bench.join("m1", "a")
    bench.settle("m1")
    epoch = bench.group.state.current("m1").epoch
    bench.join("m2", "a")
    bench.beat("m1", epoch)  # the answer with the newer epoch is lost
    answer = bench.beat("m1", epoch)
    assert (answer.error_code, answer.member_epoch > epoch, told(answer)) == (0, True, {"a": [0]})
    for wrong in (epoch - 1, answer.member_epoch + 1):
        assert bench.beat("m1", wrong).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert told(bench.join("m1", "a")) == {"a": [0]}
    assert bench.beat("m3", epoch).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.beat("m3", -1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("epoch", "fields"),
    [
        (0, {}),
        (0, {"subscribed_topic_names": []}),
        (-2, {}),
        (0, {"subscribed_topic_names": ["a"], "rack_id": " "}),
        (0, {"subscribed_topic_names": ["a"], "group_id": ""}),
        (0, {"subscribed_topic_names": ["a"] * 10_001}),
    ],
)
def test_what_no_member_sends_is_refused(epoch: int, fields: dict[str, object]) -> None:
    bench = Bench(a=1)
    assert bench.beat("m1", epoch, **fields).error_code == ErrorCode.INVALID_REQUEST
    assert bench.beat("", 0, subscribed_topic_names=["a"]).error_code == ErrorCode.INVALID_REQUEST
    assert bench.log == []


def test_a_group_has_room_for_so_many() -> None:
    bench = Bench(AT_ONCE.replace(share=AT_ONCE.share.replace(max_size=2)), a=1)
    bench.join("m1", "a")
    bench.join("m2", "a")
    assert bench.join("m3", "a").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert bench.join("m2", "a").error_code == 0


def test_a_member_that_falls_silent_is_out_and_the_others_have_its_part() -> None:
    bench = Bench(a=2)
    bench.join("m1", "a")
    bench.join("m2", "a")
    bench.settle("m1", "m2")
    bench.advance(SESSION_MS - 1_000)
    bench.beat("m1", bench.group.state.current("m1").epoch)
    bench.advance(2_000)
    assert list(bench.group.state.members) == ["m1"]
    assert bench.settle("m1") == {"m1": {"a": [0, 1]}}


def test_assignments_keep_their_pause() -> None:
    bench = Bench(GroupSettings(), a=1)
    bench.join("m1", "a")
    assert bench.settle("m1") == {"m1": {}}
    bench.advance(1_000)
    assert bench.settle("m1") == {"m1": {"a": [0]}}


def test_targets_of_members_that_are_all_gone_are_not_written() -> None:
    bench = Bench(AT_ONCE.replace(share=AT_ONCE.share.replace(assigned_at_once=0)), a=3)
    bench.join("m1", "a")
    bench.settle("m1")
    bench.keeps = True
    bench.join("m2", "a")
    for member_id in ("m1", "m2"):
        bench.beat(member_id, -1)
    bench.come_back()
    assert bench.group.state.assignment.epoch == bench.group.state.epoch


def test_a_large_assignment_is_worked_out_elsewhere() -> None:
    bench = Bench(AT_ONCE.replace(share=AT_ONCE.share.replace(assigned_at_once=0), members_at_once=1), a=3)
    for member_id in ("m1", "m2"):
        bench.join(member_id, "a")
    bench.advance(10)
    has = bench.settle("m1", "m2")
    bench.advance(10)
    has |= bench.settle("m1", "m2")
    assert sorted(index for one in has.values() for index in one.get("a", [])) == [0, 1, 2]


def under_way(reads: dict[str, list[str]], **topics: int) -> Bench:
    """m1 has what it reads, and targets of m1 and m2 are being worked out elsewhere."""
    bench = Bench(AT_ONCE.replace(share=AT_ONCE.share.replace(assigned_at_once=0)), **topics)
    bench.join("m1", *reads["m1"])
    bench.settle("m1")
    bench.keeps = True
    bench.join("m2", *reads["m2"])
    assert bench.group.assigning is not None
    return bench


def test_a_topic_that_has_gone_meanwhile_is_in_no_target() -> None:
    bench = under_way({"m1": ["a", "b"], "m2": ["a", "b"]}, a=1, b=1)
    bench.remove("b")
    bench.take(bench.shard.forget_topics(None, bench.now_ms))
    bench.come_back()
    bench.advance(10)
    assert bench.group.assigning is None
    assert {topic for target in bench.group.state.targets.values() for topic in target} == {topic_id("a")}


def test_what_has_begun_meanwhile_is_given_out_though_nothing_else_changes() -> None:
    """What m2 reads has been in the group's epoch from the start, and was to begin."""
    bench = under_way({"m1": ["a"], "m2": ["b"]}, a=1, b=1)
    worked_out, begun = bench.errands
    bench.errands = [begun, worked_out]
    bench.come_back()
    assert topic_id("b") in bench.group.state.partitions.initialized
    bench.beat("m1", bench.group.state.current("m1").epoch)
    bench.keeps = False
    bench.come_back()
    assert bench.settle("m1", "m2") == {"m1": {"a": [0]}, "m2": {"b": [0]}}


def test_what_fails_to_be_written_is_taken_back() -> None:
    bench = Bench(a=1)
    bench.holds = True
    assert bench.join("m1", "a") is None
    bench.fail()
    assert bench.replies["m1", 0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert GROUP not in bench.shard._table.groups
    assert bench.errands == [], "nothing begins that is not written"
    bench.holds = False
    assert bench.join("m1", "a").error_code == 0


def test_answers_wait_for_all_that_they_rest_on() -> None:
    bench = Bench(a=1)
    bench.join("m1", "a")
    bench.settle("m1")
    bench.holds = True
    epoch = bench.group.state.current("m1").epoch
    assert bench.join("m2", "a") is None
    assert bench.beat("m1", epoch) is None
    assert len(bench.shard.describe_share_group(GROUP).members) == 1
    bench.commit()
    assert len(bench.shard.describe_share_group(GROUP).members) == 2


def test_groups_of_other_kinds_stay_what_they_are() -> None:
    bench = Bench(a=1)
    commit = OffsetCommitRequest(group_id="other", generation_id_or_member_epoch=-1)
    bench.take(bench.shard.commit("c", commit, 9, bench.now_ms))
    answer = bench.beat("m1", 0, group_id="other", subscribed_topic_names=["a"])
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    bench.join("m1", "a")
    bench.beat("m1", -1)
    bench.take(bench.shard.commit("s", commit.replace(group_id=GROUP), 9, bench.now_ms))
    assert bench.shard.check_fetch(GROUP, None, -1) is ErrorCode.GROUP_ID_NOT_FOUND
    request = JoinGroupRequest(group_id=GROUP, session_timeout_ms=10_000, protocol_type="consumer")
    bench.take(bench.shard.join("j", request, CALLER, bench.now_ms))
    assert bench.replies["j"].error_code
    consumer = ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id="c", rebalance_timeout_ms=1, topic_partitions=[], subscribed_topic_names=["a"]
    )
    bench.take(bench.shard.consumer_heartbeat("h", consumer, CALLER, lambda _: True, bench.now_ms))
    assert bench.replies["h"].error_code == ErrorCode.GROUP_ID_NOT_FOUND
    bench.advance(100 * 24 * 3_600_000)
    assert bench.group.state.partitions.initialized, "a share group does not go by itself"


def test_what_is_told_of_a_group() -> None:
    bench = Bench(a=2)
    bench.join("m1", "a", rack_id="r1")
    bench.settle("m1")
    found = bench.shard.describe_share_group(GROUP)
    assert (found.group_state, found.assignor_name, found.group_epoch, found.assignment_epoch) == (
        "Stable",
        "simple",
        3,
        3,
    )
    (member,) = found.members
    assert (member.member_id, member.rack_id, member.client_id, member.subscribed_topic_names) == (
        "m1",
        "r1",
        "test",
        ["a"],
    )
    assert [(one.topic_name, one.partitions) for one in member.assignment.topic_partitions] == [("a", [0, 1])]
    (listed,) = bench.shard.list_groups()
    assert (listed.group_type, listed.protocol_type, listed.group_state) == ("share", "share", "Stable")
    bench.beat("m1", -1)
    assert bench.shard.describe_share_group(GROUP).group_state == "Empty"
    assert bench.shard.describe_share_group("none").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def configure(bench: Bench, **settings: int) -> None:
    for key, value in settings.items():
        name = f"share.{key.replace('_', '.')}"
        record = ConfigRecord(resource_type=ResourceType.GROUP, resource_name=GROUP, name=name, value=str(value))
        bench.image.apply(record)


def test_the_group_keeps_its_own_times_within_those_of_the_broker() -> None:
    assert ShareSettings().heartbeat_interval.default == 5_000
    bench = Bench(a=1)
    assert bench.join("m1", "a").heartbeat_interval_ms == 5_000
    configure(bench, heartbeat_interval_ms=7_000, session_timeout_ms=50_000)
    assert bench.join("m1", "a").heartbeat_interval_ms == 7_000
    bench.advance(SESSION_MS + 1)
    assert list(bench.group.state.members) == ["m1"]
    bench.advance(50_000 - SESSION_MS)
    assert list(bench.group.state.members) == []
    configure(bench, heartbeat_interval_ms=1, session_timeout_ms=1)
    limits = ShareSettings()
    assert bench.join("m1", "a").heartbeat_interval_ms == limits.heartbeat_interval.least
    bench.advance(limits.session_timeout.least - 1)
    assert list(bench.group.state.members) == ["m1"]


def test_a_refusal_says_why() -> None:
    refusal = Bench(a=1).beat("m1", 5)
    assert refusal.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert refusal.error_message


def test_a_member_that_comes_from_another_host_is_shown_there() -> None:
    bench = Bench(a=1)
    bench.join("m1", "a")
    bench.settle("m1")
    epoch = bench.group.state.current("m1").epoch
    request = ShareGroupHeartbeatRequest(group_id=GROUP, member_id="m1", member_epoch=epoch)
    for caller in (CALLER, CALLER._replace(client_host="/10.0.0.2"), CALLER._replace(client_id="other")):
        bench.take(bench.shard.share_heartbeat("again", request, caller, bench.now_ms))
        (member,) = bench.shard.describe_share_group(GROUP).members
        assert (member.client_host, member.client_id) == (caller.client_host, caller.client_id)


def test_what_the_next_coordinator_decides_first_counts_when_it_is_committed() -> None:
    bench = Bench(a=1, b=1)
    bench.join("m1", "a", "b")
    bench.settle("m1")
    bench.image.apply(RemoveTopicRecord(topic_id=topic_id("a")))
    bench.holds = True
    bench.restart()
    assert list(bench.group.state.partitions.initialized) == [topic_id("b")]
    assert sorted(bench.shard.shared(GROUP)) == [topic_id("a"), topic_id("b")]
    bench.commit()
    assert sorted(bench.shard.shared(GROUP)) == [topic_id("b")]
    bench.holds = False
    bench.beat("m1", -1)
    assert bench.delete_group() == ErrorCode.NONE
    assert dict(bench.shard._table.image.of_kind("share")) == {}


def test_it_is_handed_over_though_the_log_has_the_history_of_a_group_of_its_name() -> None:
    """One of another kind, of which no other record is left. A share group itself tells nothing."""
    bench = Bench(a=1)
    bench.shard.read(*HistoryRecord(GROUP, 1, b"\0\0whatever").encode())
    bench.join("m1", "a")
    known = len(bench.log)
    bench.take(bench.shard.seal(bench.now_ms))
    assert bench.log[known:] == []
