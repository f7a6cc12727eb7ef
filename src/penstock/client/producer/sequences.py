"""Idempotence: each batch says who sent it and which of that producer's records it begins with, by partition.

A partition keeps the producer id with which it began until something goes wrong in it: a batch is given up whose fate
is unknown, or the broker has lost track. Then `reset` makes its next batch begin at 0 with a fresh id, while the other
partitions go on as they were.
"""

from collections.abc import Callable

from penstock.client.producer.accumulator import NO_SEQUENCE, PendingBatch
from penstock.client.values import TopicPartition

SEQUENCE_MASK = 0x7FFFFFFF


class Sequences:
    """The producer's identity and the next sequence number of each partition. No IO."""

    def __init__(self) -> None:
        self.identity: tuple[int, int] | None = None
        """The id and the epoch that InitProducerId has answered; None while they must be asked for."""
        self._partitions: dict[TopicPartition, tuple[tuple[int, int], int]] = {}

    def begin(self, identity: tuple[int, int]) -> None:
        """All partitions begin anew, with an id or epoch of which the brokers have seen nothing."""
        self.identity = identity
        self._partitions.clear()

    def number(self, batch: PendingBatch) -> bool:
        """A batch that has its place (a retry) keeps it. False while there is no identity to begin with."""
        if batch.base_sequence != NO_SEQUENCE:
            return True
        known = self._partitions.get(batch.partition)
        if known is None and self.identity is None:
            return False
        identity, sequence = known or (self.identity, 0)
        assert identity is not None
        batch.producer_id, batch.producer_epoch = identity
        batch.base_sequence = sequence
        self._partitions[batch.partition] = (identity, (sequence + len(batch.records)) & SEQUENCE_MASK)
        return True

    def take_back(self, batch: PendingBatch) -> None:
        """The broker refused the batch: what comes next gets its numbers. After a retry its fate is not so sure."""
        if batch.base_sequence == NO_SEQUENCE:
            return
        if batch.attempts:
            self.reset(batch.partition)
        else:
            self._partitions[batch.partition] = (batch.producer_id, batch.producer_epoch), batch.base_sequence
        batch.base_sequence = NO_SEQUENCE

    def keep(self, wanted: Callable[[TopicPartition], bool]) -> None:
        """Forget the other partitions. One that goes on begins anew, for brokers remember what it sent under its id."""
        for partition in [one for one in self._partitions if not wanted(one)]:
            self.reset(partition)

    def reset(self, partition: TopicPartition) -> None:
        """Begin anew in this partition, under another producer id."""
        self._partitions.pop(partition, None)
        self.identity = None
