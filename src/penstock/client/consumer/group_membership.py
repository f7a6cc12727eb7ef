"""A consumer's life in a group by the classic protocol: join, sync, heartbeats, leave.

    outside --join--> joining --sync--> member --(rebalance, lost, subscription changed)--> must join again
                         ^                                                                     |
                         +---------------------------------------------------------------------+

While it is a member, a thread of its own sends heartbeats (`heartbeats.py`), so the application may take its time with
what it polled; but one that does not poll for max.poll.interval.ms is taken out of the group, so that others get its
partitions. What the coordinator answers to a heartbeat only sets flags; the next poll acts on them.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from penstock.client.assignors import Assignor, GroupMember, assignor_named, is_cooperative
from penstock.client.cluster import ClusterClient
from penstock.client.committed_offsets import check_group
from penstock.client.consumer.heartbeats import AS_SOMEBODY_ELSE, Ending, Heartbeats, leave_group
from penstock.client.consumer_protocol import (
    PROTOCOL_TYPE,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_generation,
    encode_sticky_user_data,
    encode_subscription,
)
from penstock.client.errors import ConnectionFailedError
from penstock.client.messages import Membership
from penstock.client.settings import ConsumerSettings
from penstock.client.values import TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

JOIN_GRACE_MS: Final = 5_000  # how much longer than the rebalance may take the client waits for the answer to a join
NO_GENERATION: Final = -1
_JOIN_AGAIN = (*AS_SOMEBODY_ELSE, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.MEMBER_ID_REQUIRED)


class GroupMembership:
    """`on_news` is called when the next poll has something to do."""

    def __init__(
        self, cluster: ClusterClient, group_id: str, settings: ConsumerSettings, on_news: Callable[[], None]
    ) -> None:
        self.group_id = group_id
        self._cluster = cluster
        self._settings = settings
        self._assignors = [assignor_named(name) for name in settings.partition_assignment_strategy]
        self.is_cooperative = bool(self._assignors) and all(is_cooperative(one) for one in self._assignors)
        self._member_id = ""
        self._generation = NO_GENERATION
        self._owned: list[TopicPartition] = []
        self._owned_generation = NO_GENERATION
        self._heartbeats = Heartbeats(group_id, settings, on_news)
        self._counted: dict[str, int] | None = None
        self.must_join = True
        self.lost = False
        self.error: Exception | None = None

    @property
    def membership(self) -> Membership:
        """The member in whose name offsets are committed."""
        return Membership(self._generation, self._member_id, self._settings.group_instance_id)

    @property
    def is_member(self) -> bool:
        return self._generation != NO_GENERATION

    def take_commit_asked(self) -> bool:
        """Whether the coordinator has asked for a commit since the last time."""
        asked, self._heartbeats.commit_is_asked = self._heartbeats.commit_is_asked, False
        return asked

    def polled(self) -> None:
        """Note that the application polls, and how heartbeats ended. Raises what ended the membership for good."""
        self._heartbeats.polled_at = asyncio.get_running_loop().time()
        ending = self._heartbeats.take_ending()
        if ending is Ending.LOST:
            self._lose()
        elif isinstance(ending, Exception):
            self.error = ending
        if self.error is not None:
            raise self.error.with_traceback(None)  # each raise adds to it
        self.must_join |= ending is not None

    @property
    def topics_of_all(self) -> Collection[str]:
        """Those of all members, if this one has assigned their partitions."""
        return self._counted or ()

    def metadata_changed(self) -> None:
        """The leader sees to it that the group notices new partitions and new topics."""
        if self._counted is not None and not self.must_join:
            counts = self._cluster.metadata.partition_counts()
            if any(counts.get(topic, 0) != count for topic, count in self._counted.items()):
                self.must_join = True

    async def join(self, topics: Collection[str]) -> list[TopicPartition]:
        """Returns the partitions that this member is given in the next generation. One that fails is still to join."""
        await self._heartbeats.stop()
        try:
            assigned = await self._join_until_it_is_in(topics)
        except BaseException:
            self.must_join = True
            raise
        self._owned, self._owned_generation = assigned, self._generation
        self._heartbeats.start(self.membership, self._cluster.addresses_for(self.group_id))
        return assigned

    async def _join_until_it_is_in(self, topics: Collection[str]) -> list[TopicPartition]:
        failures = 0
        self.lost = self.must_join = False
        while True:
            try:
                return await self._join_once(topics)
            except (ConnectionFailedError, KafkaError) as error:
                if isinstance(error, KafkaError):
                    if error.code in AS_SOMEBODY_ELSE:
                        self._lose()
                    if error.code in _JOIN_AGAIN:
                        continue
                    if not error.retriable:
                        raise
                else:
                    self._cluster.forget_coordinator(self.group_id)
                await asyncio.sleep(self._settings.backoff_ms(failures) / 1000)
                failures += 1
                await self._cluster.look_again()

    async def close(self) -> None:
        """Without a word to the coordinator."""
        await self._heartbeats.close()

    async def leave(self, reason: str) -> None:
        """The other members rebalance at once. A static member (KIP-345) only stops: it is expected back."""
        await self.close()
        self._owned, self._owned_generation = [], NO_GENERATION
        await leave_group(self._cluster, self.group_id, self.membership, reason)
        self._forget_member()
        self.must_join = True

    # Joining

    async def _join_once(self, topics: Collection[str]) -> list[TopicPartition]:
        coordinator = await self._cluster.coordinator_connection(self.group_id)
        joined = await coordinator.request(
            self._join_request(topics),
            JoinGroupResponse,
            timeout_ms=max(self._settings.max_poll_interval_ms + JOIN_GRACE_MS, self._settings.request_timeout_ms),
        )
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = joined.member_id
        check_group(self._cluster, self.group_id, joined.error_code, f"cannot join group {self.group_id!r}")
        self._member_id = joined.member_id
        self._generation = joined.generation_id
        is_leader = joined.leader == joined.member_id
        given = await self._decide(joined) if is_leader and not joined.skip_assignment else {}
        synced = await coordinator.request(
            SyncGroupRequest(
                group_id=self.group_id,
                generation_id=self._generation,
                member_id=self._member_id,
                group_instance_id=self._settings.group_instance_id,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=joined.protocol_name,
                assignments=[
                    SyncGroupRequestAssignment(member_id=member_id, assignment=encode_assignment(partitions))
                    for member_id, partitions in given.items()
                ],
            ),
            SyncGroupResponse,
            timeout_ms=max(self._settings.max_poll_interval_ms + JOIN_GRACE_MS, self._settings.request_timeout_ms),
        )
        check_group(self._cluster, self.group_id, synced.error_code, f"cannot join group {self.group_id!r}")
        return decode_assignment(synced.assignment)

    def _join_request(self, topics: Collection[str]) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self._settings.session_timeout_ms,
            rebalance_timeout_ms=self._settings.max_poll_interval_ms,
            member_id=self._member_id,
            group_instance_id=self._settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(
                    name=assignor.name,
                    metadata=encode_subscription(
                        topics,
                        [p for p in self._owned if p.topic in topics] if self.is_cooperative else (),
                        self._owned_generation if self.is_cooperative else NO_GENERATION,
                        user_data=self._user_data(assignor),
                        rack=self._settings.client_rack or None,
                    ),
                )
                for assignor in self._assignors
            ],
        )

    def _user_data(self, assignor: Assignor) -> bytes | None:
        """What Kafka's sticky assignors say beside the subscription, for leaders that look there."""
        if assignor.name == "sticky":
            return encode_sticky_user_data(self._owned, self._owned_generation)
        if assignor.name == "cooperative-sticky":
            return encode_generation(self._owned_generation)
        return None

    async def _decide(self, joined: JoinGroupResponse) -> Mapping[str, Sequence[TopicPartition]]:
        """The leader's part: assign all partitions of all subscribed topics."""
        members: list[GroupMember] = [
            decode_subscription(row.member_id, row.group_instance_id, row.metadata) for row in joined.members
        ]
        wanted = sorted({topic for member in members for topic in member.topics})
        counts = (await self._cluster.refresh(wanted)).partition_counts()
        self._counted = {topic: counts.get(topic, 0) for topic in wanted}
        assignor = next(assignor for assignor in self._assignors if assignor.name == joined.protocol_name)
        return assignor.assign(members, {topic: counts[topic] for topic in wanted if topic in counts})

    def _lose(self) -> None:
        """The group has gone on without this member: another member may own its partitions."""
        self._forget_member()
        self.lost = True
        if self.is_cooperative:
            self._owned, self._owned_generation = [], NO_GENERATION

    def _forget_member(self) -> None:
        self._member_id = ""
        self._generation = NO_GENERATION
        self._counted = None
