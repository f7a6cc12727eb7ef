"""A partition of `__transaction_state`: decisions are kept, carried out until all have their markers, and then over."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from tests.unit.coordinator.ahead import looks_ahead

from penstock.coordinator.effects import Append, Effect, Errand, Markers, NewProducerId, Reply
from penstock.coordinator.shards.transactions import TransactionShard
from penstock.coordinator.transaction.outcome import Outcome
from penstock.coordinator.transaction.records import TransactionRecord, decode_record
from penstock.coordinator.transaction.settings import TransactionSettings
from penstock.coordinator.transaction.table import TransactionTable
from penstock.coordinator.transaction.transaction import MAX_EPOCH, Producer, State, Transaction
from penstock.protocol.errors import ErrorCode

SETTINGS = TransactionSettings(abort_interval_ms=100, expiration_ms=10_000, expiration_interval_ms=1_000, at_once=2)
COORDINATOR_EPOCH = 4
T0, T1 = ("t", 0), ("t", 1)
NONE = ErrorCode.NONE


class Log:
    """Commits what a shard writes, when it is told to, and keeps what it asks for."""

    def __init__(self, *, version: int = 2, before: Log | None = None, now_ms: int = 0) -> None:
        self.records: list[tuple[bytes, bytes | None]] = list(before.records) if before is not None else []
        self.shard = TransactionShard(SETTINGS, COORDINATOR_EPOCH, version)
        looks_ahead(self.shard, lambda: self.now_ms)
        self.appends: list[Append] = []
        self.errands: list[Errand] = []
        self.answers: list[Any] = []
        self.now_ms = now_ms
        for key, value in dict(self.records).items():
            self.shard.read(key, value)
        self.take(self.shard.loaded(now_ms))

    def take(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Reply):
                self.answers.append(effect.response)
            elif isinstance(effect, Append):
                self.appends.append(effect)
            elif isinstance(effect, Errand):
                self.errands.append(effect)

    def commit(self, error: ErrorCode = NONE) -> None:
        """All that is written, and what is written thereupon; or the oldest write, and all behind it, fails."""
        while self.appends:
            append = self.appends.pop(0)
            if error is NONE:
                self.records += append.records
            else:
                self.appends.clear()
            self.take(self.shard.appended(append.write_id, error, self.now_ms, len(self.records)))

    def bring(self, answer: Any, error: ErrorCode = NONE) -> None:
        """The oldest errand has come back."""
        self.take(self.shard.came_back(self.errands.pop(0).errand_id, answer, error, self.now_ms))

    def wait(self, until_ms: int) -> None:
        while (next_ms := self.shard.next_deadline_ms()) is not None and next_ms <= until_ms:
            self.now_ms = max(next_ms, self.now_ms)
            self.take(self.shard.wake(self.now_ms))
        self.now_ms = until_ms

    def answered(self) -> Any:
        (answer,) = self.answers
        self.answers.clear()
        return answer

    def state(self, name: str = "pay") -> State | None:
        """As it is committed."""
        records = [decode_record(key, value) for key, value in self.records]
        last = [record for record in records if record is not None and record.transactional_id == name][-1]
        return None if last.value is None else last.value.state

    # -- requests -----------------------------------------------------------------------------------------------------

    def init(self, name: str = "pay") -> Any:
        self.take(self.shard.init("token", name, 1_000, None, False, self.now_ms))
        if self.errands and isinstance(self.errands[0].job, NewProducerId):
            self.bring(7)
        self.commit()
        return self.answered()

    def add(self, *partitions: tuple[str, int], epoch: int = 0) -> None:
        wanted = dict.fromkeys(partitions)
        self.take(self.shard.add("token", "pay", Producer(7, epoch), wanted, 0, self.now_ms))

    def end(self, *, commits: bool = True, epoch: int = 0, raises: bool = False) -> None:
        self.take(self.shard.end("token", "pay", Producer(7, epoch), commits, raises, self.now_ms))

    @property
    def markers(self) -> Markers:
        job = self.errands[0].job
        assert isinstance(job, Markers)
        return job


def ongoing(**settings: Any) -> Log:
    log = Log(**settings)
    assert log.init() == Outcome(NONE, 7, 0)
    log.add(T0, T1)
    log.commit()
    assert log.answered() == Outcome(NONE)
    return log


def prepared() -> Log:
    log = ongoing()
    log.end()
    log.commit()
    assert log.answered() == Outcome(NONE)
    return log


def test_nothing_is_told_and_no_marker_sent_before_the_decision_is_committed() -> None:
    log = ongoing()
    log.end()
    assert (log.answers, log.errands) == ([], [])
    log.commit()
    assert log.answered() == Outcome(NONE)
    assert log.markers == Markers(7, 0, COORDINATOR_EPOCH, True, 0, (T0, T1))


def test_who_comes_while_markers_are_on_their_way_waits_for_a_moment() -> None:
    log = prepared()
    log.add(T0)
    log.wait(50)
    log.take(log.shard.init("other", "pay", 1_000, None, False, log.now_ms))
    assert log.answers == []
    log.wait(SETTINGS.longest_wait_ms)
    assert log.answered() == Outcome(ErrorCode.CONCURRENT_TRANSACTIONS)
    log.bring({T0: NONE, T1: NONE})
    log.commit()
    assert log.answered() == Outcome(NONE, 7, 1)
    log.wait(1_000)
    assert log.answers == []


def test_who_waits_is_decided_on_in_turn_and_once_more_at_most() -> None:
    log = prepared()
    log.add(T0)
    log.end(commits=True)
    log.end(commits=False)
    log.bring({T0: NONE, T1: NONE})
    log.commit()
    assert log.answers == [Outcome(ErrorCode.CONCURRENT_TRANSACTIONS), Outcome(NONE), Outcome(NONE)]


@pytest.mark.parametrize("ends", ["it waits too long", "markers come", "the machine ends"])
def test_who_has_waited_for_markers_leaves_nothing_for_the_collector(ends: str) -> None:
    log = prepared()
    table = log.shard.agenda
    assert isinstance(table, TransactionTable)
    gc.disable()
    try:
        log.add(T0)
        (waiting,) = [weakref.ref(one.again) for one in table._waiting["pay"]]
        if ends == "it waits too long":
            log.wait(SETTINGS.longest_wait_ms)
        elif ends == "markers come":
            log.bring({T0: NONE, T1: NONE})
            log.wait(SETTINGS.longest_wait_ms)
        else:
            log.take(log.shard.unload(0))
            table.let_go()
        assert waiting() is None
    finally:
        gc.enable()


def test_who_waits_for_markers_is_sent_away_with_the_machine() -> None:
    log = prepared()
    log.add(T0)
    log.take(log.shard.unload(0))
    assert log.answered() == Outcome(ErrorCode.NOT_COORDINATOR)


def test_markers_are_sent_until_each_partition_has_one_or_is_gone() -> None:
    log = prepared()
    log.bring(None, ErrorCode.NETWORK_EXCEPTION)
    assert log.errands == []
    log.wait(SETTINGS.retry_backoff_ms)
    log.bring({T0: NONE, T1: ErrorCode.NOT_LEADER_OR_FOLLOWER})
    log.wait(10 * SETTINGS.retry_backoff_ms)
    assert log.markers.partitions == (T1,)
    assert log.state() is State.PREPARE_COMMIT
    log.bring({T1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
    log.commit()
    assert log.state() is State.COMPLETE_COMMIT
    log.end()
    assert log.answered() == Outcome(NONE)


def test_what_is_tried_again_does_not_wait_for_the_slowest_broker() -> None:
    log = prepared()
    slow = log.errands.pop(0)
    log.take(log.shard.came_in_part(slow.errand_id, {T1: ErrorCode.NOT_LEADER_OR_FOLLOWER}, log.now_ms))
    log.wait(SETTINGS.retry_backoff_ms)
    assert log.markers.partitions == (T1,)
    log.bring({T1: NONE})
    assert log.appends == []
    log.take(log.shard.came_back(slow.errand_id, None, ErrorCode.NETWORK_EXCEPTION, log.now_ms))
    log.wait(10 * SETTINGS.retry_backoff_ms)
    assert log.markers.partitions == (T0,)
    log.bring({T0: NONE})
    log.commit()
    assert (log.errands, log.state()) == ([], State.COMPLETE_COMMIT)


def test_it_is_complete_with_the_last_part_and_once() -> None:
    log = prepared()
    errand_id = log.errands.pop(0).errand_id
    log.take(log.shard.came_in_part(errand_id, {T0: NONE}, log.now_ms))
    assert log.appends == []
    log.take(log.shard.came_in_part(errand_id, {T1: NONE}, log.now_ms))
    assert len(log.appends) == 1
    log.take(log.shard.came_back(errand_id, {}, NONE, log.now_ms))
    assert len(log.appends) == 1


def test_nothing_is_tried_again_once_a_newer_coordinator_was_heard_of() -> None:
    log = prepared()
    errand_id = log.errands.pop(0).errand_id
    log.take(log.shard.came_in_part(errand_id, {T0: ErrorCode.TRANSACTION_COORDINATOR_FENCED}, log.now_ms))
    log.take(log.shard.came_back(errand_id, {T1: ErrorCode.NOT_LEADER_OR_FOLLOWER}, NONE, log.now_ms))
    log.wait(60_000)
    assert (log.errands, log.appends) == ([], [])


def test_pauses_between_attempts_have_an_end() -> None:
    log = prepared()
    for _ in range(30):
        log.bring(None, ErrorCode.NETWORK_EXCEPTION)
        begun_ms = log.now_ms
        while not log.errands:
            deadline_ms = log.shard.next_deadline_ms()
            assert deadline_ms is not None
            log.wait(deadline_ms)
        assert log.now_ms - begun_ms <= SETTINGS.retry_backoff_max_ms


def test_a_coordinator_that_takes_over_carries_out_what_is_decided_and_times_out_what_is_not() -> None:
    before = prepared()
    after = Log(before=before)
    assert after.markers.partitions == (T0, T1)
    after.bring({T0: NONE, T1: NONE})
    after.commit()
    assert after.state() is State.COMPLETE_COMMIT
    late = Log(before=ongoing(), now_ms=5_000)
    late.wait(5_100)
    late.commit()
    assert late.state() is State.PREPARE_ABORT
    assert (late.markers.producer_epoch, late.markers.commits) == (1, False)


def test_very_many_decisions_are_carried_out_some_at_a_time() -> None:
    before = Log()
    for name in "abcde":
        before.take(before.shard.init("token", name, 1_000, None, False, 0))
        before.bring(ord(name))
        before.take(before.shard.add("token", name, Producer(ord(name), 0), {T0: None}, 0, 0))
        before.take(before.shard.end("token", name, Producer(ord(name), 0), True, False, 0))
    before.commit()
    after = Log(before=before)
    found = []
    for now_ms in range(3):
        found.append(len(after.errands))
        after.wait(now_ms + 1)
    assert found == [2, 4, 5]


def test_a_newer_coordinator_is_left_to_it() -> None:
    log = prepared()
    log.bring({T0: NONE, T1: ErrorCode.TRANSACTION_COORDINATOR_FENCED})
    log.wait(60_000)
    assert (log.errands, log.state()) == ([], State.PREPARE_COMMIT)


def test_a_decision_that_could_not_be_written_is_none() -> None:
    log = ongoing()
    log.end()
    log.commit(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert log.answered() == Outcome(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert log.errands == []
    log.end(commits=False)
    log.commit()
    assert (log.answered(), log.markers.commits) == (Outcome(NONE), False)


def test_an_end_that_could_not_be_written_is_written_again() -> None:
    log = prepared()
    log.bring({T0: NONE, T1: NONE})
    log.commit(ErrorCode.NOT_ENOUGH_REPLICAS)
    log.wait(SETTINGS.retry_backoff_ms)
    log.commit()
    assert (log.state(), log.errands) == (State.COMPLETE_COMMIT, [])


def test_the_next_transaction_waits_for_no_record_of_the_last_one() -> None:
    log = prepared()
    log.bring({T0: NONE, T1: NONE})
    log.add(T0)
    log.commit()
    assert (log.answered(), log.state()) == (Outcome(NONE), State.ONGOING)


def test_a_refusal_waits_for_what_it_rests_on() -> None:
    for error, told in (
        (NONE, ErrorCode.PRODUCER_FENCED),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
    ):
        log = ongoing()
        log.take(log.shard.init("other", "pay", 1_000, None, False, 0))
        log.end(epoch=0)
        assert log.answers == []
        log.commit(error)
        assert log.answers[1] == Outcome(told)


def test_an_abort_by_time_is_tried_again() -> None:
    log = ongoing()
    log.wait(1_150)
    log.commit(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert log.state() is State.ONGOING
    log.wait(1_300)
    log.commit()
    assert log.state() is State.PREPARE_ABORT
    log.end(epoch=0)
    assert log.answered() == Outcome(ErrorCode.PRODUCER_FENCED)


def test_without_a_producer_id_nothing_begins() -> None:
    log = Log()
    log.take(log.shard.init("token", "pay", 1_000, None, False, 0))
    log.bring(None, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert log.answered() == Outcome(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert list(log.shard.transactions()) == []


def test_two_that_begin_at_once_are_two_producers() -> None:
    log = Log()
    for token in ("first", "second"):
        log.take(log.shard.init(token, "pay", 1_000, None, False, 0))
    log.bring(7)
    log.bring(8)
    log.commit()
    assert log.answers == [Outcome(NONE, 7, 0), Outcome(NONE, 7, 1)]


def test_ids_that_nobody_uses_are_forgotten_and_those_in_use_are_not() -> None:
    log = ongoing()
    log.init("idle")
    log.wait(5_000)
    log.commit()
    assert log.state() is State.PREPARE_ABORT  # its time is over, and its markers are not there
    assert log.state("idle") is State.EMPTY
    log.wait(SETTINGS.expiration_ms + 2 * SETTINGS.expiration_interval_ms)
    log.commit()
    assert [name for name, _ in log.shard.transactions()] == ["pay"]
    assert log.state("idle") is None


def test_who_waits_when_the_machine_ends_is_sent_away() -> None:
    log = ongoing()
    log.end()
    log.take(log.shard.init("other", "new", 1_000, None, False, 0))
    log.take(log.shard.unload(0))
    assert log.answers == [Outcome(ErrorCode.NOT_COORDINATOR)] * 2


def test_the_layout_follows_the_version() -> None:
    log = Log(version=0)
    log.init()
    log.shard.set_version(2)
    log.add(T0)
    log.commit()
    versions = [value[:2] for _, value in log.records if value is not None]
    assert versions == [b"\x00\x00", b"\x00\x01"]


def test_who_follows_a_producer_without_epochs_is_written_at_any_version() -> None:
    """A coordinator that takes over meanwhile completes the transaction with the id that the client was told of."""
    log = Log(version=0)
    log.init()
    used_up = Transaction(7, MAX_EPOCH - 1, 1_000, 0, State.ONGOING, {T0: None}, 0)
    log.records.append(TransactionRecord("pay", used_up, 0).encode())
    log = Log(version=0, before=log)
    log.end(epoch=MAX_EPOCH - 1, raises=True)
    log.bring(8)
    log.commit()
    assert log.answered() == Outcome(NONE, 8, 0)
    after = Log(version=0, before=log)
    after.bring({T0: NONE})
    after.commit()
    after.take(after.shard.describe_transaction("token", "pay", 0))
    known = after.answered()
    assert (known.state, known.producer_id, known.producer_epoch) == (State.COMPLETE_COMMIT, 8, 0)


def test_version_2_tells_with_whom_the_producer_goes_on() -> None:
    log = ongoing()
    log.end(raises=True)
    log.commit()
    assert log.answered() == Outcome(NONE, 7, 1)
    assert (log.markers.producer_epoch, log.markers.transaction_version) == (1, 2)
    log.bring({T0: NONE, T1: NONE})
    log.commit()
    log.end(raises=True)
    assert log.answered() == Outcome(NONE, 7, 1)
