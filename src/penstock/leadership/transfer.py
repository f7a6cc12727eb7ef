"""A leader hands over: it holds what arrives, has its successor named, and gives what it held to that one.

This is the leader's side. It stops before it asks for the change, and asks when the successor has everything; so
the one record that moves leadership loses nothing, and clients see nothing but a short delay.

| state        | what happens                                             | what follows                    | effect  |
| ------------ | -------------------------------------------------------- | ------------------------------- | ------- |
| catching up  | the successor has all that there was in the beginning    | held                            | HOLD    |
|              | it takes too long                                        | over: LAGS                      |         |
| held         | all replicas in sync have all that there is              | asked                           | ASK     |
|              | the same, but the leader has something to append last    | held                            | SEAL    |
|              | it takes too long, or too much is held                   | over: SLOW, FULL                | RESUME  |
| asked        | the controller has made the change                       | decided                         |         |
|              | it says that something else has changed: that will come  | asked                           |         |
|              | it refuses; twice, if the fate of a request was unknown  | over: REFUSED                   | RESUME  |
|              | it is not known whether it has                           | asked, again after a pause      | ASK     |
|              | too much is held, or for too long                        | asked, and silent               | REFUSE  |
|              | it is not known for as long as a lease lasts             | over: UNKNOWN                   | RESUME  |
| decided      | too much is held, or for too long                        | decided, and silent             | REFUSE  |
| the last two | the successor has had its time, where that is limited    | the same                        | STAND   |
|              | no broker has led for long after that                    | over: UNKNOWN                   | REFUSE  |
|              | this one has renewed its lease twice since it asked      | over: RENEWED                   | RESUME  |
| from held on | the successor leads, and no client was refused meanwhile | forwarding                      | FORWARD |
| all of these | this one still leads, though something else has changed  | over: CHANGED                   | RESUME  |
|              | another broker does, or none                             | over: CHANGED                   | REFUSE  |
| forwarding   | late comers have had their time, or are too many         | over: DONE                      | REFUSE  |
|              | leadership has changed again                             | over: DONE                      | REFUSE  |

From ASK on the change may have been made, whatever is heard of it: nothing is appended before it is certain that it was
not, nor will be. A client that is refused asks who leads, and tries there; that is what silence means. A controller
that refuses says that this one leads; but where a request before got lost, only the second such word counts, for what
got lost may come late. Without any controller, it is for the lease to say who may lead.

Where voters elect who leads, the leader asks them by a record: the answer is that it is committed. From ASK on it has
given up its lease and cannot lead again but by an election, for which it stands if the successor does not.
"""

from collections.abc import Sequence
from enum import Enum, auto

from penstock.protocol.value import Value

NOTHING: Sequence["Effect"] = ()


class State(Enum):
    CATCHING_UP = auto()
    HELD = auto()
    ASKED = auto()
    DECIDED = auto()
    FORWARDING = auto()
    OVER = auto()


class Cause(Enum):
    DONE = auto()
    LAGS = auto()
    SLOW = auto()
    FULL = auto()
    REFUSED = auto()
    UNKNOWN = auto()
    CHANGED = auto()
    RENEWED = auto()


class Effect(Enum):
    HOLD = auto()
    """Append nothing more, and keep what arrives."""
    SEAL = auto()
    """Append what the successor needs to know of this leader, if there is such."""
    ASK = auto()
    """Ask the controller for the change, or the voters."""
    STAND = auto()
    """Stand for election: the successor does not."""
    FORWARD = auto()
    """Send what is held to the successor, and after it what still arrives."""
    RESUME = auto()
    """Append what is held, in the order in which it came, and then go on as before."""
    REFUSE = auto()
    """Refuse what is held, and all that arrives: another one leads, or may."""


class Answer(Enum):
    MADE = auto()
    REFUSED = auto()
    CHANGED = auto()
    UNKNOWN = auto()


class Limits(Value):
    catch_up_ms: int = 1_000
    hold_ms: int = 500
    pause_ms: int = 100
    silent_ms: int = 9_000
    """How long a leader appends nothing while it does not know whether it still leads: the length of its lease."""
    forward_ms: int = 10_000
    """How long after the change requests that come here go on to the successor."""
    stand_ms: int | None = None
    """How long the voters have to agree to the change, and then the successor to lead; None without voters."""


RENEWALS = 2
"""After so many renewals of its lease since it asked a leader knows that nothing comes of the change."""

HOLDING = (State.HELD, State.ASKED, State.DECIDED)
"""Nothing is appended, and no other is known to lead."""


