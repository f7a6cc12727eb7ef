"""Coordinators of transactions one after the other, their log, producers and their zombies, and partitions.

Everything happens in an order that a seed gives: writes are committed or refused, coordinators change with what is
under way and go on for a while as zombies, markers and answers are lost, time passes, producers stop, start again and
go on though they were replaced. At the end all is healed, and `check` says what must hold.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Final

from tests.simulation.transactions.partitions import LoggedPartition

from penstock.coordinator.effects import Append, Effect, Errand, Markers, Reply
from penstock.coordinator.shards.transactions import TransactionShard
from penstock.coordinator.transaction.records import decode_record
from penstock.coordinator.transaction.settings import TransactionSettings
from penstock.coordinator.transaction.transaction import State, Transaction
from penstock.protocol.errors import ErrorCode

PARTITIONS: Final = 4
SETTINGS: Final = TransactionSettings(abort_interval_ms=100, expiration_ms=500_000, expiration_interval_ms=10_000)
AFTER: Final = {State.PREPARE_COMMIT: State.COMPLETE_COMMIT, State.PREPARE_ABORT: State.COMPLETE_ABORT}


class ViolationError(AssertionError):
    """What must hold does not."""


class Coordinator:
    """One life of the machine: in one epoch, on one node."""

    def __init__(self, world: World, epoch: int) -> None:
        self.world = world
        self.epoch = epoch
        self.shard = TransactionShard(SETTINGS, epoch, world.version)
        self.pending: deque[Append] = deque()
        self.errands: list[Errand] = []
        self.effects: deque[Effect] = deque()
        for key, value in dict(world.log).items():
            self.shard.read(key, value)
        self.run(self.shard.loaded(world.now_ms))

    @property
    def is_current(self) -> bool:
        return self.world.coordinator is self

    def run(self, effects: list[Effect]) -> None:
        self.effects += effects
        while self.effects:
            effect = self.effects.popleft()
            if isinstance(effect, Reply):
                effect.token(effect.response)  # type: ignore[operator]
            elif isinstance(effect, Errand):
                self.errands.append(effect)
            elif isinstance(effect, Append):
                self._append(effect)

    def _append(self, effect: Append) -> None:
        is_led = self.world.coordinator is None or self.is_current  # the first effects are those of its making
        if is_led and not self.world.happens(0.02):
            self.pending.append(effect)
            return
        error = ErrorCode.NOT_ENOUGH_REPLICAS if is_led else ErrorCode.NOT_LEADER_OR_FOLLOWER
        self.effects = deque(it for it in self.effects if not isinstance(it, Append))
        self.run(self.shard.appended(effect.write_id, error, self.world.now_ms))

    def commit(self) -> None:
        if self.pending:
            effect = self.pending.popleft()
            self.world.write(effect)
            self.run(self.shard.appended(effect.write_id, ErrorCode.NONE, self.world.now_ms, len(self.world.log)))

    def do_errand(self) -> None:
        if not self.errands:
            return
        errand = self.errands.pop(self.world.random.randrange(len(self.errands)))
        if self.world.happens(0.1):  # nobody was reached, or the answer was lost
            if self.world.happens(0.5):
                self.world.done(errand)
            self.run(self.shard.came_back(errand.errand_id, None, ErrorCode.NETWORK_EXCEPTION, self.world.now_ms))
            return
        answer = self.world.done(errand)
        self.run(self.shard.came_back(errand.errand_id, answer, ErrorCode.NONE, self.world.now_ms))

    def wake(self) -> None:
        deadline_ms = self.shard.next_deadline_ms()
        if deadline_ms is not None and deadline_ms <= self.world.now_ms:
            self.run(self.shard.wake(self.world.now_ms))

    def end(self) -> None:
        self.run(self.shard.unload(self.world.now_ms))


class World:
    def __init__(self, seed: int, version: int) -> None:
        self.random = Random(seed)
        self.is_healed = False
        self.version = version
        self.now_ms = 1_000_000
        self.log: list[tuple[bytes, bytes | None]] = []
        """What is committed in `__transaction_state`."""
        self.coordinator: Coordinator | None = None
        self.zombies: list[Coordinator] = []
        self.epoch = 0
        self.next_producer_id = 0
        self.partitions = {("t", index): LoggedPartition() for index in range(PARTITIONS)}
        self.last: dict[str, Transaction] = {}
        self.owners: dict[tuple[int, int], object] = {}
        """Who was told by InitProducerId to be this producer."""
        self.told_committed: dict[int, set[tuple[str, int]]] = {}
        """Transactions of which a client was told so, and where it wrote, acknowledged."""
        self.asked_to_commit: set[int] = set()
        self.told_aborted: set[int] = set()
        self.carried_out = 0
        """Transactions of two phases that another process ended as it was decided."""
        self.coordinator = Coordinator(self, 0)

    def happens(self, probability: float) -> bool:
        """Nothing goes wrong any more once all is healed."""
        return not self.is_healed and self.random.random() < probability

    @property
    def current(self) -> Coordinator:
        assert self.coordinator is not None
        return self.coordinator

    # -- the log ------------------------------------------------------------------------------------------------------

    def write(self, effect: Append) -> None:
        for key, value in effect.records:
            self.log.append((key, value))
            record = decode_record(key, value)
            assert record is not None
            before, after = self.last.get(record.transactional_id), record.value
            self._check_step(before, after)
            if after is None:
                self.last.pop(record.transactional_id, None)
            else:
                self.last[record.transactional_id] = after

    def _check_step(self, before: Transaction | None, after: Transaction | None) -> None:
        if before is None:
            return
        if before.is_prepared and (after is None or after.state is not AFTER[before.state]):
            raise ViolationError(f"{before.state.shown} led to {after and after.state.shown}")
        is_same = after is not None and before.producer_id == after.producer_id
        if is_same and after is not None and after.producer_epoch < before.producer_epoch:
            raise ViolationError(f"the epoch went back from {before.producer_epoch} to {after.producer_epoch}")

    def fail_over(self) -> None:
        """Some of what is under way is in the next leader's log, some is not."""
        old = self.current
        for _ in range(self.random.randint(0, len(old.pending))):
            self.write(old.pending.popleft())
        self.epoch += 1
        self.coordinator = None
        self.coordinator = Coordinator(self, self.epoch)
        self.zombies.append(old)

    def zombie_acts(self) -> None:
        if self.zombies:
            zombie = self.random.choice(self.zombies)
            if self.happens(0.3):
                self.zombies.remove(zombie)
                zombie.end()
            elif self.happens(0.5):
                zombie.do_errand()
            else:
                zombie.wake()

    # -- elsewhere ----------------------------------------------------------------------------------------------------

    def done(self, errand: Errand) -> Any:
        if not isinstance(errand.job, Markers):
            self.next_producer_id += 1
            return self.next_producer_id
        errors = {}
        for where in errand.job.partitions:
            errors[where] = error = self.partitions[where].mark(errand.job)
            if error is ErrorCode.NONE:
                errors[where] = self.acknowledged(self.partitions[where])
        return errors

    def acknowledged(self, partition: LoggedPartition) -> ErrorCode:
        """NONE when it is replicated; else it may be, or be lost."""
        if self.happens(0.2):
            return ErrorCode.REQUEST_TIMED_OUT
        partition.commit()
        return ErrorCode.NONE

    # -- all ----------------------------------------------------------------------------------------------------------

    def step(self, clients: list[Any]) -> None:
        actions: list[tuple[int, Callable[[], object]]] = [
            (30, lambda: self.random.choice(clients).act() if clients else None),
            (12, self.current.commit),
            (10, self.current.do_errand),
            (6, self.pass_time),
            (1, self.fail_over),
            (3, self.zombie_acts),
            (1, lambda: self.random.choice(list(self.partitions.values())).lose_tail()),
        ]
        weights = [weight for weight, _ in actions]
        self.random.choices([action for _, action in actions], weights)[0]()

    def pass_time(self) -> None:
        self.now_ms += self.random.choice((1, 20, 150, 1_500))
        self.current.wake()

    def set_version(self, version: int) -> None:
        self.version = version
        for one in (self.current, *self.zombies):
            one.shard.set_version(version)

    def heal(self) -> None:
        for zombie in self.zombies:
            zombie.end()
        self.zombies.clear()
        self.is_healed = True
        for _ in range(20_000):
            self.current.commit()
            self.current.do_errand()
            self.now_ms += 100
            self.current.wake()
            is_busy = self.current.pending or self.current.errands
            if not is_busy and not any(it.deadline_ms is not None or it.is_prepared for it in self.last.values()):
                return
        raise ViolationError("transactions do not end")

    def check(self) -> None:
        fates: dict[int, set[bool | None]] = {}
        places: dict[int, set[tuple[str, int]]] = {}
        for where, partition in self.partitions.items():
            for transaction, commits in partition.fates():
                fates.setdefault(transaction, set()).add(commits)
                places.setdefault(transaction, set()).add(where)
        for transaction, found in fates.items():
            if None in found:
                raise ViolationError(f"transaction {transaction} hangs")
            if len(found) > 1:
                raise ViolationError(f"transaction {transaction} is committed in part")
            if found == {True} and (transaction in self.told_aborted or transaction not in self.asked_to_commit):
                raise ViolationError(f"transaction {transaction} is committed, which nobody wanted")
            if found == {False} and transaction in self.told_committed:
                raise ViolationError(f"transaction {transaction} is aborted after it was committed")
        for transaction, written in self.told_committed.items():
            if not written <= places.get(transaction, set()):
                raise ViolationError(f"transaction {transaction} has lost a part")
