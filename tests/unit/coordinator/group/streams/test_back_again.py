"""Static members go and come back, and writes fail, while something is under way."""

from __future__ import annotations

from tests.unit.coordinator.group.streams.bench import AT_ONCE, NOW, Bench
from tests.unit.coordinator.group.streams.test_groups import commit
from tests.unit.coordinator.group.streams.test_heartbeat import ALL, ready

from penstock.coordinator.group.settings import Bounded, GroupSettings
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.streams_group_heartbeat import TaskOffset

ELSEWHERE = GroupSettings(streams=NOW.replace(assigned_at_once=0))


def away(settings: GroupSettings = AT_ONCE) -> Bench:
    """`a` with the instance `i` runs all, has told of an offset, and is away."""
    bench = ready(settings)
    bench.join("a", instance_id="i", process_id="p")
    bench.obey("a")
    epoch = bench.streams.state.epoch
    bench.beat("a", epoch, task_offsets=[TaskOffset(subtopology_id="1", partition=0, offset=5)])
    assert bench.beat("a", -2, instance_id="i").error_code == ErrorCode.NONE
    return bench


def test_who_comes_back_under_another_id_leaves_nothing_of_the_old_one() -> None:
    bench = away()
    bench.join("b", instance_id="i", process_id="p")
    assert list(bench.streams.sessions) == ["b"]
    assert "a" not in bench.streams.offsets
    assert bench.runs["b"][0] == ALL


def test_whoever_is_back_commits_in_whatever_epoch() -> None:
    bench = away()
    bench.join("b", instance_id="i", process_id="p")
    assert commit(bench, "b", 1, "words", 0) == ErrorCode.NONE


def test_what_a_member_was_to_give_up_it_has_given_up_by_going() -> None:
    bench = ready()
    bench.join("a", instance_id="i", process_id="p")
    bench.obey("a")
    bench.join("b")
    bench.obey("a")
    assert bench.runs["b"][0] == {}
    bench.beat("a", -2, instance_id="i")
    bench.obey("b")
    assert sum(map(len, bench.runs["b"][0].values())) == 2


def test_targets_of_who_has_come_back_meanwhile_are_its_own() -> None:
    bench = ready(ELSEWHERE)
    bench.keeps = True
    bench.join("a", instance_id="i", process_id="p")
    bench.beat("a", -2, instance_id="i")
    bench.join("b", instance_id="i", process_id="p")
    bench.come_back()
    bench.obey("b")
    assert bench.runs["b"][0] == ALL


def test_targets_for_members_that_a_failed_write_has_taken_back_are_not_written() -> None:
    bench = ready(ELSEWHERE)
    bench.join("a")
    bench.obey("a")
    bench.keeps = bench.holds = True
    assert bench.join("b") is None
    bench.fail()
    bench.holds = False
    bench.come_back()
    state = bench.streams.state
    assert (list(state.members), state.assignment.epoch) == (["a"], state.epoch)
    assert bench.settle("a") == {"a": ALL}


def test_offsets_go_with_their_member() -> None:
    bench = away()
    bench.beat("a", -1, instance_id="i")
    assert bench.streams.offsets == {}


def test_who_comes_into_a_group_that_is_empty_again_waits_as_long_as_the_first() -> None:
    bench = ready(GroupSettings(streams=NOW.replace(initial_rebalance_delay=Bounded(3_000, 0, 3_000))))
    bench.join("a")
    bench.advance(2_000)
    bench.beat("a", -1)
    bench.join("b")
    bench.advance(2_000)
    assert bench.streams.is_delayed
    bench.advance(1_000)
    assert bench.settle("b") == {"b": ALL}


def test_targets_that_come_when_all_members_are_gone_are_not_written() -> None:
    bench = ready(ELSEWHERE)
    bench.keeps = True
    bench.join("a")
    bench.beat("a", -1)
    bench.come_back()
    state = bench.streams.state
    assert (state.assignment.epoch, state.targets) == (state.epoch, {})
