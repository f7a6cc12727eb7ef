"""ReadShareGroupState 0: a leader of partitions takes up how far share groups are, and fences the leader before it."""

from typing import Any, Final

from penstock.coordinator.shards.shares import ShareShard
from penstock.node.api.share_groups.states import StateApi, ask
from penstock.node.roles.broker import Broker
from penstock.node.serving.handler import RequestContext
from penstock.protocol.messages.read_share_group_state import (
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
)

_API: Final = StateApi(ShareShard.read_state, PartitionResult, ReadStateResult, ReadShareGroupStateResponse)


def read_share_group_state(broker: Broker, context: RequestContext, request: ReadShareGroupStateRequest) -> Any:
    return ask(broker, _API, request)
