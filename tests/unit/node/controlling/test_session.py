"""A broker that slept knows it before it learns who leads now."""

from penstock.node.controlling.session import BrokerSession


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_who_asks_in_time_is_awake_whether_answered_or_not() -> None:
    clock = Clock()
    session = BrokerSession(9_000, clock)
    assert not session.is_over, "before the first heartbeat there is nothing that it could have slept through"
    for _ in range(10):
        session.asks()
        clock.now_s += 9
        assert not session.is_over


def test_who_slept_stays_out_until_what_it_asked_afterwards_is_answered() -> None:
    clock = Clock()
    session = BrokerSession(9_000, clock)
    before_s = session.asks()
    clock.now_s = 9.5
    assert session.is_over
    session.is_let_in(before_s)
    assert session.is_over, "the answer was given before it fell asleep"
    asked_s = session.asks()
    assert session.is_over, "it has asked, no more"
    session.is_let_in(asked_s)
    assert not session.is_over
