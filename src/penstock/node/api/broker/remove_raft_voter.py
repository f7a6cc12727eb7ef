"""RemoveRaftVoter 0: a controller shall vote no longer (KIP-853); the active one decides."""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.node.broker import Broker
from penstock.node.serving.access import Need
from penstock.node.serving.handler import RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse


@handles(ApiKey.REMOVE_RAFT_VOTER, versions=(0, 0), needs=(Need.ALTER_CLUSTER,))
def remove_raft_voter(
    broker: Broker, context: RequestContext, request: RemoveRaftVoterRequest
) -> Awaitable[RemoveRaftVoterResponse]:
    """Hand it on."""
    reply: Awaitable[RemoveRaftVoterResponse] = broker.controller.submit(request, context)
    return reply
