"""What a share group has read is moved, forgotten, or goes with the group: written first, then done until it is."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.coordinator.group.share.bench import GROUP, Bench, left_by_an_earlier_group, topic_id

from penstock.coordinator.effects import AtShareCoordinators
from penstock.protocol.errors import ErrorCode

A = topic_id("a")


def errors(answer: object) -> list[int]:
    found = []
    for topic in answer.responses:  # type: ignore[attr-defined]
        found += [one.error_code for one in topic.partitions] if hasattr(topic, "partitions") else [topic.error_code]
    return found


def read(bench: Bench, *topics: str) -> None:
    """A member has read these, and left."""
    bench.join("m1", *topics)
    bench.settle("m1")
    bench.beat("m1", -1)


def test_a_group_without_members_begins_elsewhere_in_an_epoch_of_its_own() -> None:
    bench = Bench(a=2)
    read(bench, "a")
    before = bench.states.state(GROUP, A, 1)
    assert before is not None
    answer = bench.alter(a={1: 500})
    assert (answer.error_code, errors(answer)) == (0, [0])
    state = bench.states.state(GROUP, A, 1)
    assert state is not None
    assert (state.start_offset, state.delivery_complete_count) == (500, 0)
    assert state.state_epoch > before.state_epoch, "who knows the state before is shut out"
    bench.alter(a={1: 7})
    assert bench.states.starts(GROUP, A) == {0: -1, 1: 7}


def test_a_group_that_is_not_there_is_made() -> None:
    bench = Bench(a=2)
    assert errors(bench.alter(a={0: 5})) == [0]
    assert bench.shard.describe_share_group(GROUP).group_state == "Empty"
    assert bench.shard.shared(GROUP) == {A: (0,)}
    bench.restart()
    bench.join("m1", "a")
    assert bench.settle("m1") == {"m1": {"a": [0, 1]}}
    assert bench.states.starts(GROUP, A) == {0: 5, 1: 0}


def test_what_cannot_begin_elsewhere_is_refused() -> None:
    bench = Bench(a=1)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    answer = bench.alter(a={0: 5, 1: 5}, z={0: 1})
    assert errors(answer) == [0, unknown, unknown]
    assert errors(bench.alter(a={0: -2})) == [ErrorCode.INVALID_REQUEST]
    bench.join("m1", "a")
    assert bench.alter(a={0: 5}).error_code == ErrorCode.NON_EMPTY_GROUP
    assert bench.states.starts(GROUP, A) == {0: 5}


def test_where_the_share_coordinator_refuses_nothing_is_left_half_begun() -> None:
    bench = Bench(a=2)
    bench.states.refuses = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert bench.alter(a={0: 5}) is None, "it waits for some seconds"
    bench.advance(4_000)
    assert errors(last(bench)) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    bench.states.refuses = None
    bench.advance(1_000)
    assert bench.group.state.partitions.is_empty
    bench.join("m1", "a")
    assert bench.settle("m1") == {"m1": {"a": [0, 1]}}
    assert bench.states.starts(GROUP, A) == {0: -1, 1: -1}


def last(bench: Bench) -> Any:
    return list(bench.replies.values())[-1]


def test_the_first_alteration_waits_for_the_share_coordinators_topic() -> None:
    bench = Bench(a=2)
    bench.states.refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.alter(a={0: 5}) is None
    bench.states.refuses = None
    bench.advance(100)
    assert errors(last(bench)) == [0]
    assert bench.states.starts(GROUP, A) == {0: 5}


def test_an_alteration_waits_for_what_begins_though_its_members_have_gone() -> None:
    bench = Bench(a=1)
    bench.keeps = True
    bench.join("m1", "a")
    bench.beat("m1", -1)
    assert bench.group.state.partitions.initializing
    assert bench.alter(a={0: 5}) is None
    bench.keeps = False
    bench.come_back()
    bench.advance(100)
    assert errors(last(bench)) == [0]
    assert bench.states.starts(GROUP, A) == {0: 5}


def test_an_alteration_that_waits_is_refused_in_the_end() -> None:
    bench = Bench(a=1)
    bench.keeps = True
    bench.join("m1", "a")
    bench.beat("m1", -1)
    assert bench.alter(a={0: 5}) is None
    bench.advance(4_000)
    assert errors(last(bench)) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_what_is_altered_while_another_alteration_waits_stays_so() -> None:
    bench = Bench(a=1)
    read(bench, "a")
    bench.states.refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.alter(a={0: 5})
    bench.advance(50)
    bench.alter(a={0: 9})
    bench.states.refuses = None
    bench.advance(4_000)
    assert bench.states.starts(GROUP, A) == {0: 9}


def test_what_is_deleted_while_its_alteration_waits_does_not_begin() -> None:
    bench = Bench(a=1)
    read(bench, "a")
    bench.states.refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.alter(a={0: 5})
    bench.states.refuses = None
    assert bench.delete_group() is ErrorCode.NONE
    asked = len(bench.states.asked_for)
    bench.advance(4_000)
    assert len(bench.states.asked_for) == asked, "a share coordinator that knows nothing of deletions would begin it"
    assert bench.states.state(GROUP, A, 0) is None


def test_offsets_of_a_topic_are_deleted_and_it_begins_again() -> None:
    bench = Bench(a=2, b=1)
    read(bench, "a", "b")
    answer = bench.delete_offsets("a", "z")
    assert errors(answer) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert bench.states.starts(GROUP, A) == {}
    assert bench.shard.shared(GROUP) == {topic_id("b"): (0,)}
    assert errors(bench.delete_offsets("a")) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION], "there are none any more"
    bench.join("m1", "a")
    assert bench.settle("m1") == {"m1": {"a": [0, 1]}}
    assert bench.states.starts(GROUP, A) == {0: -1, 1: -1}
    assert bench.delete_offsets("b").error_code == ErrorCode.NON_EMPTY_GROUP


def test_what_is_being_deleted_does_not_begin_before_that_is_over() -> None:
    bench = Bench(a=1)
    read(bench, "a")
    bench.keeps = True
    assert bench.delete_offsets("a") is None
    bench.join("m1", "a")
    epoch = bench.group.state.current("m1").epoch
    assert len(bench.errands) == 1, "only the deletion"
    assert bench.alter(a={0: 3}).error_code == ErrorCode.NON_EMPTY_GROUP
    bench.come_back()
    assert bench.states.starts(GROUP, A) == {}
    bench.keeps = False
    bench.beat("m1", epoch)
    assert bench.settle("m1") == {"m1": {"a": [0]}}
    assert bench.states.starts(GROUP, A) == {0: -1}


def test_a_deletion_that_fails_is_told_and_tried_again_by_every_coordinator() -> None:
    bench = Bench(a=1)
    read(bench, "a")
    bench.states.refuses = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert errors(bench.delete_offsets("a")) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    assert bench.group.state.partitions.deleting == {A: "a"}
    bench.restart()
    assert bench.group.state.partitions.deleting == {A: "a"}
    bench.states.refuses = None
    bench.advance(1_000)
    assert bench.group.state.partitions.is_empty
    assert bench.states.starts(GROUP, A) == {}


def test_a_group_goes_with_all_that_it_has_read() -> None:
    bench = Bench(a=2, b=1)
    read(bench, "a", "b")
    assert bench.delete_group() is ErrorCode.NONE
    assert bench.states.shard.states() == {}
    assert [*bench.shard.list_groups()] == []
    bench.restart()
    assert [*bench.shard.list_groups()] == []
    assert bench.shard._table.image.group_ids() == []


def test_a_group_that_has_read_nothing_goes_as_any_other() -> None:
    bench = Bench()
    bench.join("m1", "a")
    assert bench.delete_group() is ErrorCode.NON_EMPTY_GROUP
    bench.beat("m1", -1)
    assert bench.delete_group() is ErrorCode.NONE
    assert bench.delete_group() is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_whose_states_cannot_be_deleted_stays_and_goes_later() -> None:
    bench = Bench(a=1)
    read(bench, "a")
    bench.states.refuses = ErrorCode.NOT_COORDINATOR
    assert bench.delete_group() is ErrorCode.NOT_COORDINATOR
    assert bench.shard.describe_share_group(GROUP).error_code == 0
    bench.states.refuses = None
    bench.advance(1_000)
    assert bench.states.starts(GROUP, A) == {}
    assert bench.delete_group() is ErrorCode.NONE
    assert [*bench.shard.list_groups()] == []


def test_who_joins_while_the_group_is_deleted_keeps_it() -> None:
    bench = Bench(a=1)
    read(bench, "a")
    bench.keeps = True
    assert bench.delete_group() is None
    bench.join("m1", "a")
    bench.keeps = False
    bench.come_back()
    assert ErrorCode.NON_EMPTY_GROUP in bench.replies.values()
    assert bench.settle("m1") == {"m1": {"a": [0]}}


def test_a_coordinator_that_goes_sends_away_who_waits() -> None:
    bench = Bench(a=1)
    read(bench, "a")
    bench.keeps = True
    bench.delete_group()
    bench.take(bench.shard.unload(bench.now_ms))
    assert ErrorCode.NOT_COORDINATOR in bench.replies.values()


def test_a_topic_that_is_gone_needs_no_deletion() -> None:
    bench = Bench(a=1, b=1)
    read(bench, "a", "b")
    bench.states.refuses = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    bench.delete_offsets("a")
    bench.remove("a")
    assert bench.group.state.partitions.deleting == {}
    bench.remove("b")
    assert bench.group.state.partitions.is_empty


def test_of_two_alterations_that_overlap_the_later_one_holds() -> None:
    bench = Bench(a=1)
    read(bench, "a")
    bench.holds = True
    bench.alter(a={0: 5})
    bench.alter(a={0: 9})
    bench.commit()
    bench.holds = False
    bench.commit()
    assert bench.states.starts(GROUP, A) == {0: 9}


def test_nothing_is_deleted_elsewhere_before_it_is_committed_that_it_goes() -> None:
    bench = Bench(a=1)
    read(bench, "a")
    bench.holds = True
    assert bench.delete_group() is None
    assert bench.delete_group() is None
    bench.fail()
    bench.holds = False
    bench.commit()
    assert bench.states.starts(GROUP, A) == {0: -1}, "no record says that it goes"


def test_what_is_to_begin_in_a_topic_that_is_gone_is_not_asked_for_for_ever() -> None:
    bench = Bench(a=1)
    bench.states.refuses = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    bench.join("m1", "a")
    bench.beat("m1", -1)
    bench.holds = True
    bench.remove("a")
    bench.fail()
    bench.holds = False
    bench.advance(60_000)
    asked = len(bench.states.asked_for)
    bench.advance(600_000)
    assert len(bench.states.asked_for) == asked
    assert bench.group.state.partitions.is_empty


def test_what_is_asked_for_again_and_again_is_tried_again_once() -> None:
    bench = Bench(a=1)
    read(bench, "a")
    bench.states.refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE
    for _ in range(50):
        assert bench.delete_group() == ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.advance(60_000)
    asked = len(bench.states.asked_for)
    bench.advance(300_000)
    assert 5 < len(bench.states.asked_for) - asked < 15
    bench.states.refuses = None
    bench.advance(60_000)
    assert bench.states.starts(GROUP, A) == {}
    assert bench.group.state.partitions.is_empty


def test_an_alteration_ends_what_it_began_and_not_what_members_begin_meanwhile() -> None:
    bench = Bench(a=1)
    read(bench, "a")
    bench.grow("a", 1)
    bench.keeps = True
    bench.alter(a={0: 5})
    bench.join("m1", "a")
    bench.come_back()
    assert bench.shard.shared(GROUP) == {A: (0,)}, "nobody has asked for the other one yet"
    bench.keeps = False
    bench.come_back()
    bench.advance(4_000)
    assert bench.settle("m1") == {"m1": {"a": [0, 1]}}
    assert bench.states.starts(GROUP, A) == {0: 5, 1: 0}


@pytest.mark.parametrize("holds", [False, True], ids=["sent", "not committed"])
def test_of_two_deletions_the_later_one_deletes_nothing_that_has_begun_again(holds: bool) -> None:
    bench = Bench(a=1)
    read(bench, "a")
    bench.keeps = True
    bench.delete_offsets("a")
    bench.holds = holds
    bench.delete_offsets("a")
    bench.come_back()
    bench.holds = False
    bench.commit()
    second = bench.errands.pop(0)
    bench.keeps = False
    bench.join("m1", "a")
    assert bench.settle("m1") == {"m1": {"a": [0]}}
    bench.errands.append(second)
    bench.come_back()
    bench.advance(10_000)
    assert bench.states.starts(GROUP, A) == {0: -1}
    assert bench.shard.shared(GROUP) == {A: (0,)}


def test_a_group_that_is_altered_while_it_is_deleted_stays() -> None:
    bench = Bench(a=1, b=1)
    read(bench, "a")
    bench.keeps = True
    assert bench.delete_group() is None
    assert bench.alter(b={0: 7}) is None
    bench.come_back()
    assert last(bench) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.keeps = False
    bench.come_back()
    assert errors(last(bench)) == [0]
    assert bench.shard.shared(GROUP) == {topic_id("b"): (0,)}
    assert bench.states.starts(GROUP, A) == {}
    assert bench.delete_group() is ErrorCode.NONE


def test_what_an_earlier_group_of_that_name_left_behind_stops_nobody() -> None:
    bench = Bench(a=1)
    left_by_an_earlier_group(bench)
    bench.join("m1", "a")
    bench.advance(4_000)
    assert bench.settle("m1") == {"m1": {"a": [0]}}
    assert bench.states.starts(GROUP, A) == {0: -1}
    bench = Bench(a=1)
    left_by_an_earlier_group(bench)
    bench.alter(a={0: 5})
    bench.advance(4_000)
    assert errors(last(bench)) == [0]
    assert bench.states.starts(GROUP, A) == {0: 5}


@pytest.mark.parametrize("is_first", [True, False], ids=["before the new group begins", "after that"])
def test_what_was_to_begin_a_group_that_was_deleted_does_not_begin_the_next_of_that_name(*, is_first: bool) -> None:
    """It was sent to alter an offset, and comes late; the next group asks for the newest records, in the same epoch."""
    bench = Bench(a=1)
    bench.keeps = True
    bench.alter(a={0: 70})
    late = bench.errands[0].job
    assert isinstance(late, AtShareCoordinators)
    bench.keeps = False
    bench.come_back(ErrorCode.NETWORK_EXCEPTION)
    assert bench.delete_group() is ErrorCode.NONE
    if is_first:
        bench.states.asked(late)
    bench.join("m1", "a")
    bench.advance(4_000)
    bench.states.asked(late)
    assert bench.settle("m1") == {"m1": {"a": [0]}}
    assert bench.states.starts(GROUP, A) == {0: -1}


def test_a_coordinator_that_is_behind_passes_nothing() -> None:
    bench = Bench(a=1)
    bench.keeps = True
    bench.join("m1", "a")
    left_by_an_earlier_group(bench)
    bench.holds = True
    bench.come_back()
    assert not bench.errands
    bench.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert not bench.errands, "nothing is asked again before it is written for the group"
    bench.keeps = False
    bench.advance(1_000)
    assert bench.states.starts(GROUP, A) == {0: 77}


@pytest.mark.parametrize(
    "ask",
    [lambda bench: bench.alter(a={0: 5}), lambda bench: bench.delete_offsets("a"), lambda bench: bench.delete_group()],
    ids=["alter", "delete offsets", "delete group"],
)
@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_what_could_not_be_written_is_told_as_of_a_coordinator(
    ask: Callable[[Bench], Any], error: ErrorCode, told: ErrorCode
) -> None:
    bench = Bench(a=1)
    read(bench, "a")
    bench.replies.clear()
    bench.holds = True
    assert ask(bench) is None
    bench.fail(error)
    (answer,) = bench.replies.values()
    assert getattr(answer, "error_code", answer) == told
