from penstock.controller.heartbeats import Heartbeats


def test_a_broker_is_heard_though_its_decision_comes_to_nothing() -> None:
    """The records of the first decision cannot be appended: no `close_decision`."""
    heartbeats = Heartbeats(session_timeout_ms=9_000, local_broker_id=1)
    heartbeats.open_decision()
    heartbeats.heard(2, epoch=5, metadata_offset=7, now_ms=0)
    heartbeats.open_decision()
    assert heartbeats.is_alive(2, 5, 8_999)
    assert not heartbeats.is_alive(2, 5, 9_001)
