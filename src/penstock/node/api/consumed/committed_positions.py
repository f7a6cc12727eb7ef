"""CommittedPositions 0, an API of our own: what groups that this node coordinates have committed in a topic.

A shard is left out unless this node coordinates it when all of its groups have been looked at: another coordinator may
know better.
"""

from __future__ import annotations

from typing import Any

from penstock.node.coordinators.consumed_retention import COORDINATORS
from penstock.node.coordinators.hosted import Hosted
from penstock.node.roles.broker import Broker
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.slices import Steps
from penstock.protocol.errors import ErrorCode
from penstock.protocol.requests.own_apis import (
    CommittedPositionsRequest,
    CommittedPositionsResponse,
    CoordinatedPositions,
    PositionOfGroup,
    PositionsOfGroup,
)


def committed_positions(
    broker: Broker, context: RequestContext, request: CommittedPositionsRequest
) -> Steps[CommittedPositionsResponse]:
    topic = broker.image.topics_by_id.get(request.topic_id)
    if topic is None:
        return CommittedPositionsResponse(error_code=ErrorCode.UNKNOWN_TOPIC_ID)
    host = broker.coordinators.for_keys(request.key_type) if request.key_type in COORDINATORS.values() else None
    if host is None or host.topic is None:
        return CommittedPositionsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    answer = CommittedPositionsResponse(partition_count=len(host.topic.partitions))
    for hosted in host.serving():
        groups: list[PositionsOfGroup] = []
        for some in hosted.machine.positions(topic.name, topic.topic_id):
            groups += [_told(group_id, offsets) for group_id, offsets in some.items()]
            yield None
        if _coordinates(broker, hosted):
            answer.coordinated.append(
                CoordinatedPositions(partition=hosted.partition.index, leader_epoch=hosted.leader_epoch, groups=groups)
            )
    return answer


def _told(group_id: str, offsets: dict[int, int]) -> PositionsOfGroup:
    return PositionsOfGroup(
        group_id=group_id,
        positions=[PositionOfGroup(partition=index, offset=offset) for index, offset in offsets.items()],
    )


def _coordinates(broker: Broker, hosted: Hosted[Any]) -> bool:
    return hosted.is_serving and not hosted.is_paused and not hosted.is_over and broker.may_lead(hosted.partition)
