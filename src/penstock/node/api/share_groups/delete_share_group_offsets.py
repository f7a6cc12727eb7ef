"""DeleteShareGroupOffsets 0: a share group without members has read nothing of these topics any more.

Answered when the share coordinators have forgotten it, or one of them could not be asked; then it is tried again.
"""

from collections.abc import Awaitable

from penstock.metadata.features import SHARE_VERSION
from penstock.node.api.coordinated import coordinated
from penstock.node.roles.broker import Broker
from penstock.node.serving.handler import RequestContext
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)


@coordinated()
def delete_share_group_offsets(
    broker: Broker, context: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse | Awaitable[DeleteShareGroupOffsetsResponse]:
    if not broker.image.features.get(SHARE_VERSION):
        return DeleteShareGroupOffsetsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if not request.group_id.strip():
        return DeleteShareGroupOffsetsResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    try:
        shard = broker.groups.find(request.group_id)
    except KafkaError as error:
        return DeleteShareGroupOffsetsResponse(error_code=error.code)
    answer: DeleteShareGroupOffsetsResponse | Awaitable[DeleteShareGroupOffsetsResponse] = shard.ask(
        shard.machine.delete_share_offsets, request
    )
    return answer
