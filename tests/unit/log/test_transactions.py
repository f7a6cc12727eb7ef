"""What a leader takes of producers with transactions, and what it refuses, row by row of `producer_state`."""

from pathlib import Path

import pytest
from tests.unit.log.logs import NOW, append, batch, open_log
from tests.unit.log.transactions import append_all, ended, verified, written

from penstock.log.config import LogConfig
from penstock.log.partition_log import PartitionLog
from penstock.log.producer_state import MOST_REMEMBERED, Producers, UnverifiedError
from penstock.log.validation import AppendOrigin
from penstock.protocol.batch import read_header
from penstock.protocol.control.records import ControlType
from penstock.protocol.errors import ErrorCode, KafkaError

ABORT, COMMIT = ControlType.ABORT, ControlType.COMMIT


def begin(log: PartitionLog, data: memoryview) -> int:
    verified(log, data)
    return append(log, data)


def mark(log: PartitionLog, marker: memoryview) -> None:
    log.append_as_leader(marker, leader_epoch=0, now_ms=NOW, origin=AppendOrigin.COORDINATOR)


def test_a_transaction_begins_only_where_its_coordinator_was_asked(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    with pytest.raises(UnverifiedError) as refused:
        append(log, written(8, 0))
    assert refused.value.code == ErrorCode.NOT_ENOUGH_REPLICAS, "producers that hear of it try again"
    assert refused.value.header.producer_id == 8
    assert log.log_end_offset == 0
    assert begin(log, written(8, 0)) == 0
    assert append(log, written(8, 1)) == 1, "it is open now"
    mark(log, ended(8, COMMIT))
    with pytest.raises(UnverifiedError):
        append(log, written(8, 2))


def test_what_was_asked_before_a_marker_says_nothing_about_the_next_transaction(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    late = written(8, 0)
    asked = log.producers.verify(8, 0, 0, expects_zero=False)
    mark(log, ended(8, ABORT))
    log.producers.verified(8, asked, is_good=True)
    with pytest.raises(UnverifiedError):
        append(log, late)
    log.producers.no_longer_verified(8, asked)
    assert log.last_stable_offset(1) == 1


def test_requests_share_what_is_asked_and_the_last_one_ends_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    producers = log.producers
    first, second = (producers.verify(8, 0, sequence, expects_zero=False) for sequence in (0, 1))
    assert first is second
    producers.no_longer_verified(8, first)
    producers.verified(8, second, is_good=True)
    with pytest.raises(KafkaError) as refused:
        append(log, written(8, 1))
    assert refused.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "sequence 0 was seen, and comes first"
    producers.no_longer_verified(8, second)
    with pytest.raises(UnverifiedError):
        append(log, written(8, 0))


@pytest.mark.parametrize("answer", ["none", "bad", "good"])
def test_what_follows_a_batch_that_comes_again_does_not_overtake_it(tmp_path: Path, answer: str) -> None:
    """Nobody could be asked about sequence 0, or it was not appended; sequence 5 was on its way."""
    log = open_log(tmp_path)
    first = log.producers.verify(8, 0, 0, expects_zero=False)
    if answer != "none":
        log.producers.verified(8, first, is_good=answer == "good")
    log.producers.no_longer_verified(8, first)
    with pytest.raises(UnverifiedError):
        append(log, written(8, 0))
    with pytest.raises(KafkaError) as refused:
        begin(log, written(8, 5))
    assert refused.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert begin(log, written(8, 0)) == 0


def test_so_many_are_remembered_and_the_longest_forgotten_goes_first() -> None:
    producers = Producers()
    waiting = producers.verify(7, 0, 0, expects_zero=False)
    for producer_id in (*range(100, 100 + MOST_REMEMBERED), 100, 99_999):
        producers.no_longer_verified(producer_id, producers.verify(producer_id, 0, 0, expects_zero=False))
    lowest = {one: producers.verify(one, 0, 9, expects_zero=False).lowest_sequence for one in (100, 101, 102, 99_999)}
    assert lowest == {100: 0, 101: 9, 102: 9, 99_999: 0}
    assert producers.verify(7, 0, 9, expects_zero=False) is waiting, "nobody goes for whom somebody waits"


def test_a_fenced_producer_that_asks_late_takes_nothing_from_the_one_that_fenced_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    producers = log.producers
    newer = producers.verify(8, 1, 0, expects_zero=False)
    late = producers.verify(8, 0, 5, expects_zero=False)
    producers.verified(8, late, is_good=True)
    with pytest.raises(UnverifiedError):
        append(log, written(8, 5))
    producers.no_longer_verified(8, late)
    producers.verified(8, newer, is_good=True)
    assert append(log, written(8, 0, epoch=1)) == 0


def test_nobody_waits_for_a_newer_epoch_that_was_only_remembered(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    false = log.producers.verify(8, 30_000, 0, expects_zero=False)
    log.producers.no_longer_verified(8, false)
    assert begin(log, written(8, 0)) == 0


def test_a_refusal_verifies_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    asked = log.producers.verify(8, 0, 0, expects_zero=False)
    log.producers.verified(8, asked, is_good=False)
    with pytest.raises(UnverifiedError):
        append(log, written(8, 0))


@pytest.mark.parametrize(
    ("expects_zero", "sequence", "is_taken"),
    [(True, 0, True), (True, 1, False), (True, 5, False), (False, 0, True), (False, 5, True), (False, 6, False)],
)
def test_where_epochs_rise_an_unknown_producer_begins_with_zero(
    tmp_path: Path, *, expects_zero: bool, sequence: int, is_taken: bool
) -> None:
    """Elsewhere with what its coordinator was asked about, at the latest."""
    log = open_log(tmp_path)
    asked = log.producers.verify(8, 0, 5, expects_zero=expects_zero)
    log.producers.verified(8, asked, is_good=True)
    if is_taken:
        assert append(log, written(8, sequence)) == 0
        return
    with pytest.raises(KafkaError) as refused:
        append(log, written(8, sequence))
    assert refused.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_of_no_transaction_is_refused_within_one(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    begin(log, written(8, 0))
    with pytest.raises(KafkaError) as refused:
        append(log, batch(1, producer=(8, 0, 1)))
    assert refused.value.code == ErrorCode.INVALID_TXN_STATE
    mark(log, ended(8, COMMIT))
    assert append(log, batch(1, producer=(8, 0, 1))) == 2


def test_a_raised_epoch_fences_what_comes_late(tmp_path: Path) -> None:
    """In version 2 of transactions the marker has the next epoch, which the producer then goes on with."""
    log = open_log(tmp_path)
    begin(log, written(8, 0))
    mark(log, ended(8, COMMIT, epoch=1))
    for late in (written(8, 1), ended(8, ABORT)):
        with pytest.raises(KafkaError) as refused:
            append_all(log, late)
        assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    with pytest.raises(KafkaError) as refused:
        begin(log, written(8, 1, epoch=1))
    assert refused.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert begin(log, written(8, 0, epoch=1)) == 2


@pytest.mark.parametrize("is_reopened", [False, True])
def test_a_marker_of_an_older_coordinator_is_refused(tmp_path: Path, is_reopened: bool) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=200))
    append_all(log, written(8, 0), ended(8, COMMIT, coordinator_epoch=3), written(8, 1))
    if is_reopened:
        log.close()
        log = open_log(tmp_path, is_clean=True, recovery_point=3)
    with pytest.raises(KafkaError) as refused:
        mark(log, ended(8, ABORT, coordinator_epoch=2))
    assert refused.value.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert log.last_stable_offset(3) == 2
    mark(log, ended(8, COMMIT, coordinator_epoch=3))
    assert log.last_stable_offset(4) == 4


def test_a_marker_of_version_2_raises_the_epoch_or_comes_again(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    begin(log, written(8, 0))
    producers, same, raised = log.producers, read_header(ended(8, COMMIT)), read_header(ended(8, COMMIT, epoch=1))
    with pytest.raises(KafkaError) as refused:
        producers.check_marker(same, 7, transaction_version=2)
    assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    producers.check_marker(same, 7, transaction_version=1)
    producers.check_marker(raised, 7, transaction_version=2)
    mark(log, ended(8, COMMIT, epoch=1))
    producers.check_marker(raised, 7, transaction_version=2)
    producers.check_marker(read_header(ended(99, COMMIT)), 0, transaction_version=2)


@pytest.mark.parametrize("is_reopened", [False, True])
def test_the_transaction_that_began_first_holds_readers_whoever_wrote_first(tmp_path: Path, is_reopened: bool) -> None:
    log = open_log(tmp_path)
    append_all(log, written(8, 0), ended(8, COMMIT), written(9, 0), written(8, 1))
    if is_reopened:
        log.close()
        log = open_log(tmp_path, is_clean=True, recovery_point=4)
    assert log.last_stable_offset(4) == 2
    mark(log, ended(9, COMMIT))
    assert log.last_stable_offset(5) == 3


def test_a_transaction_of_the_last_epoch_that_there_is_can_be_ended(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    begin(log, written(8, 0, epoch=32_767))
    log.producers.check_marker(read_header(ended(8, ABORT, epoch=32_767)), 7, transaction_version=2)


def test_a_transaction_whose_beginning_is_deleted_holds_readers_at_the_logs_start(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_all(log, written(8, 0), written(8, 1), written(8, 2))
    log.advance_log_start(2)
    assert [log.last_stable_offset(high_watermark) for high_watermark in (1, 3)] == [1, 2]


def test_offsets_of_groups_have_no_sequence_and_are_remembered(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for number in range(2):
        append_all(log, written(8, -1))
        assert log.producers.get(8).last_offset == number  # type: ignore[union-attr]
    log.close()
    again = open_log(tmp_path, is_clean=True, recovery_point=2).producers.get(8)
    assert again is not None
    assert (again.last_offset, again.last_sequence, again.transaction_first_offset) == (1, -1, 0)


def test_where_all_is_forgotten_no_transaction_is_verified() -> None:
    producers = Producers()
    header = read_header(written(9, 0))
    asked = producers.verify(9, 0, 0, expects_zero=False)
    producers.verified(9, asked, is_good=True)
    assert producers.check(header) is None
    producers.clear()
    with pytest.raises(UnverifiedError):
        producers.check(header)
