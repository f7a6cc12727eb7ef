"""A controller tells the death of a broker's process from all else that befalls hosts and links.

Whatever is cut, slow, without power or reset, and however often a listener refuses for a moment: the session of a
process that lives is never ended. That of one that was killed is ended soon, when links are whole
and its host has power.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any
from uuid import UUID

import pytest

from penstock.controller.probe import Probe
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import (
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    NodeEndpoint,
    RegisterBrokerRecord,
)
from penstock.node.controlling.probes import Probes, ProbeSettings
from penstock.node.metrics.registry import Registry
from penstock.node.serving.server import Endpoint
from penstock.testing.simulator.loop import Process, VirtualLoop
from penstock.testing.simulator.network import Network
from penstock.testing.simulator.trace import Trace

CONTROLLER, PATIENCE_MS, PORT, ELSEWHERE = "c", 500, 9092, 9093
SOON_S = 5.0
STEPS = 60
Listener = Callable[[list[MetadataRecord]], None]


class Broker:
    """Host `b<id>`. The one at ELSEWHERE is never reached where it says that it listens."""

    def __init__(self, world: "World", node_id: int, port: int) -> None:
        self.world, self.node_id, self.host, self.port = world, node_id, f"b{node_id}", port
        self.process = Process(self.host)
        self.process.kill()
        self.epoch = -1
        self.server: Any = None

    async def start(self) -> None:
        self.process = Process(self.host)
        await self.process.spawn(self.world.loop, self.listen())
        self.epoch = self.world.register(self)

    async def listen(self) -> None:
        bound = self.world.network.bind(Endpoint("PLAINTEXT", self.host, PORT))
        self.server = await asyncio.get_running_loop().create_server(asyncio.Protocol, sock=bound.socket)

    def kill(self, *, power_lost: bool) -> None:
        self.process.kill()
        self.world.network.process_died(self.process, power_lost=power_lost)

    async def refuse_for_a_moment(self) -> None:
        self.server.close()
        self.world.network.break_some(2.0)
        await asyncio.sleep(self.world.random.uniform(0.05, PATIENCE_MS / 1000 * 0.7))
        if self.process.is_alive:
            await self.process.spawn(self.world.loop, self.listen())


class World:
    """The controllers' side of it: an image, a log that tells of it, and the sessions."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.loop = VirtualLoop(Random(seed + 1))
        self.network = Network(self.loop, Random(seed + 2), Trace(self.loop.time))
        self.image = ClusterImage("c")
        self.listeners: list[Listener] = []
        self.brokers = [Broker(self, node_id, PORT if node_id < 4 else ELSEWHERE) for node_id in (1, 2, 3, 4)]
        self.ended: set[tuple[int, int]] = set()
        self.violations: list[str] = []
        self.is_active = True
        self.controller = Process(CONTROLLER)

    # As the metadata log

    def add_listener(self, on_records: Listener, on_replaced: Callable[[], None]) -> None:
        self.listeners.append(on_records)

    def tell(self, record: MetadataRecord) -> None:
        self.image.apply(record)
        for on_records in self.listeners:
            self.controller.context.copy().run(on_records, [record])

    def register(self, broker: Broker) -> int:
        epoch = self.image.offset + 1
        at = NodeEndpoint(name="PLAINTEXT", host=broker.host, port=broker.port)
        self.image.applied_to(epoch)
        self.tell(
            RegisterBrokerRecord(
                broker_id=broker.node_id, broker_epoch=epoch, incarnation_id=UUID(int=9), end_points=[at], fenced=False
            )
        )
        return epoch

    # As the controller's driver

    def end_session(self, broker_id: int, epoch: int) -> bool:
        broker = self.brokers[broker_id - 1]
        if broker.epoch == epoch and broker.process.is_alive:
            self.violations.append(f"broker {broker_id} lives")
        if not self.is_active:
            return False
        self.ended.add((broker_id, epoch))
        self.tell(BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=epoch, fenced=1))
        return True

    # What befalls them

    async def befall(self) -> None:
        broker = self.random.choice(self.brokers)
        links = [(CONTROLLER, broker.host), (broker.host, CONTROLLER)]
        match self.random.randrange(8):
            case 0 | 1 if broker.process.is_alive:
                broker.kill(power_lost=self.random.random() < 0.4)
            case 2 | 3 if not broker.process.is_alive:
                self.network.host_is_back(broker.host)
                await asyncio.sleep(self.random.uniform(0, 3))
                await broker.start()
            case 4:
                self.network.conditions.cut.update(dict.fromkeys(self.random.sample(links, self.random.randint(1, 2))))
            case 5:
                self.network.heal()
            case 6:
                self.network.break_some(0.7)
            case 7 if broker.process.is_alive:
                await broker.refuse_for_a_moment()
            case _:
                self.is_active = not self.is_active
        await asyncio.sleep(self.random.choice((0.1, 0.5, 3.0)))

    async def run(self) -> None:
        settings = ProbeSettings(0, "PLAINTEXT", PATIENCE_MS)
        probes = Probes(settings, self, self, Registry(), self.loop.now_ms)  # type: ignore[arg-type]
        for broker in self.brokers:
            await broker.start()
        for _ in range(STEPS):
            await self.befall()
        await self.settle()
        await self.controller.spawn(self.loop, probes.stop())

    async def settle(self) -> None:
        self.network.heal()
        self.is_active = True
        for broker in self.brokers:
            self.network.host_is_back(broker.host)
            if not broker.process.is_alive:
                await broker.start()
        await asyncio.sleep(SOON_S)
        for broker in self.brokers[:3]:
            broker.kill(power_lost=False)
        await asyncio.sleep(SOON_S)
        self.violations += [
            f"broker {broker.node_id} is dead, and that is not known"
            for broker in self.brokers[:3]
            if (broker.node_id, broker.epoch) not in self.ended
        ]
        if (4, self.brokers[3].epoch) in self.ended:
            self.violations.append("broker 4 was never reached")


def violations(seed: int) -> list[str]:
    world = World(seed)
    world.loop.run_until_complete(world.run())
    return world.violations + world.loop.failures


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_only_processes_that_have_ended_are_taken_for_that(first: int) -> None:
    assert {seed: found for seed in range(first, first + 10) if (found := violations(seed))} == {}


def _is_reached_from_the_start(probe: Probe, patience_ms: int) -> None:
    init(probe, patience_ms)
    probe.connected()


def _keeps_what_was_refused(probe: Probe) -> None:
    probe._was_reached = True


def _takes_silence_for_a_refusal(probe: Probe) -> None:
    probe.refused((probe._refused_since_ms or 0) + 2 * PATIENCE_MS)


def _waits_for_ever(probe: Probe, now_ms: int) -> None:
    probe._refused_since_ms = now_ms


init = Probe.__init__


@pytest.mark.parametrize(
    ("name", "bug"),
    [
        ("__init__", _is_reached_from_the_start),
        ("connected", _keeps_what_was_refused),
        ("unanswered", _takes_silence_for_a_refusal),
        ("refused", _waits_for_ever),
    ],
)
def test_a_planted_bug_is_found(name: str, bug: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Probe, name, bug)
    assert any(violations(seed) for seed in range(10))
