"""A share partition whose group has `share.ordering=key`: of each key one record is in flight, and they come in order.

The first of a key's records that is not finished is at its head: it alone may be given away, also after it came back,
until it is finished; then it is the next one's turn. Records without a key are in no order.

| a record of the log      | becomes                             | by                                               |
| ------------------------ | ----------------------------------- | ------------------------------------------------ |
| behind `keyed_to`        | free, at its key's head, or held    | `admit`, which says the keys of what was read    |
| held, until its turn     | free                                | what was before it is finished, or gone          |
| that does not exist      | finished                            | `admit`; so are those that nobody is to see      |

What was in flight at the leader before this one is held until its key is known as well: this one reads the log from the
beginning of the share partition on. Keys are numbers, those of different keys seldom the same: then these are one key.
At most `partition_max_record_locks` of them are known.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from penstock.sharing.in_flight import HELD, NO_MEMBER, SETTLED, Batch, RecordState, Run
from penstock.sharing.share_partition import SharePartition
from penstock.sharing.values import ShareSettings, Status, Written


class Keyed(NamedTuple):
    """Of the log from `first` to `last` (inclusive): the records that members may see, and their keys; None is none."""

    first: int
    last: int
    keys: Mapping[int, int | None]


class OrderedPartition(SharePartition):
    def __init__(self, settings: ShareSettings) -> None:
        super().__init__(settings)
        self.keyed_to = 0
        """The first offset of which nobody knows what its key is."""
        self._keys: dict[int, int] = {}
        """Of records before it that are not finished, in the order of their offsets."""
        self._queues: dict[int, deque[int]] = {}
        """These offsets, by key."""

    def loaded(self, written: Written, begins_at: int, now_ms: int = 0) -> None:
        super().loaded(written, begins_at, now_ms)
        self.keyed_to = self.start_offset
        for batch in self.flight:
            batch.is_gap = False
            for run in batch.runs:
                if run.state is RecordState.AVAILABLE:
                    run.writing = HELD
        self._first_available = self.next_offset

    # what is read ahead

    @property
    def _room(self) -> int:
        """None but by `admit`."""
        return 0

    @property
    def wants_keys(self) -> bool:
        """Whether to read on from `keyed_to`: not for a few records, as that may unpack a large batch."""
        if self.status is not Status.ACTIVE:
            return False
        most = self.settings.partition_max_record_locks
        return self.keyed_to < self.next_offset or 4 * (self.start_offset + most - self.keyed_to) >= most

    def admit(self, read: Sequence[Keyed]) -> None:
        """What the log has from `keyed_to` on, or from before it, in its order; as much of it as there is room for."""
        for first, last, keys in read:
            if last < self.keyed_to:
                continue
            if not self.in_flight and first > self.keyed_to:
                self.log_begins_at(first)
            room = self.start_offset + self.settings.partition_max_record_locks
            end = min(last + 1, max(room, self.next_offset))
            known = min(end, self.next_offset)
            if self.keyed_to < known:
                self._know(self.keyed_to, known, keys)
            if self.next_offset < end:
                self._add(self.next_offset, end, keys)
            self.keyed_to = max(self.keyed_to, end)
        self._advance()

    def _know(self, begin: int, end: int, keys: Mapping[int, int | None]) -> None:
        """Keys of what is in flight already."""
        known = sorted(keys)
        for run in [run for run in self.flight.cut(begin, end - 1) if not run.is_finished]:
            offsets = known[bisect_left(known, run.first) : bisect_right(known, run.last)]
            is_free = run.state is RecordState.AVAILABLE
            at, behind = run.first, run.last + 1  # the run is cut below
            for offset in offsets:
                if is_free and at < offset:
                    self._is_nobodys(at, offset - 1)
                if self._queue(offset, keys[offset]) and is_free:
                    self._turn(offset)
                at = offset + 1
            if is_free and at < behind:
                self._is_nobodys(at, behind - 1)

    def _is_nobodys(self, first: int, last: int) -> None:
        for run in self.flight.cut(first, last):
            run.writing, run.held_until_ms = SETTLED, 0
            self._become(run, RecordState.ARCHIVED)

    def _add(self, begin: int, end: int, keys: Mapping[int, int | None]) -> None:
        """What is new in flight, in runs of those that are alike."""
        runs: list[Run] = []

        def put(first: int, last: int, state: RecordState, writing: int) -> None:
            before = runs[-1] if runs else None
            if before is not None and before.state is state and before.writing == writing:
                before.last = last
            else:
                runs.append(Run(first, last, state, 0, writing=writing))

        at = begin
        for offset in [offset for offset in sorted(keys) if begin <= offset < end]:
            if at < offset:
                put(at, offset - 1, RecordState.ARCHIVED, SETTLED)
            is_head = self._queue(offset, keys[offset])
            put(offset, offset, RecordState.AVAILABLE, SETTLED if is_head else HELD)
            if is_head:
                self._may_be_available(offset)
            at = offset + 1
        if at < end:
            put(at, end - 1, RecordState.ARCHIVED, SETTLED)
        self.flight.add(Batch(runs))
        self.delivery_complete_count += sum(len(run) for run in runs if run.state.is_terminal)
        self.next_offset = end

    def _queue(self, offset: int, key: int | None) -> bool:
        """Whether it may be given away now."""
        if key is None:
            return True
        self._keys[offset] = key
        queue = self._queues.setdefault(key, deque())
        queue.append(offset)
        return len(queue) == 1

    # whose turn it is

    def _turn(self, offset: int) -> None:
        """The record is at the head of its key; a delay may still hold it. Only what waits for this is cut: other runs
        may be gone over just now.
        """
        for batch in self.flight.between(offset, offset):
            (run,) = batch.within(offset, offset)
            if run.state is RecordState.AVAILABLE and run.writing == HELD and not run.held_until_ms:
                batch.cut(offset, offset)[0].writing = SETTLED
                self._may_be_available(offset)

    def _may_go(self, offset: int) -> bool:
        key = self._keys.get(offset)
        return offset < self.keyed_to and (key is None or self._queues[key][0] == offset)

    def _hold(self, run: Run, until_ms: int, now_ms: int) -> None:
        """What has no delay, or none any more, is held until it is its turn."""
        if run.state is not RecordState.AVAILABLE or until_ms > now_ms:
            super()._hold(run, until_ms, now_ms)
        elif run.writing == SETTLED or run.held_until_ms:
            run.writing, run.held_until_ms = HELD, 0
            for offset in [offset for offset in range(run.first, run.last + 1) if self._may_go(offset)]:
                self._turn(offset)

    def _finished(self, first: int, last: int) -> None:
        for offset in range(first, last + 1):
            self._forget(offset)

    def _forget(self, offset: int) -> None:
        key = self._keys.pop(offset, None)
        if key is None:
            return
        queue = self._queues[key]
        was_head = queue[0] == offset
        queue.remove(offset)
        if not queue:
            del self._queues[key]
        elif was_head:
            self._turn(queue[0])

    def _settle(self, run: Run, now_ms: int) -> None:
        super()._settle(run, now_ms)
        if run.is_finished:
            self._finished(run.first, run.last)

    def _free(self, run: Run, now_ms: int) -> None:
        """What has had its last delivery keeps its turn until that is written, with the next write."""
        super()._free(run, now_ms)
        if run.state.is_terminal:
            run.writing = self._writes + 1

    def _take_back(self, run: Run, now_ms: int) -> None:
        """If it cannot be written, it is over all the same."""
        if run.member != NO_MEMBER or run.state is RecordState.ARCHIVING:
            super()._take_back(run, now_ms)
        if run.state.is_terminal:
            run.writing = SETTLED
            self._finished(run.first, run.last)

    def _archive(self, runs: Iterable[Run]) -> None:
        gone = list(runs)
        super()._archive(gone)
        for run in gone:
            self._finished(run.first, run.last)

    def _begin_at(self, offset: int) -> None:
        super()._begin_at(offset)
        self.keyed_to = max(self.keyed_to, self.start_offset)
        while self._keys and (first := next(iter(self._keys))) < self.start_offset:
            self._forget(first)
