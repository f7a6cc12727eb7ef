"""The idempotent producers of one partition: is this batch the next one, a repetition, or wrong (KIP-98, KIP-360)?

For each producer id the last five batches of its present epoch are known, so that a producer may have five requests
in flight. What a batch means for its producer (`S` is the last sequence that was written; sequences wrap after 2^31
- 1):

| producer id     | epoch of the batch | sequence            | verdict                               |
| ---             | ---                | ---                 | ---                                   |
| unknown         | any                | any                 | accepted: its history may have expired|
| known           | older              | any                 | INVALID_PRODUCER_EPOCH                |
| known           | newer              | 0                   | accepted, history begins anew         |
| known           | newer              | other               | OUT_OF_ORDER_SEQUENCE_NUMBER          |
| known           | same               | S + 1               | accepted                              |
| known           | same               | one of the last five| repetition: the old offsets again     |
| known           | same               | other               | OUT_OF_ORDER_SEQUENCE_NUMBER          |

Where `LogConfig.first_sequence_is_zero`, a log that never held a record begins with sequence 0 (`check_first`).

A batch and a transaction (KIP-98, KIP-890); `open` is a transaction of the same producer and epoch in this log:

| batch             | transaction                                    | verdict                         |
| ---               | ---                                            | ---                             |
| of a transaction  | open                                           | as above                        |
| of a transaction  | none, and its coordinator has been asked       | begins here, and what was asked is used up |
| of a transaction  | none                                           | UnverifiedError: ask first      |
| of no transaction | open                                           | INVALID_TXN_STATE               |
| a marker          | of an older producer epoch                     | INVALID_PRODUCER_EPOCH          |
| a marker          | of an older coordinator epoch                  | TRANSACTION_COORDINATOR_FENCED  |
| a marker          | of version 2, open, the epoch could be raised  | INVALID_PRODUCER_EPOCH          |
| a marker          | other                                          | ends it, perhaps once more      |

A marker also ends what is being asked: an answer that comes after it is about a transaction that is over.

Memory grows with the producers seen within `producer.id.expiration.ms`; `expire` removes the others.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from penstock.log.producer_snapshot import SnapshotRow
from penstock.protocol.batch import TRANSACTIONAL, BatchHeader
from penstock.protocol.errors import ErrorCode, KafkaError

BATCHES_REMEMBERED = 5
MAX_SEQUENCE = (1 << 31) - 1
MAX_EPOCH = (1 << 15) - 1
"""No producer gets it, but for a fault that Kafka had; a transaction with it can be ended all the same."""
NO_SEQUENCE = -1
NO_OFFSET = -1
NO_PRODUCER_ID = -1
MOST_ENDED = 1_000
"""So many ended transactions are told apart whose markers may not be committed; the oldest count as one."""
MOST_REMEMBERED = 1_000
"""So many producers are remembered whose transaction was asked about, and whose batch was not appended."""

EPOCHS_RISE_FROM = 2
"""From this version of transactions on the marker has an epoch above that of the records (KIP-890)."""


class UnverifiedError(KafkaError):
    """The coordinator of its transaction has to be asked about the batch (`Producers.verify`); whoever cannot ask
    passes on the code, on which producers try again.
    """

    def __init__(self, header: BatchHeader) -> None:
        super().__init__(ErrorCode.NOT_ENOUGH_REPLICAS, "the transaction of the batch has still to be verified")
        self.header = header


class Verification:
    """The coordinator is asked about the transaction of a producer. Requests that come meanwhile share it.

    It is remembered until the transaction begins here: what follows a batch that is to come again does not overtake it.
    """

    __slots__ = ("epoch", "expects_zero", "is_verified", "lowest_sequence", "waiting")

    def __init__(self, epoch: int, sequence: int, *, expects_zero: bool) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence
        self.expects_zero = expects_zero
        """Whether a producer that is not known begins with sequence 0: its epoch has risen with the transaction."""
        self.is_verified = False
        self.waiting = 0


class WrittenBatch(NamedTuple):
    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int


_NOTHING_WRITTEN = WrittenBatch(NO_SEQUENCE, NO_SEQUENCE, NO_OFFSET, NO_OFFSET, -1)


class Producer:
    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "freezes",
        "producer_id",
        "timestamp_ms",
        "transaction_first_offset",
    )

    def __init__(self, producer_id: int, epoch: int, freezes: int = 0) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.freezes = freezes
        """It was made after so many calls of `Producers.frozen`, and may change until the next one."""
        self.batches: list[WrittenBatch] = []
        self.coordinator_epoch = -1
        self.timestamp_ms = -1
        self.transaction_first_offset = NO_OFFSET

    def copied(self, freezes: int) -> "Producer":
        copy = Producer(self.producer_id, self.epoch, freezes)
        copy.batches = list(self.batches)
        copy.timestamp_ms, copy.coordinator_epoch = self.timestamp_ms, self.coordinator_epoch
        copy.transaction_first_offset = self.transaction_first_offset
        return copy

    def is_in_transaction(self, epoch: int) -> bool:
        return self.transaction_first_offset != NO_OFFSET and self.epoch == epoch

    @property
    def last_sequence(self) -> int:
        """-1 if nothing was written in the present epoch."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """-1 if nothing was written in the present epoch."""
        return self.batches[-1].last_offset if self.batches else NO_OFFSET


def _check_epoch(producer: Producer, header: BatchHeader) -> None:
    if header.producer_epoch < producer.epoch:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer {producer.producer_id} writes with epoch {header.producer_epoch}, {producer.epoch} has begun",
        )


def _check_new_epoch(producer: Producer, header: BatchHeader) -> None:
    _check_epoch(producer, header)
    if header.base_sequence != 0:
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {producer.producer_id} begins epoch {header.producer_epoch} with sequence"
            f" {header.base_sequence} instead of 0",
        )


def check_first(header: BatchHeader) -> None:
    """Of a log that never held a record, whose producers have no history that could have expired: a batch that came
    before this one was refused, and comes once more (KAFKA-15591).
    """
    if header.base_sequence > 0:
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {header.producer_id} begins with sequence {header.base_sequence} instead of 0, and nothing was"
            " ever written here",
        )


def sequence_after(sequence: int, count: int = 1) -> int:
    """0 follows 2^31 - 1."""
    return (sequence + count) & MAX_SEQUENCE


class Producers:
    """They are in the order of their first batch."""

    __slots__ = ("_ended", "_freezes", "_open_transactions", "_producers", "_verifications")

    def __init__(self) -> None:
        self._freezes = 0
        self._producers: dict[int, Producer] = {}
        self._verifications: dict[int, Verification] = {}
        self._open_transactions: dict[int, int] = {}
        """Their first offsets, in the order of these, by producer."""
        self._ended: list[tuple[int, int]] = []
        """The offsets of markers that may not be committed yet, with the first offsets of what they ended."""

    def without_any(self) -> "Producers":
        """Others, none yet, about which the same questions to coordinators are open."""
        others = Producers()
        others._verifications = self._verifications
        return others

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[Producer]:
        return iter(self._producers.values())

    def get(self, producer_id: int) -> Producer | None:
        return self._producers.get(producer_id)

    @property
    def first_open_offset(self) -> int | None:
        """The first offset of the oldest open transaction, or None."""
        return next(iter(self._open_transactions.values()), None)

    def last_stable_offset(self, high_watermark: int) -> int:
        """The offset, at most the high watermark, before which all transactions are known to have ended, and how."""
        if not self._open_transactions and not self._ended:
            return high_watermark
        ended = self._ended
        while ended and ended[0][0] < high_watermark:
            del ended[0]
        open_offset = self.first_open_offset
        unstable = (high_watermark, *(first for _, first in ended))
        return min(unstable if open_offset is None else (open_offset, *unstable))

    def check(self, header: BatchHeader) -> WrittenBatch | None:
        """The batch that this one repeats, None if it is to be written; raises KafkaError as the tables above say, and
        UnverifiedError.
        """
        producer = self._producers.get(header.producer_id)
        if producer is not None:
            if header.producer_epoch == producer.epoch:
                expected = sequence_after(producer.last_sequence)
                if header.base_sequence != expected:
                    return self._find_repeated(producer, header, expected)
            else:
                _check_new_epoch(producer, header)
        if header.attributes & TRANSACTIONAL:
            self._check_transaction(producer, header)
        elif producer is not None and producer.transaction_first_offset != NO_OFFSET:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {producer.producer_id} has an open transaction, and this batch belongs to none",
            )
        return None

    def check_coordinated(self, header: BatchHeader) -> None:
        """A batch of a coordinator, which has no sequence. Raises as `check`."""
        producer = self._producers.get(header.producer_id)
        if producer is not None:
            _check_epoch(producer, header)
        if header.is_transactional:
            self._check_transaction(producer, header)

    def _check_transaction(self, producer: Producer | None, header: BatchHeader) -> None:
        epoch = header.producer_epoch
        if producer is not None and producer.is_in_transaction(epoch):
            return
        asked = self._verifications.get(header.producer_id)
        if asked is None or not asked.is_verified or asked.epoch != epoch:
            raise UnverifiedError(header)
        is_unknown = producer is None or not producer.batches
        if header.base_sequence > (0 if asked.expects_zero and is_unknown else asked.lowest_sequence):
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} began its transaction with an earlier sequence than"
                f" {header.base_sequence}",
            )

    def verify(self, producer_id: int, epoch: int, sequence: int, *, expects_zero: bool) -> Verification:
        """The coordinator is asked, about a batch for which `check` raised UnverifiedError; `verified` follows."""
        asked = self._verifications.get(producer_id)
        if asked is None or asked.epoch != epoch:
            is_late = asked is not None and asked.waiting > 0 and epoch < asked.epoch
            asked = Verification(epoch, sequence, expects_zero=expects_zero)
            if not is_late:  # whoever has the newer epoch is waiting, and has fenced this one
                self._verifications[producer_id] = asked
        asked.lowest_sequence = min(asked.lowest_sequence, sequence)
        asked.waiting += 1
        return asked

    def verified(self, producer_id: int, asked: Verification, *, is_good: bool) -> None:
        """The answer has come: append the batch now, and say `no_longer_verified` then."""
        asked.is_verified |= is_good and self._verifications.get(producer_id) is asked

    def no_longer_verified(self, producer_id: int, asked: Verification) -> None:
        asked.waiting -= 1
        if asked.waiting or self._verifications.get(producer_id) is not asked:
            return
        asked.is_verified = False
        self._verifications[producer_id] = self._verifications.pop(producer_id)  # the oldest comes first
        if len(self._verifications) > MOST_REMEMBERED:
            del self._verifications[next(one for one, it in self._verifications.items() if not it.waiting)]

    def check_marker(self, header: BatchHeader, coordinator_epoch: int, transaction_version: int = 0) -> None:
        """Raises KafkaError as the table above says."""
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return
        _check_epoch(producer, header)
        is_open, is_raised = producer.transaction_first_offset != NO_OFFSET, header.producer_epoch > producer.epoch
        if is_open and transaction_version >= EPOCHS_RISE_FROM and not is_raised and producer.epoch < MAX_EPOCH:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"a marker of epoch {header.producer_epoch} does not end the transaction of producer"
                f" {producer.producer_id}, which has that epoch itself",
            )
        if coordinator_epoch < producer.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"a marker of the coordinator's epoch {coordinator_epoch}, {producer.coordinator_epoch} has begun",
            )

    def _find_repeated(self, producer: Producer, header: BatchHeader, expected: int) -> WrittenBatch:
        first = header.base_sequence
        last = sequence_after(first, header.last_offset_delta)
        for batch in producer.batches:
            if batch.first_sequence == first and batch.last_sequence == last:
                return batch
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {producer.producer_id} sent sequence {first} in epoch {producer.epoch}, expected was {expected}",
        )

    def note_batch(self, header: BatchHeader, first_offset: int, last_offset: int, timestamp_ms: int) -> None:
        producer = self._begin(header.producer_id, header.producer_epoch)
        first = header.base_sequence
        last = NO_SEQUENCE if first == NO_SEQUENCE else (first + header.last_offset_delta) & MAX_SEQUENCE
        producer.batches.append(WrittenBatch(first, last, first_offset, last_offset, timestamp_ms))
        if len(producer.batches) > BATCHES_REMEMBERED:
            del producer.batches[0]
        producer.timestamp_ms = timestamp_ms
        if header.is_transactional and producer.transaction_first_offset == NO_OFFSET:
            producer.transaction_first_offset = first_offset
            self._open_transactions[producer.producer_id] = first_offset
            self._verifications.pop(producer.producer_id, None)

    def note_transaction_end(self, header: BatchHeader, offset: int, coordinator_epoch: int) -> int:
        """The marker has this offset. The first offset of the transaction that ends; `NO_OFFSET` if none was open."""
        producer = self._begin(header.producer_id, header.producer_epoch)
        first_offset = producer.transaction_first_offset
        producer.coordinator_epoch = coordinator_epoch
        producer.timestamp_ms = header.max_timestamp
        producer.transaction_first_offset = NO_OFFSET
        self._verifications.pop(producer.producer_id, None)
        if self._open_transactions.pop(producer.producer_id, None) is not None:
            if len(self._ended) == MOST_ENDED:
                (_, oldest), (marker, second) = self._ended[:2]
                self._ended[:2] = [(marker, min(oldest, second))]
            self._ended.append((offset, first_offset))
        return first_offset

    def is_open(self, producer_id: int, offset: int) -> bool:
        """Whether what the producer wrote there, in a transaction, waits for its end."""
        first_offset = self._open_transactions.get(producer_id)
        return first_offset is not None and first_offset <= offset

    def _begin(self, producer_id: int, epoch: int) -> Producer:
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = Producer(producer_id, epoch, self._freezes)
            return producer
        if producer.freezes != self._freezes:
            producer = self._producers[producer_id] = producer.copied(self._freezes)
        if producer.epoch != epoch:
            producer.epoch = epoch
            producer.batches.clear()
        return producer

    def copy_from(self, others: "Producers", producer_id: int) -> None:
        known = others.get(producer_id)
        if known is not None:
            self._producers[producer_id] = known.copied(self._freezes)

    def forget(self, producer_id: int) -> None:
        """Its transaction, too, if one is open."""
        self._producers.pop(producer_id, None)
        self._open_transactions.pop(producer_id, None)

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Open transactions keep a producer. Returns the number of those that expired."""
        expired = [
            producer.producer_id
            for producer in self._producers.values()
            if now_ms - producer.timestamp_ms >= expiration_ms and producer.transaction_first_offset == NO_OFFSET
        ]
        for producer_id in expired:
            del self._producers[producer_id]
        return len(expired)

    def next_expiry_ms(self, expiration_ms: int) -> int | None:
        """When `expire` has something to do, unless more is written; None for never."""
        silent = [one.timestamp_ms for one in self._producers.values() if one.transaction_first_offset == NO_OFFSET]
        return min(silent) + expiration_ms if silent else None

    def clear(self) -> None:
        self._producers.clear()
        self._open_transactions.clear()
        self._verifications.clear()
        self._ended.clear()

    def frozen(self) -> list[Producer]:
        """As they are now: what changes from now on is a copy, so that another thread may read these."""
        self._freezes += 1
        return list(self._producers.values())

    def to_snapshot(self) -> Iterator[SnapshotRow]:
        return snapshot_rows(self._producers.values())

    def restore(self, rows: Iterable[SnapshotRow]) -> None:
        """Of a producer's rows the last one says what holds."""
        self.clear()
        transactions: dict[int, int] = {}
        for producer_id, epoch, sequence, offset, delta, timestamp_ms, coordinator_epoch, transaction in rows:
            producer = self._begin(producer_id, epoch)
            producer.coordinator_epoch, producer.timestamp_ms = coordinator_epoch, timestamp_ms
            producer.transaction_first_offset = transaction
            if offset != NO_OFFSET:
                first_sequence = NO_SEQUENCE if sequence == NO_SEQUENCE else (sequence - delta) & MAX_SEQUENCE
                first_offset = offset - delta
                producer.batches.append(WrittenBatch(first_sequence, sequence, first_offset, offset, timestamp_ms))
            transactions[producer_id] = transaction
        found = ((offset, producer_id) for producer_id, offset in transactions.items() if offset != NO_OFFSET)
        self._open_transactions = {producer_id: offset for offset, producer_id in sorted(found)}


def snapshot_rows(producers: Iterable[Producer]) -> Iterator[SnapshotRow]:
    """A row for each batch that is remembered, each producer's last one last."""
    for producer in producers:
        head, coordinator_epoch = (producer.producer_id, producer.epoch), producer.coordinator_epoch
        *earlier, last = producer.batches or (_NOTHING_WRITTEN,)
        for _, sequence, first_offset, offset, timestamp_ms in earlier:
            yield *head, sequence, offset, offset - first_offset, timestamp_ms, coordinator_epoch, NO_OFFSET
        _, sequence, first_offset, offset, _ = last
        delta, transaction = offset - first_offset, producer.transaction_first_offset
        yield *head, sequence, offset, delta, producer.timestamp_ms, coordinator_epoch, transaction
