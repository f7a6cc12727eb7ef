"""One simulation from a seed: things go wrong for a while, then all is healed, and everything is looked at."""

import asyncio
import gc
import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from penstock.client.consumer import Consumer
from penstock.client.settings import ConsumerSettings
from penstock.client.values import ConsumedRecord, TopicPartition
from penstock.metadata.configs.voters import InitialController
from penstock.node.assembly.first_voters import first_snapshot
from penstock.protocol.uuids import random_uuid, uuid_to_text
from penstock.protocol.value import Value
from penstock.testing.simulator.administrator import AdministratingClient
from penstock.testing.simulator.clients import Client, ConsumingClient, ProducingClient, World
from penstock.testing.simulator.faults import Faults
from penstock.testing.simulator.ledger import Ledger
from penstock.testing.simulator.logged_faults import faults_in_logs
from penstock.testing.simulator.loop import Process, VirtualLoop
from penstock.testing.simulator.machine import Machine
from penstock.testing.simulator.mover import MovingClient
from penstock.testing.simulator.network import Network
from penstock.testing.simulator.operator import OperatingClient
from penstock.testing.simulator.plan import CONTROLLER_PORT, FIRST_WITH_TRANSACTIONS, Plan, draw
from penstock.testing.simulator.progress import look_for_progress, until_committed
from penstock.testing.simulator.reader import ReadingClient
from penstock.testing.simulator.revoker import RevokingClient
from penstock.testing.simulator.tables import TableClient
from penstock.testing.simulator.trace import Trace
from penstock.testing.simulator.transactions import CommittedReader, TransactingClient
from penstock.testing.simulator.two_phases import TwoPhaseClient
from penstock.testing.simulator.watchman import check_replicas, watch

END_LIMIT_S = 90.0
READ_LIMIT_S = 60.0
ROUNDS_OF_CLEARING = 3
"""How often what is still there is closed: a coroutine that ends may leave others behind."""


class Outcome(Value, kw_only=True):
    """`violations` is empty if all rules held."""

    seed: int
    plan: Plan
    violations: list[str]
    trace: list[str]
    hash: str
    virtual_s: float
    acknowledged: int


def simulate(seed: int, nodes: int | None = None, plan: Plan | None = None) -> Outcome:
    """By the seed, unless `nodes` or `plan` is given."""
    random = Random(seed)
    left: list[object] = []
    with _no_collection():
        drawn = plan or draw(random, nodes, transacts=seed >= FIRST_WITH_TRANSACTIONS)
        outcome = _simulate(seed, random, drawn, left)
        _clear_away(left)
    return outcome


def _simulate(seed: int, random: Random, plan: Plan, left: list[object]) -> Outcome:
    loop = VirtualLoop(Random(random.getrandbits(64)))
    trace = Trace(lambda: loop.moment)
    ledger = Ledger(
        trace,
        flushes_each=plan.flushes_each,
        replicas=plan.replicas,
        retention_ms=plan.retention_ms,
        is_careless=plan.is_careless,
        has_leases=plan.has_leases,
    )
    simulation = _Simulation(plan, loop, random, ledger, trace)
    with faults_in_logs(ledger.violated):
        try:
            loop.run_until_complete(simulation.run())
            for failure in loop.failures:
                ledger.violated(failure)
        finally:
            simulation.freeze()
            loop.close()
            left += [simulation, loop]
    return Outcome(
        seed=seed,
        plan=plan,
        violations=ledger.violations,
        trace=trace.lines,
        hash=trace.hash,
        virtual_s=loop.moment,
        acknowledged=ledger.acks,
    )


@contextmanager
def _no_collection() -> Iterator[None]:
    """When cycles of memory are freed depends on earlier runs, and coroutines among them run their last code then."""
    was_enabled = gc.isenabled()
    gc.disable()
    gc.collect()  # of the run before; what was frozen is not looked at
    gc.freeze()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _clear_away(left: list[object]) -> None:
    """Frees what killed processes left: their coroutines end in the middle, without logs."""
    before = sys.unraisablehook, logging.root.manager.disable
    sys.unraisablehook = lambda _: None
    logging.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            left.clear()
            for _ in range(ROUNDS_OF_CLEARING):
                gc.collect()
    finally:
        sys.unraisablehook = before[0]
        logging.disable(before[1])


