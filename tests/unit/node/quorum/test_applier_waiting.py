"""Who waits for records to be applied hears so in time or not at all, and who leads is told once it knows all."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.node.quorum.test_examining import Waits, applier_of

from penstock.node.quorum import applier as module
from penstock.node.quorum.applier import Applier, Leadership, Waiting
from penstock.protocol.errors import ErrorCode, KafkaError


class Told(Waits):
    """Notes who leads."""

    def __init__(self) -> None:
        super().__init__()
        self.leaders: list[tuple[int | None, int]] = []

    def leader_changed(self, leader_id: int | None, epoch: int) -> None:
        self.leaders.append((leader_id, epoch))


class Applying:
    """An applier whose clock stands still, and what those who wait were told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *ends: tuple[int, int]) -> None:
        self.application = Told()
        self.it: Applier = applier_of(self.application, [])
        loop = SimpleNamespace(time=lambda: 10.0)
        monkeypatch.setattr(module, "asyncio", SimpleNamespace(get_running_loop=lambda: loop))
        self.took: list[float] = []
        self.it.latency = cast("Any", SimpleNamespace(took=self.took.append))
        self.heard: list[tuple[int, int | ErrorCode]] = []
        self.it._waiting.extend(self.waiting(end, epoch) for end, epoch in ends)

    def waiting(self, end: int, epoch: int) -> Waiting:
        done = SimpleNamespace(
            done=lambda: False,
            set_result=lambda last: self.heard.append((end, last)),
            set_exception=lambda error: self.heard.append((end, error.code)),
        )
        return Waiting(end, epoch, 9.5, cast("Any", done))


@pytest.mark.parametrize(("applied", "heard"), [(4, []), (5, [5]), (6, [5]), (7, [5, 7, 7]), (99, [5, 7, 7, 9])])
async def test_who_waits_hears_when_so_much_is_applied(
    monkeypatch: pytest.MonkeyPatch, applied: int, heard: list[int]
) -> None:
    applying = Applying(monkeypatch, (5, 1), (7, 1), (7, 1), (9, 1))
    applying.it._reached(applied)
    assert applying.heard == [(end, end - 1) for end in heard]
    assert applying.took == [0.5] * len(heard)
    assert len(applying.it._waiting) == 4 - len(heard)


async def test_nobody_hears_anything_of_a_driver_that_has_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    applying = Applying(monkeypatch, (5, 1))
    applying.it._ended = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    applying.it._reached(9)
    assert (applying.heard, applying.it.applied) == ([], 0)


LOST = ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize(
    ("who", "lost", "leaders"),
    [
        (Leadership(2, 3, None), [5, 7, 9], [(2, 3)]),
        (Leadership(1, 3, 20), [5, 7], []),
        (Leadership(1, 2, 20), [5], []),
        (Leadership(1, 1, 20), [], []),
        (Leadership(1, 4, 20), [5, 7, 9], []),
    ],
)
async def test_what_is_left_of_an_earlier_lead_is_lost(
    monkeypatch: pytest.MonkeyPatch, who: Leadership, lost: list[int], leaders: list[tuple[int, int]]
) -> None:
    applying = Applying(monkeypatch, (5, 1), (7, 2), (9, 3))
    applying.it._take_leadership(who)
    assert applying.heard == [(end, LOST) for end in lost]
    assert applying.application.leaders == leaders


@pytest.mark.parametrize(("leads", "leaders"), [(True, [(1, 4)]), (False, [])])
async def test_a_leader_is_told_once_its_own_beginning_is_applied(
    monkeypatch: pytest.MonkeyPatch, leads: bool, leaders: list[tuple[int, int]]
) -> None:
    applying = Applying(monkeypatch)
    applying.it._host = cast("Any", SimpleNamespace(is_leader=lambda epoch: leads and epoch == 4))
    applying.it._reached(20)
    applying.it._take_leadership(Leadership(1, 4, 20))
    assert applying.application.leaders == []
    applying.it._reached(21)
    assert applying.application.leaders == leaders
    applying.it._reached(22)
    assert applying.application.leaders == leaders, "once"
    applying.it._take_leadership(Leadership(1, 4, 20))
    assert applying.application.leaders == leaders, "the same is no news"
    applying.it._take_leadership(Leadership(2, 4, None))
    applying.it._take_leadership(Leadership(2, 5, None))
    applying.it._take_leadership(Leadership(2, 5, None))
    assert applying.application.leaders == [*leaders, (2, 4), (2, 5)]
