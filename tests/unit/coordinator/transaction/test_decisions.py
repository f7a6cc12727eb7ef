"""What Kafka's coordinator of transactions answers in each state, from its TransactionCoordinator and its tables."""

from __future__ import annotations

import pytest

from penstock.coordinator.transaction.decisions import (
    Decision,
    Moment,
    Needs,
    decide_add,
    decide_end,
    decide_init,
    decide_timeout,
    verify,
)
from penstock.coordinator.transaction.transaction import MAX_EPOCH, WITHOUT_TIMEOUT_MS, Producer, State, Transaction
from penstock.protocol.errors import ErrorCode

ID, NEXT_ID, EPOCH, NOW_MS = 7, 8, 5, 10_000
PLACE = ("t", 0)
COMPLETE = (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
LAST_EPOCH = MAX_EPOCH - 1
"""That a producer may have."""
FENCED, NO_STATE = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE


def known(state: State, epoch: int = EPOCH, **values: object) -> Transaction:
    is_open = state in (State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT)
    found = Transaction(ID, epoch, 1_000, 0, state, {PLACE: None} if is_open else {}, 1 if is_open else -1)
    return found.replace(**values)


def at(version: int = 2, fresh_id: int | None = None) -> Moment:
    return Moment(NOW_MS, version, fresh_id)


def brief(decision: Decision) -> object:
    """The state, producer and epoch that it leads to, or the error."""
    if not isinstance(decision, Transaction):
        return decision
    return decision.state, decision.producer_id, decision.producer_epoch


class TestInit:
    def test_a_new_id_gets_a_producer_id(self) -> None:
        assert decide_init(None, 1_000, None, at()) is Needs.PRODUCER_ID
        assert brief(decide_init(None, 1_000, None, at(fresh_id=ID))) == (State.EMPTY, ID, 0)

    @pytest.mark.parametrize("state", [State.EMPTY, *COMPLETE])
    def test_the_next_producer_gets_the_next_epoch(self, state: State) -> None:
        decision = decide_init(known(state), 2_000, None, at())
        assert brief(decision) == (State.EMPTY, ID, EPOCH + 1)
        assert isinstance(decision, Transaction)
        assert (decision.timeout_ms, decision.last_epoch, decision.start_ms) == (2_000, -1, -1)

    @pytest.mark.parametrize("state", [State.PREPARE_COMMIT, State.PREPARE_ABORT])
    def test_what_is_decided_is_carried_out_first(self, state: State) -> None:
        assert decide_init(known(state), 1_000, None, at()) is ErrorCode.CONCURRENT_TRANSACTIONS

    @pytest.mark.parametrize("version", [0, 1, 2])
    def test_an_open_transaction_is_aborted_and_its_producer_fenced(self, version: int) -> None:
        decision = decide_init(known(State.ONGOING), 1_000, None, at(version))
        assert brief(decision) == (State.PREPARE_ABORT, ID, EPOCH + 1)
        assert isinstance(decision, Transaction)
        assert decision.last_epoch == (EPOCH if version == 2 else -1)
        assert brief(decision.completed(NOW_MS)) == (State.COMPLETE_ABORT, ID, EPOCH + 1)

    def test_a_producer_goes_on_as_itself_once(self) -> None:
        again = decide_init(known(State.EMPTY), 1_000, Producer(ID, EPOCH), at())
        assert brief(again) == (State.EMPTY, ID, EPOCH + 1)
        assert isinstance(again, Transaction)
        repeated = decide_init(again, 1_000, Producer(ID, EPOCH), at())
        assert brief(repeated) == (State.EMPTY, ID, EPOCH + 1)
        taken = decide_init(again, 1_000, None, at())
        assert isinstance(taken, Transaction)
        assert decide_init(taken, 1_000, Producer(ID, EPOCH), at()) is ErrorCode.PRODUCER_FENCED
        assert decide_init(again, 1_000, Producer(NEXT_ID, 0), at()) is ErrorCode.PRODUCER_FENCED

    def test_used_up_epochs_bring_another_producer_id(self) -> None:
        used_up = known(State.COMPLETE_COMMIT, LAST_EPOCH)
        assert decide_init(used_up, 1_000, None, at()) is Needs.PRODUCER_ID
        rotated = decide_init(used_up, 1_000, Producer(ID, LAST_EPOCH), at(fresh_id=NEXT_ID))
        assert brief(rotated) == (State.EMPTY, NEXT_ID, 0)
        assert isinstance(rotated, Transaction)
        repeated = decide_init(rotated, 1_000, Producer(ID, LAST_EPOCH), at())
        assert brief(repeated) == (State.EMPTY, NEXT_ID, 0)


class TestKept:
    """A prepared transaction, and the producers that are to end it one after the other (KIP-939)."""

    def test_its_records_keep_their_epoch_and_each_that_comes_has_another(self) -> None:
        first = decide_init(known(State.ONGOING), WITHOUT_TIMEOUT_MS, None, at(), keeps=True)
        assert isinstance(first, Transaction)
        assert (brief(first), first.owner) == ((State.ONGOING, ID, EPOCH), Producer(ID, EPOCH + 1))
        second = decide_init(first, 1_000, None, at(), keeps=True)
        assert isinstance(second, Transaction)
        assert (brief(second), second.owner) == ((State.ONGOING, ID, EPOCH), Producer(ID, EPOCH + 2))
        assert second.timeout_ms == WITHOUT_TIMEOUT_MS
        assert second.deadline_ms is None

    @pytest.mark.parametrize("version", [0, 2])
    def test_only_its_owner_ends_it_and_goes_on_with_a_higher_epoch(self, version: int) -> None:
        kept = decide_init(known(State.ONGOING), 1_000, None, at(), keeps=True)
        assert isinstance(kept, Transaction)
        for raises in (True, False):
            before = decide_end(kept, Producer(ID, EPOCH), commits=True, raises=raises, at=at(version))
            assert before is ErrorCode.PRODUCER_FENCED
        decided = decide_end(kept, Producer(ID, EPOCH + 1), commits=True, raises=True, at=at(version))
        assert brief(decided) == (State.PREPARE_COMMIT, ID, EPOCH + 1)  # what its markers have
        assert isinstance(decided, Transaction)
        ended = decided.completed(NOW_MS)
        assert brief(ended) == (State.COMPLETE_COMMIT, ID, EPOCH + 2)
        assert not ended.is_kept
        again = decide_end(ended, Producer(ID, EPOCH + 1), commits=True, raises=True, at=at(version))
        assert again is ErrorCode.NONE

    def test_used_up_epochs_bring_another_producer_id(self) -> None:
        open_one = known(State.ONGOING, LAST_EPOCH)
        assert decide_init(open_one, 1_000, None, at(), keeps=True) is Needs.PRODUCER_ID
        kept = decide_init(open_one, 1_000, None, at(fresh_id=NEXT_ID), keeps=True)
        assert isinstance(kept, Transaction)
        assert (brief(kept), kept.owner) == ((State.ONGOING, ID, LAST_EPOCH), Producer(NEXT_ID, 0))
        decided = decide_end(kept, Producer(NEXT_ID, 0), commits=False, raises=True, at=at())
        assert brief(decided) == (State.PREPARE_ABORT, ID, MAX_EPOCH)
        assert isinstance(decided, Transaction)
        assert brief(decided.completed(NOW_MS)) == (State.COMPLETE_ABORT, NEXT_ID, 1)

    def test_who_does_not_keep_it_aborts_it_and_fences_its_owner(self) -> None:
        kept = decide_init(known(State.ONGOING), 1_000, None, at(), keeps=True)
        assert isinstance(kept, Transaction)
        aborted = decide_init(kept, 1_000, None, at(version=1))
        assert brief(aborted) == (State.PREPARE_ABORT, ID, EPOCH + 1)
        assert isinstance(aborted, Transaction)
        assert brief(aborted.completed(NOW_MS)) == (State.COMPLETE_ABORT, ID, EPOCH + 2)

    def test_nothing_more_comes_into_it(self) -> None:
        kept = decide_init(known(State.ONGOING), 1_000, None, at(), keeps=True)
        assert isinstance(kept, Transaction)
        for producer, error in ((kept.owner, ErrorCode.INVALID_TXN_STATE), (Producer(ID, EPOCH), FENCED)):
            assert decide_add(kept, producer, {PLACE: None}, 2, NOW_MS) is error
            assert verify(kept, producer, {PLACE: None}) == {PLACE: error}

    def test_where_nothing_is_open_the_producer_just_begins(self) -> None:
        decision = decide_init(known(State.EMPTY), WITHOUT_TIMEOUT_MS, None, at(), keeps=True)
        assert brief(decision) == (State.EMPTY, ID, EPOCH + 1)

    def test_two_phases_need_epochs_that_rise_but_what_is_prepared_can_be_decided(self) -> None:
        begun = decide_init(known(State.EMPTY), WITHOUT_TIMEOUT_MS, None, at(version=1), keeps=True)
        assert begun is ErrorCode.UNSUPPORTED_VERSION
        kept = decide_init(known(State.ONGOING), WITHOUT_TIMEOUT_MS, None, at(version=1), keeps=True)
        assert brief(kept) == (State.ONGOING, ID, EPOCH)


class TestPartitions:
    @pytest.mark.parametrize("state", [State.EMPTY, *COMPLETE, State.ONGOING])
    def test_they_join_the_transaction(self, state: State) -> None:
        decision = decide_add(known(state), Producer(ID, EPOCH), {("t", 1): None}, 2, NOW_MS)
        assert isinstance(decision, Transaction)
        assert decision.state is State.ONGOING
        assert list(decision.partitions) == [*known(state).partitions, ("t", 1)]
        assert decision.start_ms == (1 if state is State.ONGOING else NOW_MS)

    @pytest.mark.parametrize(
        ("transaction", "asked_by", "error"),
        [
            (None, Producer(ID, EPOCH), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
            (known(State.EMPTY), Producer(NEXT_ID, EPOCH), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
            (known(State.EMPTY), Producer(ID, EPOCH - 1), ErrorCode.PRODUCER_FENCED),
            (known(State.EMPTY), Producer(ID, EPOCH + 1), ErrorCode.PRODUCER_FENCED),
            (known(State.PREPARE_COMMIT), Producer(NEXT_ID, 0), ErrorCode.CONCURRENT_TRANSACTIONS),
            (known(State.ONGOING), Producer(ID, EPOCH), ErrorCode.NONE),
        ],
    )
    def test_or_they_do_not(self, transaction: Transaction | None, asked_by: Producer, error: ErrorCode) -> None:
        assert decide_add(transaction, asked_by, {PLACE: None}, 0, NOW_MS) is error

    def test_leaders_ask_whether_they_have(self) -> None:
        asked = {PLACE: None, ("t", 1): None}
        me = Producer(ID, EPOCH)
        abortable = ErrorCode.TRANSACTION_ABORTABLE
        assert verify(known(State.ONGOING), me, asked) == {PLACE: ErrorCode.NONE, ("t", 1): abortable}
        for transaction, producer, error in (
            (None, me, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
            (known(State.ONGOING), Producer(ID, EPOCH - 1), ErrorCode.PRODUCER_FENCED),
            (known(State.PREPARE_ABORT), me, ErrorCode.CONCURRENT_TRANSACTIONS),
            (known(State.EMPTY), me, abortable),
        ):
            assert set(verify(transaction, producer, asked).values()) == {error}


RAISED = (State.PREPARE_ABORT, ID, EPOCH + 1)


class TestEnd:
    @pytest.mark.parametrize(
        ("state", "abort", "commit"),
        [
            (State.ONGOING, (State.PREPARE_ABORT, ID, EPOCH), (State.PREPARE_COMMIT, ID, EPOCH)),
            (State.EMPTY, NO_STATE, NO_STATE),
            (State.COMPLETE_ABORT, ErrorCode.NONE, NO_STATE),
            (State.COMPLETE_COMMIT, NO_STATE, ErrorCode.NONE),
            (State.PREPARE_ABORT, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
            (State.PREPARE_COMMIT, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
        ],
    )
    def test_as_version_1_has_it(self, state: State, abort: object, commit: object) -> None:
        for commits, expected in ((False, abort), (True, commit)):
            decision = decide_end(known(state), Producer(ID, EPOCH), commits=commits, raises=False, at=at())
            assert brief(decision) == expected
            late = decide_end(known(state), Producer(ID, EPOCH - 1), commits=commits, raises=False, at=at())
            assert late is FENCED

    @pytest.mark.parametrize(
        ("state", "abort_late", "abort", "commit_late", "commit"),
        [
            (State.ONGOING, FENCED, RAISED, FENCED, (State.PREPARE_COMMIT, ID, EPOCH + 1)),
            (State.EMPTY, FENCED, RAISED, FENCED, NO_STATE),
            (State.COMPLETE_ABORT, ErrorCode.NONE, RAISED, NO_STATE, NO_STATE),
            (State.COMPLETE_COMMIT, NO_STATE, RAISED, ErrorCode.NONE, NO_STATE),
        ],
    )
    def test_as_version_2_has_it(
        self, state: State, abort_late: object, abort: object, commit_late: object, commit: object
    ) -> None:
        for commits, is_late, expected in (
            (False, True, abort_late),
            (False, False, abort),
            (True, True, commit_late),
            (True, False, commit),
        ):
            me = Producer(ID, EPOCH - is_late)
            assert brief(decide_end(known(state), me, commits=commits, raises=True, at=at())) == expected

    def test_the_last_epoch_leads_to_another_producer_id(self) -> None:
        ongoing, me = known(State.ONGOING, LAST_EPOCH), Producer(ID, LAST_EPOCH)
        assert decide_end(ongoing, me, commits=True, raises=True, at=at()) is Needs.PRODUCER_ID
        prepared = decide_end(ongoing, me, commits=True, raises=True, at=at(fresh_id=NEXT_ID))
        assert brief(prepared) == (State.PREPARE_COMMIT, ID, MAX_EPOCH)
        assert isinstance(prepared, Transaction)
        complete = prepared.completed(NOW_MS)
        assert brief(complete) == (State.COMPLETE_COMMIT, NEXT_ID, 0)
        assert decide_end(complete, me, commits=True, raises=True, at=at()) is ErrorCode.NONE
        assert decide_end(complete, me, commits=False, raises=True, at=at()) is NO_STATE

    def test_an_unknown_id_has_no_end(self) -> None:
        for raises in (False, True):
            decision = decide_end(None, Producer(ID, EPOCH), commits=True, raises=raises, at=at())
            assert decision is ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("state", list(State)[:6])
def test_time_ends_what_is_ongoing_and_nothing_else(state: State) -> None:
    transaction = known(state, start_ms=NOW_MS - 1_000)
    assert decide_timeout(transaction, at()) is ErrorCode.NONE
    transaction = known(state, start_ms=NOW_MS - 1_001)
    expected = RAISED if state is State.ONGOING else ErrorCode.NONE
    assert brief(decide_timeout(transaction, at())) == expected
    assert decide_timeout(transaction.replace(timeout_ms=WITHOUT_TIMEOUT_MS), at()) is ErrorCode.NONE


def test_time_raises_the_epoch_at_every_version() -> None:
    for version in (0, 1):
        decision = decide_timeout(known(State.ONGOING, start_ms=0), at(version))
        assert brief(decision) == RAISED
    used_up = known(State.ONGOING, LAST_EPOCH, start_ms=0)
    assert brief(decide_timeout(used_up, at(1))) == (State.PREPARE_ABORT, ID, MAX_EPOCH)
    assert decide_timeout(used_up, at(2)) is Needs.PRODUCER_ID


def test_no_step_leads_out_of_a_decision_but_its_own() -> None:
    with pytest.raises(AssertionError, match="PrepareCommit to PrepareAbort"):
        known(State.PREPARE_COMMIT).prepared(commits=False, now_ms=NOW_MS)
