"""What became of ranges of offsets, and what two lists of that say together."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from operator import attrgetter

from penstock.protocol.value import Value

UNKNOWN_OFFSET = -1
"""The group has no start offset yet: its share.auto.offset.reset is to say one."""


class StateBatch(Value):
    """Offsets from the first to the last, both included. Kafka calls it PersisterStateBatch. They are not delivered
    again before `held_until_ms`, as the leader's clock had it.
    """

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int
    held_until_ms: int = 0


_FIRST = attrgetter("first_offset")
_LAST = attrgetter("last_offset")


def merged(so_far: Sequence[StateBatch], new: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """Without what lies before the start offset. Of two that are about one offset the one with more deliveries counts,
    of as many the higher state, and of the same the longer delay; neighbours that say the same are one. In the order of
    their offsets.

    `so_far` is as this returns it, and only where there is something new is it looked at.
    """
    old = _from(so_far[bisect_left(so_far, start_offset, key=_LAST) :], start_offset)
    add = sorted(_from([it for it in new if it.last_offset >= start_offset], start_offset), key=_FIRST)
    if not add:
        return tuple(old)
    begin = bisect_left(old, add[0].first_offset - 1, key=_LAST)
    end = bisect_right(old, max(map(_LAST, add)) + 1, key=_FIRST)
    return (*old[:begin], *_swept(sorted((*old[begin:end], *add), key=_FIRST)), *old[end:])


def _from(batches: Sequence[StateBatch], start_offset: int) -> list[StateBatch]:
    return [it if it.first_offset >= start_offset else it.replace(first_offset=start_offset) for it in batches]


def _swept(batches: Sequence[StateBatch]) -> list[StateBatch]:
    """From one place where something begins or ends to the next: the first of `open_here` counts, unless it is over."""
    found: list[StateBatch] = []
    if all(before.last_offset < batch.first_offset for before, batch in pairwise(batches)):
        for batch in batches:
            _add(found, batch)
        return found
    places = sorted({place for batch in batches for place in (batch.first_offset, batch.last_offset + 1)})
    open_here: list[tuple[int, int, int, int]] = []
    coming = 0
    for begin, end in pairwise(places):
        while coming < len(batches) and batches[coming].first_offset <= begin:
            batch = batches[coming]
            heappush(open_here, (-batch.delivery_count, -batch.delivery_state, -batch.held_until_ms, batch.last_offset))
            coming += 1
        while open_here and open_here[0][-1] < begin:
            heappop(open_here)
        if open_here:
            count, state, held_until_ms, _ = open_here[0]
            _add(found, StateBatch(begin, end - 1, -state, -count, -held_until_ms))
    return found


def _add(found: list[StateBatch], batch: StateBatch) -> None:
    """What says the same as its neighbour is one with it."""
    last = found[-1] if found else None
    if (
        last is not None
        and last.last_offset == batch.first_offset - 1
        and last.delivery_count == batch.delivery_count
        and last.delivery_state == batch.delivery_state
        and last.held_until_ms == batch.held_until_ms
    ):
        found[-1] = batch.replace(first_offset=last.first_offset)
    else:
        found.append(batch)
