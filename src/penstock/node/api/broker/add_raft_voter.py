"""AddRaftVoter 0-1: a controller that has caught up as an observer shall vote (KIP-853); the active one decides."""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.node.broker import Broker
from penstock.node.serving.access import Need
from penstock.node.serving.handler import RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse


@handles(ApiKey.ADD_RAFT_VOTER, versions=(0, 1), needs=(Need.ALTER_CLUSTER,))
def add_raft_voter(
    broker: Broker, context: RequestContext, request: AddRaftVoterRequest
) -> Awaitable[AddRaftVoterResponse]:
    """Hand it on."""
    reply: Awaitable[AddRaftVoterResponse] = broker.controller.submit(request, context)
    return reply
