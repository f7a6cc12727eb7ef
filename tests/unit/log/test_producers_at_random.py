"""Histories of producers, drawn by chance, beside a plain model: what is taken, what is repeated, what is stable; for
producers whose batches are written at once, and for those whose batches are under way for a while.
"""

from random import Random
from typing import Any

import pytest
from tests.unit.log.logs import NOW
from tests.unit.log.plain_producers import Asked, PlainProducers, Verdict

from penstock.log.producer_snapshot import decode_snapshot, encode_snapshot
from penstock.log.producer_snapshots import note_control_batch
from penstock.log.producer_state import MAX_EPOCH, MAX_SEQUENCE, Producers, UnverifiedError, Verification, WrittenBatch
from penstock.log.producers_ahead import ProducersAhead
from penstock.protocol.batch import BatchHeader, read_header
from penstock.protocol.control.records import ControlType, transaction_marker
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.records import Record, encode_batch

CLIENTS, COORDINATORS = (2, 4, 6), (3, 5)
STEPS = 250
EXPIRATION_MS = 60
ABORT, COMMIT = ControlType.ABORT, ControlType.COMMIT


class Draws:
    """Batches and markers that make sense more often than not."""

    def __init__(self, seed: int, plain: PlainProducers) -> None:
        self.random = Random(seed)
        self.plain = plain
        self.now_ms = NOW
        self.first_epoch = self.random.choice((0, MAX_EPOCH - 2))
        self.first_sequence = self.random.choice((0, 0, 5, MAX_SEQUENCE - 3))

    def epoch(self, producer_id: int) -> int:
        known = self.plain.of(producer_id)
        if not known:
            return self.first_epoch
        return min(max(known[-1].epoch + self.random.choice((0,) * 8 + (-1, 1)), 0), MAX_EPOCH)

    def batch(self, producer_id: int) -> bytearray:
        random, epoch = self.random, self.epoch(producer_id)
        sequence, count = -1, random.randint(1, 3)
        if producer_id in CLIENTS:
            batches = self.plain.batches(producer_id)
            is_new = bool(self.plain.of(producer_id)) and (epoch > self.plain.of(producer_id)[-1].epoch or not batches)
            expected = (batches[-1].last_sequence + 1) % (MAX_SEQUENCE + 1) if batches else self.first_sequence
            sequence = 0 if is_new else expected
            kind = random.randrange(10)
            if kind < 2 and self.plain.of(producer_id):
                recent = [one.what for one in self.plain.of(producer_id)[-9:]]
                written = [one for one in recent if isinstance(one, WrittenBatch)]
                if written:
                    again = random.choice(written)
                    sequence, count = again.first_sequence, again.last_offset - again.first_offset + 1
            elif kind == 2:
                sequence = max(sequence + random.choice((-1, 1)), 0)
        is_transactional = random.random() < (0.9 if self.plain.open_since(producer_id) >= 0 else 0.5)
        records = [Record(number, self.now_ms, b"k", b"v") for number in range(count)]
        return encode_batch(
            records,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )

    def marker(self, producer_id: int) -> tuple[bytearray, ControlType, int]:
        coordinator_epoch = max(self.plain.coordinator_epoch(producer_id), 3) + self.random.choice((-1, 0, 0, 0, 1))
        how = self.random.choice((ABORT, COMMIT))
        marker = transaction_marker(
            how,
            producer_id=producer_id,
            producer_epoch=self.epoch(producer_id),
            coordinator_epoch=coordinator_epoch,
            now_ms=self.now_ms,
        )
        return marker, how, coordinator_epoch


def told(producers: Producers, header: BatchHeader) -> Verdict:
    try:
        if header.producer_id in CLIENTS:
            return producers.check(header)
        producers.check_coordinated(header)
    except KafkaError as error:
        return ErrorCode.NOT_ENOUGH_REPLICAS if isinstance(error, UnverifiedError) else error.code
    return None


def told_on_marker(producers: Producers | ProducersAhead, header: BatchHeader, epoch: int, version: int) -> object:
    try:
        producers.check_marker(header, epoch, version)
    except KafkaError as error:
        return error.code
    return None


