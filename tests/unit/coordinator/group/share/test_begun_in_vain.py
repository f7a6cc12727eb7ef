"""What an alteration did not begin to the end: nothing is left of it, and who asked for it is told so."""

from typing import Any

import pytest
from tests.unit.coordinator.group.share.bench import GROUP, Bench, left_by_an_earlier_group, topic_id

from penstock.coordinator.effects import AtShareCoordinators
from penstock.protocol.errors import ErrorCode

A = topic_id("a")
BUSY = ErrorCode.COORDINATOR_NOT_AVAILABLE


def errors(bench: Bench) -> list[int]:
    """Of the last alteration, which has an answer."""
    answer = list(bench.replies.values())[-1]
    return [one.error_code for topic in answer.responses for one in topic.partitions]


def answered(bench: Bench, monkeypatch: pytest.MonkeyPatch, changed: Any) -> None:
    """The share coordinator does what it is asked, and its answers about each partition are changed by this."""
    asked = bench.states.asked

    def answer_is_changed(job: AtShareCoordinators) -> Any:
        answer: Any = asked(job)
        for topic in answer.results:
            for one in topic.partitions:
                changed(one)
        return answer

    monkeypatch.setattr(bench.states, "asked", answer_is_changed)


def test_of_a_topic_that_could_not_begin_as_a_whole_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The group would not know of what has begun, and the next one of its name would go on there."""
    bench = Bench(a=2)

    def refuses_one(one: Any) -> None:
        if one.partition == 1:
            one.error_code = int(BUSY)

    with monkeypatch.context() as refusing:
        answered(bench, refusing, refuses_one)
        bench.alter(a={0: 70, 1: 70})
        bench.advance(4_000)
        assert errors(bench) == [BUSY, BUSY], "what has begun is not altered: it is deleted"
    bench.restart()
    assert bench.group.state.partitions.is_empty
    assert bench.states.starts(GROUP, A) == {}


def test_of_a_topic_that_the_group_has_only_what_is_new_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(a=1)
    bench.alter(a={0: 5})
    bench.grow("a", 1)
    bench.states.refuses = BUSY
    bench.alter(a={1: 70})
    bench.advance(4_000)
    bench.states.refuses = None
    bench.advance(40_000)
    assert errors(bench) == [BUSY]
    assert bench.shard.shared(GROUP) == {A: (0,)}
    assert bench.states.starts(GROUP, A) == {0: 5}


def test_what_nobody_answered_does_not_begin_when_the_group_is_gone() -> None:
    bench = Bench(a=1)
    bench.keeps = True
    bench.alter(a={0: 70})
    late = bench.errands[0].job
    assert isinstance(late, AtShareCoordinators)
    for _ in range(6):
        bench.come_back(ErrorCode.NETWORK_EXCEPTION)
        bench.advance(2_000)
    assert errors(bench) == [ErrorCode.NETWORK_EXCEPTION]
    bench.keeps = False
    bench.come_back()
    assert bench.delete_group() is ErrorCode.NONE
    bench.states.asked(late)
    assert bench.states.starts(GROUP, A) == {}
    bench.join("m1", "a")
    bench.advance(4_000)
    assert bench.settle("m1") == {"m1": {"a": [0]}}
    assert bench.states.starts(GROUP, A) == {0: -1}


def test_an_alteration_goes_from_epoch_to_epoch_until_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second refusal comes after one that said nothing of epochs."""
    bench = Bench(a=1)
    left_by_an_earlier_group(bench, 50)
    answers = iter(range(10))

    def another_has_begun(one: Any) -> None:
        if next(answers) == 1:
            one.error_code = int(BUSY)
            left_by_an_earlier_group(bench, 90)

    answered(bench, monkeypatch, another_has_begun)
    bench.alter(a={0: 5})
    bench.advance(4_000)
    assert errors(bench) == [0]
    assert bench.states.starts(GROUP, A) == {0: 5}


@pytest.mark.parametrize("state_epoch", [3, 5_000])
def test_a_share_coordinator_that_does_not_name_the_epoch_is_passed_in_few_steps(
    state_epoch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka's, and those of a version before."""
    bench = Bench(a=1)
    left_by_an_earlier_group(bench, state_epoch)

    def names_no_epoch(one: Any) -> None:
        if hasattr(one, "newest_epoch"):
            one.newest_epoch = -1

    answered(bench, monkeypatch, names_no_epoch)
    bench.alter(a={0: 5})
    bench.advance(4_000)
    assert errors(bench) == [0]
    assert state_epoch < bench.group.state.epoch <= 10 * state_epoch


def test_who_waits_for_a_coordinator_that_goes_is_answered() -> None:
    """A connection answers in order: all that is asked after it would wait, too."""
    waits_for_another = Bench(a=1)
    waits_for_another.keeps = True
    waits_for_another.join("m1", "a")
    waits_for_another.beat("m1", -1)
    waits_to_ask_again, is_asking = Bench(a=1), Bench(a=1)
    waits_to_ask_again.states.refuses = BUSY
    is_asking.keeps = True
    for bench in (waits_for_another, waits_to_ask_again, is_asking):
        assert bench.alter(a={0: 5}) is None
        before = len(bench.replies)
        bench.take(bench.shard.unload(bench.now_ms))
        assert len(bench.replies) == before + 1
