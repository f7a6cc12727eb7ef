"""The active controller is handed over: it decides nothing while its successor gets the rest, and then that leads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import UUID

import pytest

from penstock.leadership.transfer import Limits
from penstock.node.controlling import transfer
from penstock.node.controlling.transfer import hand_over
from penstock.raft.describe import QuorumDescription, ReplicaDescription
from penstock.raft.voters import Quorum, ReplicaKey

US, SUCCESSOR, OTHER = 1, 2, 3
EPOCH = 7
END = 10


class Controlled:
    """A quorum that this node leads, its controller, and all that was done with both."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.leader_id: int | None = US
        self.epoch = EPOCH
        self.applied_offset = self.log_end_offset = END
        self.ends = {SUCCESSOR: END, OTHER: END}
        self.on_resigned: Callable[[], None] = self.elect

    def is_leader(self, epoch: int) -> bool:
        return (self.leader_id, self.epoch) == (US, epoch)

    def describe(self) -> QuorumDescription:
        voters = [ReplicaDescription(ReplicaKey(node, UUID(int=node)), end, 0, 0) for node, end in self.ends.items()]
        return QuorumDescription(US, EPOCH, self.applied_offset, tuple(voters), (), Quorum(()))

    def resign(self, successor_id: int | None = None) -> None:
        self.done.append(f"resign for {successor_id}")
        self.leader_id = None
        self.on_resigned()

    def elect(self, leader_id: int = SUCCESSOR) -> None:
        self.leader_id, self.epoch = leader_id, EPOCH + 1

    def hold(self) -> None:
        self.done.append("hold")

    def go_on(self) -> None:
        if self.done[-1:] != ["go on"]:
            self.done.append("go on")

    async def hand_over(self) -> None:
        async with asyncio.timeout(60):
            await hand_over(self, self, SUCCESSOR)


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has to be quick, but where time-outs are what it is about."""
    long_ms = 600_000
    monkeypatch.setattr(transfer, "LIMITS", Limits(catch_up_ms=long_ms, hold_ms=long_ms, silent_ms=long_ms))


async def test_it_holds_and_resigns_when_the_successor_has_everything() -> None:
    controlled = Controlled()
    await controlled.hand_over()
    assert controlled.done == ["hold", "resign for 2", "go on"]


async def test_it_goes_on_deciding_until_the_successor_has_what_there_was() -> None:
    controlled = Controlled()
    controlled.ends[SUCCESSOR] = END - 1
    task = asyncio.ensure_future(controlled.hand_over())
    await asyncio.sleep(transfer.LOOK_S)
    assert controlled.done == []
    controlled.ends[SUCCESSOR] = END
    controlled.log_end_offset = END + 1
    while not controlled.done:
        await asyncio.sleep(0)
    assert controlled.done == ["hold"]
    controlled.ends[SUCCESSOR] = END + 1
    await asyncio.sleep(transfer.LOOK_S)
    assert controlled.done == ["hold"], "what was decided is not answered yet"
    controlled.applied_offset = END + 1
    await task
    assert controlled.done == ["hold", "resign for 2", "go on"]


async def test_one_that_lags_is_wished_for_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "LIMITS", Limits(catch_up_ms=1))
    controlled = Controlled()
    controlled.ends[SUCCESSOR] = END - 1
    await controlled.hand_over()
    assert controlled.done == ["go on", "resign for 2"]


@pytest.mark.parametrize("leader_id", [US, OTHER])
async def test_what_was_held_goes_on_whoever_is_elected(leader_id: int) -> None:
    controlled = Controlled()
    controlled.on_resigned = lambda: controlled.elect(leader_id)
    await controlled.hand_over()
    assert controlled.done == ["hold", "resign for 2", "go on"]


async def test_nobody_is_held_for_ever_where_nobody_is_elected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "LIMITS", Limits(hold_ms=1, silent_ms=2))
    controlled = Controlled()
    controlled.on_resigned = lambda: None
    await controlled.hand_over()
    assert controlled.done == ["hold", "resign for 2", "go on"]


async def test_who_was_deposed_meanwhile_resigns_no_more() -> None:
    controlled = Controlled()
    controlled.ends[SUCCESSOR] = END - 1
    task = asyncio.ensure_future(controlled.hand_over())
    await asyncio.sleep(0)
    controlled.elect(OTHER)
    await task
    assert controlled.done == ["go on"]
