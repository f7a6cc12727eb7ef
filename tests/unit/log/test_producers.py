import errno
from pathlib import Path

import pytest
from tests.unit.log.logs import NOW, append, batch, open_log
from tests.unit.log.transactions import verified

from penstock.log.config import LOG_APPEND_TIME, LogConfig
from penstock.log.disk import Disk
from penstock.log.partition_log import PartitionLog
from penstock.log.producer_snapshot import (
    CorruptSnapshotError,
    ProducerSnapshotEntry,
    decode_snapshot,
    encode_snapshot,
)
from penstock.log.producer_snapshots import ProducerSnapshots, note_control_batch
from penstock.log.producer_state import Producers
from penstock.log.producers_ahead import ProducersAhead
from penstock.log.validation import AppendOrigin, AppendResult
from penstock.protocol.batch import read_header
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.records import Record, encode_batch

MAX_SEQUENCE = (1 << 31) - 1
STAMPS = LogConfig(message_timestamp_type=LOG_APPEND_TIME)


def send(log: PartitionLog, sequence: int, count: int = 1, *, producer_id: int = 9, epoch: int = 0) -> AppendResult:
    sent = batch(count, producer=(producer_id, epoch, sequence))
    return log.append_as_leader(sent, leader_epoch=0, now_ms=NOW)


def refusal_of(log: PartitionLog, sequence: int, count: int = 1, *, epoch: int = 0) -> ErrorCode:
    end_offset = log.log_end_offset
    with pytest.raises(KafkaError) as refusal:
        send(log, sequence, count, epoch=epoch)
    assert log.log_end_offset == end_offset
    return refusal.value.code


def test_sequences_of_one_epoch(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert send(log, 0, 3).base_offset == 0
    assert send(log, 3, 2).base_offset == 3
    assert refusal_of(log, 6) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal_of(log, 4) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, 5).base_offset == 5


