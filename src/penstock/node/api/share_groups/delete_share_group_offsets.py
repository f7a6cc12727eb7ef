"""DeleteShareGroupOffsets 0: a share group without members has read nothing of these topics any more.

Answered when the share coordinators have forgotten it, or one of them could not be asked; then it is tried again.
"""

from collections.abc import Awaitable

from penstock.coordinator.shards.groups import GroupShard
from penstock.node.api.coordinated import coordinated
from penstock.node.api.share_groups.altering import altered
from penstock.node.roles.broker import Broker
from penstock.node.serving.handler import RequestContext
from penstock.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)


@coordinated()
def delete_share_group_offsets(
    broker: Broker, context: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse | Awaitable[DeleteShareGroupOffsetsResponse]:
    return altered(broker, request, DeleteShareGroupOffsetsResponse, GroupShard.delete_share_offsets)
