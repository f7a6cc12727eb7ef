"""What became of ranges of offsets, and what two lists of that say together."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from operator import attrgetter
from typing import Final

from penstock.protocol.value import Value

UNKNOWN_OFFSET = -1
"""The group has no start offset yet: its share.auto.offset.reset is to say one."""
FEW: Final = 20
"""Batches that are put in their places one by one; of more, all are looked at."""

_FIRST: Final = attrgetter("first_offset")
_LAST: Final = attrgetter("last_offset")


class StateBatch(Value):
    """Offsets from the first to the last, both included. Kafka calls it PersisterStateBatch."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


def merged(so_far: Iterable[StateBatch], new: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """Without what lies before the start offset. Of two that are about one offset the one with more deliveries counts,
    and of as many the higher state; neighbours that say the same are one. In the order of their offsets.
    """
    left = [_from(batch, start_offset) for batch in (*so_far, *new) if batch.last_offset >= start_offset]
    return tuple(left) if len(left) < 2 else tuple(_swept(sorted(left, key=lambda batch: batch.first_offset)))


def added(so_far: tuple[StateBatch, ...], new: Sequence[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """As `merged`, which made `so_far` what it is: only what the new ones touch is looked at, of maybe thousands."""
    if len(new) > FEW:
        return merged(so_far, new, start_offset)
    left = so_far[bisect_left(so_far, start_offset, key=_LAST) :]
    if left:
        left = (_from(left[0], start_offset), *left[1:])
    for batch in new:
        begin = bisect_left(left, batch.first_offset - 1, key=_LAST)
        end = bisect_right(left, batch.last_offset + 1, key=_FIRST)
        left = (*left[:begin], *merged(left[begin:end], [batch], start_offset), *left[end:])
    return left


def _from(batch: StateBatch, start_offset: int) -> StateBatch:
    return batch if batch.first_offset >= start_offset else batch.replace(first_offset=start_offset)


def _swept(batches: Sequence[StateBatch]) -> list[StateBatch]:
    """From one place where something begins or ends to the next: the first of `open_here` counts, unless it is over."""
    places = sorted({place for batch in batches for place in (batch.first_offset, batch.last_offset + 1)})
    open_here: list[tuple[int, int, int]] = []
    found: list[StateBatch] = []
    coming = 0
    for begin, end in pairwise(places):
        while coming < len(batches) and batches[coming].first_offset <= begin:
            batch = batches[coming]
            heappush(open_here, (-batch.delivery_count, -batch.delivery_state, batch.last_offset))
            coming += 1
        while open_here and open_here[0][2] < begin:
            heappop(open_here)
        if open_here:
            _add(found, StateBatch(begin, end - 1, -open_here[0][1], -open_here[0][0]))
    return found


def _add(found: list[StateBatch], batch: StateBatch) -> None:
    """What says the same as its neighbour is one with it."""
    last = found[-1] if found else None
    if last is not None and last == batch.replace(first_offset=last.first_offset, last_offset=batch.first_offset - 1):
        found[-1] = batch.replace(first_offset=last.first_offset)
    else:
        found.append(batch)
