"""Tells a group's coordinator that a member lives, from a thread of its own, whatever the application's loop is doing.

It begins when the member has its place in a generation and ends with the first of these:

    the group rebalances                                                    Ending.REBALANCE
    the group has gone on without this member                               Ending.LOST
    the coordinator could not be told for session.timeout.ms                Ending.LOST
    the application has not polled for max.poll.interval.ms: it leaves      Ending.LOST
    an error that does not pass                                             the error

A coordinator that is about to go to another node may ask, in its answer, for a commit of what has been processed; only
consumers that commit automatically say that they do that. The next poll sees to it.

`polled_at`, `commit_is_asked` and an ending are all that the two threads share.
"""

import asyncio
from collections.abc import Callable, Sequence
from enum import Enum, auto

from penstock.client.background import Background
from penstock.client.cluster import ClusterClient
from penstock.client.committed_offsets import check_group
from penstock.client.errors import ClientError, ConnectionFailedError
from penstock.client.messages import Membership
from penstock.client.settings import ConsumerSettings
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

AS_SOMEBODY_ELSE = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)


class Ending(Enum):
    REBALANCE = auto()
    LOST = auto()


class _Pulse:
    """One generation's heartbeats; the outcome of an earlier generation's is ignored."""

    def __init__(self) -> None:
        self.ending: Ending | Exception | None = None


class Heartbeats:
    """All methods are called from the application's loop; `on_news` is called there, too."""

    def __init__(self, group_id: str, settings: ConsumerSettings, on_news: Callable[[], None]) -> None:
        self._group_id = group_id
        self._settings = settings
        self._on_news = on_news
        self._background: Background | None = None
        self._cluster: ClusterClient | None = None
        self._beating: asyncio.Future[None] | None = None
        self._pulse = _Pulse()
        self.polled_at = 0.0
        self.commit_is_asked = False
        """Reset by the code that commits."""

    def start(self, membership: Membership, addresses: Sequence[Address]) -> None:
        """Begin for this generation; `addresses` are of brokers that can be asked for the coordinator."""
        assert self._beating is None
        if self._background is None:
            self._background = self._settings.background(f"heartbeats of group {self._group_id}")
            self._cluster = ClusterClient(addresses, self._settings)
        self.commit_is_asked = False
        self._beating = self._background.submit(self._beat(membership, self._pulse, asyncio.get_running_loop()))
        self._beating.add_done_callback(lambda _: self._on_news())

    def take_ending(self) -> Ending | Exception | None:
        """How they ended, once; None while they go on."""
        ending, self._pulse.ending = self._pulse.ending, None
        return ending

    async def stop(self) -> None:
        """Stop, and forget how they may have ended."""
        self._pulse = _Pulse()
        beating, self._beating = self._beating, None
        if beating is not None:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)

    async def close(self) -> None:
        await self.stop()
        background, self._background = self._background, None
        if background is not None:
            assert self._cluster is not None
            try:
                await background.submit(self._cluster.close())
            finally:
                await background.close()

    # What runs in the background

    async def _beat(self, membership: Membership, pulse: _Pulse, application: asyncio.AbstractEventLoop) -> None:
        try:
            pulse.ending = await self._beat_until_the_end(membership, application)
        except Exception as error:  # a fault of ours: the application hears of it, too
            pulse.ending = error

    async def _beat_until_the_end(
        self, membership: Membership, application: asyncio.AbstractEventLoop
    ) -> Ending | Exception:
        loop = asyncio.get_running_loop()
        assert self._cluster is not None
        answered_at = loop.time()
        ending: Ending | ClientError | KafkaError | None = None
        while ending is None:
            await asyncio.sleep(self._settings.heartbeat_interval_ms / 1000)
            if (loop.time() - self.polled_at) * 1000 >= self._settings.max_poll_interval_ms:
                limit_ms = self._settings.max_poll_interval_ms
                reason = f"not polled for {limit_ms} ms (max.poll.interval.ms)"
                await leave_group(self._cluster, self._group_id, membership, reason)
                return Ending.LOST
            try:
                if await self._beat_once(self._cluster, membership):
                    self.commit_is_asked = True
                    application.call_soon_threadsafe(self._on_news)
                answered_at = loop.time()
            except ConnectionFailedError:
                await self._cluster.look_again()
            except (ClientError, KafkaError) as error:
                ending = _ending_of(error)
            if ending is None and (loop.time() - answered_at) * 1000 >= self._settings.session_timeout_ms:
                ending = Ending.LOST
        return ending

    async def _beat_once(self, cluster: ClusterClient, membership: Membership) -> bool:
        """Whether the coordinator asks for a commit."""
        request = HeartbeatRequest(
            group_id=self._group_id,
            generation_id=membership.generation,
            member_id=membership.member_id,
            group_instance_id=membership.instance_id,
            commits_when_asked=self._settings.enable_auto_commit,
        )
        response = await cluster.to_coordinator(self._group_id, request, HeartbeatResponse)
        check_group(cluster, self._group_id, response.error_code)
        return response.commit_now


def _ending_of(error: ClientError | KafkaError) -> Ending | ClientError | KafkaError | None:
    """What the coordinator's refusal comes to; None for one that passes."""
    if not isinstance(error, KafkaError):
        return error
    if error.code == ErrorCode.REBALANCE_IN_PROGRESS:
        return Ending.REBALANCE
    if error.code in AS_SOMEBODY_ELSE:
        return Ending.LOST
    return None if error.retriable else error


async def leave_group(cluster: ClusterClient, group_id: str, membership: Membership, reason: str) -> None:
    """The other members rebalance at once. A static member (KIP-345) only stops: it is expected back."""
    if not membership.member_id or membership.instance_id is not None:
        return
    request = LeaveGroupRequest(
        group_id=group_id,
        member_id=membership.member_id,
        members=[MemberIdentity(member_id=membership.member_id, reason=reason)],
    )
    try:
        await cluster.to_coordinator(group_id, request, LeaveGroupResponse)
    except (ClientError, KafkaError):
        pass  # the session will time out
