"""Tells the coordinator of a share group that a member lives, from a thread of its own, as `consumer/heartbeats.py`.

A member that has not polled for max.poll.interval.ms leaves, so that others get its records; the next poll joins again.
"""

import asyncio
from collections.abc import Callable, Sequence

from penstock.client.background import Background
from penstock.client.cluster import ClusterClient
from penstock.client.committed_offsets import check_group
from penstock.client.errors import ClientError, ConnectionFailedError, UnsupportedByBrokerError
from penstock.client.settings import ShareConsumerSettings
from penstock.client.share.member import AS_ANOTHER, ShareMember
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse


class ShareHeartbeats:
    """All methods are called from the application's loop; `on_news` is called there, too."""

    def __init__(self, member: ShareMember, settings: ShareConsumerSettings, on_news: Callable[[], None]) -> None:
        self._member = member
        self._settings = settings
        self._on_news = on_news
        self._background: Background | None = None
        self._cluster: ClusterClient | None = None
        self._beating: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._polled_at = 0.0

    def polled(self) -> None:
        """Note that the application polls. Raises what has ended the membership for good."""
        self._polled_at = asyncio.get_running_loop().time()
        if self._error is not None:
            raise self._error.with_traceback(None)  # each raise adds to it

    @property
    def are_going(self) -> bool:
        return self._beating is not None and not self._beating.done()

    async def start(self, addresses: Sequence[Address]) -> None:
        """Begin, or begin anew as something has changed; `addresses` are of brokers that know the coordinator."""
        await self._stop()
        if self._background is None:
            self._background = self._settings.background(f"heartbeats of share group {self._member.group_id}")
            self._cluster = ClusterClient(addresses, self._settings)
        self._beating = self._background.submit(self._beat(asyncio.get_running_loop()))
        self._beating.add_done_callback(lambda _: self._on_news())

    async def close(self) -> None:
        """Leave the group."""
        background, self._background = self._background, None
        try:
            await self._stop()
            if background is not None:
                assert self._cluster is not None
                await background.submit(self._leave(self._cluster))
        finally:
            if background is not None:
                await background.close()

    async def _stop(self) -> None:
        beating, self._beating = self._beating, None
        if beating is not None:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)
            self._member.unanswered()

    # What runs in the background

    async def _beat(self, application: asyncio.AbstractEventLoop) -> None:
        try:
            await self._beat_until_the_end(application)
        except Exception as error:  # a fault of ours: the application hears of it, too
            self._error = error

    async def _beat_until_the_end(self, application: asyncio.AbstractEventLoop) -> None:
        loop = asyncio.get_running_loop()
        assert self._cluster is not None
        failures = 0
        while (loop.time() - self._polled_at) * 1000 < self._settings.max_poll_interval_ms:
            try:
                is_news = await self._beat_once(self._cluster)
                failures, pause_ms = 0, float(self._member.interval_ms)
            except (ClientError, KafkaError) as error:
                self._member.unanswered()
                if isinstance(error, KafkaError) and error.code in AS_ANOTHER:
                    self._member.lose()
                elif not (isinstance(error, ConnectionFailedError) or getattr(error, "retriable", False)):
                    self._error = _told(error)
                    return
                is_news, pause_ms = not self._member.is_member, self._settings.backoff_ms(failures)
                failures += 1
                await self._cluster.look_again()
            if is_news:
                application.call_soon_threadsafe(self._on_news)
            await asyncio.sleep(pause_ms / 1000)
        await self._tell_that_it_leaves(self._cluster)
        self._member.lose()

    async def _beat_once(self, cluster: ClusterClient) -> bool:
        group_id = self._member.group_id
        response = await cluster.to_coordinator(group_id, self._member.request(), ShareGroupHeartbeatResponse)
        check_group(cluster, group_id, response.error_code, response.error_message)
        return self._member.answered(response)

    async def _leave(self, cluster: ClusterClient) -> None:
        await self._tell_that_it_leaves(cluster)
        self._member.lose()
        await cluster.close()

    async def _tell_that_it_leaves(self, cluster: ClusterClient) -> None:
        if self._member.is_member:
            try:
                request = self._member.leave_request()
                await cluster.to_coordinator(self._member.group_id, request, ShareGroupHeartbeatResponse)
            except (ClientError, KafkaError):
                pass  # the session will time out


def _told(error: ClientError | KafkaError) -> ClientError | KafkaError:
    is_unsupported = isinstance(error, UnsupportedByBrokerError)
    if is_unsupported or (isinstance(error, KafkaError) and error.code == ErrorCode.UNSUPPORTED_VERSION):
        return UnsupportedByBrokerError(
            "this cluster serves no share groups: its brokers have to know them, and share.version has to be 1 "
            "(penstock features upgrade --feature share.version=1)"
        )
    return error
