"""A request of each kind about a group of the consumer protocol, or of Kafka Streams, whose member is made for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

from penstock.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from penstock.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from penstock.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, Topology
from penstock.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.schema import Message

MEMBER = "member-of-the-test"


def _join(asker: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=asker.name,
        member_id=str(uuid4()),
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=["every-version"],
        topic_partitions=[],
    )


def heartbeat(asker: Any) -> Message:
    asker.client.find_coordinator(asker.name)
    return _join(asker)


def describe(asker: Any) -> Message:
    asker.client.ask(heartbeat(asker))
    return ConsumerGroupDescribeRequest(group_ids=[asker.name], include_authorized_operations=True)


def streams_heartbeat(asker: Any) -> Message:
    asker.client.find_coordinator(asker.name)
    return StreamsGroupHeartbeatRequest(
        group_id=asker.name,
        member_id=MEMBER,
        rebalance_timeout_ms=10_000,
        process_id="p",
        topology=Topology(subtopologies=[Subtopology(subtopology_id="0", source_topics=["every-version"])]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )


def describe_streams(asker: Any) -> Message:
    asker.client.ask(streams_heartbeat(asker), 0)
    return StreamsGroupDescribeRequest(group_ids=[asker.name], include_authorized_operations=True)


def update_description(asker: Any) -> Message:
    asker.client.ask(streams_heartbeat(asker), 0)
    nodes = [TopologyDescriptionNode(name="reads", node_type=1, source_topics=["every-version"])]
    described = TopologyDescription(subtopologies=[TopologyDescriptionSubtopology(subtopology_id="0", nodes=nodes)])
    return StreamsGroupTopologyDescriptionUpdateRequest(
        group_id=asker.name, member_id=MEMBER, topology_epoch=0, topology_description=described
    )


REQUESTS: dict[ApiKey, Callable[[Any], Message]] = {
    ApiKey.CONSUMER_GROUP_HEARTBEAT: heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: describe,
    ApiKey.STREAMS_GROUP_HEARTBEAT: streams_heartbeat,
    ApiKey.STREAMS_GROUP_DESCRIBE: describe_streams,
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: update_description,
}
