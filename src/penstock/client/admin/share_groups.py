"""Share groups from outside: describe them, and show, move and forget where they begin to read (KIP-932)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from penstock.client.cluster import ClusterClient
from penstock.client.committed_offsets import GroupFailures, ask_of_groups, check_group, told_of
from penstock.client.errors import ClientError, raise_for
from penstock.client.values import OffsetAndMetadata, TopicPartition, numbers_by_topic
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from penstock.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from penstock.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
)
from penstock.protocol.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from penstock.protocol.requests.share_progress import (
    DescribedSharePartition,
    DescribeSharePartitionsRequest,
    DescribeSharePartitionsResponse,
    SharePartitionAt,
    ShareTopicAt,
)
from penstock.protocol.value import Value

NOTHING = -1


class SharePosition(Value):
    """Where a share group begins in a partition: `offset` -1 is where its share.auto.offset.reset says.

    `lag` is how many records are still to be delivered for good; None if nobody knows.
    """

    offset: int
    leader_epoch: int
    lag: int | None


class ShareProgress(Value):
    """How a share group comes along in a partition, as its leader says: since when (milliseconds since 1970, by its
    timestamp) the first record waits that the group has not finished with, None without one. The others are None where
    no member fetches of it: records that members have, that wait until they may be given away, and deliveries a second
    lately, of all and of those that were not a record's first. `pause_ms`: for how long deliveries pause yet, as too
    many records became dead letters; 0 while a few are tried, None where they do not pause.
    """

    waits_since_ms: int | None
    waits_ms: int | None
    in_flight: int | None
    held: int | None
    deliveries_per_second: float | None
    redeliveries_per_second: float | None
    pause_ms: int | None


class ShareGroupAdmin:
    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster

    async def describe(self, group_id: str) -> DescribedGroup:
        """GROUP_ID_NOT_FOUND if there is no share group of this name."""

        async def attempt() -> DescribedGroup:
            request = ShareGroupDescribeRequest(group_ids=[group_id])
            response = await self._cluster.to_coordinator(group_id, request, ShareGroupDescribeResponse)
            row = response.groups[0]
            check_group(self._cluster, group_id, row.error_code, row.error_message)
            return row

        return await self._cluster.retrying(attempt)

    async def offsets(
        self, group_id: str, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, SharePosition]:
        """Of these partitions, or of all where the group has begun (None)."""
        topics = None if partitions is None else [
            DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=list(numbers))
            for name, numbers in numbers_by_topic(partitions)
        ]  # fmt: skip
        request = DescribeShareGroupOffsetsRequest(
            groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=topics)]
        )

        async def attempt() -> dict[TopicPartition, SharePosition]:
            response = await self._cluster.to_coordinator(group_id, request, DescribeShareGroupOffsetsResponse)
            return self._positions(response.groups[0])

        return await self._cluster.retrying(attempt)

    async def offsets_of(
        self, group_ids: Sequence[str]
    ) -> tuple[dict[str, dict[TopicPartition, SharePosition]], GroupFailures]:
        """Of many groups in few requests, where they have begun; and why nothing is told now of the others."""

        async def ask(part: Sequence[str]) -> tuple[dict[str, dict[TopicPartition, SharePosition]], GroupFailures]:
            request = DescribeShareGroupOffsetsRequest(
                groups=[DescribeShareGroupOffsetsRequestGroup(group_id=one, topics=None) for one in part]
            )
            response = await self._cluster.to_coordinator(part[0], request, DescribeShareGroupOffsetsResponse)
            return told_of({row.group_id: partial(self._positions, row) for row in response.groups})

        return await ask_of_groups(self._cluster, group_ids, ask)

    def _positions(self, row: DescribeShareGroupOffsetsResponseGroup) -> dict[TopicPartition, SharePosition]:
        check_group(self._cluster, row.group_id, row.error_code, row.error_message)
        found = {}
        for topic in row.topics:
            for one in topic.partitions:
                raise_for(one.error_code, f"{topic.topic_name}-{one.partition_index}")
                lag = one.lag if one.lag != NOTHING else None
                place = TopicPartition(topic.topic_name, one.partition_index)
                found[place] = SharePosition(one.start_offset, one.leader_epoch, lag)
        return found

    async def progress(
        self, group_id: str, positions: Mapping[TopicPartition, SharePosition]
    ) -> dict[TopicPartition, ShareProgress]:
        """Of partitions where the group has begun, as `offsets` has them. Those whose leader does not answer now, or is
        no broker of ours, are left out.
        """
        if not positions:
            return {}
        request = DescribeSharePartitionsRequest(
            group_id=group_id,
            topics=[
                ShareTopicAt(
                    topic_name=name,
                    partitions=[
                        SharePartitionAt(partition=it, start_offset=positions[TopicPartition(name, it)].offset)
                        for it in numbers
                    ],
                )
                for name, numbers in numbers_by_topic(positions)
            ],
        )

        async def attempt() -> dict[TopicPartition, ShareProgress]:
            metadata = await self._cluster.refresh(sorted({place.topic for place in positions}))
            answers = await asyncio.gather(
                *(self._cluster.to_node(it, request, DescribeSharePartitionsResponse) for it in metadata.brokers),
                return_exceptions=True,
            )
            found: dict[TopicPartition, ShareProgress] = {}
            for answer in answers:
                if isinstance(answer, ClientError):
                    continue
                if isinstance(answer, BaseException):
                    raise answer
                raise_for(answer.error_code, group_id)
                for topic in answer.topics:
                    raise_for(topic.error_code, topic.topic_name)
                    for row in topic.partitions:
                        found[TopicPartition(topic.topic_name, row.partition)] = _progress(row, answer.now_ms)
            return found

        return await self._cluster.retrying(attempt)

    async def set_offsets(self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """The group must have no members; one that is not there is made."""
        topics: dict[str, list[AlterShareGroupOffsetsRequestPartition]] = {}
        for place, position in offsets.items():
            wanted = AlterShareGroupOffsetsRequestPartition(
                partition_index=place.partition, start_offset=position.offset
            )
            topics.setdefault(place.topic, []).append(wanted)
        request = AlterShareGroupOffsetsRequest(
            group_id=group_id,
            topics=[
                AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=them) for name, them in topics.items()
            ],
        )

        async def attempt() -> None:
            response = await self._cluster.to_coordinator(group_id, request, AlterShareGroupOffsetsResponse)
            check_group(self._cluster, group_id, response.error_code, response.error_message)
            for topic in response.responses:
                for one in topic.partitions:
                    raise_for(one.error_code, f"{topic.topic_name}-{one.partition_index}")

        await self._cluster.retrying(attempt)

    async def delete_offsets(self, group_id: str, topics: Collection[str]) -> dict[str, ErrorCode]:
        """Of a group without members; each topic's outcome."""
        request = DeleteShareGroupOffsetsRequest(
            group_id=group_id, topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics]
        )

        async def attempt() -> dict[str, ErrorCode]:
            response = await self._cluster.to_coordinator(group_id, request, DeleteShareGroupOffsetsResponse)
            check_group(self._cluster, group_id, response.error_code, response.error_message)
            return {topic.topic_name: ErrorCode(topic.error_code) for topic in response.responses}

        return await self._cluster.retrying(attempt)


def _progress(row: DescribedSharePartition, now_ms: int) -> ShareProgress:
    since_ms = row.oldest_ms if row.oldest_ms != NOTHING else None
    waits_ms = None if since_ms is None else max(now_ms - since_ms, 0)
    if not row.is_read:
        return ShareProgress(since_ms, waits_ms, None, None, None, None, None)
    rates = row.deliveries_per_second, row.redeliveries_per_second
    pause_ms = row.pause_ms if row.pause_ms >= 0 else None
    return ShareProgress(since_ms, waits_ms, row.in_flight, row.held, *rates, pause_ms)
