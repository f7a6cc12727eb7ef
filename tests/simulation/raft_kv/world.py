"""Servers of the key-value store and their clients on virtual time, with faults, all from one seed.

There are three servers, in half of the seeds also a newcomer and an administrator who changes who votes all the time.

What clients were told is a history, and it must be linearizable; in the end all servers hold the same.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from examples.raft_kv import admin
from examples.raft_kv.addresses import ServerAddress
from examples.raft_kv.client import ClientOptions, KvClient, OutcomeUnknownError
from examples.raft_kv.options import RaftOptions, ServerOptions
from examples.raft_kv.server import RunningServer, start_server

from penstock.client.errors import ClientError
from penstock.client.settings import ClientSettings
from penstock.leadership.lease import MAX_DRIFT
from penstock.node.surroundings import Surroundings
from penstock.protocol.errors import KafkaError
from penstock.raft.settings import RaftSettings
from penstock.testing.linearizability import History, violations
from penstock.testing.simulator.disk import DiskConditions, HostDisk, SimulatedDisk
from penstock.testing.simulator.loop import Process, VirtualLoop
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
PROGRESS_LIMIT_S = 60.0
MEAN_PAUSE_S = 1.5


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


@dataclass(slots=True)
class Findings:
    """What broke a rule, in the order in which it was found."""

    trace: Trace
    violations: list[str] = field(default_factory=list)

    def violated(self, text: str) -> None:
        self.trace.note("VIOLATED", text)
        self.violations.append(text)


class Machine:
    """A host with a server of the store, or without one just now; its disk stays."""

    def __init__(
        self,
        me: ServerAddress,
        network: Network,
        random: Random,
        found: Findings,
        *,
        leases: bool,
        clock: float,
    ) -> None:
        """`clock` is how fast its clock goes."""
        self.name = me.host
        self.disk = HostDisk(network.loop, Random(random.getrandbits(64)))
        self.server: RunningServer | None = None
        self.process: Process | None = None
        self.power_fails_with_it = False
        self.disk_was_full = False
        self._me = me
        self._network = network
        self._random = random
        self._found = found
        self._leases = leases
        self._clock = clock
        self.disk.root.link("data", type(self.disk.root)())
        self.disk.root.sync()
        self.disk.on_crash = lambda: self.crash(power_lost=self.power_fails_with_it)

    @property
    def is_up(self) -> bool:
        """Whether a process of it lives."""
        return self.process is not None and self.process.is_alive

    async def start(self) -> None:
        """Start the server; it may be killed meanwhile."""
        process = self.process = Process(self.name)
        self._network.host_is_back(self.name)
        self._found.trace.note(self.name, "starts")
        starting = process.spawn(self._network.loop, self._start(process))
        await _until_dead(process, starting)
        if process.is_alive and (error := starting.exception()) is not None:
            if not self.disk_was_full:
                self._found.violated(f"{self.name} does not start: {error!r}")
            self.crash(power_lost=False)
        elif process.is_alive:
            self.server = starting.result()

    async def _start(self, process: Process) -> RunningServer:
        raft = RaftOptions(
            data_dir="/data",
            snapshot_min_log_size=2_000,
            snapshot_period_seconds=2,
            max_segment_file_size=4_000,
            quorum=RaftSettings(leases=self._leases),
        )
        surroundings = Surroundings(
            random=Random(self._random.getrandbits(64)),
            disk=SimulatedDisk(self.disk, process),
            now_ms=self._network.loop.now_ms,
            elapsed_s=lambda: self._network.loop.time() * self._clock,
            bind=self._network.bind,
        )
        return await start_server(ServerOptions(servers=SERVERS, me=self._me, raft=raft), surroundings)

    async def stop(self) -> None:
        """Stop the server cleanly; it may be killed meanwhile."""
        process, server = self.process, self.server
        if process is None or server is None or not process.is_alive:
            return
        self._found.trace.note(self.name, "is asked to stop")
        stopping = process.spawn(self._network.loop, server.stop())
        await _until_dead(process, stopping)
        if process.is_alive:
            if (error := stopping.exception()) is not None and not self.disk_was_full:
                self._found.violated(f"{self.name} does not stop: {error!r}")
            self.crash(power_lost=False)

    def crash(self, *, power_lost: bool) -> None:
        """Kill the server now, in the middle of whatever it does."""
        process = self.process
        if process is not None and process.is_alive:
            self._found.trace.note(self.name, "loses its power" if power_lost else "is gone")
            self.look()
            process.kill()
            self.server = None
            self.disk.crash_in = None
            self._network.process_died(process, power_lost=power_lost)
            if power_lost:
                self.disk.lose_power()

    def look(self) -> None:
        """A server fails by itself only if its disk does."""
        failure = None if self.server is None else self.server.quorum.failure
        if failure is not None and not self.disk_was_full:
            self._found.violated(f"{self.name} has failed: {failure!r}")

    async def mend(self) -> None:
        """The disk works again; a server that has failed meanwhile is started anew."""
        self.disk.conditions = DiskConditions()
        if self.server is not None and self.server.quorum.failure is not None:
            await self.stop()
        self.disk_was_full = False


async def _until_dead(process: Process, task: asyncio.Task[RunningServer] | asyncio.Task[None]) -> None:
    """A task of a process that died never ends: look from outside."""
    while process.is_alive and not task.done():
        await asyncio.sleep(0.01)


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


class World:
    """One simulation."""

    def __init__(
        self, seed: int, faults: tuple[str, ...] | None, seconds: float, leases: bool | None, first_clock: float | None
    ) -> None:
        random = Random(seed)
        self.loop = VirtualLoop(Random(random.getrandbits(64)))
        self.trace = Trace(self.loop.time)
        self.found = Findings(self.trace)
        self.history = History()
        self.network = Network(self.loop, Random(random.getrandbits(64)), self.trace)
        self.network.conditions.delay_s = random.choice((0.000_5, 0.005))
        self._leases = random.random() < 0.75 if leases is None else leases
        self._first_clock = first_clock
        self.machines = [self._new_machine(me, random) for me in SERVERS]
        self.clients = [
            Client(f"c{number}", self.history, Random(random.getrandbits(64)), self.trace) for number in range(4)
        ]
        self.processes = {client.name: Process(client.name) for client in self.clients}
        self.admin: Administrator | None = None
        if random.random() < 0.5:
            self.machines.append(self._new_machine(NEWCOMER, random))
            self.admin = Administrator(self.network, Random(random.getrandbits(64)), self.trace)
            self.processes["admin"] = Process("admin")
        self.forgotten = 0
        self._faults = tuple(f for f in FAULTS if random.random() < 0.5) if faults is None else faults
        self._seconds = seconds
        self._random = random

    def _new_machine(self, me: ServerAddress, random: Random) -> Machine:
        clock = 1 + MAX_DRIFT * random.choice((-1, 1))
        if self._first_clock is not None and me is SERVERS[0]:
            clock = self._first_clock
        chance = Random(random.getrandbits(64))
        return Machine(me, self.network, chance, self.found, leases=self._leases, clock=clock)

    async def run(self) -> None:
        """Faults for a while, then none; then everything is looked at."""
        self.trace.note("plan", f"faults: {', '.join(self._faults) or 'none'}")
        await asyncio.gather(*(machine.start() for machine in self.machines))
        tasks = [self.processes[client.name].spawn(self.loop, client.run()) for client in self.clients]
        if self.admin is not None:
            tasks.append(self.processes["admin"].spawn(self.loop, self.admin.run()))
        await self._go_wrong()
        await self._heal()
        await self._look_for_progress()
        for client in (*self.clients, self.admin):
            if client is not None:
                client.stopping = True
        for task in tasks:
            await task
        await self._look_at_stores()
        for machine in self.machines:
            machine.look()

    async def _go_wrong(self) -> None:
        end = self.loop.time() + self._seconds
        while self.loop.time() < end:
            await asyncio.sleep(self._random.expovariate(1 / MEAN_PAUSE_S))
            machine = self._random.choice(self.machines)
            if not machine.is_up:
                await machine.start()
            elif self._faults:
                await self._happen(self._random.choice(self._faults), machine)

    async def _happen(self, kind: str, machine: Machine) -> None:
        if kind in ("kill", "power"):
            machine.crash(power_lost=kind == "power")
        elif kind in ("kill in a call", "power in a call"):
            machine.power_fails_with_it = kind.startswith("power")
            machine.disk.crash_in = self._random.randrange(1, 40)
        elif kind == "stop":
            await machine.stop()
        elif kind == "break":
            self.trace.note("faults", f"{self.network.break_some(self._random.random())} connections break")
        else:
            await self._for_a_while(kind, machine)

    async def _for_a_while(self, kind: str, machine: Machine) -> None:
        seconds = self._random.uniform(0.5, 8)
        conditions = self.network.conditions
        if kind in ("island", "answers lost"):
            machine = self._leader() or machine
        others = [other.name for other in self.machines if other is not machine]
        if kind in ("cut", "one way"):
            self._cut(machine, self._some([*others, *self.processes]), kind == "cut" or None)
        elif kind == "island":
            self._cut(machine, others, True)
        elif kind == "answers lost":
            self._cut(machine, self._some(list(self.processes)), False)
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

    def _cut(self, machine: Machine, others: list[str], both_ways: bool | None) -> None:
        """Cut the way to the others, and back if `both_ways`; None leaves it to chance which way."""
        outwards = both_ways is not None or self._random.random() < 0.5
        for other in others:
            if outwards:
                self.network.conditions.cut[machine.name, other] = None
            if both_ways or not outwards:
                self.network.conditions.cut[other, machine.name] = None

    def _some(self, names: list[str]) -> list[str]:
        return self._random.sample(names, self._random.randrange(1, len(names) + 1))

    def _leader(self) -> Machine | None:
        for machine in self.machines:
            quorum = None if machine.server is None else machine.server.quorum
            if quorum is not None and machine.is_up and quorum.is_leader(quorum.epoch):
                return machine
        return None

    async def _heal(self) -> None:
        self.trace.note("faults", "all is healed")
        self.network.heal()
        for machine in self.machines:
            await machine.mend()
            machine.disk.crash_in = None
            if not machine.is_up:
                await machine.start()

    async def _look_for_progress(self) -> None:
        before = {client.name: client.answered for client in self.clients}
        end = self.loop.time() + PROGRESS_LIMIT_S
        while self.loop.time() < end:
            if all(client.answered > before[client.name] + 5 for client in self.clients):
                return
            await asyncio.sleep(0.25)
        self.found.violated(f"no progress within {PROGRESS_LIMIT_S:.0f} s")

    async def _look_at_stores(self) -> None:
        """All servers come to hold the same."""
        end = self.loop.time() + PROGRESS_LIMIT_S
        servers = [machine.server for machine in self.machines if machine.server is not None]
        while self.loop.time() < end:
            if len({server.replica.end_offset for server in servers}) == 1:
                break
            await asyncio.sleep(0.1)
        stores = [[(r.key, r.value, r.headers) for r in server.replica.store.records(0)] for server in servers]
        if len(servers) < len(self.machines) or any(store != stores[0] for store in stores):
            self.found.violated(f"the servers do not hold the same: {stores}")
        self.forgotten = max((server.quorum.log_start_offset for server in servers), default=0)

    def freeze(self) -> None:
        """Nothing runs any more, whoever frees its memory."""
        for process in (*self.processes.values(), *(machine.process for machine in self.machines)):
            if process is not None:
                process.kill()


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
    with _faults_in_logs(world.found):
        try:
            world.loop.run_until_complete(world.run())
            for failure in world.loop.failures:
                world.found.violated(failure)
        finally:
            world.freeze()
            world.loop.close()
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


class _LogReader(logging.Handler):
    """An exception that a server logs is a defect."""

    def __init__(self, found: Findings) -> None:
        super().__init__(logging.ERROR)
        self._found = found

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self._found.violated(f"{record.name}: {record.getMessage()}: {record.exc_info[1]!r}")


@contextmanager
def _faults_in_logs(found: Findings) -> Iterator[None]:
    handler = _LogReader(found)
    loggers = [logging.getLogger(name) for name in ("penstock", "examples")]
    before = [(logger.propagate, logger.level) for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, (propagate, level) in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.propagate = propagate
            logger.setLevel(level)
