"""Servers of the key-value store and their clients on virtual time, with faults, all from one seed.

There are three servers, in half of the seeds also a newcomer and an administrator who changes who votes all the time.

What clients were told is a history, and it must be linearizable; in the end all servers hold the same.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from examples.raft_kv.client import ClientOptions, KvClient, OutcomeUnknownError
from examples.raft_kv.server import start_server
from examples.raft_kv.store import Store
from tests.simulation import faulty_hosts as hosts

from penstock.client.errors import ClientError
from penstock.client.settings import ClientSettings
from penstock.leadership.lease import MAX_DRIFT
from penstock.node.environment.environment import Environment
from penstock.protocol.errors import KafkaError
from penstock.raft.settings import RaftSettings
from penstock.replicated import admin
from penstock.replicated.addresses import ServerAddress
from penstock.replicated.node import ReplicatedNode
from penstock.replicated.options import NodeOptions
from penstock.testing.linearizability import History, violations
from penstock.testing.simulator.disk import SimulatedDisk
from penstock.testing.simulator.loop import Process
from penstock.testing.simulator.network import Network
from penstock.testing.simulator.trace import Trace

PORT = 16010
SERVERS = tuple(ServerAddress(f"s{number}", PORT, number) for number in (1, 2, 3))
NEWCOMER = ServerAddress("s4", PORT, 4)
KEYS = ("a", "b", "c")
PATIENCE = ClientOptions(timeout_s=4, attempt_timeout_s=1)
FAULTS = (
    "kill", "power", "kill in a call", "power in a call", "stop", "break", "cut", "one way", "island", "answers lost",
    "slow", "slow sync", "full"
)  # fmt: skip
"""An island is a leader that clients reach and other servers do not; answers are lost on the way to some clients."""


@dataclass(slots=True)
class Outcome:
    """What a seed did, and what it found."""

    seed: int
    violations: list[str]
    trace: list[str]
    hash: str
    operations: int
    answered: int
    forgotten: int = 0
    """Offset up to which the logs were forgotten, of the server that forgot most."""
    changes: int = 0
    """How often another quorum was agreed on."""


class Machine(hosts.Machine[ReplicatedNode[Store]]):
    """A host with a server of the store; `clock` is how fast its clock goes."""

    def __init__(
        self, me: ServerAddress, network: Network, random: Random, found: hosts.Findings, *, leases: bool, clock: float
    ) -> None:
        super().__init__(me.host, network.loop, random, found)
        self._me = me
        self._network = network
        self._random = random
        self._leases = leases
        self._clock = clock

    async def start(self) -> None:
        self._network.host_is_back(self.name)
        await super().start()

    async def begin(self, process: Process) -> ReplicatedNode[Store]:
        options = NodeOptions(
            servers=SERVERS,
            me=self._me,
            directory="/data",
            snapshot_min_log_size=2_000,
            snapshot_period_seconds=2,
            max_segment_file_size=4_000,
            quorum=RaftSettings(leases=self._leases),
        )
        environment = Environment(
            random=Random(self._random.getrandbits(64)),
            disk=SimulatedDisk(self.disk, process),
            now_ms=self._network.loop.now_ms,
            elapsed_s=lambda: self._network.loop.time() * self._clock,
            bind=self._network.bind,
        )
        return await start_server(options, environment)

    async def end(self, server: ReplicatedNode[Store]) -> None:
        await server.stop()

    def failure(self, server: ReplicatedNode[Store]) -> object | None:
        return server.quorum.failure

    def died(self, process: Process, *, power_lost: bool) -> None:
        self._network.process_died(process, power_lost=power_lost)


class Client:
    """Sets and gets, one thing after the other, and writes down what it was told."""

    def __init__(self, name: str, history: History, random: Random, trace: Trace) -> None:
        self.name = name
        self.answered = 0
        self.stopping = False
        self._history = history
        self._random = random
        self._trace = trace
        self._next = 0

    async def run(self) -> None:
        """Until it is told to stop; a client that gets no answer is sometimes replaced by a new one."""
        while not self.stopping:
            addresses = [server.address for server in SERVERS]
            self._random.shuffle(addresses)
            async with KvClient(addresses, PATIENCE) as client:
                while not self.stopping:
                    try:
                        await self._act(client, self._random.choice(KEYS))
                    except OutcomeUnknownError as error:
                        self._trace.note(self.name, str(error))
                        if self._random.random() < 0.5:
                            break
                    await asyncio.sleep(self._random.expovariate(10))

    async def _act(self, client: KvClient, key: str) -> None:
        if self._random.random() < 0.1:
            client.disconnect()
        if self._random.random() < 0.5:
            self._next += 1
            value = f"{self.name}.{self._next}"
            operation = self._history.call(self.name, key, write=value)
            await client.set(key.encode(), value.encode())
            self._history.returned(operation)
        else:
            operation = self._history.call(self.name, key)
            found = (await client.get(key.encode())).value
            self._history.returned(operation, None if found is None else found.decode())
        self.answered += 1
        self._trace.note(self.name, str(operation))


class Administrator:
    """Changes who votes, of four servers: one is added if there are three, else one is removed."""

    def __init__(self, network: Network, random: Random, trace: Trace) -> None:
        self.stopping = False
        self.changes = 0
        self._random = random
        self._trace = trace
        self._settings = ClientSettings(
            client_id="admin",
            now_ms=network.loop.now_ms,
            random=random,
            request_timeout_ms=2_000,
            default_api_timeout_ms=6_000,
            socket_connection_setup_timeout_ms=1_000,
        )

    async def run(self) -> None:
        """Until it is told to stop."""
        while not self.stopping:
            await asyncio.sleep(self._random.expovariate(1))
            try:
                await self._change()
                self.changes += 1
            except (KafkaError, ClientError) as error:
                self._trace.note("admin", f"failed: {error!r}")

    async def _change(self) -> None:
        servers = [*SERVERS, NEWCOMER]
        addresses = [server.address for server in servers]
        self._random.shuffle(addresses)
        voters = [voter.node_id for voter in (await admin.describe(addresses, self._settings)).voters]
        if len(voters) > 3:
            gone = self._random.choice(voters)
            self._trace.note("admin", f"removes {gone} of {voters}")
            await admin.remove_peers(addresses, [gone], self._settings)
        else:
            missing = self._random.choice([server for server in servers if server.id not in voters])
            self._trace.note("admin", f"adds {missing} to {voters}")
            await admin.add_peers(addresses, [missing], self._settings)


class World(hosts.World[Machine]):
    """One simulation."""

    def __init__(
        self, seed: int, faults: tuple[str, ...] | None, seconds: float, leases: bool | None, first_clock: float | None
    ) -> None:
        random = Random(seed)
        super().__init__(random, seconds)
        self.history = History()
        self.network = Network(self.loop, Random(random.getrandbits(64)), self.trace)
        self.network.conditions.delay_s = random.choice((0.000_5, 0.005))
        self._leases = random.random() < 0.75 if leases is None else leases
        self._first_clock = first_clock
        self.machines = [self._new_machine(me, random) for me in SERVERS]
        self.clients = [
            Client(f"c{number}", self.history, Random(random.getrandbits(64)), self.trace) for number in range(4)
        ]
        self._processes = {client.name: Process(client.name) for client in self.clients}
        self.admin: Administrator | None = None
        if random.random() < 0.5:
            self.machines.append(self._new_machine(NEWCOMER, random))
            self.admin = Administrator(self.network, Random(random.getrandbits(64)), self.trace)
            self._processes["admin"] = Process("admin")
        self.forgotten = 0
        self.draw_faults(FAULTS, faults)

    def _new_machine(self, me: ServerAddress, random: Random) -> Machine:
        clock = 1 + MAX_DRIFT * random.choice((-1, 1))
        if self._first_clock is not None and me is SERVERS[0]:
            clock = self._first_clock
        chance = Random(random.getrandbits(64))
        return Machine(me, self.network, chance, self.found, leases=self._leases, clock=clock)

    @property
    def cut_links(self) -> dict[tuple[str, str], None]:
        return self.network.conditions.cut

    def heal_links(self) -> None:
        self.network.heal()

    def processes(self) -> Iterable[Process]:
        return self._processes.values()

    async def run(self) -> None:
        self.trace.note("plan", f"faults: {', '.join(self.faults) or 'none'}")
        await asyncio.gather(*(machine.start() for machine in self.machines))
        tasks = [self._processes[client.name].spawn(self.loop, client.run()) for client in self.clients]
        if self.admin is not None:
            tasks.append(self._processes["admin"].spawn(self.loop, self.admin.run()))
        await self.go_wrong(self.faults)
        await self.heal()
        await self.look_for_progress(self.clients)
        for client in (*self.clients, self.admin):
            if client is not None:
                client.stopping = True
        for task in tasks:
            await task
        await self._look_at_stores()
        for machine in self.machines:
            machine.look()

    async def befall(self, kind: str, machine: Machine) -> None:
        if kind == "break":
            self.trace.note("faults", f"{self.network.break_some(self._random.random())} connections break")
            return
        seconds = self._random.uniform(0.5, 8)
        conditions = self.network.conditions
        if kind in ("island", "answers lost"):
            machine = self._leader() or machine
        if kind in ("cut", "one way"):
            self.cut(machine, self.some([*self.others(machine), *self._processes]), kind == "cut" or None)
        elif kind == "island":
            self.cut(machine, self.others(machine), True)
        elif kind == "answers lost":
            self.cut(machine, self.some(list(self._processes)), False)
        elif kind == "slow":
            conditions.slow[machine.name] = self._random.uniform(2, 200)
        elif kind == "slow sync":
            machine.disk.conditions.sync_s = self._random.uniform(0.05, 1)
        else:
            assert kind == "full"
            machine.disk.conditions.full = machine.disk_was_full = True
        cut = ", ".join(f"{a} to {b}" for a, b in conditions.cut)
        self.trace.note("faults", f"{kind} for {seconds:.1f} s: {machine.name}; cut: {cut or 'nothing'}")
        await asyncio.sleep(seconds)
        self.network.heal()
        await machine.mend()
        self.trace.note("faults", f"{kind} is over")

    def _leader(self) -> Machine | None:
        for machine in self.machines:
            quorum = None if machine.server is None else machine.server.quorum
            if quorum is not None and machine.is_up and quorum.is_leader(quorum.epoch):
                return machine
        return None

    async def _look_at_stores(self) -> None:
        """All servers come to hold the same."""
        end = self.loop.time() + hosts.PROGRESS_LIMIT_S
        servers = [machine.server for machine in self.machines if machine.server is not None]
        while self.loop.time() < end:
            if len({server.applied_end_offset for server in servers}) == 1:
                break
            await asyncio.sleep(0.1)
        stores = [[(r.key, r.value, r.headers) for r in server.machine.snapshot()] for server in servers]
        if len(servers) < len(self.machines) or any(store != stores[0] for store in stores):
            self.found.violated(f"the servers do not hold the same: {stores}")
        self.forgotten = max((server.quorum.log_start_offset for server in servers), default=0)


def simulate(
    seed: int,
    *,
    faults: tuple[str, ...] | None = None,
    seconds: float = 20,
    leases: bool | None = None,
    first_clock: float | None = None,
) -> Outcome:
    """Run the simulation that this seed decides; `first_clock` is how fast that of the first server goes."""
    world = World(seed, faults, seconds, leases, first_clock)
    world.run_to_the_end("penstock", "examples")
    found = world.found.violations + violations(world.history.operations)
    return Outcome(
        seed=seed,
        violations=found,
        trace=world.trace.lines,
        hash=world.trace.hash,
        operations=len(world.history.operations),
        answered=sum(client.answered for client in world.clients),
        forgotten=world.forgotten,
        changes=0 if world.admin is None else world.admin.changes,
    )
