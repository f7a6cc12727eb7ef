"""Groups from outside: list, describe, delete, put members out, and move their offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

from penstock.client.admin.group_history import GroupHistory, history_from
from penstock.client.admin.share_groups import ShareGroupAdmin
from penstock.client.admin.streams_groups import StreamsGroupAdmin, partitions_of
from penstock.client.cluster import ClusterClient
from penstock.client.committed_offsets import (
    GroupFailures,
    check_group,
    commit,
    delete_committed,
    fetch_committed,
    fetch_committed_of,
)
from penstock.client.consumer_protocol import PROTOCOL_TYPE, decode_assignment
from penstock.client.errors import UnsupportedByBrokerError, raise_for
from penstock.client.values import OffsetAndMetadata, TopicPartition
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from penstock.protocol.messages.consumer_group_describe import DescribedGroup as ConsumerDescribed
from penstock.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from penstock.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from penstock.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from penstock.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from penstock.protocol.messages.share_group_describe import DescribedGroup as ShareDescribed
from penstock.protocol.messages.streams_group_describe import DescribedGroup as StreamsDescribed
from penstock.protocol.requests.own_apis import (
    DescribeGroupHistoryRequest,
    DescribeGroupHistoryResponse,
    DescribeHoldersRequest,
    DescribeHoldersResponse,
)
from penstock.protocol.value import Value

DEAD = "Dead"
SHARE = "share"
"""The protocol type of share groups."""
STREAMS = "streams"
"""That of streams groups."""


class GroupListing(Value):
    """One group of the list. `state` and `type` are empty where the broker is too old to say."""

    group_id: str
    protocol_type: str
    state: str
    type: str


class MemberDescription(Value):
    """`metadata` and `assigned` are what the member and its leader said; of a consumer's, `assignment` is made. Where
    the coordinator assigns there are no bytes.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: list[TopicPartition]
    metadata: bytes
    assigned: bytes
    heartbeat_age_ms: int | None = None
    """For how long its coordinator has heard nothing of it; None if that is not known, as with Kafka's brokers."""


class GroupDescription(Value):
    """A group with its members. `assignor` is the protocol that they agreed on, or what the coordinator assigns by."""

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: int
    members: list[MemberDescription]


class Holder(Value):
    """What a group keeps of a partition: so many bytes lie at its committed offset and behind it; it is -1 for none."""

    group_id: str
    partition: TopicPartition
    offset: int
    held_bytes: int


