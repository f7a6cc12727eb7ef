"""Compaction of a log with transactions: aborted records go, markers as long as they are needed, and later they go."""

from pathlib import Path
from random import Random

import pytest
from tests.unit.log.compaction.rounds import COMPACTED, NOW, batches, compact
from tests.unit.log.compaction.test_compaction import roll
from tests.unit.log.logs import append, batch, open_log
from tests.unit.log.transactions import append_all, ended, written

from penstock.client.consumer.fetched_records import FetchedRecords
from penstock.client.values import TopicPartition
from penstock.log.config import LogConfig
from penstock.log.disk import Disk
from penstock.log.partition_log import PartitionLog
from penstock.protocol.control.records import ControlType
from penstock.protocol.messages.fetch import AbortedTransaction as Told

ABORT, COMMIT = ControlType.ABORT, ControlType.COMMIT
LATER = NOW + COMPACTED.delete_retention_ms + 1


def sealed(log: PartitionLog, *data: memoryview) -> None:
    append_all(log, *data)
    roll(log)


def clean(log: PartitionLog, now_ms: int = NOW) -> None:
    log.cleaned_to = 0
    compact(log, Disk(), now_ms=now_ms, stable_offset=log.last_stable_offset(log.log_end_offset))


def forget_producers(log: PartitionLog) -> None:
    log.producers.expire(LATER + (1 << 40), 1)


def left(log: PartitionLog) -> list[tuple[int, int]]:
    """Offset of each batch, and how many records it has."""
    return [(header.base_offset, len(found)) for header, found in batches(log)]


def committed(log: PartitionLog) -> list[tuple[int, bytes, bytes]]:
    """What a reader of committed records is given."""
    stable, position, seen = log.last_stable_offset(log.log_end_offset), 0, list[tuple[int, bytes, bytes]]()
    while position < stable:
        found = log.read(position, 1 << 20, upper_offset=stable)
        data, ends = found.read(), found.end_offset
        if not data:
            break
        aborted = [Told(producer_id=it[0], first_offset=it[1]) for it in log.load().aborted_in(position, ends)]
        records = FetchedRecords(TopicPartition("t", 0), data, position, aborted)
        seen += [(record.offset, record.key or b"", record.value or b"") for record in records.take(1_000)]
        position = records.next_offset
    return seen


def test_aborted_records_go_and_their_keys_do_not_count(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACTED)
    sealed(log, written(9, 0, b"a", b"kept"), ended(9, COMMIT), written(8, 0, b"a", b"aborted"), ended(8, ABORT))
    before = committed(log)
    forget_producers(log)
    assert compact(log, Disk(), now_ms=NOW).keys == 1, "markers have keys of their own"
    assert left(log) == [(0, 1), (1, 1), (3, 1)]
    assert committed(log) == before == [(0, b"a", b"kept")]


def test_the_last_batch_of_an_active_producer_stays_without_records(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACTED)
    sealed(log, written(8, 0), written(8, 1), ended(8, ABORT))
    clean(log)
    assert left(log) == [(1, 0), (2, 1)]
    log.abandon()
    again = open_log(tmp_path, COMPACTED)
    assert again.last_stable_offset(3) == 3
    append_all(again, written(8, 2))


def test_a_marker_goes_after_its_records_and_a_horizon(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACTED)
    sealed(log, written(8, 0), ended(8, ABORT), written(9, 0, b"k"), ended(9, COMMIT), written(7, 0, b"k"))
    sealed(log, ended(7, COMMIT))
    append(log, batch(1))
    forget_producers(log)
    clean(log)
    assert left(log) == [(1, 1), (3, 1), (4, 1), (5, 1), (6, 1)], "records go, all markers stay"
    clean(log)
    assert [header.base_offset for header, _ in batches(log) if header.has_delete_horizon] == [1, 3]
    clean(log, NOW + COMPACTED.delete_retention_ms - 1)
    assert len(left(log)) == 5
    clean(log, NOW + COMPACTED.delete_retention_ms)
    assert left(log) == [(4, 1), (5, 1), (6, 1)]
    assert [offset for offset, *_ in committed(log)] == [4, 6]
    assert len(log.load().aborted) == 0
    assert not list((tmp_path / "t-0").glob("*.txnindex")), "its marker has gone, and it with that"


def test_a_marker_with_the_epoch_of_an_active_producer_keeps_its_header(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACTED)
    sealed(log, written(8, 0, b"k"), ended(8, COMMIT, epoch=1), written(6, 0, b"k"), ended(6, COMMIT))
    for now_ms in (NOW, NOW, LATER, LATER):
        clean(log, now_ms)
    assert left(log) == [(1, 0), (2, 1), (3, 1)]
    assert [header.producer_epoch for header, _ in batches(log)] == [1, 0, 0]


def test_the_index_of_merged_segments_is_theirs_together(tmp_path: Path) -> None:
    config = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=100_000, delete_retention_ms=1000)
    log = open_log(tmp_path, config)
    for producer_id in range(3):
        sealed(log, written(producer_id, 0), written(9, producer_id, b"%d" % producer_id), ended(producer_id, ABORT))
    sealed(log, ended(9, COMMIT))
    append_all(log, written(5, 0), ended(5, ABORT))
    known, expected = log.load().aborted.between(0, 1 << 40), committed(log)
    assert len(list((tmp_path / "t-0").glob("*.txnindex"))) == 4
    clean(log)
    assert len(log.segments) == 2
    log.close()
    again = open_log(tmp_path, config, is_clean=True, recovery_point=log.log_end_offset)
    assert again.load().aborted.between(0, 1 << 40) == known
    assert len(list((tmp_path / "t-0").glob("*.txnindex"))) == 2
    assert committed(again) == expected


@pytest.mark.parametrize("seed", range(12))
def test_a_reader_of_committed_records_finds_the_same_last_values(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    config = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=400, delete_retention_ms=1000)
    log = open_log(tmp_path, config)
    sequences, now_ms = dict.fromkeys(range(4), 0), NOW
    for number in range(120):
        producer_id = random.randrange(4)
        if random.random() < 0.3:
            append_all(log, ended(producer_id, random.choice((ABORT, COMMIT))))
        else:
            append_all(log, written(producer_id, sequences[producer_id], b"%d" % random.randrange(6), b"%d" % number))
            sequences[producer_id] += 1
        if random.random() < 0.1:
            expected = {key: (offset, value) for offset, key, value in committed(log)}
            now_ms += random.choice((0, 600, 2000))
            if random.random() < 0.3:
                forget_producers(log)
            clean(log, now_ms)
            if random.random() < 0.5:
                log.close() if random.random() < 0.5 else log.abandon()
                log = open_log(tmp_path, config)
            assert {key: (offset, value) for offset, key, value in committed(log)} == expected
