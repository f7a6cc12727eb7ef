"""Members are asked to commit before their coordinator goes: who is waited for, and for how long."""

from penstock.coordinator.effects import Effect, Reply
from penstock.coordinator.group.commits_first import CommitsFirst
from penstock.coordinator.group.image import GroupImage
from penstock.coordinator.group.records import AnyRecord
from penstock.coordinator.machine import Agenda

A, B = ("orders", "a"), ("orders", "b")
LIMIT_MS = 100


def begun(*members: tuple[str, str]) -> tuple[Agenda[AnyRecord], CommitsFirst]:
    agenda = Agenda(10_000, GroupImage())
    commits = CommitsFirst(agenda)
    commits.begin("token", members, LIMIT_MS)
    return agenda, commits


def missing(effects: list[Effect]) -> list[object]:
    """What whoever waits is told, each time."""
    return [effect.response for effect in effects if isinstance(effect, Reply)]


def test_who_has_nobody_to_ask_waits_for_nobody() -> None:
    agenda, _ = begun()
    assert missing(agenda.take_effects()) == [0]
    assert agenda.next_deadline_ms() is None


def test_it_is_over_when_all_have_committed() -> None:
    agenda, commits = begun(A, B)
    assert commits.asks(A)
    assert commits.asks(B)
    assert commits.asks(B), "until it has"
    commits.done(B)
    assert not commits.asks(B)
    assert missing(agenda.take_effects()) == []
    commits.done(A)
    assert missing(agenda.take_effects()) == [0]
    assert agenda.next_deadline_ms() is None


def test_a_commit_before_the_question_is_no_answer_to_it() -> None:
    _, commits = begun(A)
    assert not commits.was_asked(A)
    commits.asks(A)
    assert commits.was_asked(A)
    assert not commits.was_asked(B)


def test_who_does_not_take_part_is_not_asked_nor_waited_for() -> None:
    agenda, commits = begun(A)
    assert not commits.asks(B)
    commits.done(B)
    assert missing(agenda.take_effects()) == []


def test_who_leaves_is_not_waited_for() -> None:
    agenda, commits = begun(A)
    commits.done(A)
    assert missing(agenda.take_effects()) == [0]


def test_it_goes_on_when_the_time_is_up() -> None:
    agenda, commits = begun(A, B)
    commits.asks(A)
    commits.done(A)
    agenda.wake(LIMIT_MS - 1)
    assert missing(agenda.take_effects()) == []
    agenda.wake(LIMIT_MS)
    assert missing(agenda.take_effects()) == [1]
    assert not commits.asks(B), "the next coordinator is not about to go"


def test_a_second_hand_over_ends_the_first() -> None:
    agenda, commits = begun(A)
    commits.begin("another", [B], LIMIT_MS)
    assert missing(agenda.take_effects()) == [1]
    assert not commits.asks(A)
    assert commits.asks(B)
