"""One share fetch: looks at the partitions of its session, waits until there is enough, and takes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from penstock.node.partitions.partition import Later
from penstock.node.sharing.shared import Found, Shared, Taken
from penstock.node.sharing.shares import Shares
from penstock.protocol.errors import KafkaError
from penstock.protocol.value import Value
from penstock.replication.waits import Wait, Waits
from penstock.sharing.acquiring import Demand
from penstock.sharing.sessions import ShareSession, TopicPartition
from penstock.sharing.share_partition import Status

MOST_BYTES: Final = 4 * 1024 * 1024
"""An answer has no more, but for a batch of the log that is larger: it is read within one turn of the loop."""

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
        self._led: list[tuple[TopicPartition, Shared]] = []
        self._later: list[Later] = []

    def take(self, *, is_last: bool = False) -> bool:
        """Whether there is something to tell. The last time less will do than was asked for."""
        self._led.clear()
        self._later.clear()
        if not self._shares.sessions.is_open(self._session):  # nobody would say what becomes of the records
            return True
        for place in self._places:
            try:
                self._led.append((place, self._shares.lead(self._session.key.group_id, place)))
            except KafkaError as error:
                self.refused[place] = error
        for _ in range(LOOKS):
            found = self._find()
            length = sum(it.slice.length for *_, it in found)
            if not found or not (is_last or self.refused or length >= self._limits.min_bytes):
                break
            self._take(found)
            if self.taken or self.refused:
                break
        return bool(self.taken or self.refused)

    def _find(self) -> list[tuple[TopicPartition, Shared, Found]]:
        ready = [(place, shared) for place, shared in self._led if self._has_records(place, shared)]
        most = min(self._limits.max_bytes, MOST_BYTES) // max(len(ready), 1)
        found: list[tuple[TopicPartition, Shared, Found]] = []
        for place, shared in ready:
            try:
                it = shared.find(most)
            except KafkaError as error:
                self.refused[place] = error
                continue
            if isinstance(it, Later):
                self._later.append(it)
            elif it is not None:
                found.append((place, shared, it))
        return found

    def _has_records(self, place: TopicPartition, shared: Shared) -> bool:
        if shared.machine.status is not Status.ACTIVE:
            return False
        try:
            return shared.has_records
        except KafkaError as error:
            self.refused[place] = error
            return False

    def _take(self, found: Sequence[tuple[TopicPartition, Shared, Found]]) -> None:
        left, demand = self._demand.max_records, self._demand
        for place, shared, it in found:
            if left <= 0:
                return
            try:
                taken = shared.take(demand.replace(max_records=left), it)
            except KafkaError as error:
                self.refused[place] = error
                continue
            if taken is not None:
                self.taken[place] = taken
                left -= sum(last - first + 1 for first, last, _ in taken.acquired)

    async def wait_and_take(self) -> None:
        """Until there is enough, or the time is up."""
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + self._limits.max_wait_ms / 1000
        is_last = False
        while not self.take(is_last=is_last) and not is_last:
            woken = asyncio.Event()
            waits = self._wait(woken)
            try:
                async with asyncio.timeout_at(ends_s):
                    await woken.wait()
            except TimeoutError:
                is_last = True
            finally:
                self._wait_no_longer(woken, waits)

    def _wait(self, woken: asyncio.Event) -> list[tuple[Waits, Wait]]:
        waits = [shared.wait(woken.set) for _, shared in self._led]
        return waits + [(queue, queue.add(offset, woken.set)) for queue, offset in self._later]

    def _wait_no_longer(self, woken: asyncio.Event, waits: Sequence[tuple[Waits, Wait]]) -> None:
        for queue, wait in waits:
            queue.cancel(wait)
        for _, shared in self._led:
            shared.wait_no_longer(woken.set)
