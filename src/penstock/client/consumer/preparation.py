"""What a consumer does before it may hand out records: be a member of its group, know its positions, commit in time.

It runs as a task of its own that `poll` waits for, so that a poll may end while a rebalance goes on and the next one
finds the rebalance further on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from penstock.client.at_leaders import Failures
from penstock.client.cluster import ClusterClient, is_passing
from penstock.client.committed_offsets import commit, fetch_committed
from penstock.client.consumer.assigned_membership import AssignedMembership
from penstock.client.consumer.fetcher import isolation_level, reset_timestamp
from penstock.client.consumer.group_membership import GroupMembership
from penstock.client.consumer.listeners import ConsumerInterceptor, RebalanceListener
from penstock.client.consumer.rebalances import Rebalances
from penstock.client.consumer.reconciliations import Reconciliations
from penstock.client.consumer.subscription import Subscription
from penstock.client.errors import ClientError, ConnectionFailedError, ConsumerMisuseError, NoOffsetError
from penstock.client.log_offsets import list_offsets_that_can_be_had
from penstock.client.messages import OUTSIDER, Membership
from penstock.client.settings import ConsumerSettings
from penstock.client.values import LATEST, NO_OFFSET, IsolationLevel, OffsetAndMetadata, TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError

CONSUMER_PROTOCOL: Final = "consumer"
MOST_EPOCHS: Final = 10
"""With which a commit is tried, while the member's epoch goes on."""
_THE_GROUP_HAS_GONE_ON = (
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.FENCED_INSTANCE_ID,
)


