"""CreateStorageGroup: a group begins before any topic is in it."""

from penstock.controller.create_topics import DEFAULT
from penstock.controller.decision import ControllerState, Decision
from penstock.controller.storage_groups import Asked, StorageGroups
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.requests.own_apis import CreateStorageGroupRequest, CreateStorageGroupResponse


def decide_create_storage_group(
    state: ControllerState, request: CreateStorageGroupRequest, now_ms: int
) -> Decision[CreateStorageGroupResponse]:
    """Decides where the group lies, unless the request does; the reply has its number."""
    try:
        found = StorageGroups(state).begin(_asked(request))
    except KafkaError as error:
        return Decision([], CreateStorageGroupResponse(error_code=error.code, error_message=error.message))
    reply = CreateStorageGroupResponse(group=found.number, replicas=list(found.group.replicas))
    return Decision(list(found.records), reply)


def _asked(request: CreateStorageGroupRequest) -> Asked:
    factor = request.replication_factor
    if request.replicas:
        if factor != DEFAULT:
            message = "Either the replicas of a storage group are named, or how many there shall be"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        return Asked(replicas=tuple(request.replicas))
    if factor < DEFAULT or factor == 0:
        message = f"The replication factor must be at least 1, or -1 for the default, not {factor}"
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    return Asked(replication_factor=None if factor == DEFAULT else factor)
