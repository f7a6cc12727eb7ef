from penstock.controller.heartbeats import Heartbeats
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import RegisterBrokerRecord


def test_a_broker_is_heard_though_its_decision_comes_to_nothing() -> None:
    """The records of the first decision cannot be appended: no `close_decision`."""
    heartbeats = Heartbeats(session_timeout_ms=9_000, local_broker_id=1)
    heartbeats.open_decision()
    heartbeats.heard(2, epoch=5, metadata_offset=7, now_ms=0)
    heartbeats.open_decision()
    assert heartbeats.is_alive(2, 5, 8_999)
    assert not heartbeats.is_alive(2, 5, 9_001)


def test_of_a_broker_that_is_unregistered_nothing_is_kept_and_of_one_that_stops_what_it_has_lost() -> None:
    image = ClusterImage()
    image.apply(RegisterBrokerRecord(broker_id=2, broker_epoch=5))
    broker = image.brokers[2]
    heartbeats = Heartbeats(session_timeout_ms=9_000, local_broker_id=1)
    heartbeats.begin(image, 0)
    heartbeats.open_decision()
    session = heartbeats.heard(2, epoch=5, metadata_offset=7, now_ms=0)
    heartbeats.loses(2, 8)
    heartbeats.forget(2)
    assert not heartbeats.knows(session, broker)
    heartbeats.unregistered(2)
    heartbeats.close_decision()
    assert (heartbeats._kept.sessions, heartbeats._kept.lost_until, heartbeats._kept.untold) == ({}, {}, set())
