"""Is a history of concurrent reads and writes linearizable: is there one order in which all of it can have happened?

A history is linearizable if each operation can be given a moment between its call and its return so that, in the order
of these moments, each read gives what was written last (Herlihy and Wing 1990). An operation that was called and never
answered may have its moment at any time after its call, or none.

The search is Wing and Gong's: take any write that was called before the first return that is still open, go on from the
value that it leaves, and go back where nothing fits. What was tried once, the same operations done and the same value
left, is not tried again (Lowe 2017). A read that fits is taken at once, for it changes nothing. Keys are independent of
each other, so each is searched by itself.

    history = History()
    write = history.call("client 1", "colour", write="red")
    ...
    history.returned(write)
    assert not violations(history.operations)
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

MAX_STEPS: Final = 5_000_000
"""A search that takes longer than this will not end."""


class TooHardError(Exception):
    """The history is so concurrent that the search does not end: take fewer clients, or more keys."""


@dataclass(slots=True)
class Operation:
    """A read or a write of one key. `returned` None: there was no answer, and its outcome is unknown."""

    client: str
    key: str
    is_write: bool
    value: str | None
    """Written or read; None is a key without a value."""
    called: int
    returned: int | None = None

    def __str__(self) -> str:
        what = f"{'writes' if self.is_write else 'reads'} {self.key}={self.value}"
        return f"[{self.called}, {'…' if self.returned is None else self.returned}] {self.client} {what}"


@dataclass(slots=True)
class History:
    """Operations as they are called and return, on one thread: the order of these events is their time."""

    operations: list[Operation] = field(default_factory=list)
    _now: int = 0

    def call(self, client: str, key: str, *, write: str | None = None) -> Operation:
        """A write of this value or, without one, a read."""
        operation = Operation(client, key, write is not None, write, self._tick())
        self.operations.append(operation)
        return operation

    def returned(self, operation: Operation, read: str | None = None) -> None:
        operation.returned = self._tick()
        if not operation.is_write:
            operation.value = read

    def refused(self, operation: Operation) -> None:
        """A refused operation was surely not carried out."""
        self.operations.remove(operation)

    def _tick(self) -> int:
        self._now += 1
        return self._now


def violations(operations: Iterable[Operation]) -> list[str]:
    """One text for each key that no order explains; none for a linearizable history. Raises TooHardError."""
    by_key: dict[str, list[Operation]] = {}
    for operation in operations:
        if operation.is_write or operation.returned is not None:
            by_key.setdefault(operation.key, []).append(operation)
    found = (_Search(by_key[key]).violation() for key in by_key)
    return [text for text in found if text is not None]


@dataclass(slots=True)
class _Place:
    done: int
    """One bit for each operation that has its moment."""
    value: str | None
    earliest: int
    """All answered operations before this one are done."""
    choices: Iterator[int]
    """Writes that may come next and were not tried here."""


class _Search:
    def __init__(self, operations: list[Operation]) -> None:
        self._all = operations
        answered = [operation for operation in operations if operation.returned is not None]
        read = {operation.value for operation in answered if not operation.is_write}
        lost = [operation for operation in operations if operation.returned is None and operation.value in read]
        # Writes without an answer that no read has seen explain nothing. The others stand last.
        self._operations = sorted(answered, key=lambda operation: operation.called) + lost
        self._answered = len(answered)
        self._goal = (1 << self._answered) - 1
        self._furthest = 0

    def violation(self) -> str | None:
        tried: set[tuple[int, str | None]] = set()
        places = [self._place(0, None, 0)]
        for _ in range(MAX_STEPS):
            place = places[-1]
            if place.done & self._goal == self._goal:
                return None
            choice = next(place.choices, None)
            if choice is None:
                places.pop()
                if not places:
                    return self._describe()
                continue
            after = (place.done | 1 << choice, self._operations[choice].value)
            if after not in tried:
                tried.add(after)
                places.append(self._place(*after, place.earliest))
        raise TooHardError(f"{len(self._all)} operations of one key: no end after {MAX_STEPS} steps")

    def _place(self, done: int, value: str | None, earliest: int) -> _Place:
        while True:
            while done >> earliest & 1:
                earliest += 1
            possible = self._possible(done, earliest)
            reads = [n for n in possible if not self._operations[n].is_write and self._operations[n].value == value]
            if not reads:
                break
            for number in reads:
                done |= 1 << number
        if (done & self._goal).bit_count() > (self._furthest & self._goal).bit_count():
            self._furthest = done
        return _Place(done, value, earliest, iter([n for n in possible if self._operations[n].is_write]))

    def _possible(self, done: int, earliest: int) -> list[int]:
        """Operations called before any other that is not done has returned; the first to return come first."""
        possible, first_return = [], None
        for number in range(earliest, self._answered):
            operation = self._operations[number]
            if first_return is not None and operation.called > first_return:
                break
            if not done >> number & 1:
                possible.append(number)
                assert operation.returned is not None, "it is one of those that were answered"
                first_return = operation.returned if first_return is None else min(first_return, operation.returned)
        possible.sort(key=lambda number: self._operations[number].returned or 0)
        return possible + [
            number
            for number in range(self._answered, len(self._operations))
            if not done >> number & 1 and (first_return is None or self._operations[number].called <= first_return)
        ]

    def _describe(self) -> str:
        placed = self._furthest & self._goal
        without = [self._operations[number] for number in range(self._answered) if not placed >> number & 1]
        lines = "".join(f"\n  {operation}" for operation in without[:8])
        return (
            f"no order explains what was done to {self._all[0].key}: of {self._answered} operations that were answered "
            f"{placed.bit_count()} can be ordered, and then none of{lines}"
        )
