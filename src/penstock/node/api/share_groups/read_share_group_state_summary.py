"""ReadShareGroupStateSummary 0-1: where share groups begin in partitions, for whoever leads none."""

from typing import Any, Final

from penstock.coordinator.shards.shares import ShareShard
from penstock.node.api.share_groups.states import StateApi, ask
from penstock.node.roles.broker import Broker
from penstock.node.serving.handler import RequestContext
from penstock.protocol.messages.read_share_group_state_summary import (
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)

_API: Final = StateApi(
    ShareShard.summarize, PartitionResult, ReadStateSummaryResult, ReadShareGroupStateSummaryResponse
)


def read_share_group_state_summary(
    broker: Broker, context: RequestContext, request: ReadShareGroupStateSummaryRequest
) -> Any:
    return ask(broker, _API, request)
