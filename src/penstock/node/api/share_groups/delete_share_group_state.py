"""DeleteShareGroupState 0: a share group has read nothing of these partitions any more."""

from typing import Any, Final

from penstock.coordinator.shards.shares import ShareShard
from penstock.node.api.share_groups.states import StateApi, ask
from penstock.node.roles.broker import Broker
from penstock.node.serving.handler import RequestContext
from penstock.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionResult,
)

_API: Final = StateApi(ShareShard.delete, PartitionResult, DeleteStateResult, DeleteShareGroupStateResponse)


def delete_share_group_state(broker: Broker, context: RequestContext, request: DeleteShareGroupStateRequest) -> Any:
    return ask(broker, _API, request)
