"""What an application says of the records that it got, and how that is written in requests (KIP-932, KIP-1222)."""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from itertools import groupby
from typing import Final, NamedTuple
from uuid import UUID

from penstock.client.errors import ClientError
from penstock.protocol.errors import KafkaError

GAP: Final = 0
"""There is no record at that offset, or none that an application is to see."""
MOST_NAMED: Final = 10
"""So many offsets with one type are named one by one, in a batch with others; more of them have a batch of their own.
"""
AS_THE_GROUP: Final = -1
"""A delay that is the group's."""

Place = tuple[UUID, int]
"""A partition, by the id of its topic."""


class AcknowledgeType(IntEnum):
    """As on the wire."""

    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class Batch(NamedTuple):
    """Offsets from first to last; `types` has one for each, or one for all, and so has `delays_ms`, or none."""

    first: int
    last: int
    types: list[int]
    delays_ms: Sequence[int] = ()
    reason: str = ""


class Acknowledgements:
    """Of records of one partition that one node has given out; `error` says what became of them once `is_done`.

    `delays_ms` are those of released records that have one of their own, `reasons` why records are released or rejected
    where that was said.
    """

    __slots__ = ("deadline_s", "delays_ms", "error", "failures", "is_done", "node_id", "place", "reasons", "types")

    def __init__(
        self,
        node_id: int,
        place: Place,
        types: Mapping[int, int],
        delays_ms: Mapping[int, int] | None = None,
        reasons: Mapping[int, str] | None = None,
    ) -> None:
        self.node_id = node_id
        self.place = place
        self.types = dict(types)
        self.delays_ms = dict(delays_ms or {})
        self.reasons = dict(reasons or {})
        self.is_done = False
        self.error: ClientError | KafkaError | None = None
        self.deadline_s = 0.0
        """Until when to try again what may pass."""
        self.failures = 0

    @property
    def renews(self) -> bool:
        return AcknowledgeType.RENEW in self.types.values()

    def done(self, error: ClientError | KafkaError | None) -> None:
        self.is_done, self.error = True, error


def batches_of(types: Mapping[int, int]) -> list[Batch]:
    """In the order of offsets, without a hole in any."""
    batches: list[Batch] = []
    for offset in sorted(types):
        one = types[offset]
        if batches and batches[-1].last + 1 == offset:
            batches[-1].types.append(one)
            batches[-1] = batches[-1]._replace(last=offset)
        else:
            batches.append(Batch(offset, offset, [one]))
    return [part for batch in batches for part in _parts(batch)]


def _parts(batch: Batch) -> Iterable[Batch]:
    """Long runs of one type by themselves."""
    named_from = start = 0
    types = batch.types
    while start < len(types):
        end = start
        while end < len(types) and types[end] == types[start]:
            end += 1
        if end - start > MOST_NAMED or (start, end) == (0, len(types)):
            if named_from < start:
                yield _part(batch, named_from, start)
            yield Batch(batch.first + start, batch.first + end - 1, [types[start]])
            named_from = end
        start = end
    if named_from < len(types):
        yield _part(batch, named_from, len(types))


def _part(batch: Batch, start: int, end: int) -> Batch:
    types = batch.types[start:end]
    return Batch(batch.first + start, batch.first + end - 1, types[:1] if len(set(types)) == 1 else types)


def batches_by_place(some: Sequence[Acknowledgements]) -> dict[Place, list[Batch]]:
    """Of two words about one record the later one counts."""
    types: dict[Place, dict[int, int]] = {}
    delays: dict[Place, dict[int, int]] = {}
    reasons: dict[Place, dict[int, str]] = {}
    for one in some:
        types.setdefault(one.place, {}).update(one.types)
        if one.delays_ms or one.place in delays:
            mine = dict.fromkeys(one.types, AS_THE_GROUP) | one.delays_ms
            delays.setdefault(one.place, {}).update(mine)
        if one.reasons or one.place in reasons:
            reasons.setdefault(one.place, {}).update(dict.fromkeys(one.types, "") | one.reasons)
    return {place: _batches(found, delays.get(place), reasons.get(place)) for place, found in types.items()}


def _batches(
    types: Mapping[int, int], delays: Mapping[int, int] | None, reasons: Mapping[int, str] | None
) -> list[Batch]:
    """Each has one reason at most."""
    if reasons is None:
        batches = batches_of(types)
    else:
        batches = [
            batch._replace(reason=reason)
            for reason, offsets in groupby(sorted(types), lambda offset: reasons.get(offset, ""))
            for batch in batches_of({offset: types[offset] for offset in offsets})
        ]
    return batches if delays is None else [_delayed(batch, delays) for batch in batches]


def _delayed(batch: Batch, delays_ms: Mapping[int, int]) -> Batch:
    found = [delays_ms.get(offset, AS_THE_GROUP) for offset in range(batch.first, batch.last + 1)]
    if len(set(found)) > 1:
        return batch._replace(delays_ms=found)
    return batch if found[0] == AS_THE_GROUP else batch._replace(delays_ms=found[:1])
