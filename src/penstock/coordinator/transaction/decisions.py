"""What each request makes of a transactional id: the next `Transaction`, an error, or that a producer id is needed.

Nothing is changed here. The rules are those of Kafka's TransactionCoordinator (KIP-98, KIP-360, KIP-890), with one
difference: where a step is under way, Kafka tells others to come back, and here they are decided on what the step will
have led to, and answered when it is committed.
"""

from enum import Enum, auto
from typing import Final

from penstock.coordinator.transaction.transaction import (
    MAX_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    RAISES_EPOCHS,
    WITHOUT_TIMEOUT_MS,
    Partitions,
    Producer,
    State,
    Transaction,
)
from penstock.protocol.errors import ErrorCode
from penstock.protocol.value import Value


class Needs(Enum):
    PRODUCER_ID = auto()
    """Ask again with an id that no producer had."""


Decision = Transaction | ErrorCode | Needs


class Moment(Value):
    """When it is decided, at which transaction.version, and perhaps with an id that no producer had."""

    now_ms: int
    version: int
    fresh_id: int | None = None


# -- a producer begins ------------------------------------------------------------------------------------------------


def decide_init(
    known: Transaction | None, timeout_ms: int, asked_by: Producer | None, at: Moment, *, keeps: bool = False
) -> Decision:
    """`asked_by` is who the client has been, if it says so. Where another one's transaction is open, it is aborted,
    or kept for this one to end (KIP-939).
    """
    keeps = keeps and known is not None and known.state is State.ONGOING
    if timeout_ms == WITHOUT_TIMEOUT_MS and at.version < RAISES_EPOCHS and not keeps:
        return ErrorCode.UNSUPPORTED_VERSION  # two transactions could have the same epoch, and be taken for each other
    if known is None:
        if at.fresh_id is None:
            return Needs.PRODUCER_ID
        return Transaction(at.fresh_id, 0, timeout_ms, at.now_ms, previous_producer_id=at.fresh_id)
    if known.is_prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if asked_by is not None and not _may_go_on(known, asked_by):
        return ErrorCode.PRODUCER_FENCED
    if keeps:
        return _with_fresh_id(known, at) or known.kept(_fresh_id(at), timeout_ms, at.now_ms)
    if known.state is State.ONGOING:
        return decide_fence(known, at)
    if known.is_exhausted and (asked_by is None or asked_by.epoch == known.producer_epoch):
        if at.fresh_id is None:
            return Needs.PRODUCER_ID
        last_epoch = NO_EPOCH if asked_by is None else known.producer_epoch
        return known.begun_by(at.fresh_id, 0, last_epoch, timeout_ms, at.now_ms)
    return _begun_again(known, timeout_ms, asked_by, at.now_ms)


def _may_go_on(known: Transaction, asked_by: Producer) -> bool:
    """Its producer id is the present one; or the one before, and it may not have heard that this was used up."""
    return asked_by.producer_id == known.owner.producer_id or (
        asked_by.producer_id == known.previous_producer_id and asked_by.epoch >= MAX_EPOCH - 1
    )


def _begun_again(known: Transaction, timeout_ms: int, asked_by: Producer | None, now_ms: int) -> Decision:
    epoch, last_epoch = known.producer_epoch, NO_EPOCH
    if asked_by is None:
        epoch += 1
    elif asked_by.epoch == known.producer_epoch:
        epoch, last_epoch = epoch + 1, epoch
    elif asked_by.epoch == known.last_epoch:  # it was told of the present epoch, and has not heard
        last_epoch = known.last_epoch
    else:
        return ErrorCode.PRODUCER_FENCED
    return known.begun_by(known.producer_id, epoch, last_epoch, timeout_ms, now_ms)


def decide_fence(known: Transaction, at: Moment) -> Decision:
    """An ongoing transaction is aborted, and its producer fenced, without being asked."""
    needs = _with_fresh_id(known, at) if at.version >= RAISES_EPOCHS or known.is_kept else None
    return needs or known.fenced(fresh_id=_fresh_id(at), version=at.version, now_ms=at.now_ms)


def decide_timeout(known: Transaction | None, at: Moment) -> Decision:
    deadline_ms = None if known is None else known.deadline_ms
    if known is None or deadline_ms is None or at.now_ms <= deadline_ms:
        return ErrorCode.NONE
    return decide_fence(known, at)


def _with_fresh_id(known: Transaction, at: Moment) -> Needs | None:
    """What is needed before the owner's epoch can be raised, if anything."""
    return Needs.PRODUCER_ID if known.is_exhausted and at.fresh_id is None else None


