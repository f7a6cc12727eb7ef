"""A machine decides ahead of the commit: it sees at once what it has decided, and tells of it once it is committed."""

from tests.unit.coordinator.tally import WRITE_TIMEOUT_MS, Count, Tally

from penstock.coordinator.effects import Append, Calculation, Cut, Effect, Errand, Reply
from penstock.protocol.errors import ErrorCode


def appended(effects: list[Effect]) -> Append:
    (effect,) = effects
    assert isinstance(effect, Append)
    return effect


def answers(effects: list[Effect]) -> list[tuple[object, object]]:
    assert all(isinstance(effect, Reply) for effect in effects)
    return [(effect.token, effect.response) for effect in effects if isinstance(effect, Reply)]


def test_a_decision_rests_on_those_before_it_and_is_told_of_when_committed() -> None:
    tally = Tally()
    first = appended(tally.add("first", "a", 1, 0))
    second = appended(tally.add("second", "a", 2, 0))
    assert (first.records, second.records) == ([(b"a", b"1")], [(b"a", b"3")])
    assert tally.counts.of == {"a": 3}
    assert answers(tally.appended(first.write_id, ErrorCode.NONE, 0)) == [("first", 1)]
    assert answers(tally.appended(second.write_id, ErrorCode.NONE, 0)) == [("second", 3)]


def test_a_write_that_fails_takes_all_back_that_was_decided_since() -> None:
    tally = Tally()
    kept, lost = appended(tally.add("kept", "a", 1, 0)), appended(tally.add("lost", "a", 2, 0))
    tally.add("rests on it", "a", 4, 0)
    tally.add("another name", "b", 8, 0)
    error = ErrorCode.NOT_ENOUGH_REPLICAS
    told = answers(tally.appended(lost.write_id, error, 0))
    assert told == [("lost", error), ("rests on it", error), ("another name", error)]
    assert tally.counts.of == {"a": 1}
    assert answers(tally.appended(kept.write_id, ErrorCode.NONE, 0)) == [("kept", 1)]
    assert list(tally.agenda.uncommitted()) == []


def test_an_answer_that_changes_nothing_waits_for_what_it_rests_on() -> None:
    tally = Tally()
    assert answers(tally.ask("before", "a", 0)) == [("before", 0)]
    first, second = appended(tally.add("first", "a", 1, 0)), appended(tally.add("second", "a", 2, 0))
    assert tally.ask("asked", "a", 0) == []
    assert answers(tally.appended(first.write_id, ErrorCode.NONE, 0)) == [("first", 1)]
    assert answers(tally.appended(second.write_id, ErrorCode.NONE, 0)) == [("second", 3), ("asked", 3)]


def test_an_answer_is_not_told_of_what_is_lost() -> None:
    tally = Tally()
    write = appended(tally.add("first", "a", 1, 0))
    tally.ask("asked", "a", 0)
    error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answers(tally.appended(write.write_id, error, 0)) == [("first", error), ("asked", error)]


def test_a_late_write_is_given_up_by_who_waits_and_counts_all_the_same() -> None:
    tally = Tally()
    write = appended(tally.add("first", "a", 1, 0))
    tally.ask("asked", "a", 0)
    assert tally.next_deadline_ms() == WRITE_TIMEOUT_MS
    late = ErrorCode.REQUEST_TIMED_OUT
    assert answers(tally.wake(WRITE_TIMEOUT_MS)) == [("first", late), ("asked", late)]
    tally.ask("asked later", "a", WRITE_TIMEOUT_MS)
    assert tally.next_deadline_ms() == 2 * WRITE_TIMEOUT_MS
    assert answers(tally.wake(2 * WRITE_TIMEOUT_MS)) == [("asked later", late)]
    assert tally.appended(write.write_id, ErrorCode.NONE, 2 * WRITE_TIMEOUT_MS) == []
    assert tally.counts.of == {"a": 1}


def test_what_is_committed_is_what_is_there_without_what_is_under_way() -> None:
    tally = Tally()
    write = appended(tally.add("first", "a", 1, 0))
    tally.appended(write.write_id, ErrorCode.NONE, 0)
    tally.add("second", "a", 2, 0)
    tally.add("third", "b", 4, 0)
    assert [(record.name, before) for record, before in tally.agenda.uncommitted()] == [("b", None), ("a", 1)]


def test_who_waits_when_the_machine_ends_is_sent_away() -> None:
    tally = Tally()
    tally.add("first", "a", 1, 0)
    tally.add("second", "a", 1, 0)
    gone = ErrorCode.NOT_COORDINATOR
    assert answers(tally.unload(0)) == [("first", gone), ("second", gone)]
    assert tally.counts.of == {}


def test_loading_takes_the_way_of_life() -> None:
    tally, successor = Tally(), Tally()
    for name, amount in [("a", 1), ("b", 2), ("a", 4)]:
        write = appended(tally.add("token", name, amount, 0))
        for key, value in write.records:
            successor.read(key, value)
        tally.appended(write.write_id, ErrorCode.NONE, 0)
    assert successor.counts.of == tally.counts.of == {"a": 5, "b": 2}


def test_what_an_errand_brings_goes_to_who_asked_and_so_does_its_failure() -> None:
    tally = Tally()
    first, second = (
        errand for token in ("first", "second") for errand in tally.fetch(token, Calculation(lambda: 4), 0)
    )
    assert isinstance(first, Errand)
    assert isinstance(second, Errand)
    assert answers(tally.came_back(second.errand_id, None, ErrorCode.NETWORK_EXCEPTION, 0)) == [
        ("second", ErrorCode.NETWORK_EXCEPTION)
    ]
    assert answers(tally.came_back(first.errand_id, 4, ErrorCode.NONE, 0)) == [("first", 4)]


def test_errands_end_with_the_machine() -> None:
    tally = Tally()
    tally.fetch("first", Calculation(lambda: 4), 0)
    assert answers(tally.unload(0)) == [("first", ErrorCode.NOT_COORDINATOR)]


def test_a_log_is_cut_where_a_write_begins_that_is_committed() -> None:
    tally = Tally()
    write = appended(tally.rewrite("first", 0))
    assert tally.appended(write.write_id, ErrorCode.NONE, 0, 17) == [Cut(17), Reply("first", ErrorCode.NONE)]
    write = appended(tally.rewrite("second", 0))
    assert answers(tally.appended(write.write_id, ErrorCode.NOT_COORDINATOR, 0)) == [
        ("second", ErrorCode.NOT_COORDINATOR)
    ]


def test_what_no_record_can_hold_fails_and_others_are_served() -> None:
    tally = Tally()
    kept = appended(tally.add("kept", "a", 1, 0))
    assert answers(tally.add("lost", "\ud800", 2, 0)) == [("lost", ErrorCode.INVALID_REQUEST)]
    assert tally.counts.of == {"a": 1}
    assert answers(tally.appended(kept.write_id, ErrorCode.NONE, 0)) == [("kept", 1)]
    assert answers(tally.ask("asked", "a", 0)) == [("asked", 1)]


def test_what_rests_on_a_write_that_no_record_can_hold_is_not_written() -> None:
    tally = Tally()
    append = tally.agenda.append
    append([Count("\ud800", 1)], 0, token="first", answer=lambda error: error)
    append([Count("a", 1)], 0, token="second", answer=lambda error: error)
    error = ErrorCode.INVALID_REQUEST
    assert answers(tally.agenda.take_effects()) == [("first", error), ("second", error)]
    assert (tally.counts.of, tally.next_deadline_ms()) == ({}, None)
