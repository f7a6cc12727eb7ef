"""DeleteGroups 0-3: delete groups without members, with their offsets. Waits until that is committed."""

from collections.abc import Awaitable

from penstock.node.api.coordinated import coordinated
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import DELETE_GROUP
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import Each
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from penstock.protocol.requests.api import ApiKey


@handles(
    ApiKey.DELETE_GROUPS,
    versions=(0, 3),
    rule=(Each(DELETE_GROUP, ("groups_names",), "results"),),
    parts=(("groups_names", "results"),),
)
@coordinated(lambda request: request.groups_names)
async def delete_groups(broker: Broker, context: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    answers = [_delete(broker, group_id) for group_id in dict.fromkeys(request.groups_names)]
    results = [
        (group_id, answer if isinstance(answer, ErrorCode) else await answer)
        for group_id, answer in zip(dict.fromkeys(request.groups_names), answers, strict=True)
    ]
    return DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id=group_id, error_code=error) for group_id, error in results]
    )


def _delete(broker: Broker, group_id: str) -> ErrorCode | Awaitable[ErrorCode]:
    try:
        shard = broker.groups.find(group_id)
    except KafkaError as error:
        return error.code
    answer: ErrorCode | Awaitable[ErrorCode] = shard.ask(shard.machine.delete_group, group_id)
    return answer
