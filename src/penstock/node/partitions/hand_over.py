"""One partition goes to another leader while producers send on: what arrives meanwhile is held, and sent there.

`penstock.leadership.transfer` says what is to be done, here it is done. Requests are held and sent in the order in
which they came. The first one goes alone until the successor knows that it leads; then all others follow it on the same
connection. What the successor answers is the answer of the request, which is given once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, Protocol

from penstock.client.connection import Connection
from penstock.client.errors import ClientError
from penstock.leadership.transfer import Answer, Effect, Limits, State, Transfer
from penstock.log.record_checks import InvalidRecords
from penstock.node.environment.alarm import Alarm
from penstock.node.environment.event_loop import loop_ms
from penstock.node.environment.tasks import Tasks
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.node.partitions.partition import Held, Partition
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from penstock.replication.waits import NEVER, Wait, Waits

MOST_BYTES: Final = 32 << 20
"""Records of one partition that are held, or on their way to the successor."""
NOT_YET_S: Final = 0.002
"""Pause before a successor is asked again that has not heard yet that it leads."""
SETTLE_S: Final = 1
"""So long a node that stops waits for the successor's answers, ..."""
LINGER_S: Final = 0.2
"""... when it has sent on for so long what arrives: by the first answers producers hear where to go."""
NOT_YET: Final = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
)
NEWEST_BY_NAME: Final = 12
FAR: Final = NEVER - 1
"""An offset that no log reaches: who waits for it is woken when the metadata have changed."""

logger = logging.getLogger(__name__)


class Resident(Protocol):
    """What lives on a partition, and goes with it: a coordinator and what it is asked."""

    def hold(self) -> None:
        """Write nothing more of your own accord, and keep what arrives."""

    def seal(self) -> None:
        """Write what the successor has to know beside all that is written, now or never."""

    def resume(self) -> None:
        """Go on as before, with what was kept."""

    def refuse(self) -> None:
        """Keep nothing more: another one is there for it, or may be."""

    async def forward(self, leader_epoch: int) -> None:
        """Send on what was kept and what still arrives to the successor, which leads in this epoch.

        Returns when that one has begun; raises ClientError or KafkaError where it cannot be reached.
        """

    def end(self) -> None:
        """Whatever comes now finds its way by itself."""

    def stop(self) -> None:
        """The same, and what was sent on waits for the successor no longer."""


