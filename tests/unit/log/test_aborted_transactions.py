"""Transactions in a log that a Kafka broker wrote: what is stable, what was aborted, and the index that tells it."""

from collections.abc import Callable, Sequence
from errno import ENOSPC
from pathlib import Path
from random import Random

import pytest
from tests.unit.log.failing_disk import FailingDisk
from tests.unit.log.logs import NOW, append, batch, open_log
from tests.unit.log.recorded_disk import RecordedDisk
from tests.unit.log.transactions import append_all, ended, written

from penstock.client.consumer.fetched_records import FetchedRecords
from penstock.client.values import TopicPartition
from penstock.log import producer_state
from penstock.log.aborted_transactions import AbortedTransaction, AbortedTransactions
from penstock.log.config import LogConfig
from penstock.log.disk import Disk
from penstock.log.partition_log import PartitionLog
from penstock.protocol.control.records import ControlType
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages.fetch import AbortedTransaction as Told
from penstock.protocol.records import iterate_batches

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


@pytest.mark.parametrize(("most", "stable"), [(2, [0, 0, 0, 6, 6, 8]), (3, [0, 0, 4, 6, 6, 8])])
def test_very_many_ended_transactions_count_as_fewer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, stable: list[int]
) -> None:
    monkeypatch.setattr(producer_state, "MOST_ENDED", most)
    log = open_log(tmp_path)
    for sequence in range(4):
        append_all(log, written(8, sequence), ended(8, COMMIT))
    assert [log.last_stable_offset(high_watermark) for high_watermark in (0, 3, 5, 6, 7, 8)] == stable


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
        found = log.read(position, random.choice((1, 250, 10_000)), upper_offset=stable)
        ends = found.end_offset
        aborted = [Told(producer_id=it[0], first_offset=it[1]) for it in log.load().aborted_in(position, ends)]
        records = FetchedRecords(TopicPartition("t", 0), found.read(), position, aborted)
        seen += [record.offset for record in records.take(1_000)]
        position = records.next_offset
    assert seen == sorted(offset for offset in committed if begin <= offset < stable)


class Model:
    """The index as its sentences say it, beside one that is asked the same; the segments begin at `BASES`."""

    BASES = (0, 10, 20, 30)

    def __init__(self, path: Path) -> None:
        self.path = path
        self.disk = RecordedDisk(path)
        self.aborted = AbortedTransactions(self.disk, str(path))
        self.known: list[AbortedTransaction] = []

    def base_of(self, offset: int) -> int:
        return max(base for base in self.BASES if base <= offset)

    def note(self, entry: AbortedTransaction) -> None:
        is_new = not self.known or entry.last_offset > self.known[-1].last_offset
        self.known += [entry] * is_new
        self.aborted.note(entry, self.base_of(entry.last_offset))
        assert bool(self.disk.take()) == is_new, "what is known is not written again"

    def cut_to(self, end_offset: int) -> None:
        kept = [one for one in self.known if one.last_offset < end_offset]
        changes, self.known = len(kept) < len(self.known), kept
        for base in self.BASES:
            if base > end_offset:  # with their segments
                (self.path / f"{base:020d}.txnindex").unlink(missing_ok=True)
        self.aborted.cut_to(end_offset, self.base_of(end_offset))
        assert len(self.disk.take()) == changes, "nothing is written where nothing goes"

    def forget_below(self, start_offset: int) -> None:
        self.known = [one for one in self.known if one.last_offset >= start_offset]
        for base in self.BASES:
            if base < start_offset:
                (self.path / f"{base:020d}.txnindex").unlink(missing_ok=True)
        self.aborted.forget_below(start_offset)

    def reload(self) -> None:
        self.aborted = AbortedTransactions(self.disk, str(self.path))
        self.aborted.load(self.disk.names(str(self.path)))

    def check(self) -> None:
        assert len(self.aborted) == len(self.known)
        for begin in range(41):
            for end in range(begin + 1, 42):
                told, needed = (
                    self.aborted.between(begin, end),
                    [one for one in self.known if _lies_in(one, begin, end)],
                )
                assert [one for one in told if _lies_in(one, begin, end)] == needed
                assert all(one in self.known for one in told)
            for producer_id in range(3):
                its = [one for one in self.known if one.producer_id == producer_id]
                covered = any(one.first_offset <= begin <= one.last_offset for one in its)
                assert self.aborted.covers(producer_id, begin) == covered


