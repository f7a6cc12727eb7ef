"""How the requests of peers reach the quorum of a log, and how its answers leave: common to the handlers of its APIs.

What is malformed is refused before it reaches the quorum: its core may take what it is given for sense.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from penstock.node.roles.controller_node import QuorumNode
from penstock.node.serving.handler import CloseConnection, RequestContext
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.raft.requests import Request
from penstock.raft.voters import Endpoint

MAX_EPOCH = (1 << 31) - (1 << 20)
"""A peer that names a later one has not counted elections; behind it there is room for a million more."""
MAX_ANSWER_BYTES = 8 * 1024 * 1024
"""So many bytes of the log, or of a snapshot, in one answer, whatever a peer asks for."""
MAX_WAIT_MS = 10_000
"""So long a fetch waits at most: the peer may be gone by then."""


class _Redirecting(Protocol):
    node_endpoints: list[Any]


RedirectingT = TypeVar("RedirectingT", bound=_Redirecting)


async def asked(node: QuorumNode, request: Request) -> Any:
    """The quorum's answer; the connection is closed if this node takes no part in it any longer."""
    try:
        return await node.quorum.request(request)
    except KafkaError as error:
        raise CloseConnection(error.message or error.code.name) from error


def leader_endpoint(node: QuorumNode, context: RequestContext, leader_id: int) -> Endpoint | None:
    """By the listener that the asker came by: that may speak another protocol than the one that this node asks by."""
    return node.quorum.endpoint_of(leader_id, context.session.listener) if leader_id >= 0 else None


def with_endpoint(
    node: QuorumNode,
    context: RequestContext,
    response: RedirectingT,
    leader_id: int,
    endpoint_class: Callable[..., Any],
) -> RedirectingT:
    """The response with the address of the leader that it names, if that is known (KIP-853)."""
    endpoint = leader_endpoint(node, context, leader_id)
    if endpoint is not None:
        response.node_endpoints = [endpoint_class(node_id=leader_id, host=endpoint.host, port=endpoint.port)]
    return response


def learn_leader(node: QuorumNode, leader_id: int, endpoints: Sequence[Any]) -> None:
    """Remember where the leader listens, as it says: by the listener that this node asks by, else by its first."""
    if endpoints:
        node.quorum.learn_endpoints(leader_id, [Endpoint(it.name, it.host, it.port) for it in endpoints])


def check_numbers(*numbers: int, epoch: int = 0) -> None:
    """Raises KafkaError INVALID_REQUEST for what no replica sends: numbers below 0, an epoch near the largest."""
    if min(numbers, default=0) < 0 or not 0 <= epoch <= MAX_EPOCH:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"numbers below 0, or an impossible epoch: {numbers}, {epoch}")


def check_endpoints(node: QuorumNode, endpoints: Sequence[Endpoint]) -> None:
    """Raises KafkaError INVALID_REQUEST unless a voter says where it listens, each listener once.

    The listener by which this node is reached itself must be among them: by that one voters talk to each other.
    """
    names = [endpoint.name for endpoint in endpoints]
    if not names or len(set(names)) != len(names) or not all(e.host and e.port for e in endpoints):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a voter says where it listens, for each listener once")
    mine = node.quorum.quorum.voter(node.quorum.local_key.id)
    if mine is not None and mine.endpoints and mine.endpoints[0].name not in names:
        missing = f"voters talk to each other by {mine.endpoints[0].name}, which is not among {', '.join(names)}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, missing)