def check_state(producers: Producers, plain: PlainProducers, high_watermark: int, *, knows_times: bool) -> None:
    rows: list[tuple[Any, ...]] = [
        (one.producer_id, one.epoch, one.batches, one.coordinator_epoch, one.timestamp_ms, one.transaction_first_offset)
        for one in producers
    ]
    expected = plain.rows()
    if not knows_times:  # a snapshot has one time of each producer
        rows, expected = ([(*row[:2], [one[:4] for one in row[2]], *row[3:]) for row in of] for of in (rows, expected))
    assert rows == expected
    assert len(producers) == len(rows)
    assert producers.first_open_offset == plain.first_open()
    assert producers.last_stable_offset(high_watermark) == plain.stable(high_watermark)
    for one in producers:
        batches, open_since = plain.batches(one.producer_id), plain.open_since(one.producer_id)
        assert (one.last_sequence, one.last_offset) == ((batches[-1][1], batches[-1][3]) if batches else (-1, -1))
        for offset in (0, open_since - 1, open_since, high_watermark):
            assert producers.is_open(one.producer_id, offset) is (0 <= open_since <= offset)
    assert not producers.is_open(99, high_watermark)


class AtOnce:
    """What is taken is written in the same step."""

    def __init__(self, seed: int, *, restores: bool) -> None:
        self.plain, self.producers = PlainProducers(), Producers()
        self.draws, self.end, self.high_watermark = Draws(seed, self.plain), 0, 0
        self.random, self.restores = self.draws.random, restores
        self.waiting: list[tuple[int, Verification, Asked]] = []
        self.seen = set[object]()

    def step(self) -> None:
        self.draws.now_ms += self.random.randrange(5)
        kind, producer_id = self.random.randrange(20), self.random.choice(CLIENTS + COORDINATORS)
        if kind < 12:
            self.append(producer_id)
        elif kind < 15:
            self.answer()
        elif kind < 18:
            self.mark(producer_id)
        elif kind == 18 and self.random.random() < 0.3:
            now_ms = self.draws.now_ms
            assert self.producers.expire(now_ms, EXPIRATION_MS) == self.plain.expire(now_ms, EXPIRATION_MS)
        elif kind == 19 and self.restores and self.random.random() < 0.3:
            self.restore()
        self.high_watermark = self.random.randint(self.high_watermark, self.end)
        check_state(self.producers, self.plain, self.high_watermark, knows_times=not self.restores)

    def append(self, producer_id: int) -> None:
        header = read_header(self.draws.batch(producer_id))
        verdict, found = self.plain.verdict(header), told(self.producers, header)
        self.seen.add("repeated" if isinstance(verdict, tuple) else verdict)
        if isinstance(found, tuple) and isinstance(verdict, tuple) and self.restores:
            found, verdict = found._replace(timestamp_ms=0), verdict._replace(timestamp_ms=0)
        assert found == verdict
        if verdict is None:
            last_offset = self.end + header.last_offset_delta
            self.producers.note_batch(header, self.end, last_offset, self.draws.now_ms)
            self.plain.note_batch(header, self.end, self.draws.now_ms)
            self.end = last_offset + 1
        elif verdict is ErrorCode.NOT_ENOUGH_REPLICAS:
            about, is_zero = (producer_id, header.producer_epoch, header.base_sequence), self.random.random() < 0.5
            asked = self.plain.verify(*about, expects_zero=is_zero)
            self.waiting.append((producer_id, self.producers.verify(*about, expects_zero=is_zero), asked))

    def answer(self) -> None:
        if not self.waiting:
            return
        number = self.random.randrange(len(self.waiting))
        producer_id, verification, asked = self.waiting[number]
        if self.random.random() < 0.5:
            is_good = self.random.random() < 0.8
            self.producers.verified(producer_id, verification, is_good=is_good)
            if is_good:
                self.plain.verified(producer_id, asked)
        else:
            del self.waiting[number]
            self.producers.no_longer_verified(producer_id, verification)
            self.plain.no_longer_verified(producer_id, asked)
        assert verification.waiting == asked.waiting

    def mark(self, producer_id: int) -> None:
        marker, how, coordinator_epoch = self.draws.marker(producer_id)
        header, version = read_header(marker), self.random.randrange(3)
        refusal = self.plain.verdict_on_marker(header, coordinator_epoch, version)
        assert told_on_marker(self.producers, header, coordinator_epoch, version) == refusal
        if refusal is None:
            marker[:8] = self.end.to_bytes(8, "big")
            aborted = self.plain.note_marker(header, self.end, coordinator_epoch, aborts=how == ABORT)
            assert list(note_control_batch(self.producers, header, bytes(marker))) == aborted
            self.end += 1

    def restore(self) -> None:
        content, self.producers = encode_snapshot(self.producers.to_snapshot()), Producers()
        self.producers.restore(decode_snapshot(content))
        for forgotten in (self.plain.asked, self.plain.ended, self.waiting):
            forgotten.clear()


