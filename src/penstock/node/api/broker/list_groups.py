"""ListGroups 0-5: the groups that this node coordinates, by state from version 4 on (KIP-518), by type from 5 on."""

from typing import Final

from penstock.node.roles.broker import Broker
from penstock.node.serving.access import DESCRIBE_CLUSTER, DESCRIBE_GROUP
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.parts import times_named
from penstock.node.serving.rules import Told
from penstock.node.serving.slices import Pace, Steps
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from penstock.protocol.requests.api import ApiKey

GROUPS_A_STEP: Final = 100


@handles(
    ApiKey.LIST_GROUPS,
    versions=(0, 5),
    rule=(Told(DESCRIBE_GROUP, "groups", lambda group: group.group_id, unless=DESCRIBE_CLUSTER),),
)
def list_groups(broker: Broker, context: RequestContext, request: ListGroupsRequest) -> Steps[ListGroupsResponse]:
    """A filter that names nothing lets all groups through; upper or lower case does not matter."""
    states = yield from times_named(state.lower() for state in request.states_filter)
    types = yield from times_named(group_type.lower() for group_type in request.types_filter)
    answer, pace = ListGroupsResponse(), Pace(GROUPS_A_STEP)
    try:
        serving = broker.groups.all_serving()
    except KafkaError as error:
        return ListGroupsResponse(error_code=error.code)
    for shard in serving:
        for group in shard.machine.list_groups():
            if (not states or group.group_state.lower() in states) and (not types or group.group_type in types):
                answer.groups.append(group)
            if pace.is_due():
                yield None
    return answer
