"""Members of streams groups join, share tasks out, hand them over, and leave, by heartbeats."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.coordinator.group.streams.bench import (
    AT_ONCE,
    CALLER,
    GROUP,
    NOW,
    REBALANCE_MS,
    SESSION_MS,
    Bench,
    tasks,
    topology,
)

from penstock.coordinator.group.settings import Bounded, GroupSettings
from penstock.coordinator.group.streams.heartbeat import _says_something
from penstock.coordinator.group.streams.records import CURRENT, MEMBER
from penstock.coordinator.group.streams.state import StreamsState
from penstock.coordinator.group.streams.values import Current, Held, Member
from penstock.metadata.records import ConfigRecord
from penstock.metadata.resources import ResourceType
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.streams_group_heartbeat import (
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestEndpoint,
    Subtopology,
    TaskOffset,
    TopicInfo,
    Topology,
)

ALL = {"0": [0, 1], "1": [0, 1]}


def ready(settings: GroupSettings = AT_ONCE) -> Bench:
    bench = Bench(settings)
    bench.make_internal_topics()
    return bench


def both() -> Bench:
    bench = ready()
    bench.join("a")
    bench.join("b")
    bench.settle("a", "b")
    return bench


# -- to join ----------------------------------------------------------------------------------------------------------


def test_the_first_member_runs_all_tasks() -> None:
    bench = ready()
    answer = bench.join("a")
    assert (answer.error_code, answer.member_epoch, answer.heartbeat_interval_ms) == (0, 2, 5_000)
    assert bench.runs["a"][0] == ALL
    assert bench.streams.committed.state == "Stable"


def test_topics_that_are_missing_are_asked_for_and_then_the_tasks_are_given_out() -> None:
    bench = Bench()
    bench.join("a")
    missing = bench.heard["a"].missing
    assert [(topic.name, topic.partitions) for topic in missing] == [("by-word", 2), ("counts", 2)]
    assert bench.statuses("a") == [3]
    assert bench.runs["a"][0] == {}
    assert bench.streams.committed.state == "NotReady"
    bench.make_internal_topics()
    assert bench.settle("a") == {"a": ALL}
    assert bench.statuses("a") == []


def test_a_source_that_is_missing_is_said_and_not_created() -> None:
    bench = Bench(other=1)
    bench.join("a")
    assert bench.statuses("a") == [1]
    assert bench.heard["a"].missing == ()


def test_an_internal_topic_of_another_size_is_said() -> None:
    bench = ready()
    bench.grow("counts", 1)
    bench.join("a")
    assert bench.statuses("a") == [2]


def test_a_topic_that_goes_takes_the_tasks_along_and_one_that_comes_back_brings_them() -> None:
    bench = ready()
    bench.join("a")
    bench.remove("counts")
    bench.settle("a")
    assert bench.runs["a"][0] == {}
    bench.grow("counts", 2)
    assert bench.settle("a") == {"a": ALL}


def test_two_members_share_the_tasks_and_hand_them_over_in_steps() -> None:
    bench = ready()
    bench.join("a")
    answer = bench.join("b")
    assert answer.active_tasks == []  # all of them are a's still
    bench.obey("a")  # it is told what to give up, and has it still
    assert bench.streams.state.current("a").state == 2
    bench.obey("b")
    assert bench.runs["b"][0] == {}
    shared = bench.settle("a", "b")
    had = [(sub, one) for runs in shared.values() for sub, some in runs.items() for one in some]
    assert sorted(had) == [("0", 0), ("0", 1), ("1", 0), ("1", 1)]
    assert [sum(map(len, runs.values())) for runs in shared.values()] == [2, 2]
    assert bench.streams.committed.state == "Stable"


def test_who_goes_on_says_nothing_and_writes_nothing() -> None:
    bench = both()
    written = len(bench.log)
    answer = bench.beat("a", bench.streams.state.epoch)
    assert (answer.error_code, answer.active_tasks, answer.status) == (0, None, [])
    assert len(bench.log) == written


def test_an_empty_group_waits_for_more_members_first() -> None:
    settings = GroupSettings(streams=NOW.replace(initial_rebalance_delay=Bounded(3_000, 0, 3_000)))
    bench = ready(settings)
    bench.join("a")
    bench.join("b")
    assert bench.statuses("b") == [5]
    assert bench.streams.committed.state == "Assigning"
    bench.advance(3_000)
    assert bench.streams.committed.state == "Reconciling"
    shared = bench.settle("a", "b")
    assert all(runs for runs in shared.values())
    assert bench.streams.state.assignment.epoch == bench.streams.state.epoch == 3


def test_a_member_that_goes_before_the_delay_ends_leaves_nothing_to_assign() -> None:
    settings = GroupSettings(streams=NOW.replace(initial_rebalance_delay=Bounded(3_000, 0, 3_000)))
    bench = ready(settings)
    bench.join("a")
    bench.beat("a", -1)
    bench.advance(3_000)
    assert bench.streams.committed.state == "Empty"


def test_assignments_follow_each_other_not_too_soon() -> None:
    bench = ready(GroupSettings(streams=NOW.replace(assignment_interval=Bounded(1_000, 0, 1_000))))
    bench.join("a")
    bench.join("b")
    assert bench.statuses("b") == [5]
    bench.advance(1_000)
    assert all(bench.settle("a", "b").values())


def test_targets_for_many_are_worked_out_elsewhere() -> None:
    bench = ready(GroupSettings(streams=NOW.replace(assigned_at_once=0)))
    bench.keeps = True
    bench.join("a")
    assert bench.runs["a"][0] == {}
    bench.come_back()
    bench.obey("a")
    assert bench.runs["a"][0] == ALL


# -- what is refused --------------------------------------------------------------------------------------------------


def test_what_a_request_may_not_say() -> None:
    bench = ready()
    refused = [
        bench.join("a", topology=None),
        bench.join("a", rebalance_timeout_ms=-1),
        bench.join("a", active_tasks=tasks(s0=[0])),
        bench.join("a", active_tasks=None),
        bench.join("", topology=topology()),
        bench.join("a", instance_id=" "),
        bench.beat("a", -2),
        bench.beat("a", -3),
        bench.beat("a", 1, topology=topology()),
    ]
    assert {answer.error_code for answer in refused} == {ErrorCode.INVALID_REQUEST}
    assert all(answer.error_message for answer in refused)
    assert GROUP not in bench.shard._table.groups


def test_patterns_and_sized_changelogs_are_refused() -> None:
    bench = ready()
    pattern = Topology(epoch=1, subtopologies=[Subtopology(subtopology_id="0", source_topic_regex=["w.*"])])
    assert bench.join("a", topology=pattern).error_code == ErrorCode.INVALID_REQUEST
    sized = topology()
    sized.subtopologies[1].state_changelog_topics = [TopicInfo(name="counts", partitions=3)]
    assert bench.join("a", topology=sized).error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_the_first_topology_counts() -> None:
    bench = ready()
    bench.join("a", topology=topology(2))
    assert bench.join("b", topology=topology(2, source="other")).error_code == ErrorCode.INVALID_REQUEST
    assert bench.join("c", topology=topology(3)).error_code == ErrorCode.INVALID_REQUEST
    assert bench.join("d", topology=topology(1)).error_code == ErrorCode.NONE
    assert bench.statuses("d") == [0]
    assert list(bench.streams.state.members) == ["a", "d"]


def test_a_member_that_has_fallen_behind_or_is_ahead_is_fenced() -> None:
    bench = both()
    epoch = bench.streams.state.current("a").epoch
    assert bench.beat("a", epoch + 1).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert bench.beat("a", epoch - 2).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert bench.beat("x", epoch).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_lost_answer_is_given_again_to_who_has_no_more_than_it_was_given() -> None:
    bench = both()
    current = bench.streams.state.current("a")
    before = current.previous_epoch
    nothing: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    more = nothing | {"active_tasks": tasks(s0=[0, 1], s1=[0, 1])}
    assert bench.beat("a", before).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert bench.beat("a", before, **more).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    answer = bench.beat("a", before, **nothing)
    assert (answer.error_code, answer.member_epoch) == (0, current.epoch)
    assert answer.active_tasks


def test_who_says_that_it_has_something_else_is_told_what_it_has() -> None:
    """Its answer was lost, in an epoch that did not change."""
    bench = both()
    epoch = bench.streams.state.epoch
    answer = bench.beat("a", epoch, active_tasks=[], standby_tasks=[], warmup_tasks=[])
    assert answer.active_tasks


def test_tasks_that_there_are_not_are_refused() -> None:
    bench = both()
    epoch = bench.streams.state.epoch
    others: dict[str, Any] = {"standby_tasks": [], "warmup_tasks": []}
    assert bench.beat("a", epoch, active_tasks=tasks(s0=[9]), **others).error_code == ErrorCode.INVALID_REQUEST
    assert bench.beat("a", epoch, active_tasks=tasks(s7=[0]), **others).error_code == ErrorCode.INVALID_REQUEST


def test_a_full_group_lets_nobody_in() -> None:
    bench = ready(GroupSettings(streams=NOW.replace(max_size=1)))
    bench.join("a")
    assert bench.join("b").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert bench.join("a").error_code == ErrorCode.NONE


# -- to leave ---------------------------------------------------------------------------------------------------------


def test_a_member_that_leaves_or_falls_silent_gives_its_tasks_to_the_others() -> None:
    bench = both()
    bench.beat("b", -1)
    assert bench.settle("a") == {"a": ALL}
    bench.join("c")
    bench.settle("a", "c")
    for _ in range(4):
        bench.advance(SESSION_MS // 3)
        bench.obey("a")
    assert list(bench.streams.state.members) == ["a"]
    assert bench.settle("a") == {"a": ALL}


def test_a_member_that_does_not_give_up_is_put_out_and_its_tasks_stay_its_own_until_then() -> None:
    bench = ready()
    bench.join("a")
    bench.join("b")
    bench.obey("a")
    for _ in range(9):
        bench.advance(REBALANCE_MS // 10)
        bench.beat("a", bench.streams.state.current("a").epoch)
        bench.obey("b")
        assert bench.runs["b"][0] == {}
    bench.advance(REBALANCE_MS // 5)
    assert list(bench.streams.state.members) == ["b"]
    assert bench.settle("b") == {"b": ALL}


def test_a_static_member_that_is_away_comes_back_to_its_tasks_in_no_new_epoch() -> None:
    bench = ready()
    bench.join("a", instance_id="i1", process_id="p1")
    bench.join("b", instance_id="i2", process_id="p2")
    bench.settle("a", "b")
    epoch, had = bench.streams.state.epoch, bench.runs["a"][0]
    assert bench.join("c", instance_id="i1", process_id="p1").error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert bench.beat("a", -2, instance_id="i1").member_epoch == -2
    bench.obey("b")
    assert bench.streams.state.epoch == epoch
    answer = bench.join("c", instance_id="i1", process_id="p1")
    assert (answer.error_code, bench.streams.state.epoch) == (0, epoch)
    assert bench.runs["c"][0] == had
    assert bench.beat("a", epoch, instance_id="i1").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert bench.beat("z", epoch, instance_id="i9").error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_stays_away_is_put_out() -> None:
    bench = ready()
    bench.join("a", instance_id="i1")
    bench.beat("a", -2, instance_id="i1")
    bench.advance(SESSION_MS)
    assert bench.streams.committed.state == "Empty"


SAID = {
    "rebalance_timeout_ms": 1,
    "shutdown_application": True,
    "topology": Topology(),
    "rack_id": "r",
    "process_id": "p",
    "user_endpoint": StreamsGroupHeartbeatRequestEndpoint(),
}
OF_THE_MEMBER = ("group_id", "member_id", "member_epoch", "endpoint_information_epoch", "instance_id")


@pytest.mark.parametrize("name", sorted(StreamsGroupHeartbeatRequest.__fields__))
def test_a_heartbeat_that_says_anything_is_looked_at(name: str) -> None:
    said: dict[str, Any] = {} if name in OF_THE_MEMBER else {name: SAID.get(name, [])}
    request = StreamsGroupHeartbeatRequest(**said)
    assert _says_something(request) is (name not in OF_THE_MEMBER)


def test_one_member_ends_the_whole_application() -> None:
    bench = both()
    bench.settle("a", "b")
    epoch = bench.streams.state.epoch
    bench.beat("a", epoch, shutdown_application=True)
    bench.beat("b", epoch)
    assert bench.statuses("b") == [4]
    bench.beat("a", -1)
    bench.beat("b", bench.streams.state.current("b").epoch)
    assert bench.statuses("b") == [4]
    bench.beat("b", -1)
    bench.join("c")
    assert bench.statuses("c") == []


def test_a_member_that_leaves_may_end_the_whole_application() -> None:
    bench = both()
    bench.beat("a", -1, shutdown_application=True)
    bench.beat("b", bench.streams.state.current("b").epoch)
    assert bench.statuses("b") == [4]


# -- standbys, endpoints, tags ----------------------------------------------------------------------------------------


def configure(bench: Bench, **values: str) -> None:
    for name, value in values.items():
        key = f"streams.{name.replace('_', '.')}"
        record = ConfigRecord(resource_type=ResourceType.GROUP, resource_name=GROUP, name=key, value=value)
        bench.image.apply(record)


def test_standbys_are_given_out_and_are_never_where_the_active_task_is() -> None:
    bench = both()
    epoch = bench.streams.state.epoch
    configure(bench, num_standby_replicas="1")
    bench.settle("a", "b")
    assert bench.streams.state.epoch == epoch + 1
    for mine, other in (("a", "b"), ("b", "a")):
        assert bench.runs[mine][1].get("1", []) == bench.runs[other][0].get("1", [])
        assert "0" not in bench.runs[mine][1]


def test_a_standby_becomes_active_when_its_active_member_goes() -> None:
    bench = both()
    configure(bench, num_standby_replicas="1")
    bench.settle("a", "b")
    bench.beat("b", -1)
    assert bench.settle("a") == {"a": ALL}
    assert bench.runs["a"][1] == {}


def test_a_task_is_still_run_by_who_keeps_it_when_another_gives_it_up() -> None:
    state = StreamsState()
    runners: list[tuple[str, dict[str, tuple[int, ...]]]] = [
        ("a", {"s": (0, 1)}),
        ("b", {"s": (1,)}),
        ("a", {"s": (0,)}),
        ("c", {"s": (1,)}),
    ]
    for name, runs in runners:
        state.put(MEMBER, name, Member(process_id=f"process of {name}"))
        state.put(CURRENT, name, Current(1, 0, assigned=Held(standby=runs)))
    assert state.standby_processes("s", 0) == {"process of a"}
    assert state.standby_processes("s", 1) == {"process of b", "process of c"}
    state.put(CURRENT, "a", None)
    assert not state.standby_processes("s", 0)


def test_members_of_one_process_never_run_the_same_task() -> None:
    bench = ready()
    configure(bench, num_standby_replicas="1")
    bench.join("a", process_id="p")
    bench.join("b", process_id="p")
    bench.settle("a", "b")
    assert bench.runs["a"][1] == bench.runs["b"][1] == {}


def test_who_answers_queries_is_told_to_all_who_have_not_heard_it() -> None:
    bench = ready()
    endpoint = StreamsGroupHeartbeatRequestEndpoint(host="a.example", port=80)
    answer = bench.join("a", user_endpoint=endpoint)
    told = answer.partitions_by_user_endpoint
    assert [(one.user_endpoint.host, one.user_endpoint.port) for one in told] == [("a.example", 80)]
    assert [(one.topic, one.partitions) for one in told[0].active_partitions] == [
        ("words", [0, 1]),
        ("by-word", [0, 1]),
    ]
    epoch = answer.endpoint_information_epoch
    again = bench.beat("a", answer.member_epoch, endpoint_information_epoch=epoch)
    assert again.partitions_by_user_endpoint is None
    bench.join("b", user_endpoint=StreamsGroupHeartbeatRequestEndpoint(host="b.example", port=81))
    later = bench.beat("a", bench.streams.state.current("a").epoch, endpoint_information_epoch=epoch)
    assert len(later.partitions_by_user_endpoint) == 2


def test_tags_that_are_missing_are_said_to_those_who_know_the_status() -> None:
    bench = ready()
    configure(bench, rack_aware_assignment_tags="zone")
    bench.join("a", client_tags=[KeyValue(key="zone", value="z1")])
    assert bench.statuses("a") == []
    bench.join("b")
    assert bench.statuses("b") == [6]
    bench.join("c", caller=CALLER._replace(api_version=0))
    assert bench.statuses("c") == []


def test_offsets_of_tasks_are_kept_as_they_were_said_last() -> None:
    bench = both()
    epoch = bench.streams.state.epoch
    said = [
        TaskOffset(subtopology_id="1", partition=0, offset=5),
        TaskOffset(subtopology_id="9", partition=0, offset=5),
    ]
    bench.beat("a", epoch, task_offsets=said)
    bench.beat("a", epoch, task_end_offsets=[TaskOffset(subtopology_id="1", partition=0, offset=9)])
    member = bench.shard.describe_streams_group(GROUP).members[0]
    assert [one.offset for one in member.task_offsets] == [5]
    assert [one.offset for one in member.task_end_offsets] == [9]
    twice = [TaskOffset(subtopology_id="1", partition=0, offset=5)] * 2
    assert bench.beat("a", epoch, task_offsets=twice).error_code == ErrorCode.INVALID_REQUEST