def test_the_last_five_batches_are_recognised_when_they_are_repeated(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for number in range(7):
        send(log, number * 2, 2)
    for number in range(2, 7):
        again = send(log, number * 2, 2)
        assert (again.base_offset, again.last_offset, again.is_duplicate) == (number * 2, number * 2 + 1, True)
    assert log.log_end_offset == 14
    assert refusal_of(log, 2, 2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal_of(log, 12, 1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize(("config", "time_ms"), [(LogConfig(), -1), (STAMPS, NOW)])
def test_a_repeated_batch_is_answered_as_it_was(tmp_path: Path, config: LogConfig, time_ms: int) -> None:
    log = open_log(tmp_path, config)
    batches = [memoryview(bytearray(batch(2, producer=(9, 0, 0), timestamp_ms=NOW - 7))) for _ in range(2)]
    first, again = (log.append_as_leader(one, leader_epoch=0, now_ms=NOW + at) for at, one in enumerate(batches))
    assert first == (0, 1, time_ms, 0, False)
    assert again == (0, 1, time_ms, 0, True)


def test_a_new_epoch_begins_with_sequence_0_and_fences_the_old_one(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    send(log, 0, 3)
    assert refusal_of(log, 3, epoch=1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, 0, epoch=1).base_offset == 3
    assert refusal_of(log, 3, epoch=0) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert send(log, 1, epoch=1).base_offset == 4


def test_an_unknown_producer_may_begin_anywhere(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert send(log, 17).base_offset == 0
    assert send(log, 18).base_offset == 1


def test_where_that_is_asked_for_nobody_begins_in_the_middle_of_a_log_that_never_held_a_record(tmp_path: Path) -> None:
    """The second of two batches under way must not be written where the first was refused, and comes once more."""
    log = open_log(tmp_path, LogConfig(first_sequence_is_zero=True))
    assert [refusal_of(log, sequence) for sequence in (1, 3)] == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER] * 2
    assert send(log, 0, 3).base_offset == 0
    assert send(log, 3).base_offset == 3
    assert send(log, 5, producer_id=8).base_offset == 4, "its history may have expired"
    log.advance_log_start(5)
    assert send(log, 5, producer_id=7).base_offset == 5, "there were records"


def test_where_that_is_asked_for_a_log_begins_with_what_has_no_sequence(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(first_sequence_is_zero=True))
    sent = batch(1, producer=(9, 0, -1))
    assert log.append_as_leader(sent, leader_epoch=0, now_ms=NOW, origin=AppendOrigin.COORDINATOR).base_offset == 0
    log.truncate_fully_and_start_at(0)
    assert log.append_as_leader(batch(1), leader_epoch=0, now_ms=NOW).base_offset == 0


@pytest.mark.parametrize(
    ("is_asked_for", "sequence", "is_taken"), [(True, 1, False), (True, 0, True), (False, 1, True)]
)
def test_nor_is_what_begins_in_the_middle_taken_before_it_is_written(
    *, is_asked_for: bool, sequence: int, is_taken: bool
) -> None:
    ahead = ProducersAhead(Producers(), first_sequence_is_zero=is_asked_for)
    header = read_header(batch(1, producer=(7, 0, sequence)))
    if is_taken:
        ahead.check_first(header)
        return
    with pytest.raises(KafkaError) as refusal:
        ahead.check_first(header)
    assert refusal.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_wrap_around(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    send(log, MAX_SEQUENCE - 1, 4)
    assert send(log, MAX_SEQUENCE - 1, 4).is_duplicate
    assert send(log, 2).base_offset == 4


@pytest.mark.parametrize("is_clean", [True, False])
def test_producers_survive_a_restart(tmp_path: Path, is_clean: bool) -> None:
    config = LogConfig(segment_bytes=400)
    log = open_log(tmp_path, config)
    for number in range(12):
        send(log, number)
    assert len(log.segments) > 2
    if is_clean:
        log.close()
        assert (tmp_path / "t-0" / "00000000000000000012.snapshot").exists()
    log.abandon()
    again = open_log(tmp_path, config, is_clean=is_clean, recovery_point=12 if is_clean else 0)
    for number in range(7, 12):
        repeated = send(again, number)
        assert (repeated.base_offset, repeated.is_duplicate) == (number, True)
    assert refusal_of(again, 6) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "five are remembered"
    assert refusal_of(again, 13) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(again, 12).base_offset == 12


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_batch_of_several_records_is_recognised_after_a_restart(tmp_path: Path, is_clean: bool) -> None:
    log = open_log(tmp_path)
    send(log, 0, 3)
    send(log, 3, 4)
    if is_clean:
        log.close()
    log.abandon()
    again = open_log(tmp_path, is_clean=is_clean, recovery_point=7 if is_clean else 0)
    repeated = send(again, 3, 4)
    assert (repeated.base_offset, repeated.last_offset, repeated.is_duplicate) == (3, 6, True)
    assert send(again, 0, 3).is_duplicate
    assert refusal_of(again, 3, 3) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal_of(again, 4, 3) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(again, 7, 2).base_offset == 7


@pytest.mark.parametrize("end_offset", [5, 11])
@pytest.mark.parametrize("is_reopened", [False, True])
def test_what_was_cut_off_is_unknown_to_the_producers_again(tmp_path: Path, is_reopened: bool, end_offset: int) -> None:
    """Snapshots beyond the cut, of a roll or of a clean close, speak of batches that are gone."""
    config = LogConfig(segment_bytes=400)
    log = open_log(tmp_path, config)
    for number in range(12):
        send(log, number)
    log.close()
    log = open_log(tmp_path, config, is_clean=True, recovery_point=12)
    log.truncate_to(end_offset)
    kept = [int(path.stem) for path in (tmp_path / "t-0").glob("*.snapshot")]
    assert kept
    assert max(kept) <= end_offset, "no snapshot says more than the log"
    if is_reopened:
        log.abandon()
        log = open_log(tmp_path, config)
    assert refusal_of(log, end_offset + 1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, end_offset - 1).is_duplicate
    assert send(log, end_offset).base_offset == end_offset


def test_damaged_snapshots_are_passed_over(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=400)
    log = open_log(tmp_path, config)
    for number in range(12):
        send(log, number)
    log.close()
    for path in (tmp_path / "t-0").glob("*.snapshot"):
        path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    again = open_log(tmp_path, config)
    assert send(again, 11).is_duplicate


def test_silent_producers_are_forgotten(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(producer_id_expiration_ms=1000, retention_ms=-1))
    send(log, 0)
    log.apply_retention(NOW + 999)
    assert len(log.producers) == 1
    log.apply_retention(NOW + 1000)
    assert len(log.producers) == 0
    assert send(log, 5).base_offset == 1


def test_transactions_bound_what_is_stable(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, batch(2))
    data = encode_batch(
        [Record(0, NOW, b"k", b"v")], producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    verified(log, memoryview(data))
    append(log, memoryview(data))
    assert log.producers.first_open_offset == 2
    log.close()
    log = open_log(tmp_path, is_clean=True, recovery_point=3)
    assert log.producers.first_open_offset == 2
    marker = encode_batch(
        [Record(0, NOW, b"\0\0\0\1", b"\0\0\0\0\0\7")],
        producer_id=9,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )
    log.append_as_leader(memoryview(marker), leader_epoch=0, now_ms=NOW, origin=AppendOrigin.COORDINATOR)
    assert log.producers.first_open_offset is None
    producer = log.producers.get(9)
    assert producer is not None
    assert producer.coordinator_epoch == 7
    log.abandon()
    assert open_log(tmp_path).producers.first_open_offset is None


@pytest.mark.parametrize("value", [None, b"", b"\0\0\0\0\0"])
def test_a_marker_that_says_too_little_ends_no_transaction(value: bytes | None) -> None:
    producers = Producers()
    marker = encode_batch(
        [Record(0, NOW, b"\0\0\0\1", value)], producer_id=9, producer_epoch=0, is_transactional=True, is_control=True
    )
    assert not list(note_control_batch(producers, read_header(marker, 0), bytes(marker)))
    assert producers.get(9) is None


def test_batches_without_a_producer_lie_between_those_that_have_one(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    send(log, 0)
    append(log, batch(2))
    send(log, 1, 2)
    append(log, batch(1))
    log.abandon()
    again = open_log(tmp_path)
    assert len(again.producers) == 1
    assert send(again, 1, 2).is_duplicate
    assert send(again, 3).base_offset == 6


def test_what_is_cut_before_there_is_a_snapshot_is_unknown_again(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for sequence in range(4):
        send(log, sequence)
    log.truncate_to(2)
    assert refusal_of(log, 3) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, 1).is_duplicate
    assert send(log, 2).base_offset == 2


def test_snapshots_are_taken_as_soon_as_there_is_something_to_keep(tmp_path: Path) -> None:
    """And then also of nothing: else those who were forgotten would be known again."""
    log = open_log(tmp_path, LogConfig(segment_bytes=150, producer_id_expiration_ms=1000))
    for _ in range(3):
        append(log, batch(1))
    log.close()
    assert not list((tmp_path / "t-0").glob("*.snapshot"))
    send(log, 0)
    append(log, batch(1))
    append(log, batch(1))
    log.apply_retention(NOW + 1000)
    assert len(log.producers) == 0
    log.close()
    again = open_log(tmp_path, LogConfig(segment_bytes=150), is_clean=True, recovery_point=6)
    assert len(again.producers) == 0


def test_snapshots_go_with_their_segments(tmp_path: Path) -> None:
    snapshots = ProducerSnapshots(Disk(), str(tmp_path), [9, 0, 5, 7])
    snapshots.remove_below(5)
    assert snapshots.offsets == [5, 7, 9], "the first segment keeps its own"
    snapshots.forget({7})
    assert snapshots.offsets == [5, 9]
    assert snapshots.restore(Producers()) is None, "there are no such files"
    assert snapshots.offsets == []


def test_a_snapshot_within_a_segment_goes_with_it(tmp_path: Path) -> None:
    """It would be taken for one of other records, were the log cut to below it."""
    log = open_log(tmp_path)
    send(log, 0)
    send(log, 1)
    log.close()
    send(log, 2)
    log.load().roll(3, NOW)
    send(log, 3)
    names = [f"{offset:020d}.snapshot" for offset in (2, 3)]
    assert [path.name for path in sorted((tmp_path / "t-0").glob("*.snapshot"))] == names
    log.advance_log_start(3)
    assert log.retire_below_start(NOW) == 1
    assert [path.name for path in (tmp_path / "t-0").glob("*.snapshot*")] == names[1:]


@pytest.mark.parametrize("is_full", [False, True])
def test_the_only_snapshot_of_a_producer_outlives_its_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_full: bool
) -> None:
    """Another one is made before it goes. Retention does not wait for room for that."""
    log = open_log(tmp_path)
    send(log, 0, 3)
    log.end_at(10)
    log.advance_log_start(10)
    if is_full:
        monkeypatch.setattr(ProducerSnapshots, "take", full)
    assert log.retire_below_start(NOW) == 1
    monkeypatch.undo()
    again = open_log(tmp_path, log_start_offset=10)  # after a kill
    send(again, 0, 3)
    assert again.log_end_offset == 10, "it has come before"


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "no room")


def test_a_log_that_is_begun_anew_knows_no_producers(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    send(log, 0)
    log.close()
    log.truncate_fully_and_start_at(10)
    for is_clean in (False, True):
        log.close() if is_clean else log.abandon()
        log = open_log(tmp_path, is_clean=is_clean, recovery_point=10, log_start_offset=10)
        assert len(log.producers) == 0


def test_what_was_cut_off_is_not_known_again_when_the_log_is_as_long_as_before(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=400))
    for sequence in range(12):
        send(log, sequence)
    log.truncate_to(2)
    for _ in range(12):
        append(log, batch(1))
    log.abandon()
    again = open_log(tmp_path, LogConfig(segment_bytes=400))
    assert send(again, 1).is_duplicate
    assert send(again, 2).base_offset == 14


def test_the_last_entry_of_a_producer_is_what_kafka_keeps() -> None:
    """It puts one entry after the other into a map by the producer's id, and takes open transactions from all."""
    producers = Producers()
    for number in range(7):
        sent = encode_batch([Record()], producer_id=5, producer_epoch=1, base_sequence=number, is_transactional=True)
        producers.note_batch(read_header(sent, 0), 10 + number, 10 + number, NOW + number)
    entries = decode_snapshot(encode_snapshot(producers.to_snapshot()))
    assert [entry.last_offset for entry in entries] == [12, 13, 14, 15, 16]
    kept = {entry.producer_id: entry for entry in entries}[5]
    assert kept == (5, 1, 6, 16, 0, NOW + 6, -1, 10)
    assert {entry.current_transaction_first_offset for entry in entries} == {-1, 10}
    again = Producers()
    again.restore(entries)
    assert list(again.to_snapshot()) == entries


def test_snapshot_has_kafkas_layout() -> None:
    entry = ProducerSnapshotEntry(
        producer_id=1,
        producer_epoch=2,
        last_sequence=3,
        last_offset=4,
        offset_delta=5,
        timestamp_ms=6,
        coordinator_epoch=7,
        current_transaction_first_offset=-1,
    )
    content = encode_snapshot([entry])
    assert content[:2] == b"\0\1"
    assert content[6:].hex() == (
        "00000001" "0000000000000001" "0002" "00000003" "0000000000000004" "00000005"
        "0000000000000006" "00000007" "ffffffffffffffff"
    )  # fmt: skip
    assert decode_snapshot(content) == [entry]


@pytest.mark.parametrize("position", range(56))
def test_every_damage_of_a_snapshot_is_seen(position: int) -> None:
    entry = ProducerSnapshotEntry(
        producer_id=1,
        producer_epoch=0,
        last_sequence=-1,
        last_offset=-1,
        offset_delta=0,
        timestamp_ms=-1,
        coordinator_epoch=-1,
        current_transaction_first_offset=-1,
    )
    content = bytearray(encode_snapshot([entry]))
    assert len(content) == 56
    content[position] ^= 0x10
    with pytest.raises(CorruptSnapshotError):
        decode_snapshot(bytes(content))
    with pytest.raises(CorruptSnapshotError):
        decode_snapshot(bytes(content[:position]))
