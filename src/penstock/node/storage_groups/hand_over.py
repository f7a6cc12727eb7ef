"""The leader of a storage group gives the lead to another voter; what arrives meanwhile is held, and sent there.

    HandOver(group, successor, send)          # it is `group.hand_over` from now on
    try:
        place = group.append(...)
    except KafkaError:
        if group.hand_over is None or not group.hand_over.takes: raise
        group.hand_over.hold(held)            # gets one answer: the successor's, one's own, or a refusal

`penstock.leadership.transfer` says what is to be done, here it is done; the voters are asked by an entry in the group's
log (`entries.HandedOver`). While it is under way a check looks every few milliseconds at how far the successor is,
and whether this replica leads again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final

from penstock.leadership.transfer import HOLDING, Answer, Effect, Limits, State, Transfer
from penstock.node.environment.alarm import Alarm
from penstock.node.environment.event_loop import loop_ms
from penstock.node.environment.tasks import Tasks
from penstock.node.storage_groups.group import Held, StorageGroup
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.replication.storage_groups.entries import MOVED_MS, Scheme

CHECK_MS: Final = 5
NOT_YET_S: Final = 0.002
"""Pause before a successor is asked again that has not heard yet that it leads."""
SETTLE_S: Final = 1
"""So long a node that stops waits for the successor's answers."""
MOST_BYTES: Final = 32 << 20
"""Records that are held, or on their way to the successor."""
STAND_MS: Final = 500
"""So long the voters have to agree, and the successor to lead, beyond what the scheme makes it wait."""

Send = Callable[[int, Held], Awaitable[bool]]
"""Sends what was held to this node, and gives its answer to who waits for it: False if that node does not lead yet.

Requests are sent in the order of these calls, as far as they run until they wait. KafkaError: nobody knows what became
of it.
"""

logger = logging.getLogger(__name__)


def limits_of(scheme: Scheme, lease_ms: int) -> Limits:
    """How long a successor has, and requests are held, where voters promise to wait for so long."""
    waits_ms = {Scheme.RUNS_OUT: lease_ms, Scheme.MOVED: MOVED_MS, Scheme.ENDED: 0}[scheme]
    stand_ms = waits_ms + STAND_MS
    hold_ms = 2 * stand_ms + STAND_MS
    return Limits(hold_ms=hold_ms, stand_ms=stand_ms, silent_ms=hold_ms + 2 * lease_ms)