class _Simulation:
    def __init__(self, plan: Plan, loop: VirtualLoop, random: Random, ledger: Ledger, trace: Trace) -> None:
        self._plan = plan
        self._loop = loop
        self._ledger = ledger
        self._trace = trace
        self._network = network = Network(loop, Random(random.getrandbits(64)), trace)
        network.conditions.delay_s = plan.delay_s
        network.conditions.socket_bytes = plan.socket_bytes
        self._machines = [
            Machine(node, plan, network, Random(random.getrandbits(64)), ledger, trace) for node in plan.nodes
        ]
        for machine, rate in zip(self._machines, plan.clocks, strict=False):
            machine.clock.rate = rate
            ledger.clocks.goes_at(rate)
        if plan.refuses_without_lease:
            ledger.leader_claims.watch(self._machines)
        addresses = [machine.address for machine in self._machines if machine.plan.is_broker]
        self._world = World(loop, addresses, ledger, trace, plan.of_clients)
        self._groups = [f"g{number}" for number in range(plan.groups)]
        self._draw_clients(random)
        self._processes = {client.name: Process(client.name) for client in self._clients}
        self._faults = Faults(
            self._machines, list(self._processes), network, Random(random.getrandbits(64)), ledger, trace
        )
        self._random = random

    def _draw_clients(self, random: Random) -> None:
        plan, groups = self._plan, self._groups
        self._producers = [
            ProducingClient(
                self._world,
                f"p{n}",
                Random(random.getrandbits(64)),
                idempotent=random.random() < 0.7,
                may_not_wait=plan.may_not_wait,
            )
            for n in range(plan.producers)
        ]
        consumers = [
            ConsumingClient(
                self._world,
                f"c{n}",
                groups[n % len(groups)],
                Random(random.getrandbits(64)),
                commits_by_itself=plan.commits_first,
                may_stay=not plan.faults and plan.consumers <= plan.groups,
            )
            for n in range(max(plan.consumers, plan.groups))
        ]
        admin = AdministratingClient(self._world, "admin", Random(random.getrandbits(64)), groups, plan)
        self._clients: list[Client] = [*self._producers, *consumers, admin]
        if plan.operates:
            self._clients.append(OperatingClient(self._world, "operator", Random(random.getrandbits(64)), plan))
        if plan.moves:
            self._clients.append(MovingClient(self._world, "mover", Random(random.getrandbits(64)), plan))
        self._tables = [
            TableClient(self._world, f"table-{number}", Random(f"{random.getstate()}{number}"), plan)
            for number in range(plan.tables)
        ]
        self._clients += self._tables
        self._transacting = [
            TransactingClient(self._world, f"x-{number}", Random(f"{random.getstate()}x{number}"), plan)
            for number in range(plan.transacting)
        ]
        self._transacting += [
            TwoPhaseClient(self._world, f"y-{number}", Random(f"{random.getstate()}y{number}"), plan)
            for number in range(plan.preparing)
        ]
        for one in self._transacting:
            self._clients += [one, CommittedReader(self._world, one, Random(f"{random.getstate()}{one.name} read"))]
        if plan.revokes:
            self._clients.append(RevokingClient(self._world, "revoker", Random(f"{random.getstate()}revoker")))
        if plan.by_consensus or plan.asks:
            self._clients.append(ReadingClient(self._world, "asker", Random(f"{random.getstate()}asker")))

    async def run(self) -> None:
        self._trace.note("plan", str(self._plan))
        if self._plan.is_cluster:
            self._format()
        await self._start_all()
        for machine in self._machines:
            machine.may_fail_to_start = self._plan.is_cluster  # while others are down
        tasks = [self._processes[client.name].spawn(self._loop, client.run()) for client in self._clients]
        watchman = asyncio.ensure_future(watch(self._machines, self._network, self._ledger, self._plan.session_s))
        try:
            await self._faults.run(self._plan.faults, self._plan.seconds, self._plan.troubles)
            self._world.is_over = True
            if not self._ledger.violations:
                await self._faults.heal()
            if not self._ledger.violations:
                await look_for_progress(
                    self._machines,
                    self._producers,
                    self._groups,
                    self._ledger,
                    self._trace,
                    balances_leaders=self._plan.balances_leaders,
                )
        finally:
            self._world.is_over = True
            watchman.cancel()
            await self._end_clients(tasks)
        if watchman.done() and not watchman.cancelled():
            watchman.result()  # an error that ended it would go unseen
        if not self._ledger.violations:
            await self._look_at_everything()

    def _format(self) -> None:
        """Controllers are told of the first voters, where these may change."""
        cluster_id = uuid_to_text(random_uuid(self._random))
        ids = {machine.plan.node_id: random_uuid(self._random) for machine in self._machines}
        first = None
        if self._plan.voters_may_change:
            controllers = [node for node in self._plan.nodes if node.is_controller]
            voters = {
                node.node_id: InitialController(node.node_id, node.name, CONTROLLER_PORT, ids[node.node_id])
                for node in controllers
            }
            first = first_snapshot(voters, "CONTROLLER", self._loop.now_ms())
        for machine in self._machines:
            node = machine.plan
            machine.format(cluster_id, ids[node.node_id], first if node.is_controller else None)

    async def _start_all(self) -> None:
        for machine in self._machines:
            machine.launch()
        for machine in self._machines:
            await machine.settled()

    async def _stop_all(self) -> None:
        await asyncio.gather(*(machine.stop() for machine in self._machines))

    async def _end_clients(self, tasks: list[asyncio.Task[None]]) -> None:
        self._world.stopping = True
        await asyncio.wait(tasks, timeout=END_LIMIT_S)
        late = [task for task in tasks if not task.done()]
        for task in tasks:
            if task.done() and task.exception() is not None:
                self._ledger.violated(f"a client ended with {task.exception()!r}")
        if late and not self._ledger.violations:
            self._ledger.violated(f"{len(late)} clients do not end")
        for task in late:
            task.cancel()

    async def _look_at_everything(self) -> None:
        """Once more from the disk: all promises hold."""
        await self._stop_all()
        await self._start_all()
        if not self._ledger.violations:
            await until_committed(self._machines, self._ledger)
            self._ledger.all_is_well()
            for _ in range(2):  # what the leaders have is known then
                check_replicas(self._machines, self._ledger)
            reader = self._processes["reader"] = Process("reader")
            await reader.spawn(self._loop, self._read_everything())
            self._ledger.look_at_history()
        await self._stop_all()

    def freeze(self) -> None:
        """No callback runs any more, not even one that freeing memory would cause."""
        for process in self._processes.values():
            process.kill()
        for machine in self._machines:
            if machine.process is not None:
                machine.process.kill()

    async def _read_everything(self) -> None:
        random = Random(1)
        settings = ConsumerSettings(
            **self._world.common("reader", random), enable_auto_commit=False, auto_offset_reset="earliest"
        )
        idempotent = [producer.name for producer in self._producers if producer.idempotent]
        async with Consumer(self._world.bootstrap(random), settings) as consumer, asyncio.timeout(READ_LIMIT_S):
            for name, count in self._ledger.topics.items():
                for index in range(count):
                    partition = TopicPartition(name, index)
                    records, end = await _read(consumer, partition)
                    self._ledger.read_back(partition, records, end, idempotent)
            for table in self._tables:
                if table.is_made:
                    records, _ = await _read(consumer, TopicPartition(table.name, 0))
                    table.compare(records)
        for transacting in self._transacting:
            if transacting.is_made:
                await transacting.settle()


async def _read(consumer: Consumer, partition: TopicPartition) -> tuple[list[ConsumedRecord], int]:
    await consumer.assign([partition])
    consumer.seek(partition, 0)
    end = (await consumer.end_offsets([partition]))[partition]
    records: list[ConsumedRecord] = []
    while await consumer.position(partition) < end:
        records += await consumer.poll(1000)
    return records, end
