"""What a listener tells of its process (`penstock.controller.probe`)."""

import pytest

from penstock.controller.heartbeats import Heartbeats
from penstock.controller.probe import QUICK_S, SLOW_S, Probe
from penstock.metadata.image import ClusterImage


def reached() -> Probe:
    probe = Probe(500)
    probe.connected()
    return probe


def test_a_listener_that_refuses_for_long_enough_has_lost_its_process() -> None:
    probe = reached()
    probe.refused(1_000)
    assert probe.pause_s == QUICK_S
    probe.refused(1_499)
    assert not probe.has_ended
    probe.refused(1_500)
    assert probe.has_ended


def test_what_was_never_reached_proves_nothing() -> None:
    probe = Probe(500)
    for now_ms in range(0, 10_000, 100):
        assert probe.pause_s == min(QUICK_S * 2 ** (now_ms // 100), SLOW_S)
        probe.refused(now_ms)
    assert not probe.has_ended


def test_what_does_not_answer_is_tried_again_seldom() -> None:
    probe = Probe(500)
    probe.unanswered()
    assert probe.pause_s == SLOW_S


@pytest.mark.parametrize("between", [Probe.connected, Probe.unanswered])
def test_refusals_count_in_a_row(between: "object") -> None:
    probe = reached()
    probe.refused(0)
    between(probe)  # type: ignore[operator]
    probe.refused(600)
    assert not probe.has_ended
    probe.refused(1_100)
    assert probe.has_ended


def test_a_proof_counts_once() -> None:
    """A broker that heartbeats all the same is not fenced again and again."""
    probe = reached()
    probe.refused(0)
    probe.refused(500)
    probe.told()
    probe.refused(600)
    probe.refused(2_000)
    assert not probe.has_ended


def test_a_session_ends_for_its_own_registration_alone() -> None:
    heartbeats = Heartbeats(session_timeout_ms=9_000, local_broker_id=1)
    heartbeats.open_decision()
    heartbeats.heard(2, epoch=5, metadata_offset=7, now_ms=1_000)
    heartbeats.close_decision()
    assert not heartbeats.end(2, 4, 1_100)
    assert not heartbeats.end(3, 5, 1_100)
    assert heartbeats.deadline_ms == 10_000
    assert heartbeats.end(2, 5, 1_100)
    assert heartbeats.deadline_ms == 1_100
    heartbeats.open_decision()
    assert not heartbeats.is_alive(2, 5, 1_100), "another process may register"
    assert heartbeats.silent_broker(ClusterImage(), 1_100) is None, "no broker of that registration is there"


def test_a_new_one_has_seen_nothing() -> None:
    probe = Probe(0)
    assert (probe.has_ended, probe.pause_s) == (False, QUICK_S)
    probe.refused(5)
    assert not probe.has_ended, "it was never reached"
