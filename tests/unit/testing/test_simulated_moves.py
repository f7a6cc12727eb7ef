"""Which moves of leaders a simulation takes for two at a time."""

from copy import deepcopy

from tests.unit.controller.cluster import assigned, carry_out, tick
from tests.unit.controller.test_leader_balance import beat, moved_away

from penstock.controller.controller import Controller
from penstock.testing.simulator.leader_moves import LeaderMoves

END = 1 << 40


class Looks:
    def __init__(self) -> None:
        self.found: list[str] = []
        self._moves = LeaderMoves(self.found.append)

    def look(self, controller: Controller, now_s: float = 0.0) -> list[str]:
        assert controller.state.balancer.move is not None
        self._moves.look(controller.state, now_s)
        return self.found

    def applied(self) -> None:
        for broker_id in (1, 2):
            self._moves.applied(broker_id, END)


def test_a_move_begins_while_brokers_do_not_know_of_the_last() -> None:
    for is_known in (True, False):
        looks, controller = Looks(), moved_away()
        tick(controller, 1000)
        assert looks.look(controller) == []
        if is_known:
            looks.applied()
        beat(controller, 1, 2, now_ms=1001)
        tick(controller, 1001)
        assert len(looks.look(controller)) == (0 if is_known else 2)


def test_a_move_that_could_not_be_written_begins_again() -> None:
    looks, controller = Looks(), moved_away()
    later = deepcopy(controller)
    tick(controller, 1000)
    carry_out(later, assigned("others", [1, 2]))
    tick(later, 1000)
    assert controller.state.balancer.move == later.state.balancer.move
    assert looks.look(controller) == looks.look(later) == []
