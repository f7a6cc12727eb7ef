"""Metadata transactions: records that lie in several batches and hold together or not at all (KIP-868).

| state       | record | what follows                                                     |
| ----------- | ------ | ---------------------------------------------------------------- |
| none open   | begin  | one is open                                                      |
| none open   | other  | it holds at once                                                 |
| one is open | end    | none is open; all its records hold now, in their order           |
| one is open | abort  | none is open; its records never held                             |
| one is open | other  | it waits                                                         |

Begin within a transaction, and end or abort without one, are errors: no controller writes them. A new active controller
aborts the transaction that its predecessor left open. What waits is in memory; it is as long as a transaction.
"""

from collections.abc import Iterable
from typing import Final

from penstock.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    MetadataRecord,
)
from penstock.protocol.errors import DecodeError

_MARKS: Final = frozenset[type[MetadataRecord]]((BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord))


class MetadataTransaction:
    def __init__(self) -> None:
        self._waiting: list[MetadataRecord] | None = None

    @property
    def is_open(self) -> bool:
        return self._waiting is not None

    def take(self, records: Iterable[MetadataRecord]) -> list[MetadataRecord]:
        """Returns the records that hold now, also those that waited, without begin and end."""
        holding: list[MetadataRecord] = []
        for record in records:
            kind = type(record)
            if kind not in _MARKS:
                (holding if self._waiting is None else self._waiting).append(record)
            elif kind is BeginTransactionRecord:
                self._begin()
            elif kind is EndTransactionRecord:
                holding += self._end("ends")
            else:
                self._end("is aborted")
        return holding

    def _begin(self) -> None:
        if self._waiting is not None:
            raise DecodeError("a metadata transaction begins within another one")
        self._waiting = []

    def _end(self, what_happens: str) -> list[MetadataRecord]:
        if self._waiting is None:
            raise DecodeError(f"a metadata transaction {what_happens} that never began")
        waiting, self._waiting = self._waiting, None
        return waiting
