"""Streams groups from outside (KIP-1071): what the coordinator knows of them, and which partitions their tasks read."""

from collections.abc import Iterable

from penstock.client.cluster import ClusterClient
from penstock.client.committed_offsets import check_group
from penstock.client.values import TopicPartition
from penstock.protocol.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    Subtopology,
    TaskIds,
)


class StreamsGroupAdmin:
    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster

    async def describe(self, group_id: str, *, with_topology_description: bool = False) -> DescribedGroup:
        """GROUP_ID_NOT_FOUND if there is no streams group of this name."""
        request = StreamsGroupDescribeRequest(
            group_ids=[group_id], include_topology_description=with_topology_description
        )

        async def attempt() -> DescribedGroup:
            response = await self._cluster.to_coordinator(group_id, request, StreamsGroupDescribeResponse)
            row = response.groups[0]
            check_group(self._cluster, group_id, row.error_code, row.error_message)
            return row

        return await self._cluster.retrying(attempt)


def subtopologies(group: DescribedGroup) -> list[Subtopology]:
    return (group.topology.subtopologies if group.topology is not None else None) or []


def input_topics(group: DescribedGroup) -> list[str]:
    """That the application reads and has not made itself."""
    return sorted({name for sub in subtopologies(group) for name in sub.source_topics})


def read_topics(group: DescribedGroup) -> list[str]:
    """With those that it has made to read them."""
    made = {topic.name for sub in subtopologies(group) for topic in sub.repartition_source_topics}
    return sorted({*input_topics(group), *made})


def internal_topics(group: DescribedGroup) -> list[str]:
    """That the application has made for itself: what it only reads stays, also where it restores a store from it."""
    made = {
        topic.name
        for sub in subtopologies(group)
        for topic in (*sub.repartition_source_topics, *sub.state_changelog_topics)
    }
    return sorted(made - {*input_topics(group)})


def partitions_of(group: DescribedGroup, tasks: Iterable[TaskIds]) -> list[TopicPartition]:
    """That these tasks read; more than there are, where the topics of a subtopology differ in size."""
    reads = {
        sub.subtopology_id: [*sub.source_topics, *(topic.name for topic in sub.repartition_source_topics)]
        for sub in subtopologies(group)
    }
    return sorted(
        {
            TopicPartition(topic, partition)
            for one in tasks
            for topic in reads.get(one.subtopology_id, ())
            for partition in one.partitions
        }
    )
