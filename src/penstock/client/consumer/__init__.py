"""Reads records, alone or as a member of a group:

    async with Consumer("127.0.0.1:9092", ConsumerSettings(group_id="reports")) as consumer:
        await consumer.subscribe(["clicks"])
        async for record in consumer:
            print(record.topic, record.offset, record.value)

All that happens to a consumer happens within `poll` (and so within `async for`): joining the group, the listener's
calls, finding positions, automatic commits. Only heartbeats and fetches ahead run by themselves. A consumer belongs to
the thread that started it; a call from any other raises `ConsumerMisuseError`, and so does a second `poll` beside one.
"""

import asyncio
import re
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final, Self

from penstock.client.cluster import ClusterClient
from penstock.client.committed_offsets import fetch_committed
from penstock.client.consumer.fetcher import Fetcher, isolation_level
from penstock.client.consumer.listeners import ConsumerInterceptor, RebalanceListener
from penstock.client.consumer.preparation import CONSUMER_PROTOCOL, Preparation
from penstock.client.consumer.subscription import Subscription
from penstock.client.errors import ConsumerMisuseError
from penstock.client.log_offsets import list_offsets
from penstock.client.messages import Membership
from penstock.client.settings import ConsumerSettings
from penstock.client.values import (
    EARLIEST,
    LATEST,
    ConsumedRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode, KafkaError

POLL_MS: Final = 1_000
CLOSE_MS: Final = 30_000
INTERRUPTED_CLOSE_MS: Final = 1_000
Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class Consumer:
    def __init__(
        self,
        bootstrap_servers: str | Sequence[Address],
        settings: ConsumerSettings | None = None,
        interceptors: Sequence[ConsumerInterceptor] = (),
        *,
        large_as_views: bool = False,
    ) -> None:
        """`large_as_views`: keys and values in batches of more than 4 MiB are memoryviews and no bytes: they hold all
        that was received with them, instead of copies of its parts.
        """
        self.settings = settings or ConsumerSettings()
        self.cluster = ClusterClient(bootstrap_servers, self.settings)
        self._interceptors = list(interceptors)
        self._subscription = Subscription()
        self._news = asyncio.Event()
        self._fetcher = Fetcher(
            self.cluster, self._subscription, self.settings, self._news.set, large_as_views=large_as_views
        )
        self._preparation = Preparation(
            self.cluster, self._subscription, self.settings, self._news.set, self._interceptors
        )
        self._thread: int | None = None
        self._polling = False
        self._rest: deque[ConsumedRecord] = deque()
        """What was taken, and no loop has come to yet. Another one with each time that somebody takes."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        interrupted = kind is not None and issubclass(kind, asyncio.CancelledError | KeyboardInterrupt)
        await self.close(timeout_ms=INTERRUPTED_CLOSE_MS if interrupted else CLOSE_MS)

    async def start(self) -> None:
        """From now on the consumer belongs to this thread."""
        self._thread = threading.get_ident()
        await self.cluster.start()

    async def close(self, timeout_ms: int = CLOSE_MS) -> None:
        """Commit (if that is automatic) and leave the group, as far as that can be done in `timeout_ms`; end. A second
        more may go by until heartbeats have ended.
        """
        self._own()
        await self._fetcher.close()
        try:
            await _in_time(self._preparation.close(), timeout_ms)
        finally:
            try:
                await _in_time(self._preparation.end(), INTERRUPTED_CLOSE_MS)
            finally:
                await self.cluster.close()
                self._thread = None

    def intercept(self, interceptor: ConsumerInterceptor) -> None:
        """Let it see what the others have left, from now on."""
        self._interceptors.append(interceptor)

    # What to read

    async def subscribe(
        self,
        topics: Collection[str] = (),
        *,
        pattern: str | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read these topics, or all whose names match the pattern, sharing their partitions with the group.

        A pattern is one of Python's `re`; with `group_protocol="consumer"` one of RE2, for which the coordinator looks.
        """
        self._own()
        if bool(topics) == (pattern is not None):
            raise ConsumerMisuseError("subscribe to topics or to a pattern, one of the two")
        if self.settings.group_protocol == CONSUMER_PROTOCOL:
            self._subscription.subscribe(topics, None, pattern)
        else:
            self._subscription.subscribe(topics, re.compile(pattern) if pattern is not None else None)
        self._preparation.subscribed(listener)

    async def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read exactly these, without a group. A KafkaError if there is no such topic."""
        self._own()
        for topic in sorted({partition.topic for partition in partitions}):
            await self.cluster.topic(topic)
        self._subscription.assign(partitions)

    async def unsubscribe(self) -> None:
        """Read nothing, and leave the group, also where the listener fails: what it raises is raised then."""
        self._own()
        try:
            await self._preparation.leave("unsubscribed")
        except Exception:
            self._subscription.unsubscribe()
            raise
        self._subscription.unsubscribe()

    @property
    def assignment(self) -> list[TopicPartition]:
        """Sorted."""
        return list(self._subscription.partitions)

    # Reading

    async def poll(self, timeout_ms: int = POLL_MS, max_records: int | None = None) -> list[ConsumedRecord]:
        """The next records, as soon as there are some; none when `timeout_ms` is over. Of each partition in order."""
        limit = max_records or self.settings.max_poll_records
        is_new = not self._rest
        rest = await self._take(timeout_ms, limit)
        if is_new:
            records = list(rest)
            rest.clear()
        else:
            records = list(islice(self._handed_out(rest), limit))  # of what a loop did not come to
        if not self._rest:
            self._subscription.all_is_handed_out()
        return records

    async def __aiter__(self) -> AsyncIterator[ConsumedRecord]:
        """One record after the other. A position moves with each; what a loop has not come to comes next."""
        while True:
            for record in self._handed_out(await self._take(POLL_MS, self.settings.max_poll_records)):
                yield record

    def _handed_out(self, rest: deque[ConsumedRecord]) -> Iterator[ConsumedRecord]:
        while rest and rest is self._rest:  # else somebody has polled since, and has it
            record = rest.popleft()
            if self._subscription.hand_out(record):
                yield record

    async def _take(self, timeout_ms: int, limit: int) -> deque[ConsumedRecord]:
        """What the caller is to hand out: what was left, else `limit` records at most; nothing when time is over."""
        self._own()
        if self._polling:
            raise ConsumerMisuseError("another task is polling this consumer: one at a time")
        self._polling = True
        self._rest = self._rest.copy()
        if not self._rest:
            self._subscription.all_is_handed_out()
        try:
            return self._rest if await self._poll(timeout_ms, limit) else deque()
        finally:
            self._polling = False

    async def _poll(self, timeout_ms: int, limit: int) -> bool:
        """Whether there is something to hand out."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        while True:
            self._news.clear()
            left = max(deadline - loop.time(), 0.0)
            if await self._preparation.is_done_within(left):
                await self._fetch(limit)
                if self._rest:
                    return True
            left = deadline - loop.time()
            if left <= 0:
                await asyncio.sleep(0)  # who polls without a time-out must not keep fetches from their work
                return False
            try:
                async with asyncio.timeout(left):
                    await self._news.wait()
            except TimeoutError:
                pass

    async def _fetch(self, limit: int) -> None:
        """Take what has come, unless something is left, and fetch ahead. What an interceptor fails on is read again."""
        self._subscription.go_back(only_paused=True)
        while self._rest and not self._subscription.is_to_hand_out(self._rest[0]):
            self._rest.popleft()
        try:
            records = [] if self._rest else self._fetcher.take(limit)
            self._fetcher.send()
            for interceptor in self._interceptors if records else ():
                records = await interceptor.on_consume(records)
        except BaseException:
            self._subscription.go_back()
            raise
        self._rest.extend(records)
        if not self._rest:
            self._subscription.all_is_handed_out()

    # Positions

    async def position(self, partition: TopicPartition) -> int:
        self._own()

        async def look() -> int:
            if self._subscription.state(partition).position is None:
                await self._preparation.find_positions()
            offset = self._subscription.state(partition).position
            if offset is None:
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"the position of {partition} cannot be found now")
            return offset

        return await self.cluster.retrying(look)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._own()
        self._subscription.seek(partition, offset)

    def seek_to_beginning(self, partitions: Collection[TopicPartition] = ()) -> None:
        """Go on from the first record that is there; of all partitions if none is named."""
        self._seek(partitions, EARLIEST)

    def seek_to_end(self, partitions: Collection[TopicPartition] = ()) -> None:
        """Go on from the end; of all partitions if none is named."""
        self._seek(partitions, LATEST)

    def _seek(self, partitions: Collection[TopicPartition], timestamp_ms: int) -> None:
        self._own()
        for partition in partitions or self.assignment:
            self._subscription.seek_to_timestamp(partition, timestamp_ms)

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """The group is not told."""
        self._own()
        for partition in partitions:
            self._subscription.state(partition).paused = True

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        self._own()
        for partition in partitions:
            self._subscription.state(partition).paused = False

    def paused(self) -> list[TopicPartition]:
        self._own()
        return [partition for partition, state in self._subscription.partitions.items() if state.paused]

    def lag(self, partition: TopicPartition) -> int | None:
        """How many records were behind the position at the last fetch; None before the first."""
        self._own()
        state = self._subscription.state(partition)
        if state.high_watermark is None or state.position is None:
            return None
        return max(state.high_watermark - state.position, 0)

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Behind the last records that `poll` has returned, or a loop has come to: what a commit of all commits."""
        self._own()
        return self._subscription.positions()

    # Commits

    @property
    def membership(self) -> tuple[str, Membership]:
        """The group, and as whom this consumer commits for it. A KafkaError if it has gone on without this member."""
        self._own()
        return self._preparation.group_id, self._preparation.membership

    async def commit(self, offsets: Offsets | None = None) -> None:
        """Commit these positions, or all. A KafkaError if the group has gone on without this member."""
        self._own()
        await self._preparation.commit(self.positions() if offsets is None else offsets)

    async def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Partitions without a commit are left out."""
        self._own()
        return await fetch_committed(self.cluster, self._preparation.group_id, partitions)

    # Questions

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        self._own()
        found = await self.cluster.topic(topic)
        return [TopicPartition(topic, number) for number in found.partitions]

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each moment; None where there is none."""
        self._own()
        found = await list_offsets(self.cluster, timestamps)
        return {partition: value if value.offset >= 0 else None for partition, value in found.items()}

    async def beginning_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return await self._offsets(partitions, EARLIEST)

    async def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets that come next; for a reader of committed records, the last stable ones."""
        return await self._offsets(partitions, LATEST)

    async def _offsets(self, partitions: Collection[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        self._own()
        found = await list_offsets(
            self.cluster, dict.fromkeys(partitions, timestamp_ms), isolation_level=isolation_level(self.settings)
        )
        return {partition: value.offset for partition, value in found.items()}

    def _own(self) -> None:
        if self._thread is None:
            raise ConsumerMisuseError("this consumer is not open: use it between start() and close()")
        if self._thread != threading.get_ident():
            raise ConsumerMisuseError("a consumer is not safe for several threads: use it in the one that started it")


async def _in_time(work: Awaitable[None], timeout_ms: int) -> None:
    """As far as it gets: a coordinator that cannot be reached will notice by itself that this member is gone."""
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_ms / 1000):
            await work
