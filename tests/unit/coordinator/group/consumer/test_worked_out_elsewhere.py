"""Assignments that are worked out beside the event loop: what is written of them, and what has changed meanwhile."""

from tests.unit.coordinator.group.consumer.bench import Bench, told, topic_id, two

from penstock.coordinator.group.settings import Bounded, ConsumerSettings, GroupSettings
from penstock.protocol.errors import ErrorCode

ELSEWHERE = GroupSettings(consumer=ConsumerSettings(assignment_interval=Bounded(0, 0, 0), assigned_at_once=0))


def test_a_large_assignment_is_worked_out_elsewhere() -> None:
    bench = Bench(ELSEWHERE, a=2)
    answer = bench.join("m1", "a")
    assert (answer.member_epoch, told(answer)) == (1, {})
    bench.join("m2", "a")
    assert bench.beat("m1", 1).error_code == ErrorCode.NONE, "who sends 0 joins, and has to say more"
    bench.come_back()
    assert bench.group.state.assignment.epoch == 2
    assert told(bench.beat("m1", 1, {})) == {"a": [0, 1]}
    bench.come_back()
    assert bench.group.state.assignment.epoch == 3


def test_very_many_targets_are_written_some_at_a_time_and_the_epoch_last() -> None:
    bench = Bench(ELSEWHERE.replace(members_at_once=2), a=5)
    for number in range(5):
        bench.join(f"m{number}", "a")
    bench.come_back()
    bench.join("m0", "a")
    bench.log.clear()
    bench.come_back()
    assert bench.group.state.assignment.epoch == 2
    bench.advance(10)
    assert [len(append.records) for append in bench.log] == [2, 2, 4]
    assert bench.group.state.assignment.epoch == bench.group.state.epoch


def test_who_goes_on_where_some_targets_are_written_gives_each_partition_to_one_member() -> None:
    bench = Bench(ELSEWHERE.replace(members_at_once=2), a=4, b=6)
    for number in range(6):
        bench.join(f"m{number}", "a", "b")
    bench.come_back()
    bench.beat("m0", 1)
    bench.come_back()
    bench.advance(10)
    ones = [(topic_id("a"),)] * 3 + [(topic_id("b"),)] * 3
    assert [tuple(target) for target in bench.group.state.targets.values()] == ones

    bench.remove("a")
    bench.join("m0", "a", "b")
    bench.come_back()
    others = bench.group.state.target("m3")[topic_id("b")]
    assert {*bench.group.state.target("m0")[topic_id("b")]} < {*others}, (
        "the new targets of some, the old ones of others"
    )
    bench.restart()
    bench.join("m0", "a", "b")
    bench.come_back()
    bench.advance(10)
    state = bench.group.state
    assert state.assignment.epoch == state.epoch
    given = sorted(one for target in state.targets.values() for one in target[topic_id("b")])
    assert given == [0, 1, 2, 3, 4, 5]


def test_targets_of_a_state_that_was_taken_back_are_not_written() -> None:
    bench = two()
    bench.settings = ELSEWHERE
    bench.restart()
    bench.holds = True
    bench.join("m3", "a")
    bench.fail()
    bench.holds = False
    bench.come_back()
    assert (bench.group.state.epoch, bench.group.state.assignment.epoch) == (3, 3)


def test_targets_of_members_that_are_all_gone_are_not_written() -> None:
    bench = Bench(ELSEWHERE, a=2)
    bench.join("m1", "a")
    bench.beat("m1", -1)
    bench.come_back()
    assert (bench.group.state.epoch, bench.group.state.assignment.epoch) == (3, 3)
    assert bench.described().group_state == "Empty"


def test_a_static_member_comes_back_while_targets_are_worked_out() -> None:
    bench = Bench(ELSEWHERE, a=2)
    bench.join("m1", "a", instance_id="one")
    bench.beat("m1", -2, instance_id="one")
    bench.join("m2", "a", instance_id="one")
    bench.come_back()
    assert list(bench.group.state.targets) == ["m2"]


def test_targets_that_cannot_be_worked_out_are_named_and_asked_for_again() -> None:
    bench = Bench(ELSEWHERE, a=2)
    bench.join("m1", "a")
    (errand,) = bench.errands
    bench.errands.clear()
    bench.take(bench.shard.came_back(errand.errand_id, None, ErrorCode.UNKNOWN_SERVER_ERROR, bench.now_ms))
    assert bench.notes == ["group readers: its targets could not be worked out: UNKNOWN_SERVER_ERROR"]
    bench.beat("m1", 1)
    bench.come_back()
    assert told(bench.beat("m1", 1, {})) == {"a": [0, 1]}


# -- other coordinators, other requests -------------------------------------------------------------------------------