class Transfer:
    """What `leader_epoch` leads is to go to `successor`; `end` is where it ends in the beginning.

    `seals`: something may be appended last, when nothing else is any more.
    """

    def __init__(
        self, successor: int, leader_epoch: int, end: int, limits: Limits, now_ms: int, *, seals: bool = False
    ) -> None:
        self.successor = successor
        self.leader_epoch = leader_epoch
        self.state = State.CATCHING_UP
        self.cause: Cause | None = None
        self.deadline_ms: int | None = now_ms + limits.catch_up_ms
        """When `on_time` is due."""
        self.is_silent = False
        self._end = end
        self._seals = seals
        self._limits = limits
        self._hold_until_ms = self._silent_until_ms = 0
        self._ask_again_ms: int | None = None
        self._stand_at_ms: int | None = None
        self._refusals_needed = 1
        self._renewals = 0

    def on_committed(self, high_watermark: int, end: int, now_ms: int) -> Sequence[Effect]:
        """All replicas in sync, the successor among them, have all before `high_watermark`; it ends at `end`."""
        if self.state is State.CATCHING_UP and high_watermark >= self._end:
            self.state = State.HELD
            self.deadline_ms = self._hold_until_ms = now_ms + self._limits.hold_ms
            return [Effect.HOLD, *self.on_committed(high_watermark, end, now_ms)]
        if self.state is State.HELD and high_watermark == end:
            if self._seals:
                self._seals = False
                return [Effect.SEAL]
            self.state = State.ASKED
            self._silent_until_ms = now_ms + self._limits.silent_ms
            self._give_time(now_ms)
            self._note_deadline()
            return [Effect.ASK]
        return NOTHING

    def on_answer(self, answer: Answer, now_ms: int) -> Sequence[Effect]:
        if self.state is not State.ASKED:
            return NOTHING
        if answer is Answer.MADE:
            self.state = State.DECIDED
            self._give_time(now_ms)
        elif answer is Answer.REFUSED:
            self._refusals_needed -= 1
            if not self._refusals_needed:
                return self._over(Cause.REFUSED, Effect.RESUME)
            self._ask_again_ms = now_ms + self._limits.pause_ms
        elif answer is Answer.UNKNOWN:
            self._refusals_needed = 2
            self._ask_again_ms = now_ms + self._limits.pause_ms
        self._note_deadline()
        return NOTHING

    def on_leader(self, leader: int, leader_epoch: int, *, is_self: bool) -> Sequence[Effect]:
        """The metadata say who leads after a change of whatever kind."""
        if self.state is State.FORWARDING:
            return NOTHING if leader_epoch == self.leader_epoch else self._over(Cause.DONE, Effect.REFUSE)
        if self.state is State.OVER:
            return NOTHING
        if leader == self.successor and self.state in HOLDING and not self.is_silent:
            self.state, self.leader_epoch = State.FORWARDING, leader_epoch
            self.deadline_ms = self._hold_until_ms
            return [Effect.FORWARD]
        if not is_self:
            return self._over(Cause.CHANGED, Effect.REFUSE)
        if self.state is State.ASKED or leader_epoch != self.leader_epoch:
            return self._over(Cause.CHANGED, Effect.RESUME)
        return NOTHING

    def on_renewed(self) -> Sequence[Effect]:
        """Called for each renewal after it asked for the change."""
        if self.state not in (State.ASKED, State.DECIDED):
            return NOTHING
        self._renewals += 1
        return self._over(Cause.RENEWED, Effect.RESUME) if self._renewals == RENEWALS else NOTHING

    def on_forwarding(self, now_ms: int) -> None:
        """The successor has what was held: late comers have some more time."""
        if self.state is State.FORWARDING:
            self.deadline_ms = now_ms + self._limits.forward_ms

    def on_full(self) -> Sequence[Effect]:
        if self.state is State.HELD:
            return self._over(Cause.FULL, Effect.RESUME)
        if self.state is State.FORWARDING:
            return self._over(Cause.DONE, Effect.REFUSE)
        return self._silence()

    def on_time(self, now_ms: int) -> Sequence[Effect]:
        if self.deadline_ms is None or now_ms < self.deadline_ms:
            return NOTHING
        if self.state is State.CATCHING_UP:
            return self._over(Cause.LAGS)
        if self.state is State.HELD:
            return self._over(Cause.SLOW, Effect.RESUME)
        if self.state is State.FORWARDING:
            return self._over(Cause.DONE, Effect.REFUSE)
        if now_ms >= self._silent_until_ms and self._limits.stand_ms is not None:
            return self._over(Cause.UNKNOWN, Effect.REFUSE)
        if self.state is State.ASKED and now_ms >= self._silent_until_ms:
            return self._over(Cause.UNKNOWN, Effect.RESUME)
        effects: list[Effect] = []
        if self._stand_at_ms is not None and now_ms >= self._stand_at_ms:
            self._stand_at_ms = None
            effects.append(Effect.STAND)
        if now_ms >= self._hold_until_ms:
            effects += self._silence()
        if self.state is State.ASKED and self._ask_again_ms is not None and now_ms >= self._ask_again_ms:
            self._ask_again_ms = None
            effects.append(Effect.ASK)
        self._note_deadline()
        return effects

    def _silence(self) -> Sequence[Effect]:
        if self.is_silent or self.state not in (State.ASKED, State.DECIDED):
            return NOTHING
        self.is_silent = True
        self._note_deadline()
        return [Effect.REFUSE]

    def _give_time(self, now_ms: int) -> None:
        if self._limits.stand_ms is not None:
            self._stand_at_ms = now_ms + self._limits.stand_ms

    def _note_deadline(self) -> None:
        times_ms = [] if self.is_silent else [self._hold_until_ms]
        if self.state is State.ASKED or self._limits.stand_ms is not None:
            times_ms.append(self._silent_until_ms)
        if self.state is State.ASKED and self._ask_again_ms is not None:
            times_ms.append(self._ask_again_ms)
        if self._stand_at_ms is not None:
            times_ms.append(self._stand_at_ms)
        self.deadline_ms = min(times_ms, default=None)

    def _over(self, cause: Cause, *effects: Effect) -> Sequence[Effect]:
        self.state, self.cause, self.deadline_ms, self.is_silent = State.OVER, cause, None, False
        return list(effects)
