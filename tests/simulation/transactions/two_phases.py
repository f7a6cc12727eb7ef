"""Producers whose transactions are decided elsewhere: in a store that outlives them, and has one owner at a time."""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation.transactions.clients import AGAIN, Client
from tests.simulation.transactions.world import ViolationError, World

from penstock.coordinator.shards.transactions import TransactionShard
from penstock.coordinator.transaction.outcome import Outcome
from penstock.coordinator.transaction.transaction import WITHOUT_TIMEOUT_MS, Producer
from penstock.protocol.errors import ErrorCode


@dataclass(slots=True)
class Store:
    """Who has it now, and the producer of the transaction that was decided to commit last."""

    owner: object = None
    decided: Producer | None = None
    carried_out: int = 0
    """So many that were decided were found open by the next process."""


class TwoPhaseClient(Client):
    """It has the store before it has the producer's name, so what it finds open there is decided, or never will be."""

    def __init__(self, world: World, transactional_id: str, store: Store) -> None:
        super().__init__(world, transactional_id)
        self.store = store
        self.kept: Producer | None = None

    def begin(self) -> None:
        self.store.owner = self
        self.ask(self.begun, TransactionShard.init, WITHOUT_TIMEOUT_MS, None, True)

    def begun(self, outcome: Outcome) -> None:
        super().begun(outcome)
        if outcome.error is not ErrorCode.NONE:
            return
        self.kept = outcome.kept
        if self.kept is not None:
            is_decided = self.kept == self.store.decided
            self.store.carried_out += is_decided
            self.next = lambda: self.ask_for_end(is_decided)

    def ask_for_end(self, commits: bool) -> None:
        if self.transaction != -1 and commits:
            if self.store.owner is not self:
                self.die()
                return
            self.store.decided = self.me
            self.world.asked_to_commit.add(self.transaction)
            self.world.told_committed[self.transaction] = set(self.acknowledged)
            if self.world.happens(0.4):  # it stops once that is decided
                self.die()
                return
        self.ask(lambda told: self.ended(told, commits), TransactionShard.end, self.me, commits, True)

    def ended(self, outcome: Outcome, commits: bool) -> None:
        if self.kept is None:
            super().ended(outcome, commits)
            return
        if outcome.error in AGAIN:
            return
        if outcome.error is not ErrorCode.NONE:
            self.die()
            return
        self.kept = None
        self.me = Producer(outcome.producer_id, outcome.producer_epoch)
        self.next = self.open

    def settle(self) -> None:
        """Take what the last one has left to its end, once all is healed."""
        self.transaction, self.is_waiting, self.late = -1, False, []
        self.next = self.begin
        for _ in range(1_000):
            self.act()
            self.world.step([])
            if self.next == self.open and not self.is_waiting:
                return
        raise ViolationError(f"{self.transactional_id} does not get to its end")