class UnderWay:
    """What is taken is written some steps later."""

    def __init__(self, seed: int) -> None:
        self.plain, self.written = PlainProducers(), Producers()
        self.ahead, self.draws, self.end = ProducersAhead(self.written), Draws(seed, self.plain), 0
        self.random, self.seen = self.draws.random, set[object]()
        self.proposed: list[tuple[BatchHeader, bytes]] = []

    def step(self) -> None:
        self.draws.now_ms += self.random.randrange(5)
        kind, producer_id = self.random.randrange(10), self.random.choice(CLIENTS + COORDINATORS)
        if kind < 5:
            self.append(producer_id)
        elif kind < 7:
            self.mark(producer_id)
        elif self.proposed:
            self.apply_oldest()
        else:
            now_ms = self.draws.now_ms
            assert self.written.expire(now_ms, EXPIRATION_MS) == self.plain.expire(now_ms, EXPIRATION_MS)
        under_way = {header.producer_id for header, _ in self.proposed}
        assert {one.producer_id for one in self.ahead._ahead} == under_way
        assert self.ahead._ahead._open_transactions.keys() <= under_way

    def apply_oldest(self) -> None:
        """A transaction begins or ends in the log as well, which forgets what was asked about the producer by then."""
        header, content = self.proposed.pop(0)
        open_before = header.producer_id in self.written._open_transactions
        if header.is_marker or (header.is_transactional and not open_before):
            self.plain.asked.pop(header.producer_id, None)
        if header.is_marker:
            list(note_control_batch(self.written, header, content))
        else:
            self.written.note_batch(header, header.base_offset, header.last_offset, header.max_timestamp)
        self.ahead.applied(header.producer_id)

    def append(self, producer_id: int) -> None:
        batch = self.draws.batch(producer_id)
        header = read_header(batch)
        about, is_zero = (producer_id, header.producer_epoch, header.base_sequence), self.random.random() < 0.5
        is_asked = self.random.random() < 0.8
        if is_asked:
            verification = self.written.verify(*about, expects_zero=is_zero)
            asked = self.plain.verify(*about, expects_zero=is_zero)
            self.written.verified(producer_id, verification, is_good=True)
            self.plain.verified(producer_id, asked)
        verdict = self.plain.verdict(header)
        if self.propose(batch, header, verdict):
            self.plain.note_batch(header, self.end, header.max_timestamp)
            self.end += header.last_offset_delta + 1
        if is_asked:
            self.written.no_longer_verified(producer_id, verification)
            self.plain.no_longer_verified(producer_id, asked)

    def mark(self, producer_id: int) -> None:
        batch, how, coordinator_epoch = self.draws.marker(producer_id)
        header, version = read_header(batch), self.random.randrange(3)
        refusal = self.plain.verdict_on_marker(header, coordinator_epoch, version)
        assert told_on_marker(self.ahead, header, coordinator_epoch, version) == refusal
        if self.propose(batch, header, self.plain.verdict_on_marker(header, coordinator_epoch, 0)):
            self.plain.note_marker(header, self.end, coordinator_epoch, aborts=how == ABORT)
            self.end += 1

    def propose(self, batch: bytearray, header: BatchHeader, verdict: Verdict) -> bool:
        try:
            found: Verdict = self.ahead.check(memoryview(batch), header)
        except KafkaError as error:
            found = error.code
        assert found == verdict
        self.seen.add("repeated" if isinstance(verdict, tuple) else verdict)
        if verdict is None:
            self.ahead.proposed(memoryview(batch), header, self.end, self.end + header.last_offset_delta)
            batch[:8] = self.end.to_bytes(8, "big")
            self.proposed.append((read_header(batch), bytes(batch)))
        return verdict is None


TAKEN_AND_NOT = {None, "repeated", ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH}


@pytest.mark.parametrize("restores", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_what_is_written_at_once(seed: int, *, restores: bool) -> None:
    history = AtOnce(seed, restores=restores)
    for _ in range(STEPS):
        history.step()
    assert history.seen >= TAKEN_AND_NOT
    history.producers.clear()
    check_state(history.producers, PlainProducers(), history.high_watermark, knows_times=True)


@pytest.mark.parametrize("seed", range(8))
def test_what_is_under_way_counts_as_written(seed: int) -> None:
    history = UnderWay(seed)
    for _ in range(STEPS):
        history.step()
    assert history.seen >= TAKEN_AND_NOT
    while history.proposed:
        history.apply_oldest()
    check_state(history.written, history.plain, history.end, knows_times=True)
