"""Takes records of topics as a member of a share group, one by one, whoever else does (KIP-932):

    async with ShareConsumer("127.0.0.1:9092", ShareConsumerSettings(group_id="mails")) as consumer:
        await consumer.subscribe(["jobs"])
        async for record in consumer:
            await send_mail(record.value)

A record is this member's for the time of a lock. With `share.acknowledgement.mode=implicit` the next poll says that all
of the last one's records are done; with `explicit` each is acknowledged (`acknowledge`) before the next poll: accepted,
released for another delivery, rejected for good, or its lock renewed. `commit_sync` sends that at once and tells what
became of it; else it goes with the next request.

All that happens to a consumer happens within its calls; only heartbeats and requests under way go on by themselves. It
belongs to the thread that started it.
"""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, Self
from uuid import UUID

from penstock.client.cluster import ClusterClient
from penstock.client.errors import ClientError, ConsumerMisuseError
from penstock.client.settings import ShareConsumerSettings
from penstock.client.share.acknowledgements import Acknowledgements, AcknowledgeType, Place
from penstock.client.share.deliveries import Deliveries
from penstock.client.share.heartbeats import ShareHeartbeats
from penstock.client.share.member import ShareMember
from penstock.client.share.records import SharedRecord
from penstock.client.share.requests import ShareRequests
from penstock.client.share.session import ShareSession
from penstock.client.values import TopicPartition
from penstock.protocol.address import Address
from penstock.protocol.errors import KafkaError
from penstock.protocol.uuids import random_uuid, uuid_to_text

CLOSE_MS: Final = 30_000
INTERRUPTED_CLOSE_MS: Final = 1_000
IMPLICIT: Final = "implicit"

Failure = ClientError | KafkaError
Outcome = dict[TopicPartition, Failure | None]
Told = Callable[[TopicPartition, Sequence[int], Failure | None], None]
"""Hears of the offsets of a partition that were acknowledged, and what the broker made of that."""


