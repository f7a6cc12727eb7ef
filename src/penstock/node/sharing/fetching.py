"""One share fetch: looks at the partitions of its session, waits until there is enough, and takes.

A session of very many partitions is looked at in slices. Of each partition it is known when it has news from the turn
on in which it was looked at, and only those that have are looked at again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Final

from penstock.node.partitions.partition import Later
from penstock.node.serving.slices import Slices
from penstock.node.sharing.shared import Found, Shared, Standing, Taken
from penstock.node.sharing.shares import AT_ONCE, Shares
from penstock.protocol.errors import KafkaError
from penstock.protocol.value import Value
from penstock.sharing.acquiring import Acquired, Demand
from penstock.sharing.sessions import ShareSession, TopicPartition
from penstock.sharing.values import Status

MOST_BYTES: Final = 4 * 1024 * 1024
"""An answer has no more, but for a batch of the log that is larger: headers are read within one turn of the loop."""
MOST_READ: Final = 100
"""Partitions that an answer brings records of; others have their turn, as another one is first each time."""
LOOKS: Final = 10
"""What was read may hold nothing to acquire, where compaction took it: then there is more behind it."""


class Limits(Value):
    max_wait_ms: int
    min_bytes: int
    max_bytes: int


class ShareFetch:
    """`taken` and `refused` say what each partition brought; those that brought nothing are in neither."""

    def __init__(
        self, shares: Shares, session: ShareSession, places: Sequence[TopicPartition], demand: Demand, limits: Limits
    ) -> None:
        self.taken: dict[TopicPartition, Taken] = {}
        self.refused: dict[TopicPartition, KafkaError] = {}
        self._shares = shares
        self._session = session
        self._places = places
        self._demand = demand
        self._limits = limits
        self._ready: dict[TopicPartition, Shared] = {}
        self._standing: dict[TopicPartition, Standing] = {}
        self._news: dict[TopicPartition, None] = {}
        self._woken = asyncio.Event()
        self._uncounted = 0
        self._all_counted: asyncio.Future[None] | None = None

    def take(self, *, is_last: bool) -> bool:
        """Of few partitions, at once: whether there is something to tell."""
        for place in self._places:
            self._look_at(place)
        return self._take(is_last=is_last)

    async def wait_and_take(self, slices: Slices) -> None:
        """Until there is enough, or the time is up: then less will do."""
        ends_s = asyncio.get_running_loop().time() + self._limits.max_wait_ms / 1000
        again, is_last = self._places, False
        try:
            while True:
                if len(again) > AT_ONCE:
                    await slices.each(again, AT_ONCE, self._look)
                else:
                    self._look(again)
                if self._take(is_last=is_last) or is_last:
                    return
                is_last = not await self._is_woken_before(ends_s)
                again = list(self._news)
                self._news.clear()
                self._woken.clear()
        finally:
            standing, self._standing = self._standing, {}
            self._shares.in_slices(list(standing.values()), _cancel)

    async def _is_woken_before(self, ends_s: float) -> bool:
        try:
            async with asyncio.timeout_at(ends_s):
                return await self._woken.wait()
        except TimeoutError:
            return False

    def _look(self, places: Sequence[TopicPartition]) -> None:
        """And have a wait for news at each. When the session has ended nobody would let go what is made for it."""
        if not self._shares.sessions.is_open(self._session):
            return
        for place in places:
            standing = self._standing.pop(place, None)
            if standing is not None:
                standing.cancel()
            shared = self._look_at(place)
            if shared is not None:
                self._standing[place] = shared.wait(partial(self._has_news, place))

    def _look_at(self, place: TopicPartition) -> Shared | None:
        self._ready.pop(place, None)
        try:
            shared = self._shares.lead(self._session.key.group_id, place)
            if shared.machine.status is Status.ACTIVE and shared.has_records:
                self._ready[place] = shared
        except KafkaError as error:
            self.refused[place] = error
            return None
        return shared

    def _has_news(self, place: TopicPartition) -> None:
        self._news[place] = None
        self._woken.set()

    def _take(self, *, is_last: bool) -> bool:
        if not self._shares.sessions.is_open(self._session):  # nobody would say what becomes of the records
            return True
        for _ in range(LOOKS):
            found = self._find()
            length = sum(it.slice.length for *_, it in found)
            if not found or not (is_last or self.refused or length >= self._limits.min_bytes):
                break
            self._acquire(found)
            if self.taken or self.refused:
                break
        return bool(self.taken or self.refused)

    def _find(self) -> list[tuple[TopicPartition, Shared, Found]]:
        ready = [
            (place, shared) for place, shared in islice(self._ready.items(), MOST_READ) if self._has(place, shared)
        ]
        left = min(self._limits.max_bytes, MOST_BYTES)
        most = left // max(len(ready), 1)
        found: list[tuple[TopicPartition, Shared, Found]] = []
        for place, shared in ready:
            if left <= 0:
                return found
            try:
                it = shared.find(most)
            except KafkaError as error:
                self.refused[place] = error
                continue
            if isinstance(it, Later):
                it.waits.add(it.offset, partial(self._has_news, place))
            elif it is not None:
                found.append((place, shared, it))
                left -= it.slice.length
        return found

    def _has(self, place: TopicPartition, shared: Shared) -> bool:
        """One that reads ahead may find that its log cannot be read."""
        try:
            return shared.has_records
        except KafkaError as error:
            self.refused[place] = error
            return False

    def _acquire(self, found: Sequence[tuple[TopicPartition, Shared, Found]]) -> None:
        left, demand = self._demand.max_records, self._demand
        for place, shared, it in found:
            if left <= 0:
                return
            try:
                taken = shared.take(demand if left == demand.max_records else demand.replace(max_records=left), it)
            except KafkaError as error:
                self.refused[place] = error
                continue
            if taken is not None:
                self.taken[place] = taken
                if shared.machine.settings.delivery_count_durable:
                    self._uncounted += 1
                    self._shares.count(shared, demand.member, taken.acquired, partial(self._counted, place))
                left -= sum(last - first + 1 for first, last, _ in taken.acquired)

    def _counted(self, place: TopicPartition, left: Sequence[Acquired], error: KafkaError | None) -> None:
        taken = self.taken.pop(place)
        if left:
            self.taken[place] = taken._replace(acquired=left)
        elif error is not None:
            self.refused[place] = error
        self._uncounted -= 1
        if self.is_counted and self._all_counted is not None and not self._all_counted.done():
            self._all_counted.set_result(None)

    @property
    def is_counted(self) -> bool:
        """Whether all that was taken may be told."""
        return not self._uncounted

    async def counted(self) -> None:
        if self._uncounted:
            self._all_counted = asyncio.get_running_loop().create_future()
            await self._all_counted


def _cancel(some: Sequence[Standing]) -> None:
    for standing in some:
        standing.cancel()
