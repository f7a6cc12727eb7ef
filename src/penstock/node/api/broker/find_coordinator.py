"""FindCoordinator 0-6: which broker coordinates a group. Any broker can say, from the metadata alone.

Up to version 3 one key and one answer, from version 4 on a batch (KIP-699). The first question creates
`__consumer_offsets`; until it is there, the answer is COORDINATOR_NOT_AVAILABLE, and clients ask again.

Not done: the coordinators of transactions and of share groups. They are refused in words, not left to time out.
"""

from __future__ import annotations

from typing import Final

from penstock.node.roles.broker import Broker
from penstock.node.serving.access import Need
from penstock.node.serving.handler import RequestContext, handles
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from penstock.protocol.requests.api import ApiKey

GROUP: Final = 0
BATCHED_SINCE: Final = 4
NOBODY: Final = -1
KEY_TYPES: Final = {1: "transactions", 2: "share groups"}
REFUSALS: Final = {1: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
"""librdkafka takes any other error about a transaction for a passing one, and asks again until its user gives up."""


@handles(ApiKey.FIND_COORDINATOR, versions=(0, 6), needs=(Need.DESCRIBE_GROUP, Need.DESCRIBE_TRANSACTION))
def find_coordinator(
    broker: Broker, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    """Look up the coordinator of each key."""
    if context.api_version >= BATCHED_SINCE:
        return FindCoordinatorResponse(
            coordinators=[_find(broker, context, request.key_type, key) for key in request.coordinator_keys]
        )
    found = _find(broker, context, request.key_type, request.key)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _find(broker: Broker, context: RequestContext, key_type: int, key: str) -> Coordinator:
    answer = Coordinator(key=key, node_id=NOBODY, port=NOBODY, error_message=None)
    try:
        if key_type != GROUP:
            what = KEY_TYPES.get(key_type, f"coordinator for keys of type {key_type}")
            raise KafkaError(REFUSALS.get(key_type, ErrorCode.INVALID_REQUEST), f"This cluster has no {what} yet.")
        node_id, endpoint = broker.groups.coordinator(key, context.session.listener)
    except KafkaError as error:
        answer.error_code, answer.error_message = error.code, error.message
    else:
        answer.node_id, answer.host, answer.port = node_id, endpoint.host, endpoint.port
    return answer
