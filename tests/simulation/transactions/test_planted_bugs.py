"""The simulation finds bugs that a person might write into the coordinator of transactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.simulation.transactions.simulate import simulate
from tests.simulation.transactions.world import World

from penstock.coordinator.shards import transactions
from penstock.coordinator.shards.transactions import TransactionShard
from penstock.coordinator.transaction import decisions, table
from penstock.coordinator.transaction.decisions import Moment
from penstock.coordinator.transaction.table import TransactionTable
from penstock.coordinator.transaction.transaction import Producer, State, Transaction
from penstock.protocol.errors import ErrorCode

MOST_SEEDS = 200


def epoch_not_raised_at_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The producer whose transaction took too long goes on in it."""

    def fenced(known: Transaction, *, fresh_id: int, version: int, now_ms: int) -> Transaction:
        return known.prepared(commits=False, now_ms=now_ms)

    monkeypatch.setattr(Transaction, "fenced", fenced)


def markers_acknowledged_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader says that it has the marker before its followers do, and is followed by one of them."""
    monkeypatch.setattr(World, "acknowledged", lambda world, partition: ErrorCode.NONE)


def late_partitions_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was added to the last transaction comes into this one."""
    mismatch = decisions._mismatch

    def lenient(known: Transaction, asked_by: Producer) -> ErrorCode:
        earlier = asked_by.producer_id == known.producer_id and asked_by.epoch == known.producer_epoch - 1
        return ErrorCode.NONE if earlier else mismatch(known, asked_by)

    monkeypatch.setattr(decisions, "_mismatch", lenient)


def prepared_timed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decision to commit is given up when the time of its transaction is over."""

    def deadline_ms(known: Transaction) -> int | None:
        is_open = known.state in (State.ONGOING, State.PREPARE_COMMIT)
        return known.start_ms + known.timeout_ms if is_open else None

    def time_out(self: TransactionTable, transactional_id: str, now_ms: int) -> None:
        self.decide(transactional_id, decide, now_ms, told=lambda _: None)  # type: ignore[arg-type, return-value]

    def decide(known: Transaction | None, at: Moment) -> Any:
        if known is None or known.state not in (State.ONGOING, State.PREPARE_COMMIT):
            return ErrorCode.NONE
        return decisions.decide_fence(known.replace(state=State.ONGOING), at)

    monkeypatch.setattr(Transaction, "deadline_ms", property(deadline_ms))
    monkeypatch.setattr(TransactionTable, "_time_out", time_out)


def markers_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that does not answer counts as one that has the marker."""
    monkeypatch.setattr(table, "SETTLED", (*table.SETTLED, ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT))


def told_before_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients hear of what may be lost."""
    append = TransactionTable.append

    def early(self: TransactionTable, records: Any, now_ms: int, **rest: Any) -> None:
        token, answer = rest.pop("token", None), rest.pop("answer", None)
        append(self, records, now_ms, **rest)
        if token is not None:
            self.reply(token, answer(ErrorCode.NONE))

    monkeypatch.setattr(TransactionTable, "append", early)


def carried_out_before_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Markers go out for a decision that may be lost."""
    append = TransactionTable.append

    def early(self: TransactionTable, records: Any, now_ms: int, **rest: Any) -> None:
        append(self, records, now_ms, **rest | {"then": lambda error, now_ms: None})
        rest.get("then", lambda error, now_ms: None)(ErrorCode.NONE, now_ms)

    monkeypatch.setattr(TransactionTable, "append", early)


def forgotten_at_a_fail_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who takes over does not go on with what is prepared."""
    monkeypatch.setattr(TransactionShard, "loaded", lambda shard, now_ms: [])


def next_producer_not_set_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next producer gets the epoch of the last one."""

    def begun_again(known: Transaction, timeout_ms: int, asked_by: Producer | None, now_ms: int) -> Transaction:
        return known.begun_by(known.producer_id, known.producer_epoch, -1, timeout_ms, now_ms)

    monkeypatch.setattr(decisions, "_begun_again", begun_again)


