"""A consumer's life in a group whose coordinator assigns (KIP-848), with `reconciling.py` as its machine.

Heartbeats go out from a thread of their own, one at a time, whatever the application's loop is doing. An application
that does not poll for max.poll.interval.ms is taken out of the group, and is back with its next poll. The machine is
shared by the two threads: each touches it for a moment, under a lock.
"""

import asyncio
import threading
from collections.abc import Callable, Collection
from typing import Final
from uuid import uuid4

from penstock.client.background import Background
from penstock.client.cluster import ClusterClient
from penstock.client.committed_offsets import check_group
from penstock.client.consumer.reconciling import Place, Reconciling
from penstock.client.errors import ClientError, ConnectionFailedError
from penstock.client.messages import Membership
from penstock.client.settings import ConsumerSettings
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

NOT_SERVED: Final = (
    "the cluster does not serve group.protocol=consumer: its group.version is 0. Raise it with"
    " `penstock features upgrade --feature group.version=1`, or set group.protocol=classic"
)


class AssignedMembership:
    """`on_news` is called when the next poll has something to do."""

    def __init__(
        self, cluster: ClusterClient, group_id: str, settings: ConsumerSettings, on_news: Callable[[], None]
    ) -> None:
        self.group_id = group_id
        self.must_join = True
        """Whether the subscription is to be looked at."""
        self.error: Exception | None = None
        self._cluster = cluster
        self._settings = settings
        self._on_news = on_news
        self._lock = threading.Lock()
        self._machine = Reconciling(
            group_id,
            str(uuid4()),
            rebalance_timeout_ms=settings.max_poll_interval_ms,
            instance_id=settings.group_instance_id,
            rack_id=settings.client_rack or None,
            assignor=settings.group_remote_assignor,
        )
        self._polled_at = 0.0
        self._background: Background | None = None
        self._beats_cluster: ClusterClient | None = None
        self._beating: asyncio.Future[None] | None = None
        self._wake: Callable[[], object] | None = None

    # -- what preparing asks of a group -------------------------------------------------------------------------------

    @property
    def membership(self) -> Membership:
        """The member in whose name offsets are committed."""
        return Membership(self._machine.epoch or -1, self._machine.member_id, self._settings.group_instance_id)

    @property
    def is_member(self) -> bool:
        return self._machine.epoch > 0

    @property
    def lost(self) -> bool:
        return self._machine.is_lost

    def take_commit_asked(self) -> bool:
        """Coordinators ask members of the classic protocol alone."""
        return False

    @property
    def topics_of_all(self) -> Collection[str]:
        """The coordinator looks at those of other members."""
        return ()

    def metadata_changed(self) -> None:
        """The coordinator sees new partitions by itself."""

    def polled(self) -> None:
        """Raises what ended the membership for good."""
        is_back = self._is_silent(asyncio.get_running_loop().time())
        self._polled_at = asyncio.get_running_loop().time()
        if self.error is not None:
            raise self.error.with_traceback(None)  # each raise adds to it
        if is_back:
            self._beat_now()

    async def leave(self, reason: str) -> None:
        """A static member only stops: it is expected back."""
        try:
            await self._stop()
            if self._background is not None and self._machine.epoch > 0:
                assert self._beats_cluster is not None
                await self._background.submit(_say(self._beats_cluster, self.group_id, self._machine.leaving()))
        finally:
            await self.close()
        self._machine.forget()
        self._machine.is_lost = False
        self.must_join = True

    async def close(self) -> None:
        """Without a word to the coordinator."""
        await self._stop()
        background, self._background = self._background, None
        if background is not None:
            assert self._beats_cluster is not None
            try:
                await background.submit(self._beats_cluster.close())
            finally:
                await background.close()

    async def _stop(self) -> None:
        beating, self._beating, self._wake = self._beating, None, None
        if beating is not None:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)

    # -- what the application's side does -----------------------------------------------------------------------------

    def take_part(self, names: Collection[str], expression: str | None) -> None:
        self.must_join = False
        with self._lock:
            self._machine.subscribe(names, expression)
        if self._background is None:
            self._background = self._settings.background(f"heartbeats of group {self.group_id}")
            self._beats_cluster = ClusterClient(self._cluster.addresses_for(self.group_id), self._settings)
            self._polled_at = asyncio.get_running_loop().time()
            self._beating = self._background.submit(self._beat(asyncio.get_running_loop()))
            self._beating.add_done_callback(lambda _: self._on_news())
        else:
            self._beat_now()

    def loss_is_known(self) -> None:
        """The application reads nothing any more: the member may join again."""
        with self._lock:
            self._machine.is_lost = False
        self._beat_now()

    def target(self) -> frozenset[Place] | None:
        """What the application is to come to; None if it is there."""
        with self._lock:
            return self._machine.begin()

    @property
    def has_target(self) -> bool:
        return not self._machine.is_at_target

    def come_to(self, target: frozenset[Place]) -> None:
        """What it does not have any more it has committed, and reads no further."""
        with self._lock:
            self._machine.come_to(target)
        self._beat_now()

    def _beat_now(self) -> None:
        if self._wake is not None:
            self._wake()

    # -- what runs in the background ----------------------------------------------------------------------------------

    async def _beat(self, application: asyncio.AbstractEventLoop) -> None:
        try:
            await self._beat_until_the_end(application)
        except Exception as error:  # a fault of ours: the application hears of it, too
            self.error = error

    async def _beat_until_the_end(self, application: asyncio.AbstractEventLoop) -> None:
        loop, woken = asyncio.get_running_loop(), asyncio.Event()
        self._wake = lambda: loop.call_soon_threadsafe(woken.set)
        assert self._beats_cluster is not None
        while self.error is None:
            woken.clear()
            if self._is_silent(loop.time()):
                await self._be_silent(self._beats_cluster, application)
            if self._is_silent(loop.time()) or self._machine.is_lost:
                await woken.wait()
                continue
            pause_s = await self._beat_once(self._beats_cluster)
            application.call_soon_threadsafe(self._on_news)
            left_s = self._polled_at + self._settings.max_poll_interval_ms / 1000 - loop.time()
            try:
                async with asyncio.timeout(max(min(pause_s, left_s), 0.0)):
                    await woken.wait()
            except TimeoutError:
                pass

    def _is_silent(self, now_s: float) -> bool:
        """Whether the application does not poll."""
        return (now_s - self._polled_at) * 1000 >= self._settings.max_poll_interval_ms

    async def _be_silent(self, cluster: ClusterClient, application: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            is_member = self._machine.epoch > 0
            self._machine.lose()
            request = self._machine.leaving()
        if is_member:
            await _say(cluster, self.group_id, request)
            application.call_soon_threadsafe(self._on_news)

    async def _beat_once(self, cluster: ClusterClient) -> float:
        """The seconds until the next heartbeat is due."""
        with self._lock:
            request = self._machine.request()
        try:
            response = await cluster.to_coordinator(self.group_id, request, ConsumerGroupHeartbeatResponse)
            check_group(cluster, self.group_id, response.error_code, response.error_message)
        except ConnectionFailedError:
            with self._lock:
                self._machine.unanswered()
            await cluster.look_again()
            return self._settings.backoff_ms(0) / 1000
        except (ClientError, KafkaError) as error:
            self._refused(error)
            return self._settings.backoff_ms(0) / 1000
        with self._lock:
            self._machine.answered(response)
            return 0.0 if self._machine.has_news else self._machine.interval_ms / 1000

    def _refused(self, error: ClientError | KafkaError) -> None:
        try:
            if not isinstance(error, KafkaError):
                raise error
            if error.code is ErrorCode.UNSUPPORTED_VERSION:
                raise KafkaError(error.code, NOT_SERVED)
            with self._lock:
                self._machine.refused(error)
        except (ClientError, KafkaError) as final:
            self.error = final


async def _say(cluster: ClusterClient, group_id: str, request: ConsumerGroupHeartbeatRequest) -> None:
    try:
        await cluster.to_coordinator(group_id, request, ConsumerGroupHeartbeatResponse)
    except (ClientError, KafkaError):
        pass  # the session will time out
