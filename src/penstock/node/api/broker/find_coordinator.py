"""FindCoordinator 0-6: which broker coordinates a group, a transactional id or a share partition. Any broker can say.

Up to version 3 one key and one answer, from version 4 on a batch (KIP-699); a share partition is
`group:topicId:partition`, from version 6 on. The first question creates `__consumer_offsets`, `__transaction_state` or
`__share_group_state`; until it is there, the answer is COORDINATOR_NOT_AVAILABLE, and clients ask again.
"""

from typing import Final

from penstock.node.roles.broker import Broker
from penstock.node.serving.access import CLUSTER_ACTION, DESCRIBE_GROUP, DESCRIBE_TRANSACTION
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import Within
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from penstock.protocol.requests.api import ApiKey

BATCHED_SINCE: Final = 4
NOBODY: Final = -1
GROUP, TRANSACTION, SHARE = 0, 1, 2
SHARE_SINCE: Final = 6
_RIGHTS: Final = {GROUP: DESCRIBE_GROUP, TRANSACTION: DESCRIBE_TRANSACTION}
RULE: Final = (
    Within(DESCRIBE_GROUP, "for each group"),
    Within(DESCRIBE_TRANSACTION, "for each transactional id"),
    Within(CLUSTER_ACTION, "for what share groups keep"),
)


@handles(ApiKey.FIND_COORDINATOR, versions=(0, 6), rule=RULE, parts=(("coordinator_keys", "coordinators"),))
def find_coordinator(
    broker: Broker, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
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
        _check_right(context, key_type, key)
        host = broker.coordinators.for_keys(key_type)
        if host is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Nothing coordinates keys of type {key_type}.")
        node_id, endpoint = host.coordinator(key, context.session.listener)
    except KafkaError as error:
        answer.error_code, answer.error_message = error.code, error.message
    else:
        answer.node_id, answer.host, answer.port = node_id, endpoint.host, endpoint.port
    return answer


def _check_right(context: RequestContext, key_type: int, key: str) -> None:
    if key_type in _RIGHTS and not context.allows(_RIGHTS[key_type], key):
        raise _RIGHTS[key_type].refused()
    if key_type == SHARE and context.api_version < SHARE_SINCE:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Share partitions have coordinators from version {SHARE_SINCE} on."
        )
    if key_type == SHARE and not context.allows(CLUSTER_ACTION):
        raise CLUSTER_ACTION.refused()
