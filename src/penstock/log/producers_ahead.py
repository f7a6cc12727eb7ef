"""The idempotent producers of one partition as they will be when what is under way is in its log.

Where a batch gets its offsets before it is written, the next one of its producer has to be compared with it. Of each
producer that has something under way there is a copy of what the log knows, which goes on from there; of all others the
log's own word counts.
"""

from penstock.log.producer_snapshots import transaction_ends
from penstock.log.producer_state import NO_SEQUENCE, Producers, WrittenBatch, check_first
from penstock.protocol.batch import BatchHeader


class ProducersAhead:
    """`written` are the producers of the log itself."""

    __slots__ = ("_ahead", "_count", "_first_sequence_is_zero", "_written")

    def __init__(self, written: Producers, *, first_sequence_is_zero: bool = False) -> None:
        self._first_sequence_is_zero = first_sequence_is_zero
        self._written = written
        self._ahead = written.without_any()
        self._count: dict[int, int] = {}

    def check(self, batch: memoryview, header: BatchHeader) -> WrittenBatch | None:
        """KafkaError as `Producers.check`, for coordinators, whose batches have no sequence, as `check_coordinated`."""
        producers = self._ahead if header.producer_id in self._count else self._written
        if header.is_marker:
            for _, coordinator_epoch in transaction_ends(batch):
                producers.check_marker(header, coordinator_epoch)
            return None
        if header.base_sequence == NO_SEQUENCE:
            producers.check_coordinated(header)
            return None
        return producers.check(header)

    def check_first(self, header: BatchHeader) -> None:
        """The same for a log that never held a record, where nothing is under way, either."""
        if self._first_sequence_is_zero:
            check_first(header)

    def check_marker(self, header: BatchHeader, coordinator_epoch: int, transaction_version: int) -> None:
        """KafkaError as `Producers.check_marker`."""
        producers = self._ahead if header.producer_id in self._count else self._written
        producers.check_marker(header, coordinator_epoch, transaction_version)

    def proposed(self, batch: memoryview, header: BatchHeader, first_offset: int, last_offset: int) -> None:
        """A checked batch is under way, and gets these offsets."""
        producer_id = header.producer_id
        if producer_id not in self._count:
            self._ahead.copy_from(self._written, producer_id)
        self._count[producer_id] = self._count.get(producer_id, 0) + 1
        if header.is_marker:
            for _, coordinator_epoch in transaction_ends(batch):
                self._ahead.note_transaction_end(header, first_offset, coordinator_epoch)
        else:
            self._ahead.note_batch(header, first_offset, last_offset, header.max_timestamp)

    def applied(self, producer_id: int) -> None:
        """The producer's oldest batch that was under way is in the log."""
        self._count[producer_id] -= 1
        if not self._count[producer_id]:
            del self._count[producer_id]
            self._ahead.forget(producer_id)
