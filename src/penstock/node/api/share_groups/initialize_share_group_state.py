"""InitializeShareGroupState 0: a share group begins in partitions, at an offset that is given, or to be found."""

from typing import Any, Final

from penstock.coordinator.shards.shares import ShareShard
from penstock.node.api.share_groups.states import StateApi, ask
from penstock.node.roles.broker import Broker
from penstock.node.serving.handler import RequestContext
from penstock.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
)

_API: Final = StateApi(ShareShard.initialize, PartitionResult, InitializeStateResult, InitializeShareGroupStateResponse)


def initialize_share_group_state(
    broker: Broker, context: RequestContext, request: InitializeShareGroupStateRequest
) -> Any:
    return ask(broker, _API, request)
