"""What compaction knows of transactions while it goes through a log, oldest batch first: Kafka's rules.

| batch                                             | what becomes of it                                |
| ------------------------------------------------- | ------------------------------------------------- |
| records of an aborted transaction                 | they go, whatever their keys                      |
| records of a committed one                        | as records of none                                |
| a marker, and there is a batch of its transaction | it stays                                          |
| a marker, and there is none                       | it goes after a horizon (`delete.retention.ms`)   |
| the same, with the epoch of an active producer    | its header stays                                  |

A round ends before the first open transaction: how each batch's ended is known, though its marker may lie behind.
"""

from collections.abc import Iterable

from penstock.log.aborted_transactions import AbortedTransaction, covered
from penstock.protocol.batch import BatchHeader


class Transactions:
    """`aborted` are those of the log, in the order of their markers."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._aborted: dict[int, list[AbortedTransaction]] = {}
        for one in aborted:
            self._aborted.setdefault(one.producer_id, []).append(one)
        self._seen = set[int]()
        """Producers of whose present transaction there is a batch."""

    def is_aborted(self, header: BatchHeader) -> bool:
        if not header.is_transactional:
            return False
        return covered(self._aborted.get(header.producer_id, ()), header.base_offset)

    def take(self, header: BatchHeader) -> bool:
        """The next batch of the log: whether it is a marker that is not needed any more."""
        if header.is_marker:
            is_needed = header.producer_id in self._seen
            self._seen.discard(header.producer_id)
            return not is_needed
        if header.is_transactional:
            self._seen.add(header.producer_id)
        return False
