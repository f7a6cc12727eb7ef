"""A cause is told at once, and then as often as a person can read."""

from __future__ import annotations

import pytest

from penstock.node.serving import refusals
from penstock.node.serving.refusals import MAX_CAUSES, QUIET_S, Refusals


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == refusals.__name__]


def test_what_came_in_between_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    now_s = [0.0]
    log = Refusals(lambda: now_s[0])
    for _ in range(8):
        log.tell("host", "a peer", "garbage")
    log.tell("other", "another", "garbage")
    now_s[0] = QUIET_S
    log.tell("host", "a peer", "garbage again")
    assert told(caplog) == [
        "a peer: closed: garbage",
        "another: closed: garbage",
        "a peer: closed: garbage again (and 7 more for the same cause since it was last told)",
    ]


def test_very_many_causes_are_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    log = Refusals(lambda: 0.0)
    for cause in range(MAX_CAUSES + 1):
        log.tell(cause, "a peer", "garbage")
    log.tell(MAX_CAUSES, "a peer", "garbage")
    assert len(told(caplog)) == MAX_CAUSES + 1
    log.tell(0, "a peer", "garbage")
    assert len(told(caplog)) == MAX_CAUSES + 2


def test_causes_that_are_old_are_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    """A stranger had a node keep a thousand for good, by asking a thousand times."""
    now_s = [0.0]
    log = Refusals(lambda: now_s[0])
    for cause in range(MAX_CAUSES):
        log.tell(cause, "a peer", "garbage")
    now_s[0] = QUIET_S
    log.tell("another", "a peer", "garbage")
    assert len(log) == 1
    log.tell(0, "a peer", "garbage")
    assert told(caplog)[-1] == "a peer: closed: garbage"
