"""What a streams application says at most, and what is refused as it says more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.wire.raw_client import RawClient

from penstock.coordinator.group.streams.description import MAX_NODES, SINK
from penstock.coordinator.group.streams.topology import MAX_PARTS, MAX_TASKS
from penstock.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from penstock.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestTaskIds,
    Subtopology,
    TaskOffset,
    Topology,
)
from penstock.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from penstock.protocol.schema import Message

GROUP = "application"


def join(address: str, topic: str) -> tuple[int, int]:
    """A member of `GROUP` that runs all tasks: its epoch, and how many they are."""
    with RawClient(address) as client:
        while not (answer := client.ask(_joining(GROUP, _reads("0", topic)))).active_tasks:
            pass
    return answer.member_epoch, sum(len(one.partitions) for one in answer.active_tasks)


def topologies(topics: list[str]) -> Iterator[Message]:
    each = [_reads(str(number), topics[number % len(topics)]) for number in range(MAX_PARTS // 2)]
    yield _joining("wide", *each)
    yield _joining("deep", _reads("0", *topics[1:2] * (MAX_PARTS - 1)))
    yield _joining("beyond", *each * 100)


def heartbeats(epoch: int, count: int) -> Iterator[Message]:
    """Of the member that has joined, to which `count` tasks were given."""
    each = [
        StreamsGroupHeartbeatRequestTaskIds(subtopology_id="0", partitions=[number % count])
        for number in range(MAX_TASKS)
    ]
    offsets = [TaskOffset(subtopology_id="0", partition=number) for number in range(MAX_TASKS)]
    yield _heartbeat(GROUP, epoch, active_tasks=each, task_offsets=offsets, task_end_offsets=offsets)
    yield _heartbeat(GROUP, epoch, active_tasks=each * 5, task_offsets=offsets * 5)


def descriptions() -> Iterator[Message]:
    nodes = [TopologyDescriptionNode(name=f"n{number}", node_type=SINK) for number in range(MAX_NODES - 1)]
    for some in (nodes, nodes * 50):
        description = TopologyDescription(subtopologies=[TopologyDescriptionSubtopology(nodes=some)])
        yield StreamsGroupTopologyDescriptionUpdateRequest(
            group_id=GROUP, member_id="m", topology_epoch=1, topology_description=description
        )
    yield StreamsGroupDescribeRequest(group_ids=[GROUP] * 40, include_topology_description=True)


def _heartbeat(group: str, epoch: int, **fields: Any) -> StreamsGroupHeartbeatRequest:
    said: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []} | fields
    return StreamsGroupHeartbeatRequest(group_id=group, member_id="m", member_epoch=epoch, **said)


def _joining(group: str, *subtopologies: Subtopology) -> StreamsGroupHeartbeatRequest:
    topology = Topology(epoch=1, subtopologies=list(subtopologies))
    return _heartbeat(group, 0, rebalance_timeout_ms=30_000, process_id="p", topology=topology)


def _reads(name: str, *topics: str) -> Subtopology:
    return Subtopology(subtopology_id=name, source_topics=list(topics))