class ShareConsumer:
    def __init__(
        self, bootstrap_servers: str | Sequence[Address], settings: ShareConsumerSettings | None = None
    ) -> None:
        """ValueError without a group."""
        self.settings = settings or ShareConsumerSettings()
        if not self.settings.group_id:
            raise ValueError("a share consumer needs a group: set group.id")
        self.cluster = ClusterClient(bootstrap_servers, self.settings)
        member_id = uuid_to_text(random_uuid(self.settings.random))
        group_id = self.settings.group_id
        self._news = asyncio.Event()
        self._member = ShareMember(group_id, member_id, self.settings.client_rack)
        self._heartbeats = ShareHeartbeats(self._member, self.settings, self._news.set)
        self._deliveries = Deliveries()
        self._rest: deque[SharedRecord] = deque()
        """What the present loop has not come to."""
        self._requests = ShareRequests(
            self.cluster,
            self.settings,
            lambda: ShareSession(group_id, member_id),
            self._deliveries.holds_of,
            self._on_done,
            self._news.set,
        )
        self._topics: list[str] = []
        self._topics_old_at_s = 0.0
        self._known: Mapping[UUID, Collection[int]] | None = None
        self._done: list[Acknowledgements] = []
        self._told: Told | None = None
        self._thread: int | None = None
        self._is_polling = False

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
        """Send what was acknowledged, release the rest and leave the group, as far as that can be done in time."""
        self._own()
        self._requests.acknowledge(self._deliveries.take())
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        try:
            await _in_time(self._requests.close(), deadline)
        finally:
            try:
                await _in_time(self._heartbeats.close(), max(deadline, loop.time() + INTERRUPTED_CLOSE_MS / 1000))
            finally:
                await self._requests.abandon()
                await self.cluster.close()
                self._tell()
                self._thread = None

    # What to read

    async def subscribe(self, topics: Collection[str]) -> None:
        """Share the records of these topics with the group; of none is `unsubscribe`."""
        self._own()
        if not topics:
            await self.unsubscribe()
            return
        self._topics = self._requests.topics = sorted(set(topics))
        self._topics_old_at_s = 0.0
        await self.cluster.retrying(
            lambda: self.cluster.refresh(self._topics, create=self.settings.allow_auto_create_topics)
        )
        self._member.subscribe(self._topics)
        self._heartbeats.polled()
        await self._heartbeats.start(self.cluster.addresses_for(self._member.group_id))

    async def unsubscribe(self) -> None:
        """Leave the group; records that are this member's are released."""
        self._own()
        self._topics = []
        self._known = None
        self._requests.unsubscribe()
        await self._heartbeats.close()

    @property
    def subscription(self) -> list[str]:
        return list(self._topics)

    # Reading

    async def poll(self, timeout_ms: int = 1_000) -> list[SharedRecord]:
        """The next records, as soon as there are some; none when `timeout_ms` is over.

        ConsumerMisuseError where records of the last poll are not acknowledged, in explicit mode.
        """
        self._own()
        if self._is_polling:
            raise ConsumerMisuseError("another task is polling this consumer: one at a time")
        if not self._topics:
            raise ConsumerMisuseError("this consumer is not subscribed to any topics")
        self._say_all(is_poll=True)
        self._is_polling = True
        try:
            return await self._poll(timeout_ms)
        finally:
            self._is_polling = False
            self._tell()

    async def __aiter__(self) -> AsyncIterator[SharedRecord]:
        """One record after the other. What a loop does not come to is released."""
        while True:
            rest = self._rest = deque(await self.poll())
            try:
                while rest:
                    yield rest.popleft()
            finally:
                self.release(rest)

    def release(self, records: Collection[SharedRecord]) -> None:
        """The application never gets to them: others do, at once."""
        if records and self._thread is not None:
            self._deliveries.release(records)
            self._requests.acknowledge(self._deliveries.take())
            self._requests.send(wants_records=False)

    async def _poll(self, timeout_ms: int) -> list[SharedRecord]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        self._requests.acknowledge(self._deliveries.take())
        while True:
            self._news.clear()
            await self._keep_up()
            self._tell()
            records = [*self._deliveries.take_renewed()]
            for some in self._requests.take(self.settings.max_poll_records) if not records else ():
                records += self._deliveries.deliver(some)
            if not records:
                self._requests.acknowledge(self._deliveries.take())
            self._requests.send(wants_records=not records)
            left = deadline - loop.time()
            if records:
                return records
            if left <= 0:
                await asyncio.sleep(0)  # who polls without a time-out must not keep fetches from their work
                return []
            try:
                async with asyncio.timeout(left):
                    await self._news.wait()
            except TimeoutError:
                pass

    async def _keep_up(self) -> None:
        """Be in the group, and fetch what it has assigned."""
        self._heartbeats.polled()
        if not self._heartbeats.are_going:
            await self._heartbeats.start(self.cluster.addresses_for(self._member.group_id))
        assignment = self._member.assignment
        now_s = asyncio.get_running_loop().time()
        if self._topics_old_at_s <= now_s:
            self._topics_old_at_s = self.cluster.old_at_s(self._topics)
        is_old = self._topics_old_at_s <= now_s
        if assignment is self._known and not is_old:
            return
        if is_old:
            self._requests.look_again_soon()
        assigned = self._named(assignment)
        if assigned is not None:
            self._known = assignment
            self._requests.assign(assigned)
        elif assignment is not None:
            self._requests.look_again_soon()

    def _named(self, assignment: Mapping[UUID, Collection[int]] | None) -> dict[Place, TopicPartition] | None:
        """None where the name of a topic is not known."""
        names = {topic.topic_id: name for name, topic in self.cluster.metadata.topics.items()}
        if assignment is None or not assignment.keys() <= names.keys():
            return None
        return {
            (topic_id, index): TopicPartition(names[topic_id], index)
            for topic_id, indexes in assignment.items()
            for index in indexes
        }

    # Acknowledging

    def acknowledge(
        self,
        record: SharedRecord,
        kind: AcknowledgeType = AcknowledgeType.ACCEPT,
        *,
        delay_ms: int | None = None,
        reason: str = "",
    ) -> None:
        """What becomes of a record that the last poll returned; the last word counts. One that is released comes again
        after `delay_ms`, a day at most, by default the group's `share.retry.backoff.ms`; brokers of Kafka know no
        delays, and give it out at once. The `reason` of a release or a rejection, 1,000 characters of it, is told in
        the record's dead letter, if it becomes one; brokers of Kafka pass over it.

        ConsumerMisuseError in implicit mode, or where the record is not this member's.
        """
        self.acknowledge_offset(record.topic_partition, record.offset, kind, delay_ms=delay_ms, reason=reason)

    def acknowledge_offset(
        self,
        partition: TopicPartition,
        offset: int,
        kind: AcknowledgeType,
        *,
        delay_ms: int | None = None,
        reason: str = "",
    ) -> None:
        self._own()
        if self.settings.share_acknowledgement_mode == IMPLICIT:
            raise ConsumerMisuseError("share.acknowledgement.mode is implicit: nothing is acknowledged by itself")
        self._deliveries.acknowledge(partition, offset, kind, delay_ms, reason)

    async def commit_sync(self, timeout_ms: int | None = None) -> Outcome:
        """Send all that was acknowledged; what became of it, by partition. In implicit mode that is all that the
        application has got; within a loop, all that this has come to.

        A TimeoutError where there is no answer in time, by default default.api.timeout.ms.
        """
        some = self.commit_async()
        limit_ms = self.settings.default_api_timeout_ms if timeout_ms is None else timeout_ms
        async with asyncio.timeout(limit_ms / 1000):
            while not all(one.is_done for one in some):
                self._news.clear()
                await self._news.wait()
        outcome: Outcome = {}
        for one in some:
            partition = self._requests.name_of(one.place)
            outcome[partition] = outcome.get(partition) or one.error
        self._tell()
        return outcome

    def commit_async(self) -> list[Acknowledgements]:
        """Send all that was acknowledged, without waiting; the callback hears what became of it."""
        self._own()
        self._say_all(is_poll=False)
        some = self._deliveries.take()
        self._requests.acknowledge(some)
        self._requests.send(wants_records=False)
        return some

    def set_acknowledgement_commit_callback(self, told: Told | None) -> None:
        """Called within polls and commits."""
        self._own()
        self._told = told
        self._done.clear()

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long a record is this member's; None before the first."""
        return self._requests.lock_timeout_ms

    def _say_all(self, *, is_poll: bool) -> None:
        if is_poll:
            self._deliveries.release(self._rest)
            self._rest.clear()
        if self.settings.share_acknowledgement_mode == IMPLICIT:
            self._deliveries.acknowledge_all(AcknowledgeType.ACCEPT, but=self._rest)
        elif is_poll and (unsaid := self._deliveries.unsaid()):
            first = unsaid[0]
            raise ConsumerMisuseError(
                f"{len(unsaid)} records of the last poll are not acknowledged, the first is {first.topic_partition} "
                f"offset {first.offset}: acknowledge all before the next poll, or set share.acknowledgement.mode"
            )

    def _on_done(self, some: Sequence[Acknowledgements]) -> None:
        self._deliveries.done(some)
        if self._told is not None:
            self._done += some
        self._news.set()

    def _tell(self) -> None:
        done, self._done = self._done, []
        for one in done:
            if self._told is not None:
                self._told(self._requests.name_of(one.place), sorted(one.types), one.error)

    def _own(self) -> None:
        if self._thread is None:
            raise ConsumerMisuseError("this consumer is not open: use it between start() and close()")
        if self._thread != threading.get_ident():
            raise ConsumerMisuseError("a consumer is not safe for several threads: use it in the one that started it")


async def _in_time(work: Awaitable[None], deadline: float) -> None:
    """As far as it gets: locks and sessions run out by themselves."""
    try:
        async with asyncio.timeout_at(deadline):
            await work
    except TimeoutError:
        pass