class Preparation:
    def __init__(
        self,
        cluster: ClusterClient,
        subscription: Subscription,
        settings: ConsumerSettings,
        on_news: Callable[[], None],
        interceptors: Sequence[ConsumerInterceptor],
    ) -> None:
        self._cluster = cluster
        self._subscription = subscription
        self._settings = settings
        self._on_news = on_news
        self._interceptors = interceptors
        self._group: GroupMembership | AssignedMembership | None = None
        self._rebalances: Rebalances | Reconciliations | None = None
        if settings.group_id is not None and settings.group_protocol == CONSUMER_PROTOCOL:
            self._group = AssignedMembership(cluster, settings.group_id, settings, on_news)
            self._rebalances = Reconciliations(cluster, self._group, subscription, self._commit_quietly)
        elif settings.group_id is not None:
            self._group = GroupMembership(cluster, settings.group_id, settings, on_news)
            self._rebalances = Rebalances(self._group, subscription, self._commit_quietly, on_news)
        self._topics: frozenset[str] = frozenset()
        self._is_new = False
        """Whether the subscription is, since its topics were looked at."""
        self._topics_old_at_s = 0.0
        self._running: asyncio.Task[None] | None = None
        self._committing: asyncio.Task[None] | None = None
        self._commit_at: float | None = None
        self._look_again_at = 0.0

    @property
    def group_id(self) -> str:
        if self._settings.group_id is None:
            raise ConsumerMisuseError("this consumer has no group.id: offsets are committed under a group's name")
        return self._settings.group_id

    @property
    def membership(self) -> Membership:
        """As whom offsets are committed now. Raises KafkaError."""
        if self._group is None or not self._subscription.by_group:
            return OUTSIDER
        if self._group.lost:  # and on its way in again, perhaps: its new generation is not that of what it held
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "the group has gone on without this member")
        return self._group.membership

    def subscribed(self, listener: RebalanceListener | None) -> None:
        """Take a new subscription and its listener: join the group, or join it again."""
        assert self.group_id is not None
        assert self._group is not None
        assert self._rebalances is not None
        self._rebalances.listener = listener or RebalanceListener()
        self._group.must_join = self._is_new = True
        self._topics_old_at_s = 0.0

    async def is_done_within(self, timeout_s: float) -> bool:
        """Go on preparing, for this long at most; whether records may be handed out. Raises what it failed with."""
        if self._group is not None and self._subscription.by_group:
            self._group.polled()
        self._commit_if_due()
        if self._running is None:
            if not self._has_work():
                return True
            self._running = asyncio.create_task(self._prepare(), name="prepare consumer")
        await asyncio.wait([self._running], timeout=timeout_s)
        if not self._running.done():
            return False
        task, self._running = self._running, None
        task.result()
        self._commit_if_due()
        return True

    async def close(self) -> None:
        """Commit for the last time, if that is automatic, and leave the group."""
        await self._settle_commit()
        await self.leave("the consumer was closed")

    async def end(self) -> None:
        """However far closing has got: nothing goes on, and no heartbeat says that this member lives."""
        try:
            await self._stop_preparing()
            if self._committing is not None:
                self._committing.cancel()
                await self._settle_commit()
            if self._rebalances is not None:
                await self._rebalances.stop()
        finally:
            if self._group is not None:
                await self._group.close()

    async def _stop_preparing(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def leave(self, reason: str) -> None:
        """What the listener raises is raised when the group knows: others get the partitions all the same."""
        await self._stop_preparing()
        if self._group is None or self._rebalances is None or not self._subscription.by_group:
            await self._commit_quietly()
            return
        await self._rebalances.stop()
        failure = None
        if self._group.is_member:
            try:
                await self._rebalances.give_up(list(self._subscription.partitions))
            except Exception as error:  # not of a cancellation: nothing would limit how long leaving takes
                failure = error
        await self._group.leave(reason)
        if failure is not None:
            raise failure

    # The work itself

    def _has_work(self) -> bool:
        if self._subscription.by_group and (self._topics_are_old() or self._must_join()):
            return True
        if self._subscription.without_position():
            return True
        return bool(self._subscription.to_reset()) and asyncio.get_running_loop().time() >= self._look_again_at

    def _must_join(self) -> bool:
        return self._rebalances is not None and self._rebalances.is_due

    async def _prepare(self) -> None:
        if self._subscription.by_group and self._group is not None and self._rebalances is not None:
            while True:
                if self._topics_are_old() or self._group.must_join or self._is_new:
                    self._is_new = False
                    await self._look_at_topics(self._group)
                await self._rebalances.go_on(self._topics)
                if self._rebalances.is_joining or not self._is_new:  # else it was changed while this one joined
                    break
        await self.find_positions()

    def _topics_are_old(self) -> bool:
        """Their ages are worked out when the oldest is old: each turn of a poll asks, perhaps about very many."""
        now_s = asyncio.get_running_loop().time()
        if self._topics_old_at_s <= now_s:
            self._topics_old_at_s = self._cluster.old_at_s(self._named_topics())
        return self._topics_old_at_s <= now_s

    def _named_topics(self) -> Collection[str] | None:
        """None where a pattern chooses among all."""
        pattern = self._subscription.pattern or self._subscription.expression
        return None if pattern else self._subscription.topics

    async def _look_at_topics(self, group: GroupMembership | AssignedMembership) -> None:
        """New topics for a pattern, new partitions, also of topics that others read: all lead to a rebalance."""
        wanted = self._named_topics()
        try:
            if wanted is not None and (others := sorted({*group.topics_of_all}.difference(wanted))):
                await self._cluster.refresh(others)
            metadata = await self._cluster.refresh(
                None if wanted is None else sorted(wanted), create=self._settings.allow_auto_create_topics
            )
        except ConnectionFailedError:
            return  # the old facts will do for now
        hidden = [name for name, topic in metadata.topics.items() if topic.is_internal]
        topics = self._subscription.matching(
            sorted(metadata.topics), hidden if self._settings.exclude_internal_topics else ()
        )
        if topics != self._topics:
            self._topics = topics
            group.must_join = True
        group.metadata_changed()

    async def find_positions(self) -> None:
        """Find the positions that are not known: what the group committed, else what auto.offset.reset says.

        Partitions that cannot be asked now are left for later, and the others do not wait for them.
        """
        missing = self._subscription.without_position()
        if missing and self._settings.group_id is not None:
            stable = isolation_level(self._settings) == IsolationLevel.READ_COMMITTED
            committed = await fetch_committed(self._cluster, self.group_id, missing, require_stable=stable)
            unknown = set(self._subscription.without_position())
            for partition, position in committed.items():
                if partition in unknown:  # else it was given up or sought elsewhere meanwhile
                    self._subscription.seek(partition, position.offset, position.leader_epoch)
        for partition in self._subscription.without_position():
            timestamp_ms = reset_timestamp(self._settings)
            if timestamp_ms is None:
                raise NoOffsetError(f"nothing is committed for {partition}, and auto.offset.reset is none")
            self._subscription.seek_to_timestamp(partition, timestamp_ms)
        wanted = self._subscription.to_reset()
        if wanted:
            found, failures = await list_offsets_that_can_be_had(
                self._cluster, wanted, isolation_level=isolation_level(self._settings), timeout_ms=0
            )
            for partition, value in found.items():
                state = self._subscription.partitions.get(partition)
                if state is None or state.reset_to != wanted[partition]:
                    continue
                if value.offset == NO_OFFSET:  # no record is that new
                    self._subscription.seek_to_timestamp(partition, LATEST)
                else:
                    self._subscription.seek(partition, value.offset)
            self._look_again(failures)

    def _look_again(self, failures: Failures) -> None:
        """Look again soon, if these failures may pass; else the first one is raised."""
        for error in failures.values():
            if not is_passing(error):
                raise error
        if failures:
            loop = asyncio.get_running_loop()
            pause_s = self._settings.backoff_ms(0) / 1000
            self._look_again_at = loop.time() + pause_s
            loop.call_later(pause_s, self._on_news)

    # Commits

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        await self._settle_commit()
        await self._commit(offsets)

    async def _commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], *, even_none: bool = False) -> None:
        if not offsets and not even_none:
            return
        try:
            await self._commit_as_member(offsets)
        except KafkaError as error:
            if self._group is not None and error.code in _THE_GROUP_HAS_GONE_ON:
                self._group.must_join |= self._rebalances is None or not self._rebalances.is_joining
            raise
        for interceptor in self._interceptors:
            await interceptor.on_commit(offsets)

    async def _commit_as_member(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """A member whose epoch has gone on meanwhile is told the new one by its heartbeats, and tries again with it."""
        for failures in range(MOST_EPOCHS):
            membership = self.membership
            try:
                await self._cluster.retrying(lambda: commit(self._cluster, self.group_id, offsets, membership))  # noqa: B023
                return
            except KafkaError as error:
                if error.code is not ErrorCode.STALE_MEMBER_EPOCH or failures == MOST_EPOCHS - 1:
                    raise
            await asyncio.sleep(self._settings.backoff_ms(failures) / 1000)

    def _commit_if_due(self) -> None:
        """Every auto.commit.interval.ms, or when the coordinator asks, commit what earlier polls returned.

        No call waits for it. A member that was asked commits even if there is nothing, so that the coordinator knows.
        """
        if not self._settings.enable_auto_commit or self._settings.group_id is None:
            return
        now = asyncio.get_running_loop().time()
        if self._commit_at is None:
            self._commit_at = now + self._settings.auto_commit_interval_ms / 1000
        if self._committing is not None or self._running is not None:
            return
        asked = self._group is not None and self._subscription.by_group and self._group.take_commit_asked()
        if asked or now >= self._commit_at:
            self._commit_at = now + self._settings.auto_commit_interval_ms / 1000
            self._committing = asyncio.create_task(
                self._quietly(self._subscription.positions(), even_none=asked), name="automatic commit"
            )

            def done(_: asyncio.Task[None]) -> None:
                self._committing = None
                self._on_news()

            self._committing.add_done_callback(done)

    async def _commit_quietly(self) -> None:
        await self._settle_commit()
        if self._settings.enable_auto_commit and self._settings.group_id is not None:
            await self._quietly(self._subscription.positions())

    async def _quietly(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], *, even_none: bool = False) -> None:
        """Commit, and pass over a failure: the application did not ask for it, and a later one will do as well."""
        try:
            await self._commit(offsets, even_none=even_none)
        except (ClientError, KafkaError):
            pass

    async def _settle_commit(self) -> None:
        if self._committing is not None:
            await asyncio.gather(self._committing, return_exceptions=True)