class GroupAdmin:
    def __init__(self, cluster: ClusterClient, shares: ShareGroupAdmin, streams: StreamsGroupAdmin) -> None:
        self._cluster = cluster
        self._shares = shares
        self._streams = streams

    async def listings(self, *, states: Collection[str] = (), types: Collection[str] = ()) -> list[GroupListing]:
        """Of all coordinators, sorted; only those in one of `states` and of one of `types`, if given."""
        request = ListGroupsRequest(states_filter=sorted(states), types_filter=sorted(types))

        async def attempt() -> dict[str, GroupListing]:
            brokers = (await self._cluster.refresh([])).brokers
            answers = await asyncio.gather(
                *(self._cluster.to_node(node_id, request, ListGroupsResponse) for node_id in brokers)
            )
            found: dict[str, GroupListing] = {}
            for answer in answers:
                raise_for(answer.error_code)
                for row in answer.groups:
                    listing = GroupListing(row.group_id, row.protocol_type, row.group_state, row.group_type)
                    found[row.group_id] = listing
            return found

        return [listing for _, listing in sorted((await self._cluster.retrying(attempt)).items())]

    async def describe(self, group_id: str) -> GroupDescription:
        """GROUP_ID_NOT_FOUND if there is none of this name."""
        missing = KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r} does not exist")
        kinds = (self._describe_classic, self._describe_consumer, self._describe_share, self._describe_streams)
        for describe in kinds:
            try:
                return await describe(group_id)
            except KafkaError as error:
                if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                    raise
            except UnsupportedByBrokerError:
                pass  # it has no groups of this kind
        raise missing

    async def _describe_share(self, group_id: str) -> GroupDescription:
        row = await self._shares.describe(group_id)
        return _share_description(row, await self._cluster.coordinator(group_id))

    async def _describe_streams(self, group_id: str) -> GroupDescription:
        row = await self._streams.describe(group_id)
        return _streams_description(row, await self._cluster.coordinator(group_id))

    async def _describe_consumer(self, group_id: str) -> GroupDescription:
        async def attempt() -> GroupDescription:
            coordinator = await self._cluster.coordinator(group_id)
            request = ConsumerGroupDescribeRequest(group_ids=[group_id])
            response = await self._cluster.to_coordinator(group_id, request, ConsumerGroupDescribeResponse)
            row = response.groups[0]
            check_group(self._cluster, group_id, row.error_code, row.error_message)
            return _consumer_description(row, coordinator)

        return await self._cluster.retrying(attempt)

    async def _describe_classic(self, group_id: str) -> GroupDescription:
        async def attempt() -> GroupDescription:
            coordinator = await self._cluster.coordinator(group_id)
            request = DescribeGroupsRequest(groups=[group_id])
            response = await self._cluster.to_coordinator(group_id, request, DescribeGroupsResponse)
            row = response.groups[0]
            check_group(self._cluster, group_id, row.error_code, row.error_message)
            if row.group_state == DEAD:
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r} does not exist")
            return _description(row, coordinator)

        return await self._cluster.retrying(attempt)

    async def history(self, group_id: str) -> GroupHistory:
        """What happened in a group of any kind, and whom it waits for now. GROUP_ID_NOT_FOUND if there is none of this
        name; only our own brokers tell.
        """

        async def attempt() -> GroupHistory:
            request = DescribeGroupHistoryRequest(groups=[group_id])
            response = await self._cluster.to_coordinator(group_id, request, DescribeGroupHistoryResponse)
            row = response.groups[0]
            check_group(self._cluster, group_id, row.error_code, row.error_message)
            return history_from(row)

        return await self._cluster.retrying(attempt)

    async def delete(self, group_id: str) -> None:
        """The group must have no members; its offsets go with it."""

        async def attempt() -> None:
            request = DeleteGroupsRequest(groups_names=[group_id])
            response = await self._cluster.to_coordinator(group_id, request, DeleteGroupsResponse)
            check_group(self._cluster, group_id, response.results[0].error_code)

        await self._cluster.retrying(attempt)

    async def remove_members(self, group_id: str, reason: str) -> None:
        """Put all its members out; those that live join again."""
        group = await self.describe(group_id)
        request = LeaveGroupRequest(
            group_id=group_id,
            members=[
                MemberIdentity(
                    member_id="" if one.instance_id is not None else one.member_id,
                    group_instance_id=one.instance_id,
                    reason=reason,
                )
                for one in group.members
            ],
        )

        async def attempt() -> None:
            response = await self._cluster.to_coordinator(group_id, request, LeaveGroupResponse)
            check_group(self._cluster, group_id, response.error_code)
            for row in response.members:
                if row.error_code != ErrorCode.UNKNOWN_MEMBER_ID:  # it left by itself
                    raise_for(row.error_code, f"member {row.member_id} of group {group_id!r}")

        await self._cluster.retrying(attempt)

    async def offsets(
        self, group_id: str, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        return await fetch_committed(self._cluster, group_id, partitions)

    async def offsets_of(
        self, group_ids: Sequence[str]
    ) -> tuple[dict[str, dict[TopicPartition, OffsetAndMetadata]], GroupFailures]:
        """Of many groups in few requests; and why nothing is told now of the others."""
        return await fetch_committed_of(self._cluster, group_ids)

    async def set_offsets(self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """The group must have no members."""
        await self._cluster.retrying(lambda: commit(self._cluster, group_id, offsets))

    async def holders(self, topic: str) -> list[Holder]:
        """What each group that reads a topic keeps of it: who keeps most comes first. KafkaError
        COORDINATOR_NOT_AVAILABLE if some coordinator does not answer in time.
        """

        async def attempt() -> list[Holder]:
            metadata = await self._cluster.refresh([topic])
            metadata.led(TopicPartition(topic, 0))
            request = DescribeHoldersRequest(topic=topic)
            answers = await asyncio.gather(
                *(self._cluster.to_node(node_id, request, DescribeHoldersResponse) for node_id in metadata.brokers)
            )
            for answer in answers:
                raise_for(answer.error_code, answer.error_message)
            return [
                Holder(group.group_id, TopicPartition(topic, row.partition), row.offset, row.held_bytes)
                for answer in answers
                for group in answer.groups
                for row in group.partitions
            ]

        try:
            found = await self._cluster.retrying(attempt)
        except UnsupportedByBrokerError:
            raise UnsupportedByBrokerError("only Penstock's brokers say which groups keep what") from None
        return sorted(found, key=lambda one: (-one.held_bytes, one.group_id, one.partition))

    async def delete_offsets(
        self, group_id: str, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Offsets of a topic that the group reads now are refused one by one."""
        return await delete_committed(self._cluster, group_id, partitions)


def _description(row: DescribedGroup, coordinator: int) -> GroupDescription:
    members = [
        MemberDescription(
            member_id=member.member_id,
            instance_id=member.group_instance_id,
            client_id=member.client_id,
            host=member.client_host,
            assignment=_assignment(row.protocol_type, member.member_assignment),
            metadata=member.member_metadata,
            assigned=member.member_assignment,
            heartbeat_age_ms=_age(member.heartbeat_age_ms),
        )
        for member in row.members
    ]
    return GroupDescription(row.group_id, row.group_state, row.protocol_type, row.protocol_data, coordinator, members)


def _consumer_description(row: ConsumerDescribed, coordinator: int) -> GroupDescription:
    members = [
        MemberDescription(
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            host=member.client_host,
            assignment=[
                TopicPartition(topic.topic_name, index)
                for topic in member.assignment.topic_partitions
                for index in sorted(topic.partitions)
            ],
            metadata=b"",
            assigned=b"",
            heartbeat_age_ms=_age(member.heartbeat_age_ms),
        )
        for member in row.members
    ]
    return GroupDescription(row.group_id, row.group_state, PROTOCOL_TYPE, row.assignor_name, coordinator, members)


def _share_description(row: ShareDescribed, coordinator: int) -> GroupDescription:
    members = [
        MemberDescription(
            member_id=member.member_id,
            instance_id=None,
            client_id=member.client_id,
            host=member.client_host,
            assignment=[
                TopicPartition(topic.topic_name, index)
                for topic in member.assignment.topic_partitions
                for index in sorted(topic.partitions)
            ],
            metadata=b"",
            assigned=b"",
            heartbeat_age_ms=_age(member.heartbeat_age_ms),
        )
        for member in row.members
    ]
    return GroupDescription(row.group_id, row.group_state, SHARE, row.assignor_name, coordinator, members)


def _streams_description(row: StreamsDescribed, coordinator: int) -> GroupDescription:
    """A member has what its active tasks read."""
    members = [
        MemberDescription(
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            host=member.client_host,
            assignment=partitions_of(row, member.assignment.active_tasks),
            metadata=b"",
            assigned=b"",
            heartbeat_age_ms=_age(member.heartbeat_age_ms),
        )
        for member in row.members
    ]
    return GroupDescription(row.group_id, row.group_state, STREAMS, row.assignor_name or "", coordinator, members)


def _age(heartbeat_age_ms: int) -> int | None:
    return heartbeat_age_ms if heartbeat_age_ms >= 0 else None


def _assignment(protocol_type: str, data: bytes) -> list[TopicPartition]:
    if protocol_type != PROTOCOL_TYPE:
        return []
    try:
        return decode_assignment(data)
    except DecodeError:
        return []  # a client with another layout wrote it
