"""A partition goes to another leader with the coordinator that lives on it."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.unit.node.on_disk import NODE_ID, NOW_MS, Node, batch
from tests.unit.node.partitions.test_hand_over import OTHER, Giving, replicated_node

from penstock.client.errors import ConnectionFailedError
from penstock.leadership.transfer import Answer, State
from penstock.protocol.errors import ErrorCode, KafkaError


class Coordinator:
    """Notes what it is told, and whether it could append then. It writes a record last if `seals`."""

    def __init__(self, giving: Giving, *, seals: bool) -> None:
        self.giving = giving
        self.seals = seals
        self.told: list[str] = []
        self.error: Exception | None = None
        self.has_begun = asyncio.Event()
        """The coordinator at the successor."""

    def _note(self, what: str) -> None:
        appends = self.giving.partition.appender is not None
        self.told.append(f"{what}, appends" if appends else what)

    def hold(self) -> None:
        self._note("hold")

    def seal(self) -> None:
        self._note("seal")
        if self.seals:
            self.giving.partition.append(memoryview(bytearray(batch(b"last"))), acks=1, now_ms=NOW_MS)

    def resume(self) -> None:
        self._note("resume")

    def refuse(self) -> None:
        self._note("refuse")

    async def forward(self, leader_epoch: int) -> None:
        self._note(f"forward {leader_epoch}")
        await self.has_begun.wait()
        if self.error is not None:
            raise self.error

    def end(self) -> None:
        self._note("end")

    def stop(self) -> None:
        self._note("stop")


class GivingBoth(Giving):
    """A record is in the log of the leader alone."""

    def __init__(self, node: Node, *, seals: bool = False) -> None:
        node.produce(b"before", topic="copied")
        self.resident = Coordinator(self, seals=seals)
        super().__init__(node)

    def _resident(self) -> Coordinator:
        return self.resident

    def take(self) -> list[str]:
        """What it was told since, each once."""
        told, self.resident.told = dict.fromkeys(self.resident.told), []
        return list(told)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with replicated_node(tmp_path) as node:
        yield node


async def settle() -> None:
    for _ in range(6):
        await asyncio.sleep(0)


async def test_a_coordinator_writes_last_and_then_goes_with_its_partition(node: Node) -> None:
    giving = GivingBoth(node, seals=True)
    assert giving.take() == []
    giving.follow(1)
    assert giving.take() == ["hold", "seal, appends"]
    assert (giving.partition.appender, giving.partition.log.log_end_offset) == (None, 2)
    await settle()
    assert giving.asked.empty(), "what it wrote is not at the successor yet"
    giving.follow(2)
    await giving.answer(Answer.MADE)
    giving.lead(OTHER)
    giving.hand_over.machine.deadline_ms = None
    await settle()
    assert giving.take() == ["forward 1"]
    assert giving.hand_over.machine.deadline_ms is not None, "late comers have some more time"
    held = giving.produce(b"late")
    await settle()
    assert giving.successor.got.empty()
    giving.resident.has_begun.set()
    assert await giving.successor.answer(2) == batch(b"late")
    assert (await held).base_offset == 2
    giving.lead(NODE_ID)
    assert giving.take() == ["refuse, appends", "end, appends"], "it is the leader's again"
    assert giving.hand_over.machine.state is State.OVER


async def test_a_coordinator_that_has_nothing_to_write_goes_at_once(node: Node) -> None:
    giving = GivingBoth(node)
    giving.follow(1)
    assert giving.take() == ["hold", "seal, appends"]
    assert giving.partition.appender is None
    assert await giving.answer(Answer.REFUSED) == 4
    await settle()
    assert giving.take() == ["resume, appends", "end, appends"]
    assert giving.partition.hand_over is None


@pytest.mark.parametrize("error", [ConnectionFailedError("gone"), KafkaError(ErrorCode.REQUEST_TIMED_OUT)])
async def test_a_successor_that_cannot_be_reached_ends_it(node: Node, error: Exception) -> None:
    giving = GivingBoth(node)
    giving.follow(1)
    held = giving.produce(b"1")
    await giving.answer(Answer.MADE)
    giving.lead(OTHER)
    giving.resident.error = error
    giving.resident.has_begun.set()
    assert (await held).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert giving.take() == ["hold", "seal, appends", "forward 1", "refuse", "end"]
    assert giving.hand_over.machine.state is State.OVER


ENDS: dict[str, Callable[[GivingBoth], object]] = {
    "another leads": lambda giving: giving.lead(OTHER + 1),
    "nobody leads": lambda giving: giving.lead(-1),
}


@pytest.mark.parametrize("how", ENDS)
async def test_a_coordinator_whose_partition_is_led_elsewhere_keeps_nothing(node: Node, how: str) -> None:
    giving = GivingBoth(node)
    giving.follow(1)
    giving.take()
    ENDS[how](giving)
    assert giving.take() == ["refuse", "end"]


async def test_a_node_that_stops_stops_it(node: Node) -> None:
    giving = GivingBoth(node)
    giving.follow(1)
    giving.take()
    await giving.hand_over.stop()
    assert giving.take() == ["stop", "end", "refuse"]
