"""A request of each kind about a group of the consumer protocol, whose member is made for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

from penstock.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from penstock.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.schema import Message


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


REQUESTS: dict[ApiKey, Callable[[Any], Message]] = {
    ApiKey.CONSUMER_GROUP_HEARTBEAT: heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: describe,
}
