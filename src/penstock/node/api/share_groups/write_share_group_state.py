"""WriteShareGroupState 0-1: a leader of partitions keeps how far share groups have come.

Answered when it is committed.
"""

from typing import Any, Final

from penstock.coordinator.shards.shares import ShareShard
from penstock.node.api.share_groups.states import StateApi, ask
from penstock.node.roles.broker import Broker
from penstock.node.serving.handler import RequestContext
from penstock.protocol.messages.write_share_group_state import (
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)

_API: Final = StateApi(ShareShard.write, PartitionResult, WriteStateResult, WriteShareGroupStateResponse)


def write_share_group_state(broker: Broker, context: RequestContext, request: WriteShareGroupStateRequest) -> Any:
    return ask(broker, _API, request)
