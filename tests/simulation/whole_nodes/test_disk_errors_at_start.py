"""Each call of a disk fails once while a node starts: it says so, or starts all the same; the next start succeeds."""

import errno
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.client.settings import ClientSettings
from penstock.testing.simulator.disk import SimulatedDisk, SimulatedFile
from penstock.testing.simulator.ledger import Ledger
from penstock.testing.simulator.loop import Process, VirtualLoop
from penstock.testing.simulator.machine import Machine
from penstock.testing.simulator.network import Network
from penstock.testing.simulator.plan import Plan
from penstock.testing.simulator.trace import Trace

PLAN = Plan(
    settings={"metadata.log.max.record.bytes.between.snapshots": "512"},
    flushes_each=True,
    producers=0,
    consumers=0,
    groups=0,
    topics=0,
    faults=(),
    seconds=0,
    delay_s=0.001,
    socket_bytes=65_536,
)
CALLS: dict[str, list[tuple[type, str, int]]] = {
    "reads": [(SimulatedFile, "read_at", errno.EIO), (SimulatedDisk, "read_file", errno.EIO)],
    "writes": [(SimulatedFile, "write_at", errno.ENOSPC)],
    "syncs": [(SimulatedFile, "sync", errno.EIO), (SimulatedDisk, "sync_directory", errno.EIO)],
}


class Failing:
    """Lets the call number `number` fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
        self.number = 0
        self.calls = 0
        for owner, name, code in CALLS[kind]:
            monkeypatch.setattr(owner, name, self._counted(getattr(owner, name), code))

    def _counted(self, call: Callable[..., Any], code: int) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            self.calls += 1
            if self.calls == self.number:
                raise OSError(code, "a failure of the test")
            return call(*arguments, **named)

        return counted

    def arm(self, number: int) -> None:
        self.number, self.calls = number, 0


async def live(machine: Machine, loop: VirtualLoop, failing: Failing, number: int) -> None:
    """A node with topics is killed; a call of its next start fails; the start after that is whole."""

    async def create() -> None:
        async with Admin(machine.address, ClientSettings(now_ms=loop.now_ms, random=Random(1))) as admin:
            for name in ("t0", "t1", "t2", "t3"):
                await admin.topics.create(NewTopic(name=name, partitions=2, replication_factor=1))

    await machine.start()
    await Process("client").spawn(loop, create())
    machine.crash(power_lost=False)
    machine.may_fail_to_start = True
    failing.arm(number)
    await machine.start()
    machine.may_fail_to_start = False
    if machine.node is None:
        await machine.start()
    assert machine.node is not None
    assert list(machine.node.broker.image.topics) == ["t0", "t1", "t2", "t3"]


def violations(failing: Failing, number: int) -> list[str]:
    failing.arm(0)
    loop = VirtualLoop(Random(2))
    trace = Trace(loop.time)
    ledger = Ledger(trace, flushes_each=True)
    network = Network(loop, Random(3), trace)
    machine = Machine(PLAN.nodes[0], PLAN, network, Random(4), ledger, trace)
    try:
        loop.run_until_complete(live(machine, loop, failing, number))
        return ledger.violations + loop.failures
    finally:
        if machine.process is not None:
            machine.process.kill()
        loop.close()


def numbers(failing: Failing) -> Iterator[int]:
    """As many as there are calls."""
    number = 1
    while failing.calls >= failing.number:
        yield number
        number += 1


@pytest.mark.filterwarnings("ignore")  # coroutines of killed processes end in the middle
@pytest.mark.parametrize("kind", CALLS)
def test_a_start_tells_what_failed(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    failing = Failing(monkeypatch, kind)
    tried = 0
    for number in numbers(failing):
        assert violations(failing, number) == []
        tried += 1
    assert tried > 5
