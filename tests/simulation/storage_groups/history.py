"""What clients of partitions were told, and whether one order of all they did explains it.

A produce has a place, its offsets; a fetch has one as well, the end of the log that it saw. So the order is known, and
what is left to check is that it agrees with the time: what was over when something else began stands before it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.replication.storage_groups.entries import PartitionId


@dataclass(slots=True)
class Operation:
    """A produce of `values`, or a fetch if there are none. `began` and `ended` are moments of the true time."""

    client: str
    partition: PartitionId
    began: float
    values: list[str] = field(default_factory=list)
    ended: float | None = None
    offset: int = -1
    """Of a produce, the first one; of a fetch, the end of the log."""

    @property
    def end_offset(self) -> int:
        """The log ends there at least when this is over."""
        return self.offset + len(self.values)


@dataclass(slots=True)
class History:
    """All operations of a simulation, and which value was seen at which offset."""

    operations: list[Operation] = field(default_factory=list)
    seen: dict[tuple[PartitionId, int], str] = field(default_factory=dict)
    torn: list[str] = field(default_factory=list)
    in_order: set[str] = field(default_factory=set)
    """Clients whose values lie in each partition in the order in which they were produced."""

    def begin(self, client: str, partition: PartitionId, began: float, values: list[str]) -> Operation:
        """Somebody asks for something."""
        operation = Operation(client, partition, began, values)
        self.operations.append(operation)
        return operation

    def saw(self, who: str, partition: PartitionId, offset: int, value: str) -> None:
        """Somebody, client or server, has this value at this offset; it never changes."""
        before = self.seen.setdefault((partition, offset), value)
        if before != value:
            self.torn.append(f"{who} has {value} at {partition.number}@{offset}, where {before} was seen")

    def violations(self) -> Iterator[str]:
        """What no order explains, and what was acknowledged and is not there, or is there twice."""
        yield from self.torn
        done = [operation for operation in self.operations if operation.ended is not None]
        for operation in done:
            for offset, value in enumerate(operation.values, operation.offset):
                found = self.seen.get((operation.partition, offset))
                if found != value:
                    yield f"{value} was acknowledged at {operation.partition.number}@{offset}: there is {found}"
        yield from self._against_time(done)
        yield from self._repeated()
        yield from self._out_of_order()

    def _against_time(self, done: list[Operation]) -> Iterator[str]:
        for partition in {operation.partition for operation in done}:
            ours = [operation for operation in done if operation.partition == partition]
            ended = sorted(ours, key=lambda operation: operation.ended or 0)
            place, newest = 0, 0
            for operation in sorted(ours, key=lambda operation: operation.began):
                while place < len(ended) and (ended[place].ended or 0) < operation.began:
                    newest = max(newest, ended[place].end_offset)
                    place += 1
                if operation.offset < newest:
                    yield f"{operation} is not behind {newest}, which was reached before it began: no order explains it"

    def _out_of_order(self) -> Iterator[str]:
        last: dict[tuple[PartitionId, str], int] = {}
        for (partition, offset), value in sorted(self.seen.items()):
            client, _, number = value.partition(".")
            if client in self.in_order and last.get((partition, client), -1) >= int(number):
                yield f"{value} at {partition.number}@{offset} lies behind what was produced after it"
            last[partition, client] = int(number)

    def _repeated(self) -> Iterator[str]:
        sent = {value for operation in self.operations for value in operation.values}
        places: dict[str, tuple[PartitionId, int]] = {}
        for place, value in self.seen.items():
            if value not in sent:
                yield f"{value} at {place} was never produced"
            elif value in places:
                yield f"{value} is there twice: at {places[value]} and {place}"
            places[value] = place