class HandOver:
    """See the module. `ask` gets the partition epoch to ask the controller with; `connect` opens the way there."""

    def __init__(
        self,
        partition: IsrPartition,
        successor: int,
        limits: Limits,
        ask: Callable[[int], Awaitable[Answer]],
        connect: Callable[[], Awaitable[Connection]],
        resident: Resident | None = None,
    ) -> None:
        leader = partition.leader
        assert leader is not None
        self._loop = asyncio.get_running_loop()
        self.partition = partition
        seals, now_ms = resident is not None, self._now_ms()
        self.machine = Transfer(successor, leader.leader_epoch, leader.log_end_offset, limits, now_ms, seals=seals)
        self.is_decided = asyncio.Event()
        """Set when this broker has nothing left to do but to send on what arrives."""
        self._ask = ask
        self._connect = connect
        self._resident = resident
        self._held: dict[Held, None] = {}
        self._sent: dict[Held, None] = {}
        self._bytes = 0
        self._asked_epoch: int | None = None
        self._connection: asyncio.Task[Connection] | None = None
        self._tasks = Tasks()
        self._is_open = False
        self._settles = False
        self._arrived = asyncio.Event()
        self._waits: list[tuple[Waits, Wait]] = []
        self._alarm = Alarm(self._time, self._now_ms)
        partition.hand_over = self
        logger.info("%s: is to be handed over to %d", partition, successor)
        self._look()

    def _now_ms(self) -> int:
        return loop_ms(self._loop)

    # -- what arrives -------------------------------------------------------------------------------------------------

    @property
    def takes(self) -> bool:
        """Whether what arrives, and cannot be appended here, is kept for the successor."""
        return self._keeps and not self._settles

    @property
    def _keeps(self) -> bool:
        return self.machine.state is not State.OVER and not self.machine.is_silent

    def hold(self, held: Held) -> None:
        """Keep it until somebody appends it."""
        if self._connection is None:
            self._connection = self._loop.create_task(self._opened(), name="connect to a successor")
        self._bytes += len(held.records)
        if self._is_open:
            self._send(held)
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
            self._bytes -= len(held.records)
        self._sent.pop(held, None)

    # -- what happens -------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """More is committed, or the metadata have changed."""
        self._wait_no_longer()
        partition, machine = self.partition, self.machine
        leader, follower = partition.leader, partition.follower
        if leader is None:
            leader_id = -1 if follower is None else follower.leader_id
            self._do(machine.on_leader(leader_id, partition.leader_epoch, is_self=False))
        else:
            if leader.leader_epoch != machine.leader_epoch or self._asked_epoch not in (None, leader.partition_epoch):
                self._do(machine.on_leader(leader.node_id, leader.leader_epoch, is_self=True))
            self._do(machine.on_committed(leader.high_watermark, leader.log_end_offset, self._now_ms()))
        if machine.state is State.OVER:
            return
        committed = partition.committed
        follows = machine.state is State.FORWARDING
        self._waits.append((committed.waits, committed.waits.add(FAR if follows else self._next_offset, self._look)))
        if partition.leader is not None:
            self._waits.append((partition.leader.appended, partition.leader.appended.add(FAR, self._look)))

    @property
    def _next_offset(self) -> int:
        return self.partition.committed.high_watermark + 1

    def _wait_no_longer(self) -> None:
        for queue, wait in self._waits:
            queue.cancel(wait)
        self._waits.clear()

    def _time(self) -> None:
        self._do(self.machine.on_time(self._now_ms()))

    def _do(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Effect.HOLD:
                    self.partition.appender = None
                    if self._resident is not None:
                        self._resident.hold()
                case Effect.SEAL:
                    self._seal()
                case Effect.ASK:
                    self._start(self._tell_controller(), "ask for a successor")
                case Effect.FORWARD:
                    self.is_decided.set()
                    self._start(self._forward(), "send on to a successor")
                case Effect.RESUME:
                    self._resume()
                case Effect.REFUSE:
                    self._refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self.machine.state is State.OVER:
            self._end()
        self._set_timer()

    def _set_timer(self) -> None:
        if self.machine.deadline_ms is None:
            self._alarm.cancel()
        else:
            self._alarm.set(self.machine.deadline_ms)

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._tasks.start(work, f"{self.partition}: {name}")

    def _end(self) -> None:
        """All is as it was before, or as it is where another broker leads."""
        if self.partition.hand_over is self:
            self.partition.hand_over = None
            cause = self.machine.cause
            logger.info("%s: to %d: %s", self.partition, self.machine.successor, "" if cause is None else cause.name)
        if self._resident is not None:
            self._resident.end()
        self._wait_no_longer()
        self.is_decided.set()
        self._arrived.set()
        self._hang_up()

    async def settle(self) -> None:
        """The node is about to end: soon what arrives is refused, and what was held or sent on has got its answer."""
        if self._connection is not None and self.machine.state is State.FORWARDING:
            await asyncio.sleep(LINGER_S)
        if self.machine.state is State.FORWARDING:
            self._settles = True
            self._arrived.set()
            await self._tasks.settle(SETTLE_S)

    async def stop(self) -> None:
        """The node ends: nothing is held any more."""
        self._refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._give_up_sent()
        self.partition.hand_over = None
        if self._resident is not None:
            self._resident.stop()
        self._wait_no_longer()
        self._alarm.cancel()
        await self._tasks.stop()
        if self._connection is not None:
            self._connection.cancel()
            await asyncio.wait([self._connection])
        connection = self._connected
        if connection is not None:
            await connection.close()

    # -- what is held -------------------------------------------------------------------------------------------------

    def _seal(self) -> None:
        """The last that this leader appends. What comes of it may be this one's end."""
        partition, leader = self.partition, self.partition.leader
        assert leader is not None
        assert self._resident is not None
        partition.appender = leader
        self._resident.seal()
        partition.appender = None
        self._do(self.machine.on_committed(leader.high_watermark, leader.log_end_offset, self._now_ms()))

    def _resume(self) -> None:
        """This broker leads on: nobody but it has seen what was held."""
        self.partition.hand_over = None
        self.partition.appender = self.partition.leader
        if self._resident is not None:
            self._resident.resume()
        held, self._held = self._held, {}
        for one in held:
            one.append()

    def _refuse(self, code: ErrorCode) -> None:
        if self._resident is not None:
            self._resident.refuse()
        held, self._held = self._held, {}
        for one in held:
            self._bytes -= len(one.records)
            one.refused(KafkaError(code))

    # -- the controller -----------------------------------------------------------------------------------------------

    async def _tell_controller(self) -> None:
        leader = self.partition.leader
        if leader is None:
            return
        if self._asked_epoch is None:
            self._asked_epoch = leader.partition_epoch
        answer = await self._ask(self._asked_epoch)
        self._do(self.machine.on_answer(answer, self._now_ms()))

    # -- the successor ------------------------------------------------------------------------------------------------

    async def _opened(self) -> Connection:
        return await self._connect()

    @property
    def _connected(self) -> Connection | None:
        task = self._connection
        return (
            task.result()
            if task is not None and task.done() and not task.cancelled() and not task.exception()
            else None
        )

    async def _forward(self) -> None:
        """Send the first one alone until it is taken; from then on all are sent as they come."""
        try:
            if self._resident is not None:
                self._note_forwarding()
                await self._resident.forward(self.machine.leader_epoch)
            while not self._is_open and self.machine.state is State.FORWARDING:
                if not self._held:
                    if self._settles:
                        return
                    self._note_forwarding()
                    self._arrived.clear()
                    await self._arrived.wait()
                    continue
                opening = self._connection
                assert opening is not None, "it is opened for the first that is held"
                if not opening.done():
                    await asyncio.wait([opening])
                    continue
                connection = opening.result()
                one = next(iter(self._held))
                self._take_out(one)
                row = await self._exchanged(connection, one)
                if row.error_code in NOT_YET and self._keeps and one in self._sent:
                    del self._sent[one]
                    self._held = {one: None, **self._held}
                    self._bytes += len(one.records)
                    await asyncio.sleep(NOT_YET_S)
                    continue
                self._answered(one, row)
                self._is_open = True
            held, self._held = self._held, {}
            for one in held:
                self._send(one)
            self._note_forwarding()
        except (ClientError, KafkaError, DecodeError) as error:
            self._broken(error)

    def _note_forwarding(self) -> None:
        self.machine.on_forwarding(self._now_ms())
        self._set_timer()

    def _take_out(self, one: Held) -> None:
        del self._held[one]
        self._bytes -= len(one.records)
        self._sent[one] = None

    def _send(self, one: Held) -> None:
        connection = self._connected
        self._sent[one] = None
        if connection is None or connection.closed:
            self._bytes -= len(one.records)
            self._loop.call_soon(self._broken, ClientError("the connection is closed"))
            return
        answer = connection.submit(request_for(self.partition, one), ProduceResponse, newest=NEWEST_BY_NAME)
        self._start(self._sent_on(answer, connection, one), "sent on")

    async def _sent_on(self, answer: asyncio.Future[ProduceResponse], connection: Connection, one: Held) -> None:
        try:
            response = await connection.answered(answer)
        except (ClientError, DecodeError) as error:
            self._broken(error)
        else:
            self._answered(one, response.responses[0].partition_responses[0])
        finally:
            self._bytes -= len(one.records)
            self._hang_up()

    async def _exchanged(self, connection: Connection, one: Held) -> PartitionProduceResponse:
        request = request_for(self.partition, one)
        response = await connection.request(request, ProduceResponse, newest=NEWEST_BY_NAME)
        return response.responses[0].partition_responses[0]

    def _answered(self, one: Held, row: PartitionProduceResponse) -> None:
        if one not in self._sent:
            return
        del self._sent[one]
        answer_held(one, row)

    def _broken(self, error: Exception) -> None:
        """Nobody knows what became of what was sent: its senders are told so. The rest looks for the leader."""
        logger.info("%s: what arrived could not be sent on: %s", self.partition, error)
        self._give_up_sent()
        if self.machine.state is State.FORWARDING:
            self._do(self.machine.on_full())

    def _give_up_sent(self) -> None:
        sent, self._sent = self._sent, {}
        for one in sent:
            one.refused(KafkaError(ErrorCode.REQUEST_TIMED_OUT, "sent on to the new leader, which did not answer"))

    def _hang_up(self) -> None:
        """Close the connection when nothing more comes over it."""
        connection = self._connected
        if self.machine.state is State.OVER and not self._sent and connection is not None and not connection.closed:
            connection.abort("handed over")


def request_for(partition: Partition, held: Held) -> ProduceRequest:
    """The same for one partition; what wants no answer gets one here, so that it is known to have come there."""
    data = PartitionProduceData(index=partition.index, records=held.records)
    topic = TopicProduceData(name=partition.topic, partition_data=[data])
    return ProduceRequest(acks=held.acks or 1, timeout_ms=held.timeout_ms, topic_data=[topic])


def answer_held(held: Held, row: PartitionProduceResponse) -> None:
    """What the successor has answered is the answer."""
    if not row.error_code:
        held.appended(row.base_offset, row.log_append_time_ms, row.log_start_offset)
        return
    errors = [(error.batch_index, error.batch_index_error_message or "") for error in row.record_errors]
    held.refused(InvalidRecords(ErrorCode(row.error_code), row.error_message or "", errors))
