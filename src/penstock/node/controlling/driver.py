"""The controller at work: one queue of commands, decided one after the other, answered when committed.

| what happens                                   | what the driver does                                              |
| ---------------------------------------------- | ----------------------------------------------------------------- |
| this node leads the quorum in a new epoch      | it is active: a `Controller` begins with what is committed         |
| another node does, or the leader is unknown    | the `Controller` is dropped; commands get NOT_CONTROLLER           |
| a command comes                                | decided at once if active, else refused with NOT_CONTROLLER        |
| the controller's own deadline comes            | it decides by itself: silent brokers are fenced                    |
| it is about to be handed over (`transfer`)     | nothing is decided, commands wait                                  |
| access rules have changed                      | answered when brokers in service have them (`seen_by_brokers`)     |

A command is decided against all decisions before it, committed or not; its records are appended to the metadata log at
once, so several decisions wait for the same majority. When records are committed, the node's image gets them, then its
listeners, then the reply goes out: a client that is told that a topic exists can use it on this node.

Where brokers lead within their leases alone (`settings.leases`), only the node that surely is active may renew one: its
heartbeat is answered within the controller's own lease, or else when a record is committed that was appended after the
heartbeat came. So a controller that was replaced and has not heard of it renews nothing.

What a command about very many things is decided to be, a thread works out; the queue stands still meanwhile. If another
node is active by then it was for nothing, and the command is refused.

A decision that raises is our own fault: that command is refused with UNKNOWN_SERVER_ERROR, the fault is logged once,
and the queue goes on.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.controller.controller import Controller
from penstock.controller.decision import Chance, ControllerSettings, Decision
from penstock.controller.decisions import is_command, is_large, parts_of
from penstock.controller.first_records import first_records
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import AbortTransactionRecord, MetadataRecord, NoOpRecord
from penstock.node.controlling.controller_metrics import QueueMetrics, register_cluster
from penstock.node.environment.alarm import Alarm
from penstock.node.metrics.registry import Registry
from penstock.node.quorum.metadata_log import MetadataLog
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from penstock.protocol.schema import Message
from penstock.protocol.value import Value

if TYPE_CHECKING:
    from penstock.controller.policies import Verdicts
    from penstock.node.controlling.seen_by_brokers import SeenByBrokers

MAX_QUEUED_COMMANDS = 10_000
COMMANDS_PER_TURN = 32
"""Decisions before the event loop gets to do something else."""

RETRY_MS = 1_000

NOT_ACTIVE = "this node is not the active controller"

logger = logging.getLogger(__name__)


class _Queued(Value):
    command: Message
    reply: asyncio.Future[Any]
    since: float
    verdicts: Verdicts | None
    asker: str
    unheard: Callable[[Any], None] | None


class ControllerDriver:
    """Runs the controller of this node over its metadata log, whenever this node leads the quorum."""

    def __init__(
        self,
        log: MetadataLog,
        settings: ControllerSettings,
        chance: Chance,
        registry: Registry,
        *,
        now_ms: Callable[[], int],
    ) -> None:
        self.metrics = QueueMetrics(registry, lambda: self.queued)
        register_cluster(registry, log.image, lambda: self.is_active)
        self._log = log
        self._log.add_leader_listener(self._leader_changed)
        self._settings = settings
        self._chance = chance
        self._node_id = settings.node_id
        self._now_ms = now_ms
        self._controller: Controller | None = None
        self._epoch = -1
        self._queue: deque[_Queued] = deque()
        self._working = False
        self._apart: asyncio.Task[None] | None = None
        self._has_resigned = False
        self._is_holding = False
        self._alarm = Alarm(self._wake, now_ms)
        self._seen: SeenByBrokers | None = None
        """Made for the first reply that waits for brokers."""

    @property
    def image(self) -> ClusterImage:
        return self._log.image

    @property
    def is_active(self) -> bool:
        return self._controller is not None

    @property
    def epoch(self) -> int:
        """The epoch in which this node decides, or did so last; -1 if it never did."""
        return self._epoch

    @property
    def queued(self) -> int:
        return len(self._queue)

    def submit(
        self,
        command: Message,
        deadline_s: float | None = None,
        verdicts: Verdicts | None = None,
        asker: str = "",
        unheard: Callable[[Any], None] | None = None,
    ) -> asyncio.Future[Any]:
        """Queues a request message; the future's result is the response message of its API.

        It fails with KafkaError where nothing was decided, or the outcome is unknown: NOT_CONTROLLER, REQUEST_TIMED_OUT
        at the deadline, a time of the event loop, THROTTLING_QUOTA_EXCEEDED, UNKNOWN_SERVER_ERROR. A command whose
        future is done before its turn is not decided. `verdicts` are what policies said (`PolicedCommands`), `asker` is
        `ControllerState.asker`. `unheard` is told the response where something was changed, and the future has failed,
        by its deadline for one, or was cancelled.
        """
        assert is_command(command), f"{type(command).__name__} is no command of the controller"
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[Any] = loop.create_future()
        if len(self._queue) >= MAX_QUEUED_COMMANDS:
            error = KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, f"{MAX_QUEUED_COMMANDS} commands wait already")
            reply.set_exception(error)
            return reply
        if deadline_s is not None:
            timer = loop.call_at(deadline_s, _time_out, reply)
            reply.add_done_callback(lambda _: timer.cancel())
        self._queue.append(_Queued(command, reply, loop.time(), verdicts, asker, unheard))
        self._work_soon()
        return reply

    def end_session(self, broker_id: int, epoch: int) -> bool:
        """A broker's process has ended. False where nothing comes of that: it is to be told again."""
        controller = self._controller
        if controller is None or self._is_holding or self._apart is not None:
            return False
        has_ended = controller.end_session(broker_id, epoch, self._now_ms())
        self._set_timer()
        return has_ended

    def hold(self) -> None:
        """Decides nothing more before `go_on`: it is about to be handed over (`transfer`)."""
        self._is_holding = True

    def go_on(self) -> None:
        """Decides on what has waited, or refuses it where another node is active by now."""
        if self._is_holding:
            self._is_holding = False
            self._set_timer()
            self._work_soon()

    def resign(self) -> None:
        """Decides nothing more, whichever node leads. Decisions are answered when the quorum has them, or has ended."""
        self._has_resigned = True
        self._deactivate()

    # -- who is active ------------------------------------------------------------------------------------------------

    def _leader_changed(self, leader_id: int | None, epoch: int) -> None:
        if leader_id == self._node_id and not self._has_resigned:
            self._activate(epoch)
        else:
            self._deactivate()

    def _activate(self, epoch: int) -> None:
        self._epoch = epoch
        if self._log.is_in_transaction:
            self._abort_transaction()
        self._controller = Controller(
            self.image.copy(), self._settings, self._chance, next_offset=self._log.next_offset
        )
        logger.info("node %d is the active controller, epoch %d", self._node_id, epoch)
        if not self.image.features:
            self._begin_cluster(self._controller)
        self._set_timer()

    def _abort_transaction(self) -> None:
        """What an earlier controller began and did not end does not hold (KIP-868)."""
        aborted = AbortTransactionRecord(reason="another controller is active now")
        try:
            self._log.append([aborted], self._epoch).add_done_callback(_look_at)
        except KafkaError as error:
            logger.warning("an open metadata transaction could not be aborted: %s", error)

    def _begin_cluster(self, controller: Controller) -> None:
        """An empty cluster gets what it was formatted with, as far as that is known here."""
        try:
            first = Decision(first_records(controller.state, self._log.first_records), None)
            self._carry_out(controller, first).add_done_callback(_look_at)
        except KafkaError as error:
            logger.warning("a new cluster could not get its features: %s", error)

    def _deactivate(self) -> None:
        if self._controller is not None:
            logger.info("node %d is not the active controller any more, epoch %d", self._node_id, self._epoch)
        self._controller = None
        if self._seen is not None:
            self._seen.give_up(KafkaError(ErrorCode.NOT_CONTROLLER, NOT_ACTIVE))
        self._alarm.cancel()

    # -- deciding -----------------------------------------------------------------------------------------------------

    def _work_soon(self) -> None:
        if self._queue and not self._working and not self._is_holding:
            self._working = True
            asyncio.get_running_loop().call_soon(self._work)

    def _work(self) -> None:
        if self._is_holding:
            self._working = False
            return
        loop = asyncio.get_running_loop()
        for _ in range(min(COMMANDS_PER_TURN, len(self._queue))):
            queued = self._queue.popleft()
            self.metrics.queue_time.took(loop.time() - queued.since)
            began_s = time.perf_counter()  # a loop's time may have whole milliseconds only
            self._decide(queued)
            if self._apart is not None:
                return
            self.metrics.processing_time.took(time.perf_counter() - began_s)
        self._work_on()

    def _work_on(self) -> None:
        self._working = bool(self._queue)
        if self._working:
            asyncio.get_running_loop().call_soon(self._work)
        self._set_timer()

    def _decide(self, queued: _Queued) -> None:
        command = queued.command
        if queued.reply.done():
            return
        try:
            controller = self._controller
            if controller is None:
                raise KafkaError(ErrorCode.NOT_CONTROLLER, NOT_ACTIVE)
            self._show_log_to(controller)
            if is_large(command, controller.image):
                self._apart = asyncio.get_running_loop().create_task(self._decide_apart(queued, controller))
                return
            decision = self._proved(command, controller.decide(command, self._now_ms(), queued.verdicts, queued.asker))
            committed = self._carry_out(controller, decision)
        except Exception as error:
            self._refuse(queued, error)
        else:
            self._answer_later(queued, decision, committed)

    def _show_log_to(self, controller: Controller) -> None:
        controller.state.next_offset = self._log.next_offset
        controller.state.quorum = self._log.quorum.quorum

    async def _decide_apart(self, queued: _Queued, controller: Controller) -> None:
        """As `_decide`; a thread decides, makes bytes of the records, and takes them into the controller's state."""
        loop, began_s = asyncio.get_running_loop(), time.perf_counter()
        now_ms = self._now_ms()

        def decide() -> tuple[Decision[Any], list[tuple[list[MetadataRecord], bytearray | None]]]:
            decision = self._proved(
                queued.command, controller.decide(queued.command, now_ms, queued.verdicts, queued.asker)
            )
            level, parts = controller.image.metadata_version, parts_of(queued.command, decision)
            return decision, [(part, self._log.encoded(part, level) if part else None) for part in parts]

        try:
            decision, parts = await loop.run_in_executor(None, decide)
            if self._is_holding:
                self._queue.appendleft(queued)
            elif controller is not self._controller:
                raise KafkaError(ErrorCode.NOT_CONTROLLER, NOT_ACTIVE)
            elif not queued.reply.done():
                committed = [self._append(*parts[0])]
                try:
                    committed += [self._append(*part) for part in parts[1:]]
                    await loop.run_in_executor(None, controller.apply, decision.records)
                except Exception:
                    self._fail(committed)
                    raise
                _forget(committed[:-1])
                self._answer_later(queued, decision, committed[-1])
        except Exception as error:
            self._refuse(queued, error)
        finally:
            self.metrics.processing_time.took(time.perf_counter() - began_s)
            self._apart = None
            self._work_on()

    def _refuse(self, queued: _Queued, error: Exception) -> None:
        if not isinstance(error, KafkaError):
            self.metrics.failures += 1
            logger.error("the controller could not decide on %s", type(queued.command).__name__, exc_info=error)
            error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        if not queued.reply.done():
            queued.reply.set_exception(error.with_traceback(None))  # with frames that have the reply

    def _proved(self, command: Message, decision: Decision[Any]) -> Decision[Any]:
        """With a record if its answer renews a lease: a controller that leads no longer cannot commit it."""
        renews = self._settings.leases and isinstance(command, BrokerHeartbeatRequest)
        if not renews or decision.records or self._log.leads_alone:
            return decision
        return Decision([NoOpRecord()], decision.reply)

    def _carry_out(self, controller: Controller, decision: Decision[Any]) -> asyncio.Future[int]:
        """Appends what was decided and takes it into the controller's state. Raises KafkaError.

        Records that are in the log, and of which only a part is in that state, end it: the next controller, perhaps on
        this node, begins with what was committed.
        """
        records, upgrade = decision.records, decision.upgrade
        if upgrade is not None:
            self._log.quorum.upgrade(upgrade.kraft_version, self._epoch, validate_only=upgrade.validate_only)
        batch = self._log.encoded(records, controller.image.metadata_version) if records else None
        committed = self._log.append(records, self._epoch, batch)
        try:
            controller.apply(records)
        except Exception:
            self._fail([committed])
            raise
        return committed

    def _answer_later(self, queued: _Queued, decision: Decision[Any], committed: asyncio.Future[int]) -> None:
        logger.debug("%s: %d records, %s", type(queued.command).__name__, len(decision.records), decision.reply)

        def answer(done: asyncio.Future[int]) -> None:
            if queued.unheard is not None and decision.records and not done.cancelled() and done.exception() is None:
                queued.reply.add_done_callback(partial(_tell_unheard, queued.unheard, decision.reply))
            if not decision.waits_for_brokers or done.cancelled() or done.exception() is not None:
                _answer_when_committed(queued.reply, decision.reply, done)
            elif self._controller is None:
                self._refuse(queued, KafkaError(ErrorCode.NOT_CONTROLLER, NOT_ACTIVE))
            else:
                self._answer_when_seen(self._controller.state.gone_by_offset, queued.reply, decision.reply)
            self._look_at_brokers(done)

        committed.add_done_callback(answer)

    def _answer_when_seen(self, offset: int, waiting: asyncio.Future[Any], reply: object) -> None:
        if self._seen is None:
            from penstock.node.controlling.seen_by_brokers import SeenByBrokers

            self._seen = SeenByBrokers(self.image)
        self._seen.answer(offset, waiting, reply)

    def _look_at_brokers(self, _: object) -> None:
        """What brokers have told, or their going, may be what replies wait for."""
        if self._seen is not None and self._controller is not None:
            self._seen.look(self._controller.state.heartbeats)

    def _append(self, records: list[MetadataRecord], batch: bytearray | None) -> asyncio.Future[int]:
        return self._log.append(records, self._epoch, batch)

    def _fail(self, committed: list[asyncio.Future[int]]) -> None:
        _forget(committed)
        self._deactivate()
        self._log.resign()

    # -- time ---------------------------------------------------------------------------------------------------------

    def _set_timer(self, not_before_ms: int = 0) -> None:
        """Wake in time for the controller's deadline. If it was put off, the old timer finds that out."""
        controller = None if self._apart is not None else self._controller  # a thread has the state while it decides
        deadline_ms = None if controller is None else controller.next_deadline_ms
        if deadline_ms is not None:
            self._alarm.set(max(deadline_ms, not_before_ms))

    def _wake(self) -> None:
        controller = self._controller
        if controller is None or self._is_holding or self._apart is not None:
            return
        try:
            self._show_log_to(controller)
            decision = controller.tick(self._now_ms())
            if decision is not None:
                committed = self._carry_out(controller, decision)
                committed.add_done_callback(_look_at)
                committed.add_done_callback(self._look_at_brokers)
        except KafkaError as error:
            logger.warning("the controller could not carry out what was due: %s", error)
            self._set_timer(not_before_ms=self._now_ms() + RETRY_MS)
        except Exception:
            self.metrics.failures += 1
            logger.exception("the controller could not decide on what was due")
            self._set_timer(not_before_ms=self._now_ms() + RETRY_MS)
        else:
            self._set_timer()


def _forget(committed: list[asyncio.Future[int]]) -> None:
    for one in committed:
        one.add_done_callback(_look_at)


def _answer_when_committed(waiting: asyncio.Future[Any], reply: object, committed: asyncio.Future[int]) -> None:
    error = KafkaError(ErrorCode.NOT_CONTROLLER, NOT_ACTIVE) if committed.cancelled() else committed.exception()
    if waiting.done():  # the client may have gone meanwhile
        return
    if error is None:
        waiting.set_result(reply)
    else:
        waiting.set_exception(error)


def _tell_unheard(unheard: Callable[[Any], None], reply: object, answered: asyncio.Future[Any]) -> None:
    if answered.cancelled() or answered.exception() is not None:
        unheard(reply)


def _time_out(waiting: asyncio.Future[Any]) -> None:
    if not waiting.done():
        waiting.set_exception(KafkaError(ErrorCode.REQUEST_TIMED_OUT, "not committed in time"))


def _look_at(committed: asyncio.Future[int]) -> None:
    """No client waits for what the controller decided by itself: it decides again if that is lost."""
    if not committed.cancelled():
        committed.exception()
