"""What is led here goes to another node while requests for it arrive: they are held, and sent there.

`penstock.leadership.transfer` says what is to be done, here it is done. Requests are held and sent in the order in
which they came. The first one goes alone until the successor knows that it leads; then all others follow it. What the
successor answers is the answer of the request, which is given once. No request waits for a silent successor: when
the time is over, those that are held are refused, and clients of those that were sent on hear that nothing is known.

    try:
        append(...)
    except KafkaError:
        if hand_over is None or not hand_over.takes: raise
        hand_over.hold(held)                # gets one answer: the successor's, one's own, or a refusal
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from penstock.leadership.transfer import Effect, State, Transfer
from penstock.node.environment.alarm import Alarm
from penstock.node.environment.event_loop import loop_ms
from penstock.node.environment.tasks import Tasks
from penstock.protocol.errors import ErrorCode, KafkaError

MOST_BYTES: Final = 32 << 20
"""Records that are held, or on their way to the successor."""
NOT_YET_S: Final = 0.002
"""Pause before a successor is asked again that has not heard yet that it leads."""
SETTLE_S: Final = 1
"""How long a node that stops waits for the successor's answers."""

logger = logging.getLogger(__name__)


class Held(Protocol):
    """A request that arrives during a hand-over, until one of the two nodes has appended it."""

    @property
    def size(self) -> int:
        """Of its records, in bytes."""

    def append(self) -> None:
        """Append it here, after all."""

    def refused(self, error: KafkaError) -> None:
        """It was not appended, or the outcome is unknown."""


class HoldsBack(Protocol):
    """A hand-over, as requests see it."""

    @property
    def takes(self) -> bool:
        """Whether what arrives, and cannot be appended here, is kept for the successor."""

    def hold(self, held: Held) -> None:
        """Keep it until one of the two has appended it."""

    def forget(self, held: Held) -> None: ...


class Outcome(NamedTuple):
    is_taken: bool
    """Whether it leads: if not, it may a moment later."""
    answer: Callable[[], None]


class Successor(Protocol):
    def prepare(self) -> None: ...

    async def reach(self) -> None:
        """Returns when something can be sent. Raises KafkaError."""

    async def send(self, held: Held) -> Outcome:
        """Have it appended there. It is on its way before this waits; KafkaError: what its sender is told instead."""

    def hang_up(self) -> None: ...

    async def close(self) -> None: ...


