"""ForwardToCoordinator 0, an API of our own: the coordinator before sends on what it was asked.

Waits until this node has taken over, for `offsets.commit.timeout.ms` at most; then the request is answered as if the
client had sent it here.
"""

from typing import Final, cast

from penstock.node.api.coordinated import answered
from penstock.node.roles.broker import Broker
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import BETWEEN_NODES
from penstock.node.serving.slices import now_or_later
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.requests.api import ApiKey, OwnApiKey
from penstock.protocol.requests.own_apis import ForwardToCoordinatorRequest, ForwardToCoordinatorResponse
from penstock.protocol.schema import Message

FORWARDED: Final = frozenset(
    {
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.DELETE_GROUPS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.END_TXN,
        ApiKey.HEARTBEAT,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.JOIN_GROUP,
        ApiKey.LEAVE_GROUP,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_DELETE,
        ApiKey.OFFSET_FETCH,
        ApiKey.SHARE_GROUP_DESCRIBE,
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.STREAMS_GROUP_DESCRIBE,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
        ApiKey.SYNC_GROUP,
        ApiKey.TXN_OFFSET_COMMIT,
    }
)


@handles(
    OwnApiKey.FORWARD_TO_COORDINATOR, versions=(0, 0), rule=BETWEEN_NODES, pipelined=True, polls=True, carries=True
)
async def forward_to_coordinator(
    broker: Broker, context: RequestContext, request: ForwardToCoordinatorRequest
) -> ForwardToCoordinatorResponse:
    host = broker.coordinators.for_keys(request.key_type)
    serves = host is not None and await host.taken_over(request.partition, request.leader_epoch)
    if request.envelope is None:
        code = ErrorCode.NONE if serves else ErrorCode.NOT_COORDINATOR
        return ForwardToCoordinatorResponse(error_code=code)
    from penstock.node.controlling import envelope  # a single node gets none
    from penstock.protocol.messages.envelope import EnvelopeRequest

    wrapped, _ = decode(EnvelopeRequest, 0, request.envelope)
    try:
        asked_by, asked = await envelope.opened_in_time(wrapped, broker, FORWARDED, context)
    except KafkaError as error:
        return ForwardToCoordinatorResponse(error_code=error.code)
    found = await now_or_later(answered(broker, broker.handlers[asked_by.api_key].function(broker, asked_by, asked)))
    closed = await envelope.closed_in_time(cast("Message | bytes", found), broker, asked_by)
    return ForwardToCoordinatorResponse(envelope=encode(closed, 0))
