"""Whatever happens in whatever order: a transfer ends, and nothing is appended after the leader gave up."""

from collections.abc import Callable, Sequence
from random import Random

import pytest

from penstock.leadership.transfer import Answer, Cause, Effect, Limits, State, Transfer

SELF, SUCCESSOR, OTHER = 1, 2, 3
LIMITS = Limits()


class Walk:
    """A transfer of epoch 7, and what the shell knows: what has been made, whether it appends."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.now_ms = 0
        self.made = False
        self.appends = True
        self.transfer = Transfer(SUCCESSOR, 7, 10, LIMITS, 0, seals=random.random() < 0.5)
        self.has_sealed = False

    def step(self) -> None:
        events: list[Callable[[], Sequence[Effect]]] = [
            lambda: self.transfer.on_committed(self.random.choice((5, 10, 20)), 20, self.now_ms),
            self._answer,
            self._leader,
            self.transfer.on_full,
            self._time,
        ]
        for effect in self.random.choice(events)():
            self._carry_out(effect)

    def _carry_out(self, effect: Effect) -> None:
        if effect is Effect.HOLD:
            self.appends = False
        elif effect is Effect.SEAL:
            assert not self.appends
            assert not self.has_sealed
            self.has_sealed = True
        elif effect is Effect.ASK:
            assert not self.appends
        elif effect is Effect.RESUME:
            assert not self.made, "it appends after it gave up"
            self.appends = True
        elif effect is Effect.FORWARD:
            assert self.made
            assert not self.appends
            self.transfer.on_forwarding(self.now_ms)

    def _answer(self) -> Sequence[Effect]:
        if self.transfer.state is not State.ASKED or self.made:
            return self.transfer.on_answer(Answer.UNKNOWN, self.now_ms)
        answer = self.random.choice(tuple(Answer))
        self.made = answer is Answer.MADE
        return self.transfer.on_answer(answer, self.now_ms)

    def _leader(self) -> Sequence[Effect]:
        if self.made:
            return self.transfer.on_leader(SUCCESSOR, 8, is_self=False)
        leader = self.random.choice((SELF, OTHER, SUCCESSOR))
        self.made = leader == SUCCESSOR  # somebody else has moved it there
        return self.transfer.on_leader(leader, 7 if leader == SELF else 8, is_self=leader == SELF)

    def _time(self) -> Sequence[Effect]:
        self.now_ms += self.random.choice((1, 100, 400))
        # Without any controller for as long as a lease, it is for the lease: that is another test's.
        return () if self.now_ms >= LIMITS.silent_ms and self.made else self.transfer.on_time(self.now_ms)


@pytest.mark.parametrize("seed", range(300))
def test_nothing_is_appended_after_the_leader_gave_up(seed: int) -> None:
    walk = Walk(Random(seed))
    for _ in range(40):
        walk.step()
    transfer = walk.transfer
    while transfer.deadline_ms is not None:
        transfer.on_time(transfer.deadline_ms)
    assert transfer.state in (State.OVER, State.DECIDED)
    transfer.on_leader(OTHER, 9, is_self=False)
    assert transfer.cause is not None


def asked() -> Transfer:
    transfer = Transfer(SUCCESSOR, 7, 10, LIMITS, 0)
    assert transfer.on_committed(20, 20, 0) == [Effect.HOLD, Effect.ASK]
    return transfer


def test_a_decided_transfer_waits_for_the_metadata_however_long() -> None:
    transfer = asked()
    transfer.on_answer(Answer.MADE, 5)
    assert transfer.on_time(LIMITS.hold_ms) == [Effect.REFUSE]
    assert transfer.deadline_ms is None
    assert transfer.on_time(1_000_000) == ()
    assert transfer.state is State.DECIDED


def test_what_is_appended_last_is_committed_before_the_controller_is_asked() -> None:
    transfer = Transfer(SUCCESSOR, 7, 10, LIMITS, 0, seals=True)
    assert transfer.on_committed(20, 20, 0) == [Effect.HOLD, Effect.SEAL]
    assert transfer.on_committed(20, 21, 0) == ()
    assert transfer.on_committed(21, 21, 0) == [Effect.ASK]


def test_a_refusal_is_believed_at_once_where_no_request_got_lost() -> None:
    assert asked().on_answer(Answer.REFUSED, 5) == [Effect.RESUME]


def test_a_change_of_the_isr_does_not_disturb_who_only_holds() -> None:
    transfer = Transfer(SUCCESSOR, 7, 10, LIMITS, 0)
    transfer.on_committed(10, 20, 0)
    assert transfer.on_leader(SELF, 7, is_self=True) == ()
    assert transfer.state is State.HELD


def test_nothing_is_sent_on_where_the_successor_leads_before_anything_was_held() -> None:
    transfer = Transfer(SUCCESSOR, 7, 10, LIMITS, 0)
    assert transfer.on_leader(SUCCESSOR, 8, is_self=False) == [Effect.REFUSE]
    assert (transfer.state, transfer.cause) == (State.OVER, Cause.CHANGED)


def test_what_comes_late_has_its_time_from_when_all_before_was_sent() -> None:
    transfer = asked()
    assert transfer.on_leader(SUCCESSOR, 8, is_self=False) == [Effect.FORWARD]
    transfer.on_forwarding(20)
    assert transfer.deadline_ms == 20 + LIMITS.forward_ms
    assert transfer.on_leader(SUCCESSOR, 8, is_self=False) == ()
    assert transfer.on_leader(OTHER, 9, is_self=False) == [Effect.REFUSE]
    assert transfer.cause is Cause.DONE


def test_a_successor_that_cannot_be_reached_ends_it() -> None:
    transfer = asked()
    transfer.on_leader(SUCCESSOR, 8, is_self=False)
    assert transfer.on_time(LIMITS.hold_ms) == [Effect.REFUSE]
