"""The controller at work: one queue of commands, decided one after the other, answered when committed.

A command is decided against all decisions before it, committed or not; its records are appended to the metadata log at
once, so several decisions wait for the same sync. When records are committed, the node's image gets them, then its
listeners, then the reply goes out: whoever is told that a topic exists can use it.

A decision that raises is our own fault: that command is answered with UNKNOWN_SERVER_ERROR, the fault is logged once,
and the queue goes on.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.controller.controller import DECISIONS, Controller
from penstock.controller.decision import Chance, ControllerSettings
from penstock.controller.refusals import refusal
from penstock.metadata.image import NOBODY, ClusterImage
from penstock.metadata.records import FeatureLevelRecord, MetadataRecord
from penstock.node.metadata_log import MetadataLog
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.schema import Message

MAX_QUEUED_COMMANDS = 10_000
COMMANDS_PER_TURN = 32
"""After so many decisions the event loop gets to do something else."""

METADATA_VERSION = 25
"""The level of the feature metadata.version that a new cluster starts with: that of Kafka 4.0 (4.0-IV3)."""

Listener = Callable[[Sequence[MetadataRecord]], None]

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class QueueStatistics:
    """How long commands waited in the queue and how long it took to decide them, in microseconds."""

    commands: int = 0
    failures: int = 0
    queue_time_us: int = 0
    max_queue_time_us: int = 0
    processing_time_us: int = 0
    max_processing_time_us: int = 0

    def add(self, queue_time_us: int, processing_time_us: int) -> None:
        """Counts one command."""
        self.commands += 1
        self.queue_time_us += queue_time_us
        self.max_queue_time_us = max(self.max_queue_time_us, queue_time_us)
        self.processing_time_us += processing_time_us
        self.max_processing_time_us = max(self.max_processing_time_us, processing_time_us)


@dataclass(frozen=True, slots=True)
class _Queued:
    command: Message
    reply: asyncio.Future[Any]
    since: float


class ControllerDriver:
    """Runs the controller of this node over its metadata log. `image` is what is committed."""

    def __init__(
        self,
        log: MetadataLog,
        image: ClusterImage,
        settings: ControllerSettings,
        chance: Chance,
        *,
        node_id: int,
        now_ms: Callable[[], int],
    ) -> None:
        self.image = image
        self.statistics = QueueStatistics()
        self._log = log
        self._log.on_committed = self._committed
        self._settings = settings
        self._chance = chance
        self._node_id = node_id
        self._now_ms = now_ms
        self._controller: Controller | None = None
        self._queue: deque[_Queued] = deque()
        self._working = False
        self._listeners: list[Listener] = []

    def add_listener(self, listener: Listener) -> None:
        """From now on `listener` gets all committed records, after the image got them."""
        self._listeners.append(listener)

    async def start(self) -> None:
        """Applies what is in the log, takes the lead, and gives an empty cluster its features."""
        self._log.replay()
        epoch = await self._log.lead()
        self.image.elected(self._node_id, epoch)
        self._controller = Controller(
            self.image.copy(), self._settings, self._chance, next_offset=self._log.next_offset
        )
        if not self.image.features:
            await self._carry_out([FeatureLevelRecord(name="metadata.version", feature_level=METADATA_VERSION)])

    async def stop(self) -> None:
        """Refuses what comes from now on, and waits for what was decided."""
        self._controller = None
        self.image.elected(NOBODY, self.image.controller_epoch)
        await self._log.close()

    def submit(self, command: Message) -> asyncio.Future[Any]:
        """Queues a command, which is a request message; the future's result is the response message of its API.

        It never fails: what goes wrong stands in the response as an error code.
        """
        assert type(command) in DECISIONS, f"{type(command).__name__} is no command of the controller"
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[Any] = loop.create_future()
        if len(self._queue) >= MAX_QUEUED_COMMANDS:
            error = KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, f"{MAX_QUEUED_COMMANDS} commands wait already")
            reply.set_result(refusal(command, error))
            return reply
        self._queue.append(_Queued(command, reply, loop.time()))
        if not self._working:
            self._working = True
            loop.call_soon(self._work)
        return reply

    async def _carry_out(self, records: Sequence[MetadataRecord]) -> None:
        assert self._controller is not None
        committed = self._log.append(records)
        self._controller.apply(records)
        await committed

    def _work(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(min(COMMANDS_PER_TURN, len(self._queue))):
            queued = self._queue.popleft()
            start = loop.time()
            self._decide(queued)
            self.statistics.add(_microseconds(start - queued.since), _microseconds(loop.time() - start))
        self._working = bool(self._queue)
        if self._working:
            loop.call_soon(self._work)

    def _decide(self, queued: _Queued) -> None:
        command = queued.command
        try:
            if self._controller is None:
                raise KafkaError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller")
            decision = self._controller.decide(command, self._now_ms())
            committed = self._log.append(decision.records)
            self._controller.apply(decision.records)
        except KafkaError as error:
            _answer(queued, refusal(command, error))
        except Exception:
            self.statistics.failures += 1
            logger.exception("the controller could not decide on %s", command)
            _answer(queued, refusal(command, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)))
        else:
            logger.debug("%s: %d records, %s", type(command).__name__, len(decision.records), decision.reply)
            committed.add_done_callback(lambda done: self._answer_when_committed(queued, decision.reply, done))

    def _answer_when_committed(self, queued: _Queued, reply: object, committed: asyncio.Future[None]) -> None:
        error = committed.exception()
        if error is None:
            _answer(queued, reply)
        else:
            assert isinstance(error, KafkaError)
            _answer(queued, refusal(queued.command, error))

    def _committed(self, records: Sequence[MetadataRecord], last_offset: int) -> None:
        for record in records:
            self.image.apply(record)
        self.image.applied_to(last_offset)
        for listener in self._listeners:
            try:
                listener(records)
            except Exception:
                logger.exception("%r failed on committed metadata up to offset %d", listener, last_offset)
        if self._controller is not None:
            self._log.snapshot_if_due(self.image)


def _answer(queued: _Queued, reply: object) -> None:
    if not queued.reply.done():  # who asked may have gone meanwhile
        queued.reply.set_result(reply)


def _microseconds(seconds: float) -> int:
    return int(seconds * 1_000_000)
