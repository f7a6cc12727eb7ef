"""BalanceLeaders: a person lets leadership go to preferred replicas now, or stops that, and hears how far it is."""

from penstock.controller.decision import ControllerState, Decision
from penstock.leadership.balancer import count_catching_up
from penstock.protocol.errors import ErrorCode
from penstock.protocol.requests.own_apis import BalanceAction, BalanceLeadersRequest, BalanceLeadersResponse


def decide_balance_leaders(
    state: ControllerState, request: BalanceLeadersRequest, now_ms: int
) -> Decision[BalanceLeadersResponse]:
    """Tells how far it is, whatever was asked. The moves are decided when it is time."""
    if request.action not in tuple(BalanceAction):
        return Decision([], BalanceLeadersResponse(error_code=ErrorCode.INVALID_REQUEST))
    balancer, move = state.balancer, state.balancer.move
    if request.action == BalanceAction.BEGIN:
        balancer.ask()
    elif request.action == BalanceAction.STOP:
        balancer.stop(now_ms)
    reply = BalanceLeadersResponse(
        is_balancing=balancer.is_balancing,
        moved=balancer.moved,
        catching_up=count_catching_up(state.image),
        late=list(balancer.late),
    )
    if move is not None:
        reply.topic, reply.partition, reply.giver, reply.taker = move.topic, move.index, move.giver, move.taker
    return Decision([], reply)
