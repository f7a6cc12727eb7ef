"""The leader of a storage group gives the lead to another voter: the voters are asked by an entry in the group's log.

    StorageGroupHandOver(group, successor, way)          # it is `group.hand_over` from now on

While it is under way a check looks every few milliseconds at how far the successor is, and whether this replica leads
again (`entries.HandedOver`).
"""

import asyncio
import logging
from typing import Final

from penstock.leadership.transfer import HOLDING, Answer, Effect, Limits, State, Transfer
from penstock.node.links.hand_over import HandOver, Successor
from penstock.node.storage_groups.group import StorageGroup
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.replication.storage_groups.entries import MOVED_MS, Scheme

CHECK_MS: Final = 5
STAND_MS: Final = 500
"""How long the voters have to agree, and the successor to lead, beyond what the scheme makes it wait."""

logger = logging.getLogger(__name__)


def limits_of(scheme: Scheme, lease_ms: int) -> Limits:
    """How long a successor has, and requests are held, where voters promise to wait for so long."""
    waits_ms = {Scheme.RUNS_OUT: lease_ms, Scheme.MOVED: MOVED_MS, Scheme.ENDED: 0}[scheme]
    stand_ms = waits_ms + STAND_MS
    hold_ms = 2 * stand_ms + STAND_MS
    return Limits(hold_ms=hold_ms, stand_ms=stand_ms, silent_ms=hold_ms + 2 * lease_ms)


class StorageGroupHandOver(HandOver):
    """What arrives for any partition of the group is sent on over one way."""

    def __init__(self, group: StorageGroup, successor: int, way: Successor) -> None:
        """Raises KafkaError NOT_LEADER_OR_FOLLOWER, and INVALID_REQUEST if the successor is not another voter."""
        driver, epoch = group.driver, group.proposer.epoch
        if epoch is None or not group.can_be_read or (group.hand_over is not None and group.hand_over.takes):
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this node does not lead the storage group")
        if successor == driver.local_key.id or successor not in driver.quorum.ids:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"node {successor} is no other voter of the storage group")
        self._lease_ms = driver.raft.replica.settings.lease_ms
        limits = limits_of(group.proposer.settings.handover_scheme, self._lease_ms)
        machine = Transfer(successor, epoch, driver.log_end_offset, limits, self._now_ms())
        super().__init__("a storage group", machine, way)
        self._group = group
        self._renewed_until_ms = 0.0
        group.hand_over = self
        self._ring()

    def on_leader(self, leader_id: int | None, epoch: int) -> None:
        """When all goes well there is no leader for a moment; until then no replica is asked for the leader."""
        is_self = leader_id == self._group.driver.local_key.id
        if leader_id is not None:
            self._do(self.machine.on_leader(leader_id, epoch, is_self=is_self))
        elif self.machine.state not in HOLDING:
            self._do(self.machine.on_leader(-1, epoch, is_self=False))

    def _ring(self) -> None:
        machine = self.machine
        if machine.state is State.CATCHING_UP:
            # What the successor lacks by then comes to it before the record that names it.
            end_offset = self._successors_end()
            self._do(machine.on_committed(end_offset, end_offset, self._now_ms()))
        elif machine.state in HOLDING:
            self._count_renewals()
        super()._ring()

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

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Effect.ASK:
                self._ask()
            case Effect.STAND:
                self.is_decided.set()
                self._group.take_back(self.machine.leader_epoch)

    def _ask(self) -> None:
        try:
            done = self._group.propose_successor(self.machine.successor)
        except KafkaError as error:
            logger.info("the lead could not be given to %d: %s", self.machine.successor, error)
            return  # it leads no longer, and hears who does
        self._renewed_until_ms = self._group.driver.raft.lease_until_ms + self._lease_ms
        done.add_done_callback(self._agreed)

    def _agreed(self, done: asyncio.Future[int]) -> None:
        if not done.cancelled() and done.exception() is None:  # else as above
            self._do(self.machine.on_answer(Answer.MADE, self._now_ms()))

    def _set_alarm(self) -> None:
        super()._set_alarm()
        if self.machine.state is not State.FORWARDING:
            self._alarm.set(self._now_ms() + CHECK_MS)

    def _release(self) -> None:
        if self._group.hand_over is self:
            self._group.hand_over = None

    @staticmethod
    def _elsewhere() -> KafkaError:
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another node leads the storage group")

    async def settle(self) -> None:
        """Clients can know the new leader from now on, and are told to look; what was sent on gets its answer."""
        if self.machine.state is State.FORWARDING:
            self._do(self.machine.on_full())
        await super().settle()
