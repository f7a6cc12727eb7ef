"""One partition of `__transaction_state` as its coordinator: all that can happen to its ids, an event per method.

Each event takes `now_ms` and returns the effects, in the order in which they are to be carried out. Requests come with
a token and are answered with an `Outcome`, once that is committed; other answers are said with their methods.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from penstock.coordinator.effects import Effect, Token
from penstock.coordinator.machine import PartitionMachine
from penstock.coordinator.transaction.decisions import (
    Decision,
    Moment,
    decide_add,
    decide_end,
    decide_init,
    verify,
)
from penstock.coordinator.transaction.expiry import schedule_expiry
from penstock.coordinator.transaction.outcome import Outcome
from penstock.coordinator.transaction.records import TransactionRecord, decode_record
from penstock.coordinator.transaction.settings import TransactionSettings
from penstock.coordinator.transaction.table import TransactionTable
from penstock.coordinator.transaction.transaction import Partitions, Producer, Transaction
from penstock.protocol.errors import ErrorCode


class TransactionShard(PartitionMachine[TransactionRecord]):
    def __init__(self, settings: TransactionSettings, coordinator_epoch: int, version: int) -> None:
        """`version` is the cluster's transaction.version, until `set_version`."""
        self._table = TransactionTable(settings, coordinator_epoch, version)
        super().__init__(self._table)

    # -- life ---------------------------------------------------------------------------------------------------------

    decode = staticmethod(decode_record)

    def loaded(self, now_ms: int) -> list[Effect]:
        """What was decided before is carried out, each by this coordinator once."""
        table = self._table
        read = {name: table.image.transactions[name] for name in table.image.open}
        prepared = {name: known for name, known in read.items() if known.is_prepared}
        table.in_turns(prepared, lambda name, now_ms: table.carry_out(name, prepared[name], now_ms), now_ms)
        table.in_turns([name for name in read if name not in prepared], table.watch, now_ms)
        schedule_expiry(table, now_ms)
        return table.take_effects()

    def unload(self, now_ms: int) -> list[Effect]:
        self._table.end(ErrorCode.NOT_COORDINATOR, now_ms)
        return self._table.take_effects()

    def set_version(self, version: int) -> None:
        """The cluster's transaction.version has changed."""
        self._table.version = version

    def describe(self) -> str:
        image = self._table.image
        return f"{len(image.transactions)} transactional ids, {len(image.open)} of them in a transaction"

    # -- requests -----------------------------------------------------------------------------------------------------

    def init(
        self, token: Token, transactional_id: str, timeout_ms: int, asked_by: Producer | None, keeps: bool, now_ms: int
    ) -> list[Effect]:
        """A producer begins; told who it is, or CONCURRENT_TRANSACTIONS once the open transaction is aborted.

        `keeps`: it is not aborted, but kept for this producer to end.
        """

        def decide(known: Transaction | None, at: Moment) -> Decision:
            return decide_init(known, timeout_ms, asked_by, at, keeps=keeps)

        self._table.decide(transactional_id, decide, now_ms, token=token, told=_begun)
        return self._table.take_effects()

    def add(
        self,
        token: Token,
        transactional_id: str,
        asked_by: Producer,
        partitions: Partitions,
        client_version: int,
        now_ms: int,
    ) -> list[Effect]:
        """Partitions of topics that exist. `client_version`: the transaction.version that the client keeps to."""

        def decide(known: Transaction | None, at: Moment) -> Decision:
            return decide_add(known, asked_by, partitions, client_version, at.now_ms)

        self._table.decide(transactional_id, decide, now_ms, token=token, told=_nothing)
        return self._table.take_effects()

    def verify(
        self, token: Token, transactional_id: str, asked_by: Producer, partitions: Partitions, now_ms: int
    ) -> list[Effect]:
        """Answered with an ErrorCode for each partition."""
        found = verify(self._table.known(transactional_id), asked_by, partitions)

        def answer(error: ErrorCode) -> dict[tuple[str, int], ErrorCode]:
            return found if error is ErrorCode.NONE else dict.fromkeys(partitions, ErrorCode.CONCURRENT_TRANSACTIONS)

        self._table.answer_when_committed(token, answer, now_ms)
        return self._table.take_effects()

    def end(
        self, token: Token, transactional_id: str, asked_by: Producer, commits: bool, raises: bool, now_ms: int
    ) -> list[Effect]:
        """`raises`: as transaction.version 2 has it; the client is told with which epoch it goes on."""

        def decide(known: Transaction | None, at: Moment) -> Decision:
            return decide_end(known, asked_by, commits=commits, raises=raises, at=at)

        told = partial(_ended, now_ms) if raises else _nothing
        self._table.decide(transactional_id, decide, now_ms, token=token, told=told)
        return self._table.take_effects()

    # -- views --------------------------------------------------------------------------------------------------------

    def describe_transaction(self, token: Token, transactional_id: str, now_ms: int) -> list[Effect]:
        """Answered with a `Transaction`, None for an id that is not there; or with an ErrorCode."""
        known = self._table.known(transactional_id)
        self._table.answer_when_committed(token, lambda error: known if error is ErrorCode.NONE else error, now_ms)
        return self._table.take_effects()

    def counts(self) -> tuple[int, int, int]:
        """How many ids there are, how many with a transaction that is open, and with one that is prepared."""
        known, are_open = self._table.image.transactions, self._table.image.open
        prepared = sum(known[name].is_prepared for name in are_open)
        return len(known), len(are_open) - prepared, prepared

    def transactions(self) -> Iterator[tuple[str, Transaction]]:
        """All ids, as far as they are decided; those that come or go meanwhile may be missing."""
        image = self._table.image
        return ((name, known) for name in list(image.transactions) if (known := image.transactions.get(name)))


def _begun(known: Transaction) -> Outcome:
    if known.is_prepared:
        return Outcome(ErrorCode.CONCURRENT_TRANSACTIONS)
    owner, kept = known.owner, Producer(known.producer_id, known.producer_epoch) if known.is_kept else None
    return Outcome(ErrorCode.NONE, owner.producer_id, owner.epoch, kept)


def _nothing(known: Transaction) -> Outcome:
    return Outcome(ErrorCode.NONE)


def _ended(now_ms: int, known: Transaction) -> Outcome:
    after = known.completed(now_ms) if known.is_prepared else known
    return Outcome(ErrorCode.NONE, after.producer_id, after.producer_epoch)
