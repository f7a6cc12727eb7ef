"""AlterShareGroupOffsets 0: a share group without members begins elsewhere; one that is not there is made.

Answered when the share coordinators have it, or one of them could not be asked.
"""

from collections.abc import Awaitable

from penstock.metadata.features import SHARE_VERSION
from penstock.node.api.coordinated import coordinated
from penstock.node.roles.broker import Broker
from penstock.node.serving.handler import RequestContext
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)


@coordinated()
def alter_share_group_offsets(
    broker: Broker, context: RequestContext, request: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse | Awaitable[AlterShareGroupOffsetsResponse]:
    if not broker.image.features.get(SHARE_VERSION):
        return AlterShareGroupOffsetsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if not request.group_id.strip():
        return AlterShareGroupOffsetsResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    try:
        shard = broker.groups.find(request.group_id)
    except KafkaError as error:
        return AlterShareGroupOffsetsResponse(error_code=error.code)
    answer: AlterShareGroupOffsetsResponse | Awaitable[AlterShareGroupOffsetsResponse] = shard.ask(
        shard.machine.alter_share_offsets, request
    )
    return answer