def _fresh_id(at: Moment) -> int:
    return NO_PRODUCER_ID if at.fresh_id is None else at.fresh_id


# -- partitions -------------------------------------------------------------------------------------------------------


def decide_add(
    known: Transaction | None, asked_by: Producer, partitions: Partitions, client_version: int, now_ms: int
) -> Decision:
    """NONE if they are in the transaction already."""
    if known is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if known.is_prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    error = _mismatch(known, asked_by)
    if error is not ErrorCode.NONE:
        return error
    if known.is_kept:
        return ErrorCode.INVALID_TXN_STATE
    if known.state is State.ONGOING and partitions.keys() <= known.partitions.keys():
        return ErrorCode.NONE
    return known.with_partitions(partitions, client_version, now_ms)


def verify(known: Transaction | None, asked_by: Producer, partitions: Partitions) -> dict[tuple[str, int], ErrorCode]:
    """Whether each partition is in the producer's transaction, as brokers ask before they write (KIP-890)."""
    error = ErrorCode.INVALID_PRODUCER_ID_MAPPING if known is None else _mismatch(known, asked_by)
    if known is None or error is not ErrorCode.NONE:
        return dict.fromkeys(partitions, error)
    if known.is_prepared:
        return dict.fromkeys(partitions, ErrorCode.CONCURRENT_TRANSACTIONS)
    if known.is_kept:
        return dict.fromkeys(partitions, ErrorCode.INVALID_TXN_STATE)
    there, missing = ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE
    return {partition: there if partition in known.partitions else missing for partition in partitions}


def _mismatch(known: Transaction, asked_by: Producer) -> ErrorCode:
    owner = known.owner
    if owner.producer_id != asked_by.producer_id:
        return ErrorCode.PRODUCER_FENCED if known.is_kept else ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return ErrorCode.NONE if owner.epoch == asked_by.epoch else ErrorCode.PRODUCER_FENCED


# -- its end ----------------------------------------------------------------------------------------------------------


def decide_end(known: Transaction | None, asked_by: Producer, *, commits: bool, raises: bool, at: Moment) -> Decision:
    """NONE if it has ended so already. `raises`: the client gets another epoch for its next transaction."""
    if known is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if raises or known.is_kept:
        return _end_and_raise(known, asked_by, commits, at)
    error = _mismatch(known, asked_by)
    if error is not ErrorCode.NONE:
        return error
    if known.is_prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if known.state is State.ONGOING:
        return known.prepared(commits=commits, now_ms=at.now_ms)
    return ErrorCode.NONE if known.state is _ENDED[commits] else ErrorCode.INVALID_TXN_STATE


_ENDED: Final = {True: State.COMPLETE_COMMIT, False: State.COMPLETE_ABORT}


def _end_and_raise(known: Transaction, asked_by: Producer, commits: bool, at: Moment) -> Decision:
    """A producer that asks with its last epoch has not heard the answer; with the present one, it is another end.

    | state          | abort, last epoch | abort, present | commit, last      | commit, present   |
    | -------------- | ----------------- | -------------- | ----------------- | ----------------- |
    | Empty          | PRODUCER_FENCED   | raised         | PRODUCER_FENCED   | INVALID_TXN_STATE |
    | CompleteAbort  | NONE              | raised         | INVALID_TXN_STATE | INVALID_TXN_STATE |
    | CompleteCommit | INVALID_TXN_STATE | raised         | NONE              | INVALID_TXN_STATE |
    """
    if known.is_prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    has_rotated = (known.previous_producer_id, MAX_EPOCH - 1, 0) == (
        asked_by.producer_id,
        asked_by.epoch,
        known.producer_epoch,
    )
    owner = known.owner
    if owner.producer_id != asked_by.producer_id and not has_rotated:
        return ErrorCode.PRODUCER_FENCED if known.is_kept else ErrorCode.INVALID_PRODUCER_ID_MAPPING
    has_ended = known.state in _ENDED.values()
    is_repeated = has_ended and (has_rotated or known.producer_epoch == asked_by.epoch + 1)
    if not is_repeated and owner.epoch != asked_by.epoch:
        return ErrorCode.PRODUCER_FENCED
    if is_repeated:
        return ErrorCode.NONE if known.state is _ENDED[commits] else ErrorCode.INVALID_TXN_STATE
    if commits and known.state is not State.ONGOING:
        return ErrorCode.INVALID_TXN_STATE
    needs = _with_fresh_id(known, at)
    return needs or known.prepared_and_raised(commits=commits, fresh_id=_fresh_id(at), now_ms=at.now_ms)
