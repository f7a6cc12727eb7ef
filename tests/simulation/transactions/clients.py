"""Transactional producers: they begin, write, end, give up, and go on though others have taken their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.simulation.transactions.world import ViolationError, World

from penstock.coordinator.shards.transactions import TransactionShard
from penstock.coordinator.transaction.outcome import Outcome
from penstock.coordinator.transaction.transaction import RAISES_EPOCHS, Producer
from penstock.protocol.errors import ErrorCode

AGAIN = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NETWORK_EXCEPTION,
)
PATIENCE = 12
"""Turns that a client waits for an answer before it asks again, or gives up."""

Partition = tuple[str, int]


class Client:
    """One process. It asks one thing after the other; answers that come after it gave up are not heard."""

    transactions = 0

    def __init__(self, world: World, transactional_id: str) -> None:
        self.world = world
        self.transactional_id = transactional_id
        self.raises = world.version >= RAISES_EPOCHS
        self.me: Producer | None = None
        self.transaction = -1
        self.is_failed = False
        self.acknowledged: set[Partition] = set()
        self.next: Callable[[], None] = self.begin
        self.waited = 0
        self.asked = 0
        """What is answered now has this number."""
        self.is_waiting = False
        self.late: list[Callable[[], None]] = []
        """What was sent, and has not arrived."""

    def act(self) -> None:
        if self.late and self.world.happens(0.3):
            self.late.pop(self.world.random.randrange(len(self.late)))()
        elif not self.is_waiting:
            self.next()
        else:
            self.waited += 1
            if self.waited > PATIENCE:
                self.is_waiting, self.waited = False, 0
                self.asked += 1
                self.is_failed = True

    def ask(self, then: Callable[[Any], None], event: Callable[..., Any], *arguments: object) -> None:
        self.is_waiting, self.waited = True, 0
        self.asked += 1
        number, coordinator = self.asked, self.world.current

        def answered(response: Any) -> None:
            if number == self.asked and not self.world.happens(0.03):
                self.is_waiting = False
                then(response)

        coordinator.run(event(coordinator.shard, answered, self.transactional_id, *arguments, self.world.now_ms))

    # -- life ---------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        known = self.me if self.me is not None and self.world.happens(0.5) else None
        self.ask(self.begun, TransactionShard.init, 1_000, known, False)

    def begun(self, outcome: Outcome) -> None:
        if outcome.error in AGAIN:
            return
        if outcome.error is not ErrorCode.NONE:
            self.die()
            return
        owner = self.world.owners.setdefault((outcome.producer_id, outcome.producer_epoch), self)
        if owner is not self:
            raise ViolationError(f"{self.transactional_id}: two are the producer of epoch {outcome.producer_epoch}")
        self.me = Producer(outcome.producer_id, outcome.producer_epoch)
        self.next = self.open

    def die(self) -> None:
        """Fenced, or out of step: it begins anew, as itself or as another."""
        self.transaction = -1
        self.next = self.begin

    def open(self) -> None:
        Client.transactions += 1
        self.transaction = Client.transactions
        self.acknowledged, self.is_failed = set(), False
        self.next = self.go_on

    def go_on(self) -> None:
        if self.is_failed or self.world.happens(0.3):
            self.next = self.end
            self.end()
            return
        where = self.world.random.choice(list(self.world.partitions))
        arrive = self.writing(where)
        if self.raises and self.world.happens(0.2):
            self.late.append(arrive)
            self.is_failed = True
        else:
            arrive()

    def writing(self, where: Partition) -> Callable[[], None]:
        """The partition joins, and the record is written. With version 2 its leader sees to the first itself."""
        me, transaction = self.me, self.transaction
        assert me is not None

        def arrive() -> None:
            if transaction != self.transaction:  # nobody waits for it any more
                shard = self.world.current
                event = shard.shard.add(
                    stray, self.transactional_id, me, {where: None}, RAISES_EPOCHS, self.world.now_ms
                )
                shard.run(event)
                return
            self.ask(added, TransactionShard.add, me, {where: None}, RAISES_EPOCHS if self.raises else 0)

        def stray(outcome: Outcome) -> None:
            if outcome.error is ErrorCode.NONE:
                self.world.partitions[where].produce(me.producer_id, me.epoch, transaction)

        def added(outcome: Outcome) -> None:
            if outcome.error in AGAIN:
                return
            if outcome.error is not ErrorCode.NONE:
                self.is_failed = True
                self.die()
                return
            if transaction == self.transaction:
                self.write(where, me, transaction)

        return arrive

    def write(self, where: Partition, me: Producer, transaction: int) -> None:
        """A leader of version 1 asks first whether the partition is in the transaction."""
        if self.raises or self.world.version == 0:
            self.produce(where, me, transaction)
            return

        def verified(found: dict[Partition, ErrorCode]) -> None:
            if found[where] is ErrorCode.NONE:
                self.produce(where, me, transaction)
            else:
                self.is_failed = True

        self.ask(verified, TransactionShard.verify, me, {where: None})

    def produce(self, where: Partition, me: Producer, transaction: int) -> None:
        partition = self.world.partitions[where]
        error = partition.produce(me.producer_id, me.epoch, transaction)
        if error is ErrorCode.NONE and self.world.acknowledged(partition) is ErrorCode.NONE:
            self.acknowledged.add(where)
        else:
            self.is_failed = True

    # -- its end ------------------------------------------------------------------------------------------------------

    def end(self) -> None:
        assert self.me is not None
        commits = not self.is_failed and bool(self.acknowledged)
        if not self.acknowledged and not self.is_failed:
            self.next = self.open
            return
        self.next = lambda: self.ask_for_end(commits)
        self.next()

    def ask_for_end(self, commits: bool) -> None:
        if commits:
            self.world.asked_to_commit.add(self.transaction)
        self.ask(lambda outcome: self.ended(outcome, commits), TransactionShard.end, self.me, commits, self.raises)

    def ended(self, outcome: Outcome, commits: bool) -> None:
        if outcome.error in AGAIN:
            return
        if outcome.error is not ErrorCode.NONE:
            self.die()
            return
        if commits:
            self.world.told_committed[self.transaction] = set(self.acknowledged)
        else:
            self.world.told_aborted.add(self.transaction)
        if self.raises:
            self.me = Producer(outcome.producer_id, outcome.producer_epoch)
        self.transaction = -1
        self.next = self.open
