"""A log that is given up is watched as long as it is there: whoever watches reads none, whose disk may be full."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from penstock.leadership.transfer import State
from penstock.testing.simulator.given_up import GivenUp


class Log:
    """One of `end` records."""

    def __init__(self, end: int) -> None:
        self.end, self.is_loaded = end, True

    @property
    def log_end_offset(self) -> int:
        assert self.is_loaded, "it was read"
        return self.end


class HandOver:
    """One that has asked for a successor."""

    def __init__(self, log: Log) -> None:
        self.machine = SimpleNamespace(state=State.ASKED, successor=2)
        self.partition = SimpleNamespace(log=log)


def test_a_log_that_grows_is_noticed_and_one_that_was_thrown_out_is_not_read() -> None:
    told: list[str] = []
    watch, log = GivenUp(told.append), Log(5)
    hand_over: Any = HandOver(log)
    watch.look("node1", [hand_over])
    log.is_loaded = False
    watch.look("node1", [hand_over])
    log.is_loaded = True
    watch.look("node1", [hand_over])
    assert told == []
    log.end = 6
    watch.look("node1", [hand_over])
    assert len(told) == 1
