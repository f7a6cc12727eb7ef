"""StreamsGroupTopologyDescriptionUpdate 0: a member sends what its application looks like, for those who ask later.

`coordinator/group/streams/describing.py` has the rules.
"""

from collections.abc import Awaitable

from penstock.metadata.features import STREAMS_VERSION
from penstock.node.api.coordinated import coordinated
from penstock.node.roles.broker import Broker
from penstock.node.serving.handler import RequestContext
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)

Response = StreamsGroupTopologyDescriptionUpdateResponse


@coordinated()
def streams_group_topology_description_update(
    broker: Broker, context: RequestContext, request: StreamsGroupTopologyDescriptionUpdateRequest
) -> Response | Awaitable[Response]:
    if not broker.image.features.get(STREAMS_VERSION):
        return Response(error_code=ErrorCode.UNSUPPORTED_VERSION)
    try:
        shard = broker.groups.find(request.group_id)
    except KafkaError as error:
        return Response(error_code=error.code)
    answer: Response | Awaitable[Response] = shard.ask(shard.machine.update_topology_description, request)
    return answer
