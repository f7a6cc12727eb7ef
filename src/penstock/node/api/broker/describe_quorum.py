"""DescribeQuorum 0-2: the voters and observers of the metadata quorum, as the active controller sees them."""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.node.broker import Broker
from penstock.node.serving.access import Need
from penstock.node.serving.handler import RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse


@handles(ApiKey.DESCRIBE_QUORUM, versions=(0, 2), needs=(Need.DESCRIBE_CLUSTER,))
def describe_quorum(
    broker: Broker, context: RequestContext, request: DescribeQuorumRequest
) -> Awaitable[DescribeQuorumResponse]:
    """Hand it on."""
    reply: Awaitable[DescribeQuorumResponse] = broker.controller.submit(request, context)
    return reply