def _lies_in(one: AbortedTransaction, begin: int, end: int) -> bool:
    return one.first_offset < end and begin <= one.last_offset


@pytest.mark.parametrize("seed", range(8))
def test_an_index_is_what_its_sentences_say_whatever_happens_to_it(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    model, begun, offset = Model(tmp_path), dict[int, int](), 0
    while offset < 40:
        producer_id = random.randrange(3)
        first = begun.pop(producer_id, None)
        if first is None:
            begun[producer_id] = offset
        elif random.random() < 0.8:
            model.note(AbortedTransaction(producer_id, first, offset, min(begun.values(), default=offset + 1)))
        offset += 1
        if model.known and random.random() < 0.1:
            model.note(model.known[random.randrange(len(model.known))])
        if random.random() < 0.1:
            model.check()
            offset = random.randint(max(0, offset - 6), offset)
            model.cut_to(offset)
            begun = {it: at for it, at in begun.items() if at < offset}
        if random.random() < 0.1:
            model.reload()
    model.check()
    model.cut_to(model.known[-1].last_offset + 1)
    model.forget_below(model.BASES[random.randrange(4)])
    model.check()
    model.reload()
    model.check()
    model.aborted.clear()
    assert not model.aborted
    assert not any(model.aborted.covers(it, at) for it in range(3) for at in range(40))


def test_what_was_noted_is_synced_once(tmp_path: Path) -> None:
    disk = RecordedDisk(tmp_path)
    aborted = AbortedTransactions(disk, str(tmp_path))
    for number in range(2):
        aborted.note(AbortedTransaction(8, 2 * number, 2 * number + 1, 2 * number + 2), 0)
        disk.take()
        for done in ([f"sync {0:020d}.txnindex", f"sync directory {tmp_path}"], []):
            aborted.sync()
            assert disk.take() == done


def test_the_edges_of_what_is_cut_off_and_forgotten(tmp_path: Path) -> None:
    one, two = AbortedTransaction(8, 1, 4, 2), AbortedTransaction(9, 5, 7, 8)
    for end_offset, start_offset, left in (
        (8, 4, [one, two]),
        (7, 4, [one]),
        (5, 4, [one]),
        (4, 0, []),
        (8, 5, [two]),
        (8, 7, [two]),
        (8, 8, []),
    ):
        aborted = AbortedTransactions(Disk(), str(tmp_path))
        for entry in (one, two):
            aborted.note(entry, 0)
        aborted.cut_to(end_offset, 0)
        aborted.forget_below(start_offset)
        assert aborted.between(0, 10) == left
        assert [aborted.covers(8, 4), aborted.covers(9, 7)] == [one in left, two in left]


def test_a_batch_is_committed_unless_its_transaction_is_open_or_was_aborted(tmp_path: Path) -> None:
    log = interleaved(tmp_path)
    content = log.load()
    headers = [header for _, header in log.segments.active.headers_from(0)]
    found = {one.base_offset: content.is_committed(one) for one in headers if not one.is_control}
    assert found == {0: True, 1: False, 2: True, 3: False, 5: True, 7: False, 8: False}


@pytest.mark.parametrize("how", ["crash", "cut"])
def test_producers_and_aborted_transactions_are_read_from_the_first_batch_on(tmp_path: Path, how: str) -> None:
    log = open_log(tmp_path)
    append_all(log, written(8, 0), ended(8, ABORT), written(9, 0))
    if how == "cut":
        log.truncate_to(2)
    else:
        log.abandon()
        log = open_log(tmp_path, is_clean=False)
    assert told(log) == (2, [AbortedTransaction(8, 0, 1, 2)])
    producers = {one.producer_id: (one.last_sequence, one.last_offset) for one in log.producers}
    assert producers == {8: (0, 0)} | ({9: (0, 2)} if how == "crash" else {})


def told_with(log: PartitionLog, offset: int) -> Sequence[AbortedTransaction]:
    """What a reader of committed records is told of with a read from there."""
    return log.load().aborted_in(offset, log.read(offset, 1 << 20).end_offset)


def test_a_read_is_told_of_what_was_aborted_in_its_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=100))
    for sequence in range(4):
        append_all(log, written(8, sequence), ended(8, ABORT))
    assert [segment.base_offset for segment in log.segments] == list(range(8))
    for offset in range(8):
        told_of = [one.first_offset for one in told_with(log, offset)]
        assert told_of == [offset - offset % 2], "each segment has one batch, or its marker"


