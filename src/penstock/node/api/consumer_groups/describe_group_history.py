"""DescribeGroupHistory 0, an API of our own: what happened in groups of any kind, an epoch after the other, and whom
they wait for now.

Which partitions have moved is told of topics that the client may describe; tasks of streams groups name none.
"""

from functools import partial
from typing import Final

from penstock.node.api.coordinated import coordinated, each_once
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import DESCRIBE_TOPIC
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.slices import Steps
from penstock.protocol.errors import KafkaError
from penstock.protocol.requests.own_apis import (
    DescribedHistory,
    DescribeGroupHistoryRequest,
    DescribeGroupHistoryResponse,
    MovedPartitions,
)

STREAMS: Final = "streams"


@coordinated(lambda request: request.groups)
def describe_group_history(
    broker: Broker, context: RequestContext, request: DescribeGroupHistoryRequest
) -> Steps[DescribeGroupHistoryResponse]:
    groups = yield from each_once(request.groups, partial(_describe, broker, context))
    return DescribeGroupHistoryResponse(groups=groups)


def _describe(broker: Broker, context: RequestContext, group_id: str) -> DescribedHistory:
    try:
        shard = broker.groups.find(group_id)
    except KafkaError as error:
        return DescribedHistory(group_id=group_id, error_code=error.code)
    found = shard.machine.describe_history(group_id, broker.groups.now_ms())
    for epoch in found.epochs:
        if epoch.kind != STREAMS:
            epoch.moves = _shown(context, epoch.moves)
    if found.epochs and found.epochs[-1].kind == STREAMS:
        return found
    for awaited in found.awaited:
        awaited.partitions = _shown(context, awaited.partitions)
    return found


def _shown(context: RequestContext, moves: list[MovedPartitions]) -> list[MovedPartitions]:
    return [one for one in moves if context.shows(DESCRIBE_TOPIC, one.topic)]
