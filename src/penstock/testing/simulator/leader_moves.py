"""Leadership is balanced one partition at a time, whichever controllers of a simulation decide on it."""

from collections.abc import Callable

from penstock.controller.decision import ControllerState
from penstock.leadership.balancer import Move

CLOCKS_DIFFER: float = 0.9
"""A controller whose clock is fast gives up a little earlier."""


class LeaderMoves:
    """Follows the moves of all controllers; `violated` is told of one that begins while another is under way."""

    def __init__(self, violated: Callable[[str], None]) -> None:
        self._violated = violated
        self._applied: dict[int, int] = {}
        self._last: tuple[Move, int, float] | None = None
        self.seen = 0

    def applied(self, node_id: int, offset: int) -> None:
        self._applied[node_id] = max(self._applied.get(node_id, -1), offset)

    def look(self, state: ControllerState, now_s: float) -> None:
        """Whether the active controller has begun another move, and may."""
        move, wait = state.balancer.move, state.balancer._wait
        if move is None or wait is None or (self._last is not None and self._last[:2] == (move, wait.offset)):
            return
        if not move.is_back:
            self.seen += 1
            self._check_last(state, move, now_s)
        self._last = move, wait.offset, now_s

    def _check_last(self, state: ControllerState, move: Move, now_s: float) -> None:
        if self._last is None:
            return
        last, offset, since_s = self._last
        if last == move:
            return  # its record could not be appended before, as a partition begins an epoch once
        timeout_s = state.settings.leader_balance.timeout_ms / 1000 * CLOCKS_DIFFER
        if last.partition_in(state.image) is None or now_s - since_s >= timeout_s:
            return
        for broker_id in (last.giver, last.taker):
            broker = state.image.brokers.get(broker_id)
            if broker is not None and broker.active and self._applied.get(broker_id, -1) < offset:
                self._violated(f"{move} begins, and broker {broker_id} does not know yet of {last}")
