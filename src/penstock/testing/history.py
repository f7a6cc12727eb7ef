"""Checks what clients saw of a log: nothing acknowledged is lost, nothing comes twice, nothing is skipped.

Write down what each producer was told and what each consumer was given, while things go wrong; then ask `anomalies`:

    history = History()
    history.sent("p0", ("clicks", 0), "v1", Outcome.ACKNOWLEDGED, offset=17)
    history.polled("c0", ("clicks", 0), 17, "v1")
    assert not history.anomalies()

Values must be unique. Consumers together should have read to the end, for a record that none of them read is an
anomaly.

| anomaly             | what was seen                                                                     |
| ------------------- | --------------------------------------------------------------------------------- |
| inconsistent offset | two values at one offset                                                          |
| lost write          | an acknowledged record that no poll returned, but one behind it                   |
| unseen write        | an acknowledged record behind all that was polled                                 |
| duplicate           | one value of an idempotent producer at two places                                 |
| aborted read        | a value that was refused for good, or whose transaction was aborted               |
| skipped poll        | a consumer went from one record to a later one over a record that is there        |
| non-monotonic poll  | a consumer went back without having been told to                                  |

Polls of one consumer follow one another until `moved` says that its position was set anew: by a seek, a rebalance or a
restart. With the offset that it was set to, `moved` checks that step, too: a group that goes on from a committed offset
must neither skip a record nor read one again.

The names are those of Jepsen's analyses of Kafka-like logs.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Final

from penstock.protocol.value import Value

Partition = tuple[str, int]
"""A topic's name and the partition's index."""
ANYWHERE: Final = -1


class Outcome(Enum):
    """What a producer knows of a record it sent."""

    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    """Certainly not written, or its transaction was aborted."""
    UNKNOWN = "unknown"


class Anomaly(Value):
    """`kind` as in the table of the module, `text` for people."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


class _Sent(Value):
    producer: str
    partition: Partition
    value: object
    outcome: Outcome
    offset: int
    idempotent: bool


class _Step(Value):
    """A consumer went from one offset to another: over what lies between, unless it was free to."""

    consumer: str
    partition: Partition
    before: int
    offset: int


class History:
    def __init__(self) -> None:
        self._sent: list[_Sent] = []
        self._polled: dict[Partition, dict[int, object]] = {}
        self._steps: list[_Step] = []
        self._positions: dict[tuple[str, Partition], int] = {}
        self._conflicts: list[Anomaly] = []

    def sent(
        self,
        producer: str,
        partition: Partition,
        value: object,
        outcome: Outcome,
        *,
        offset: int = ANYWHERE,
        idempotent: bool = True,
    ) -> None:
        """A producer learned what became of a record; `offset` is the one that an acknowledgement names, if any."""
        self._sent.append(_Sent(producer, partition, value, outcome, offset, idempotent))

    def polled(self, consumer: str, partition: Partition, offset: int, value: object) -> None:
        before = self._positions.get((consumer, partition))
        if before is not None:
            self._steps.append(_Step(consumer, partition, before, offset))
        self._positions[consumer, partition] = offset
        seen = self._polled.setdefault(partition, {})
        if seen.setdefault(offset, value) != value:
            text = f"{_at(partition, offset)} is {seen[offset]!r} and {value!r}"
            self._conflicts.append(Anomaly("inconsistent offset", text))

    def moved(self, consumer: str, partition: Partition, offset: int | None = None) -> None:
        """A consumer's position was set anew; with `offset`, the next record is expected there, as after a commit."""
        if offset is None:
            self._positions.pop((consumer, partition), None)
        else:
            self._positions[consumer, partition] = offset - 1

    def anomalies(self) -> list[Anomaly]:
        found = list(self._conflicts)
        places = self._places(found)
        found += self._lost()
        found += self._duplicates()
        found += self._refused()
        found += self._bad_steps(places)
        return found

    def _places(self, found: list[Anomaly]) -> dict[Partition, dict[int, object]]:
        """Every offset that is known to hold a record, polled or acknowledged."""
        places = {partition: dict(seen) for partition, seen in self._polled.items()}
        for sent in self._sent:
            if sent.outcome is Outcome.ACKNOWLEDGED and sent.offset != ANYWHERE:
                known = places.setdefault(sent.partition, {}).setdefault(sent.offset, sent.value)
                if known != sent.value:
                    text = f"{_at(sent.partition, sent.offset)} is {known!r} and {sent.value!r} was acknowledged there"
                    found.append(Anomaly("inconsistent offset", text))
        return places

    def _lost(self) -> Iterator[Anomaly]:
        values = {partition: set(seen.values()) for partition, seen in self._polled.items()}
        ends = {partition: max(seen) for partition, seen in self._polled.items() if seen}
        for sent in self._sent:
            if sent.outcome is not Outcome.ACKNOWLEDGED or sent.value in values.get(sent.partition, ()):
                continue
            is_behind = sent.offset == ANYWHERE or sent.offset > ends.get(sent.partition, -1)
            kind = "unseen write" if is_behind else "lost write"
            where = _at(sent.partition, sent.offset)
            yield Anomaly(kind, f"{sent.value!r} of {sent.producer} was acknowledged at {where} and never read")

    def _duplicates(self) -> Iterator[Anomaly]:
        idempotent = {sent.value for sent in self._sent if sent.idempotent}
        places: dict[object, tuple[Partition, int]] = {}
        for partition, seen in self._polled.items():
            for offset, value in sorted(seen.items()):
                first = places.setdefault(value, (partition, offset))
                if first != (partition, offset) and value in idempotent:
                    yield Anomaly("duplicate", f"{value!r} is at {_at(*first)} and at {_at(partition, offset)}")

    def _refused(self) -> Iterator[Anomaly]:
        refused = {sent.value: sent.producer for sent in self._sent if sent.outcome is Outcome.REFUSED}
        for partition, seen in self._polled.items():
            for offset, value in sorted(seen.items()):
                if value in refused:
                    text = f"{value!r} of {refused[value]} was refused, and read at {_at(partition, offset)}"
                    yield Anomaly("aborted read", text)

    def _bad_steps(self, places: dict[Partition, dict[int, object]]) -> Iterator[Anomaly]:
        for step in self._steps:
            here = f"{step.consumer} went from {step.before} to {step.offset} in {_named(step.partition)}"
            if step.offset <= step.before:
                yield Anomaly("non-monotonic poll", here)
                continue
            between = places.get(step.partition, {})
            missed = next((offset for offset in range(step.before + 1, step.offset) if offset in between), None)
            if missed is not None:
                yield Anomaly("skipped poll", f"{here}, over {missed}")


def _named(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"


def _at(partition: Partition, offset: int) -> str:
    return f"{_named(partition)} offset {'unknown' if offset == ANYWHERE else offset}"