class HandOver:
    """See the module."""

    def __init__(self, group: StorageGroup, successor: int, send: Send) -> None:
        """Raises KafkaError NOT_LEADER_OR_FOLLOWER, and INVALID_REQUEST for who is not another voter."""
        driver, epoch = group.driver, group.proposer.epoch
        if epoch is None or not group.can_be_read or (group.hand_over is not None and group.hand_over.takes):
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this node does not lead the storage group")
        if successor == driver.local_key.id or successor not in driver.quorum.ids:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"node {successor} is no other voter of the storage group")
        self._loop = asyncio.get_running_loop()
        self._lease_ms = driver.raft.replica.settings.lease_ms
        limits = limits_of(group.proposer.settings.handover_scheme, self._lease_ms)
        self.machine = Transfer(successor, epoch, driver.log_end_offset, limits, self._now_ms())
        self.is_decided = asyncio.Event()
        """Set when this replica has nothing left to do but to send on what arrives, or stands itself."""
        self._group = group
        self._send = send
        self._held: dict[Held, None] = {}
        self._bytes = 0
        self._is_open = False
        self._arrived = asyncio.Event()
        self._renewed_until_ms = 0.0
        self._tasks = Tasks()
        self._alarm = Alarm(self._check, self._now_ms)
        group.hand_over = self
        self._check()

    def _now_ms(self) -> int:
        return loop_ms(self._loop)

    # What arrives.

    @property
    def takes(self) -> bool:
        """Whether what arrives, and cannot be appended here, is kept for the successor."""
        return self.machine.state is not State.OVER and not self.machine.is_silent

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to do, not even to wait for an answer."""
        return self.machine.state is State.OVER and not self._tasks

    def hold(self, held: Held) -> None:
        """Keep it until somebody appends it."""
        self._bytes += held.size
        if self._is_open:
            self._send_on(held)
        else:
            self._held[held] = None
            self._arrived.set()
        if self._bytes > MOST_BYTES:
            self._loop.call_soon(self._overflow)

    def _overflow(self) -> None:
        if self._bytes > MOST_BYTES:
            self._do(self.machine.on_full())

    def forget(self, held: Held) -> None:
        """Nobody waits for its answer any more. What was sent is out of our hands."""
        if held in self._held:
            del self._held[held]
            self._bytes -= held.size

    # What happens.

    def on_leader(self, leader_id: int | None, epoch: int) -> None:
        """Nobody leads for a moment when all goes well; until then nobody is asked who it is."""
        is_self = leader_id == self._group.driver.local_key.id
        if leader_id is not None:
            self._do(self.machine.on_leader(leader_id, epoch, is_self=is_self))
        elif self.machine.state not in HOLDING:
            self._do(self.machine.on_leader(-1, epoch, is_self=False))

    def _check(self) -> None:
        machine = self.machine
        if machine.state is State.CATCHING_UP:
            # What the successor lacks by then comes to it before the record that names it.
            end_offset = self._successors_end()
            self._do(machine.on_committed(end_offset, end_offset, self._now_ms()))
        elif machine.state in HOLDING:
            self._count_renewals()
        self._do(machine.on_time(self._now_ms()))

    def _successors_end(self) -> int:
        try:
            voters = self._group.driver.describe().voters
        except KafkaError:
            return -1
        return next((voter.log_end_offset for voter in voters if voter.key.id == self.machine.successor), -1)

    def _count_renewals(self) -> None:
        """A lease that reaches so far was asked for after the voters were."""
        until_ms = self._group.driver.raft.lease_until_ms
        if until_ms > self._renewed_until_ms:
            self._renewed_until_ms = until_ms
            self._do(self.machine.on_renewed())

    def _do(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Effect.ASK:
                    self._ask()
                case Effect.STAND:
                    self.is_decided.set()
                    self._group.take_back(self.machine.leader_epoch)
                case Effect.FORWARD:
                    self.is_decided.set()
                    self._start(self._forward())
                case Effect.RESUME:
                    held, self._held = self._held, {}
                    for one in held:
                        self._bytes -= one.size
                        one.append()
                case Effect.REFUSE:
                    self._refuse(elsewhere())
        if self.machine.state is State.OVER:
            self._end()
        else:
            self._set_timer()

    def _ask(self) -> None:
        try:
            done = self._group.propose_successor(self.machine.successor)
        except KafkaError as error:
            logger.info("the lead could not be given to %d: %s", self.machine.successor, error)
            self._loop.call_soon(self._answered, Answer.CHANGED)
            return
        self._renewed_until_ms = self._group.driver.raft.lease_until_ms + self._lease_ms
        done.add_done_callback(self._agreed)

    def _agreed(self, done: asyncio.Future[int]) -> None:
        is_lost = done.cancelled() or done.exception() is not None
        self._answered(Answer.CHANGED if is_lost else Answer.MADE)

    def _answered(self, answer: Answer) -> None:
        self._do(self.machine.on_answer(answer, self._now_ms()))

    def _set_timer(self) -> None:
        if self.machine.state is not State.FORWARDING:
            self._alarm.set(self._now_ms() + CHECK_MS)
        if self.machine.deadline_ms is not None:
            self._alarm.set(self.machine.deadline_ms)

    def _end(self) -> None:
        """All is as it was before, or as it is where another voter leads."""
        self._alarm.cancel()
        if self._group.hand_over is self:
            self._group.hand_over = None
            cause = self.machine.cause
            logger.info("the lead goes to %d: %s", self.machine.successor, "" if cause is None else cause.name)
        self.is_decided.set()
        self._arrived.set()

    async def settle(self) -> None:
        """Whoever sends from now on can know who leads, and is told to look; what was sent on gets its answer."""
        if self.machine.state is State.FORWARDING:
            self._do(self.machine.on_full())
        await self._tasks.settle(SETTLE_S)

    async def stop(self) -> None:
        """The node ends: nothing is held any more."""
        if self._group.hand_over is self:
            self._group.hand_over = None
        self._alarm.cancel()
        self._refuse(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this node is stopping"))
        await self._tasks.stop()

    def _refuse(self, error: KafkaError) -> None:
        held, self._held = self._held, {}
        for one in held:
            self._bytes -= one.size
            one.refused(error)

    # The successor.

    async def _forward(self) -> None:
        """Send the first one alone until it is taken; from then on all are sent as they come."""
        while not self._is_open and self.machine.state is State.FORWARDING:
            if not self._held:
                self._note_forwarding()
                self._arrived.clear()
                await self._arrived.wait()
                continue
            one = next(iter(self._held))
            del self._held[one]
            if await self._is_taken(one):
                self._is_open = True
            elif self.takes:
                self._held = {one: None, **self._held}
                self._bytes += one.size
                await asyncio.sleep(NOT_YET_S)
            else:
                one.refused(elsewhere())
        held, self._held = self._held, {}
        for one in held:
            self._send_on(one)
        self._note_forwarding()

    def _note_forwarding(self) -> None:
        self.machine.on_forwarding(self._now_ms())
        self._do([])

    def _send_on(self, one: Held) -> None:
        self._start(self._sent_on(one))

    async def _sent_on(self, one: Held) -> None:
        if not await self._is_taken(one):
            one.refused(elsewhere())

    async def _is_taken(self, one: Held) -> bool:
        """Whether it has got an answer."""
        try:
            return await self._send(self.machine.successor, one)
        except KafkaError as error:
            one.refused(error)
            if self.machine.state is State.FORWARDING:
                self._do(self.machine.on_full())
            return True
        except asyncio.CancelledError:
            one.refused(KafkaError(ErrorCode.REQUEST_TIMED_OUT, "sent on to the new leader, which did not answer"))
            raise
        finally:
            self._bytes -= one.size

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.start(work, "what a storage group's successor is sent")


def elsewhere() -> KafkaError:
    """Who is told so looks for the leader."""
    return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another node leads the storage group")
