"""AlterShareGroupOffsets 0: a share group without members begins elsewhere; one that is not there is made.

Answered when the share coordinators have it, or one of them could not be asked.
"""

from collections.abc import Awaitable

from penstock.coordinator.shards.groups import GroupShard
from penstock.node.api.coordinated import coordinated
from penstock.node.api.share_groups.altering import altered
from penstock.node.roles.broker import Broker
from penstock.node.serving.handler import RequestContext
from penstock.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)


@coordinated()
def alter_share_group_offsets(
    broker: Broker, context: RequestContext, request: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse | Awaitable[AlterShareGroupOffsetsResponse]:
    return altered(broker, request, AlterShareGroupOffsetsResponse, GroupShard.alter_share_offsets)