def refused_markers_not_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a leader did not take a marker, nobody tries again."""
    monkeypatch.setattr(TransactionTable, "_later", lambda *_: None)


def time_outs_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction whose abort could not be written is never aborted again."""
    watch = TransactionTable.watch

    def once(self: TransactionTable, transactional_id: str, now_ms: int) -> None:
        if transactional_id not in self._timeouts:
            watch(self, transactional_id, now_ms)

    monkeypatch.setattr(TransactionTable, "watch", once)


def kept_with_a_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who keeps a prepared transaction gives it a time-out, and it is over before it is decided."""
    kept = Transaction.kept

    def timed(known: Transaction, fresh_id: int, timeout_ms: int, now_ms: int) -> Transaction:
        return kept(known, fresh_id, timeout_ms, now_ms).replace(timeout_ms=1_000)

    monkeypatch.setattr(Transaction, "kept", timed)


def prepared_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction that is decided elsewhere times out like any other."""

    def deadline_ms(known: Transaction) -> int | None:
        return known.start_ms + min(known.timeout_ms, 1_000) if known.state is State.ONGOING else None

    monkeypatch.setattr(Transaction, "deadline_ms", property(deadline_ms))


def kept_under_one_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that keep a transaction one after the other have the same epoch: both may end it."""
    kept = Transaction.kept

    def again(known: Transaction, fresh_id: int, timeout_ms: int, now_ms: int) -> Transaction:
        return known if known.is_kept else kept(known, fresh_id, timeout_ms, now_ms)

    monkeypatch.setattr(Transaction, "kept", again)


def kept_ends_by_the_epoch_of_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who prepared a transaction may end it though another one keeps it, and that one may not."""
    monkeypatch.setattr(Transaction, "owner", property(lambda it: Producer(it.producer_id, it.producer_epoch)))


def kept_is_told_by_the_next_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who keeps a transaction is told of itself, and takes it for one that nobody decided about."""
    begun = transactions._begun

    def told(known: Transaction) -> Any:
        outcome = begun(known)
        return outcome.replace(kept=outcome.kept and known.owner)

    monkeypatch.setattr(transactions, "_begun", told)


def epochs_go_back_once_a_kept_one_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next producer gets an epoch that one of those had who kept the last transaction."""
    raised = Transaction.prepared_and_raised

    def lower(known: Transaction, **how: Any) -> Transaction:
        return raised(known, **how).replace(next_producer_id=-1, next_producer_epoch=-1)

    monkeypatch.setattr(Transaction, "prepared_and_raised", lower)


IN_TWO_PHASES = (
    kept_with_a_time_out,
    prepared_has_a_deadline,
    kept_under_one_epoch,
    kept_ends_by_the_epoch_of_before,
    kept_is_told_by_the_next_epoch,
    epochs_go_back_once_a_kept_one_ends,
)
"""Bugs that only transactions show which are decided elsewhere."""

BUGS: dict[Callable[[pytest.MonkeyPatch], None], int] = {
    epoch_not_raised_at_time_out: 1,
    markers_acknowledged_early: 1,
    late_partitions_taken: 2,
    prepared_timed_out: 1,
    markers_given_up: 1,
    told_before_the_commit: 1,
    carried_out_before_the_commit: 1,
    forgotten_at_a_fail_over: 1,
    next_producer_not_set_apart: 1,
    refused_markers_not_sent_again: 1,
    time_outs_forgotten: 1,
}
"""With the transaction.version at which each is looked for."""


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    find(plant, monkeypatch, BUGS[plant])


@pytest.mark.parametrize("plant", IN_TWO_PHASES, ids=lambda plant: plant.__name__)
def test_a_planted_bug_of_two_phases_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    find(plant, monkeypatch, 2, two_phases=True)


def find(
    plant: Callable[[pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
    version: int,
    *,
    two_phases: bool = False,
) -> None:
    plant(monkeypatch)
    for seed in range(MOST_SEEDS):
        try:
            simulate(seed, version, two_phases=two_phases)
        except AssertionError:  # a `ViolationError`, or what the machine takes for granted
            return
    pytest.fail(f"{MOST_SEEDS} seeds do not find it")
