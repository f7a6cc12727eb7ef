"""ResignController 0, an API of our own: the active controller lays down its office, on somebody's request.

Only the leader of the epoch that is named goes, so a request that is repeated does not make two controllers go.
"""

from collections.abc import Awaitable

from penstock.node.roles.controller_node import ControllerNode, QuorumNode
from penstock.node.serving.access import ALTER_CLUSTER
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import Whole
from penstock.protocol.errors import ErrorCode
from penstock.protocol.requests.api import OwnApiKey
from penstock.protocol.requests.own_apis import ResignControllerRequest, ResignControllerResponse

ANYBODY = -1


@handles(OwnApiKey.RESIGN_CONTROLLER, versions=(0, 0), rule=(Whole(ALTER_CLUSTER),))
def resign_controller(
    node: QuorumNode, context: RequestContext, request: ResignControllerRequest
) -> ResignControllerResponse | Awaitable[ResignControllerResponse]:
    """Resign at once, or when the successor has everything; the voters elect the next leader."""
    quorum = node.quorum
    if not quorum.is_leader(quorum.epoch):
        return _refused(ErrorCode.NOT_CONTROLLER, "this controller is not the active one")
    if request.leader_epoch < quorum.epoch:
        return _refused(ErrorCode.FENCED_LEADER_EPOCH, f"epoch {request.leader_epoch} is over")
    if request.leader_epoch > quorum.epoch:
        return _refused(ErrorCode.UNKNOWN_LEADER_EPOCH, f"this is epoch {quorum.epoch}")
    others = [voter.key.id for voter in quorum.quorum.others(quorum.local_key)]
    if request.successor_id not in (ANYBODY, *others):
        known = ", ".join(map(str, others)) or "none"
        return _refused(ErrorCode.INVALID_REQUEST, f"node {request.successor_id} cannot follow: voters are {known}")
    if request.successor_id != ANYBODY and isinstance(node, ControllerNode) and node.hand_over is not None:
        return _handed_over(node.hand_over(request.successor_id))
    quorum.resign(None if request.successor_id == ANYBODY else request.successor_id)
    return ResignControllerResponse()


async def _handed_over(under_way: Awaitable[None]) -> ResignControllerResponse:
    await under_way
    return ResignControllerResponse()


def _refused(code: ErrorCode, message: str) -> ResignControllerResponse:
    return ResignControllerResponse(error_code=code, error_message=message)
