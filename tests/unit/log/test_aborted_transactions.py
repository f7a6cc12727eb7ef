"""Transactions in a log that a Kafka broker wrote: what is stable, what was aborted, and the index that tells it."""

from pathlib import Path
from random import Random

import pytest
from tests.unit.log.logs import NOW, append, batch, open_log
from tests.unit.log.transactions import append_all, ended, written

from penstock.client.consumer.fetched_records import FetchedRecords
from penstock.client.values import TopicPartition
from penstock.log import producer_state
from penstock.log.aborted_transactions import AbortedTransaction, AbortedTransactions
from penstock.log.config import LogConfig
from penstock.log.disk import Disk
from penstock.log.partition_log import PartitionLog
from penstock.protocol.control.records import ControlType
from penstock.protocol.messages.fetch import AbortedTransaction as Told

ABORT, COMMIT = ControlType.ABORT, ControlType.COMMIT
SMALL = LogConfig(segment_bytes=200)


def interleaved(directory: Path, config: LogConfig | None = None) -> PartitionLog:
    """0 nobody's; 1, 3 of producer 8, aborted by 4; 2, 5 of producer 9, committed by 6; 7, 8 of producer 8, open."""
    log = open_log(directory, config)
    append(log, batch(1))
    first = (written(8, 0), written(9, 0), written(8, 1), ended(8, ABORT))
    append_all(log, *first, written(9, 1), ended(9, COMMIT), written(8, 2), written(8, 3))
    return log


def told(log: PartitionLog) -> tuple[int, list[AbortedTransaction]]:
    stable = log.last_stable_offset(log.log_end_offset)
    return stable, log.load().aborted.between(0, stable)


def test_what_is_stable_and_what_was_aborted(tmp_path: Path) -> None:
    log = interleaved(tmp_path)
    assert told(log) == (7, [AbortedTransaction(8, 1, 4, 2)])
    aborted = log.load().aborted
    assert [aborted.covers(8, offset) for offset in range(6)] == [False, True, True, True, True, False]
    assert not aborted.covers(9, 2)
    assert aborted.between(0, 1) == aborted.between(5, 9) == []
    assert len(aborted.between(4, 5)) == 1


def test_a_marker_that_is_not_committed_leaves_its_transaction_unstable(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_all(log, written(8, 0), written(9, 0), ended(8, COMMIT), ended(9, COMMIT))
    assert [log.last_stable_offset(high_watermark) for high_watermark in range(5)] == [0, 0, 0, 1, 4]


def test_very_many_ended_transactions_count_as_fewer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_state, "MOST_ENDED", 2)
    log = open_log(tmp_path)
    for sequence in range(4):
        append_all(log, written(8, sequence), ended(8, COMMIT))
    assert [log.last_stable_offset(high_watermark) for high_watermark in (0, 5, 6, 7, 8)] == [0, 0, 6, 6, 8]


@pytest.mark.parametrize("is_clean", [True, False])
def test_it_is_known_after_a_restart(tmp_path: Path, is_clean: bool) -> None:
    log = interleaved(tmp_path, SMALL)
    assert len(log.segments) > 2
    before = told(log)
    log.close() if is_clean else log.abandon()
    again = open_log(tmp_path, SMALL, is_clean=is_clean, recovery_point=9 if is_clean else 0)
    assert told(again) == before


def test_the_index_is_kafkas(tmp_path: Path) -> None:
    interleaved(tmp_path)
    (index,) = (tmp_path / "t-0").glob("*.txnindex")
    assert index.name == f"{0:020d}.txnindex"
    assert index.read_bytes().hex() == "0000" + "".join(f"{number:016x}" for number in (8, 1, 4, 2))


def test_damage_ends_an_index(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.txnindex"
    good = bytes.fromhex("0000" + "".join(f"{number:016x}" for number in (8, 1, 4, 2)))
    for damage in (b"\0", b"\7" * 34, good):
        path.write_bytes(good + damage)
        aborted = AbortedTransactions(Disk(), str(tmp_path))
        aborted.load([path.name])
        assert aborted.between(0, 9) == [AbortedTransaction(8, 1, 4, 2)]


@pytest.mark.parametrize("is_reopened", [False, True])
def test_a_cut_takes_back_what_markers_said(tmp_path: Path, is_reopened: bool) -> None:
    log = interleaved(tmp_path, SMALL)
    log.truncate_to(4)
    if is_reopened:
        log.close()
        log = open_log(tmp_path, SMALL, is_clean=True, recovery_point=4)
    assert told(log) == (1, []), "both are open again"
    assert not list((tmp_path / "t-0").glob("*.txnindex"))
    append_all(log, ended(8, COMMIT), ended(9, ABORT))
    assert told(log) == (6, [AbortedTransaction(9, 2, 5, 6)])


def test_indexes_go_with_their_segments(tmp_path: Path) -> None:
    log = interleaved(tmp_path, SMALL)
    log.advance_log_start(7)
    log.retire_below_start(NOW)
    assert told(log) == (7, [])
    assert not list((tmp_path / "t-0").glob("*.txnindex"))
    log.truncate_fully_and_start_at(20)
    assert told(log) == (20, [])


@pytest.mark.parametrize("seed", range(20))
def test_a_reader_sees_what_was_committed_and_nothing_else(tmp_path: Path, seed: int) -> None:
    """Reads of every size, beginning anywhere, against a list of what happened."""
    random = Random(seed)
    log = open_log(tmp_path, LogConfig(segment_bytes=random.choice((300, 700, 1 << 20))))
    sequences, under_way, committed = dict.fromkeys(range(4), 0), dict[int, list[int]](), list[int]()
    for _ in range(80):
        producer_id = random.randrange(4)
        if random.random() < 0.3:
            how = random.choice((ABORT, COMMIT))
            append_all(log, ended(producer_id, how))
            ended_with = under_way.pop(producer_id, [])
            committed += ended_with if how is COMMIT else []
        elif random.random() < 0.2:
            committed.append(log.log_end_offset)
            append(log, batch(1))
        else:
            under_way.setdefault(producer_id, []).append(log.log_end_offset)
            append_all(log, written(producer_id, sequences[producer_id]))
            sequences[producer_id] += 1
        if random.random() < 0.05:
            log.close()
            log = open_log(tmp_path, log.config, is_clean=True, recovery_point=log.log_end_offset)
    stable = log.last_stable_offset(log.log_end_offset)
    assert stable == min((offsets[0] for offsets in under_way.values()), default=log.log_end_offset)
    begin = random.randrange(stable)
    seen, position = list[int](), begin
    while position < stable:
        data = log.read(position, random.choice((1, 250, 10_000)), upper_offset=stable).read()
        aborted = [Told(producer_id=it[0], first_offset=it[1]) for it in log.load().aborted_in(position, stable)]
        records = FetchedRecords(TopicPartition("t", 0), data, position, aborted)
        seen += [record.offset for record in records.take(1_000)]
        position = records.next_offset
    assert seen == sorted(offset for offset in committed if begin <= offset < stable)
