"""One partition goes to another leader while producers send on: the controller is asked to name the successor.

The old leader stops appending when its followers are near, waits until all in sync have everything, and asks. Where its
own flush is stuck, as its disk is full or hangs, it waits for the others alone: they keep what it does not. Who waits
for the high watermark is refused then, and asks the new leader.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from penstock.client.errors import ClientError
from penstock.leadership.transfer import Answer, Effect, Limits, State, Transfer
from penstock.node.links.hand_over import HandOver
from penstock.node.links.successor import SucceedingBroker
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.protocol.errors import KafkaError
from penstock.replication.partition_leader import PartitionLeader
from penstock.replication.waits import NEVER, Wait, Waits

LINGER_S: Final = 0.2
"""How long a node that stops sends on what still arrives: the first answers tell producers where to go."""
FAR: Final = NEVER - 1
"""An offset that no log reaches: its waiter is woken when the metadata have changed."""

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
        """Keep nothing more: another leader is there for it, or may be."""

    async def forward(self, leader_epoch: int) -> None:
        """Send on all requests, until the leader of this epoch has begun. Raises ClientError, KafkaError."""

    def end(self) -> None:
        """From now on what arrives finds its way by itself."""

    def stop(self) -> None:
        """As `end`, and requests that were sent on no longer wait for the successor."""


class PartitionHandOver(HandOver):
    """`ask` gets the partition epoch to ask the controller with; `way` leads to the successor."""

    def __init__(
        self,
        partition: IsrPartition,
        successor: int,
        limits: Limits,
        ask: Callable[[int], Awaitable[Answer]],
        way: SucceedingBroker,
        resident: Resident | None = None,
    ) -> None:
        leader = partition.leader
        assert leader is not None
        begins_ms, end, seals = self._now_ms(), leader.log_end_offset, resident is not None
        machine = Transfer(successor, leader.leader_epoch, end, limits, begins_ms, seals=seals)
        super().__init__(str(partition), machine, way)
        self.partition = partition
        self._ask = ask
        self._broker = way
        self._resident = resident
        self._asked_epoch: int | None = None
        self._waits: list[tuple[Waits, Wait]] = []
        partition.hand_over = self
        logger.info("%s: is to be handed over to %d", partition, successor)
        self._look()

    def _look(self) -> None:
        self._wait_no_longer()
        partition, machine = self.partition, self.machine
        leader, follower = partition.leader, partition.follower
        if leader is None:
            leader_id = -1 if follower is None else follower.leader_id
            self._do(machine.on_leader(leader_id, partition.leader_epoch, is_self=False))
        else:
            if leader.leader_epoch != machine.leader_epoch or self._asked_epoch not in (None, leader.partition_epoch):
                self._do(machine.on_leader(leader.node_id, leader.leader_epoch, is_self=True))
            self._do(machine.on_committed(_reached(leader), leader.log_end_offset, self._now_ms()))
        if machine.state is State.OVER:
            return
        committed = partition.committed
        follows = machine.state is State.FORWARDING
        self._waits.append((committed.waits, committed.waits.add(FAR if follows else self._next_offset, self._look)))
        if (leader := partition.leader) is not None:
            self._waits.append((leader.appended, leader.appended.add(FAR, self._look)))
            if leader.kept.is_stuck:
                self._waits.append(leader.when_given(leader.given_offset + 1, self._look))

    @property
    def _next_offset(self) -> int:
        return self.partition.committed.high_watermark + 1

    def _wait_no_longer(self) -> None:
        for queue, wait in self._waits:
            queue.cancel(wait)
        self._waits.clear()

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Effect.HOLD:
                self.partition.appender = None
                if self._resident is not None:
                    self._resident.hold()
            case Effect.SEAL:
                self._seal()
            case Effect.ASK:
                self._tasks.start(self._tell_controller(), f"{self._name}: ask for a successor")

    def _resume(self) -> None:
        self.partition.hand_over = None
        self.partition.appender = self.partition.leader
        if self._resident is not None:
            self._resident.resume()
        super()._resume()

    def _refuse(self) -> None:
        if self._resident is not None:
            self._resident.refuse()
        super()._refuse()

    def _release(self) -> None:
        if self.partition.hand_over is self:
            self.partition.hand_over = None
        if self._resident is not None:
            self._resident.end()
        self._wait_no_longer()

    async def settle(self) -> None:
        """Soon what arrives is refused, and what was held or sent on has got its answer."""
        if self._broker.is_used and self.machine.state is State.FORWARDING:
            await asyncio.sleep(LINGER_S)
        if self.machine.state is State.FORWARDING:
            self._settles = True
            self._arrived.set()
            await super().settle()

    async def stop(self) -> None:
        if self._resident is not None:
            self._resident.stop()
        await super().stop()

    def _seal(self) -> None:
        """Append the last records of this leader, which may end the hand-over."""
        partition, leader = self.partition, self.partition.leader
        assert leader is not None
        assert self._resident is not None
        partition.appender = leader
        self._resident.seal()
        partition.appender = None
        self._do(self.machine.on_committed(_reached(leader), leader.log_end_offset, self._now_ms()))

    async def _tell_controller(self) -> None:
        leader = self.partition.leader
        if leader is None:
            return
        if self._asked_epoch is None:
            self._asked_epoch = leader.partition_epoch
        answer = await self._ask(self._asked_epoch)
        self._do(self.machine.on_answer(answer, self._now_ms()))

    async def _forward(self) -> None:
        if self._resident is not None:
            self._note_forwarding()
            try:
                await self._resident.forward(self.machine.leader_epoch)
            except (ClientError, KafkaError) as error:
                self._broken(error)
                return
        await super()._forward()


def _reached(leader: PartitionLeader) -> int:
    """What is before it, all have that count."""
    return leader.given_offset if leader.kept.is_stuck else leader.high_watermark
