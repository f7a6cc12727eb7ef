"""When markers are sent again, and an end that cannot be written is written again: after pauses that double."""

from __future__ import annotations

from tests.unit.coordinator.transaction.test_shard import T0, T1, Log, prepared

from penstock.coordinator.effects import Markers
from penstock.coordinator.transaction.transaction import State
from penstock.protocol.errors import ErrorCode

DOUBLED = [20, 40, 80, 160, 320, 640, 1_000, 1_000]
FAILED = ErrorCode.NOT_ENOUGH_REPLICAS


def wakes(log: Log) -> int:
    """How long it is until something happens; nothing does before."""
    begun_ms = log.now_ms
    while not log.errands and not log.appends:
        due_ms = log.shard.next_deadline_ms()
        assert due_ms is not None
        log.wait(due_ms)
    return log.now_ms - begun_ms


def test_markers_that_are_refused_are_sent_again() -> None:
    log = prepared()
    for pause_ms in DOUBLED:
        log.bring({T0: ErrorCode.NONE, T1: ErrorCode.NOT_LEADER_OR_FOLLOWER})
        assert wakes(log) == pause_ms
        assert (log.markers.partitions, len(log.errands)) == ((T1,), 1)
    log.bring({T1: ErrorCode.NONE})
    log.commit()
    assert log.state() is State.COMPLETE_COMMIT


def test_markers_of_which_nobody_heard_are_sent_again() -> None:
    log = prepared()
    for pause_ms in DOUBLED:
        log.bring(None, ErrorCode.NETWORK_EXCEPTION)
        assert wakes(log) == pause_ms
        assert log.markers.partitions == (T0, T1)


def test_an_end_that_cannot_be_written_is_written_again() -> None:
    log = prepared()
    log.bring({T0: ErrorCode.NONE, T1: ErrorCode.NONE})
    for pause_ms in DOUBLED:
        assert len(log.appends) == 1
        log.commit(FAILED)
        assert log.state() is State.PREPARE_COMMIT
        assert wakes(log) == pause_ms
    log.commit()
    assert log.state() is State.COMPLETE_COMMIT
    log.wait(log.now_ms + 5_000)
    assert (log.appends, [it for it in log.errands if isinstance(it.job, Markers)]) == ([], [])