def test_a_read_over_a_gap_is_told_of_what_was_aborted_behind_it(tmp_path: Path) -> None:
    """Kafka's cleaner lets a segment end before the next one begins: a reader goes on where its last batch ends."""
    log = open_log(tmp_path)
    append_all(log, written(8, 0), ended(8, ABORT))
    log.end_at(20)
    append_all(log, written(8, 1), ended(8, ABORT))
    log.end_at(30)
    append_all(log, written(8, 2), ended(8, ABORT))
    assert [segment.base_offset for segment in log.segments] == [0, 20, 30]
    for offset, first in ((0, 0), (1, 0), (2, 20), (19, 20), (20, 20), (21, 20), (22, 30), (29, 30), (31, 30)):
        assert [one.first_offset for one in told_with(log, offset)] == [first]


def begin_at(log: PartitionLog, offset: int) -> None:
    log.advance_log_start(offset)
    log.retire_below_start(NOW)


WAYS: list[tuple[Callable[[PartitionLog], object], list[int]]] = [
    (lambda log: log.retire_before(4), [5, 7]),
    (lambda log: begin_at(log, 4), [5, 7]),
    (lambda log: begin_at(log, 5), [5, 7]),
    (lambda log: log.truncate_to(5), [1, 3]),
    (lambda log: log.truncate_fully_and_start_at(20), []),
]


@pytest.mark.parametrize(("change", "left"), WAYS)
def test_what_was_aborted_goes_with_its_marker_and_comes_back_with_no_start(
    tmp_path: Path, change: Callable[[PartitionLog], object], left: list[int]
) -> None:
    """Segments of a record and the marker that aborts it."""
    log = open_log(tmp_path)
    for number in range(4):
        append_all(log, written(9, number), ended(9, ControlType.ABORT))
        log.load().roll(2 * number + 2, NOW)
    change(log)
    assert [one.last_offset for one in log.load().aborted.between(0, 99)] == left
    log.close()
    again = open_log(tmp_path, is_clean=True, recovery_point=log.log_end_offset, log_start_offset=log.log_start_offset)
    assert [one.last_offset for one in again.load().aborted.between(0, 99)] == left


@pytest.mark.parametrize("call", ["open", "write"])
@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("durable", [False, True])
def test_a_marker_is_written_once_though_there_is_no_room_for_its_entry(
    tmp_path: Path, call: str, is_killed: bool, durable: bool
) -> None:
    """What is told to have failed comes again, and would have the same offset."""
    disk = FailingDisk()
    log = open_log(tmp_path, disk=disk)
    append_all(log, written(8, 0), written(9, 0), ended(9, ABORT))
    disk.fail(call, ".txnindex", ENOSPC, always=True)
    disk.fail("replace", ".txnindex", ENOSPC, always=True)
    append_all(log, ended(8, ABORT), written(8, 1), written(9, 1), ended(9, COMMIT), ended(8, ABORT))
    assert [header.base_offset for _, header in iterate_batches(log.read(0, 10_000).read())] == list(range(8))
    expected = told(log)
    assert [one.last_offset for one in expected[1]] == [2, 3, 7]
    with pytest.raises(KafkaError):
        log.close(durable=durable)
    if is_killed:
        log.abandon()
        log = open_log(tmp_path, disk=disk)  # there is no room yet, and all is read anew
        assert told(log) == expected
    disk.heal()
    append_all(log, written(9, 2), ended(9, ABORT))
    expected = told(log)
    log.close(durable=durable)
    assert told(open_log(tmp_path, is_clean=True, recovery_point=log.recovery_point)) == expected


def test_entries_go_to_the_files_of_their_segments_when_there_is_room_again(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    for sequence in range(4):
        append_all(log, written(8, sequence), ended(8, ABORT))
    log.abandon()
    before = {path.name: path.read_bytes() for path in tmp_path.rglob("*.txnindex")}
    assert len(before) == 4
    for path in tmp_path.rglob("*.txnindex"):
        path.unlink()
    for path in tmp_path.rglob("*.snapshot"):
        path.unlink()
    disk = FailingDisk()
    disk.fail("open", ".txnindex", ENOSPC)  # the first one; it is no exception that others would have found room
    log = open_log(tmp_path, SMALL, disk=disk)
    assert len(told(log)[1]) == 4
    log.load().aborted.sync()
    assert {path.name: path.read_bytes() for path in tmp_path.rglob("*.txnindex")} == before