class HandOver(ABC):
    """One hand-over, from its beginning. `name` is what goes to another node."""

    def __init__(self, name: str, machine: Transfer, way: Successor) -> None:
        self.machine = machine
        self.is_decided = asyncio.Event()
        """Set when this node has nothing left to do but to send on what arrives, or to stand itself."""
        self._name = name
        self._way = way
        self._held: dict[Held, None] = {}
        self._sent: dict[Held, None] = {}
        self._bytes = 0
        self._is_open = self._has_ended = False
        self._settles = False
        """Whether nothing more is taken, and what was is sent on."""
        self._arrived = asyncio.Event()
        self._tasks = Tasks()
        self._alarm = Alarm(self._ring, self._now_ms)

    @staticmethod
    def _now_ms() -> int:
        return loop_ms(asyncio.get_running_loop())

    # -- what it is for another kind of leader ------------------------------------------------------------------------

    @abstractmethod
    def _carry_out(self, effect: Effect) -> None: ...

    @abstractmethod
    def _release(self) -> None:
        """The hand-over has ended, whichever node leads: requests do not find it any more."""

    @staticmethod
    def _elsewhere() -> KafkaError:
        """The error by which a client looks for the leader."""
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # -- what arrives -------------------------------------------------------------------------------------------------

    @property
    def takes(self) -> bool:
        return self._keeps and not self._settles

    @property
    def _keeps(self) -> bool:
        return self.machine.state is not State.OVER and not self.machine.is_silent

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to do, not even to wait for an answer."""
        return self.machine.state is State.OVER and not self._tasks

    def hold(self, held: Held) -> None:
        loop = asyncio.get_running_loop()
        self._bytes += held.size
        if not self._keeps:  # it has ended since it was asked whether it takes this
            self._held[held] = None
            loop.call_soon(self._refuse)
            return
        self._way.prepare()
        if self._is_open:
            self._send_on(held)
        else:
            self._held[held] = None
            self._arrived.set()
        if self._bytes > MOST_BYTES:
            loop.call_soon(self._overflow)

    def _overflow(self) -> None:
        if self._bytes > MOST_BYTES:
            self._do(self.machine.on_full())

    def forget(self, held: Held) -> None:
        """A request that was sent on cannot be called back."""
        if held in self._held:
            del self._held[held]
            self._bytes -= held.size
        self._sent.pop(held, None)

    # -- what happens -------------------------------------------------------------------------------------------------

    def _ring(self) -> None:
        self._do(self.machine.on_time(self._now_ms()))

    def _do(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Effect.FORWARD:
                    self.is_decided.set()
                    self._tasks.start(self._forward(), f"{self._name}: send on to the successor")
                case Effect.RESUME:
                    self._resume()
                case Effect.REFUSE:
                    self._refuse()
                case _:
                    self._carry_out(effect)
        if self.machine.state is State.OVER:
            self._end()
        else:
            self._set_alarm()

    def _set_alarm(self) -> None:
        if self.machine.deadline_ms is None:
            self._alarm.cancel()
        else:
            self._alarm.set(self.machine.deadline_ms)

    def _resume(self) -> None:
        """This node leads on: no other has seen what was held."""
        held, self._held = self._held, {}
        for one in held:
            self._bytes -= one.size
            one.append()

    def _refuse(self) -> None:
        held, self._held = self._held, {}
        for one in held:
            self._bytes -= one.size
            one.refused(self._elsewhere())

    def _end(self) -> None:
        if self._has_ended:
            return
        self._has_ended = True
        self._alarm.end()
        cause = self.machine.cause
        logger.info("%s: to %d: %s", self._name, self.machine.successor, "" if cause is None else cause.name)
        self._release()
        self.is_decided.set()
        self._arrived.set()
        self._hang_up()

    async def settle(self) -> None:
        """The node is about to end: what was sent on gets its answer."""
        await self._tasks.settle(SETTLE_S)

    async def stop(self) -> None:
        self._alarm.end()
        self._release()
        self._refuse()
        sent, self._sent = self._sent, {}
        for one in sent:
            one.refused(unknown("this node is stopping"))
        await self._tasks.stop()
        await self._way.close()

    # -- the successor ------------------------------------------------------------------------------------------------

    async def _forward(self) -> None:
        """Send the first one alone until it is taken; from then on all are sent as they come."""
        try:
            while not self._is_open and self.machine.state is State.FORWARDING:
                if self._held:
                    await self._way.reach()
                    await self._send_first()
                elif self._settles:
                    return
                else:
                    self._note_forwarding()
                    self._arrived.clear()
                    await self._arrived.wait()
        except KafkaError as error:
            self._broken(error)
        if self._is_open:
            held, self._held = self._held, {}
            for one in held:
                self._send_on(one)
            self._note_forwarding()
        self._hang_up()

    def _note_forwarding(self) -> None:
        """Late comers have some more time."""
        self.machine.on_forwarding(self._now_ms())
        self._set_alarm()

    async def _send_first(self) -> None:
        one = next(iter(self._held), None)
        if one is None:
            return
        self._take_out(one)
        outcome = await self._outcome(one)
        if outcome is None:
            return
        if outcome.is_taken or not self._keeps:
            self._answered(one, outcome)
            self._is_open = outcome.is_taken
        elif one in self._sent:
            del self._sent[one]
            self._held = {one: None, **self._held}
            self._bytes += one.size
            await asyncio.sleep(NOT_YET_S)

    def _take_out(self, one: Held) -> None:
        del self._held[one]
        self._sent[one] = None

    def _send_on(self, one: Held) -> None:
        """Tasks begin in the order of their making, and each sends before it waits."""
        self._sent[one] = None
        self._tasks.start(self._sent_on(one), f"{self._name}: sent on")

    async def _sent_on(self, one: Held) -> None:
        outcome = await self._outcome(one)
        if outcome is not None:
            self._answered(one, outcome)
        self._hang_up()

    async def _outcome(self, one: Held) -> Outcome | None:
        """What the successor says; None if that is not known, which the waiting client was told."""
        try:
            return await self._way.send(one)
        except KafkaError as error:
            if one in self._sent:
                del self._sent[one]
                one.refused(error)
            self._broken(error)
            return None
        finally:
            self._bytes -= one.size

    def _answered(self, one: Held, outcome: Outcome) -> None:
        if one in self._sent:
            del self._sent[one]
            outcome.answer()

    def _broken(self, error: Exception) -> None:
        """What was not sent yet looks for the leader."""
        if self.machine.state is State.FORWARDING:
            logger.info("%s: what arrived could not be sent on: %s", self._name, error)
            self._do(self.machine.on_full())

    def _hang_up(self) -> None:
        if self.machine.state is State.OVER and not self._sent:
            self._way.hang_up()


def unknown(why: object) -> KafkaError:
    """An unknown outcome is told as such: an idempotent producer repeats it, and the successor knows its sequences."""
    return KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"sent on to the new leader, which did not answer: {why}")
