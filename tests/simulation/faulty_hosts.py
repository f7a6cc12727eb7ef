"""Hosts with a server each on virtual time, and what befalls them: what simulations of one kind of server share."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Generic, Protocol, TypeVar

from penstock.testing.simulator.disk import DiskConditions, HostDisk
from penstock.testing.simulator.logged_faults import faults_in_logs
from penstock.testing.simulator.loop import Process, VirtualLoop
from penstock.testing.simulator.trace import Trace

PROGRESS_LIMIT_S = 60.0
MEAN_PAUSE_S = 1.5
Result = TypeVar("Result")
ServerT = TypeVar("ServerT")


@dataclass(slots=True)
class Findings:
    """What broke a rule, in the order in which it was found."""

    trace: Trace
    violations: list[str] = field(default_factory=list)

    def violated(self, text: str) -> None:
        self.trace.note("VIOLATED", text)
        self.violations.append(text)


class Machine(ABC, Generic[ServerT]):
    """A host with a server, or without one just now; its disk stays."""

    def __init__(self, name: str, loop: VirtualLoop, random: Random, found: Findings) -> None:
        self.name = name
        self.disk = HostDisk(loop, Random(random.getrandbits(64)))
        self.server: ServerT | None = None
        self.process: Process | None = None
        self.power_fails_with_it = False
        self.stays_down = False
        self.disk_was_full = False
        self._loop = loop
        self._found = found
        self.disk.add_root("/data")
        self.disk.root.sync()
        self.disk.on_crash = lambda: self.crash(power_lost=self.power_fails_with_it)

    @property
    def is_up(self) -> bool:
        """Whether a process of it lives."""
        return self.process is not None and self.process.is_alive

    async def start(self) -> None:
        """Start the server; it may be killed meanwhile."""
        process = self.process = Process(self.name)
        self._found.trace.note(self.name, "starts")
        server = await self._done("start", process, self.begin(process))
        if server is not None:
            self.server = server
        else:
            self.crash(power_lost=False)

    async def stop(self) -> None:
        """Stop the server cleanly; it may be killed meanwhile."""
        process, server = self.process, self.server
        if process is not None and server is not None and process.is_alive:
            self._found.trace.note(self.name, "is asked to stop")
            await self._done("stop", process, self.end(server))
            self.crash(power_lost=False)

    async def _done(self, what: str, process: Process, work: Coroutine[object, object, Result]) -> Result | None:
        """What the process was to do; None if it failed, which only a full disk may cause, or was killed meanwhile."""
        task = process.spawn(self._loop, work)
        while process.is_alive and not task.done():  # a task of a process that died never ends: look from outside
            await asyncio.sleep(0.01)
        if not process.is_alive:
            return None
        if (error := task.exception()) is not None:
            if not self.disk_was_full:
                self._found.violated(f"{self.name} does not {what}: {error!r}")
            return None
        result: Result = task.result()
        return result

    def crash(self, *, power_lost: bool) -> None:
        """Kill the server now, in the middle of whatever it does."""
        process = self.process
        if process is not None and process.is_alive:
            self._found.trace.note(self.name, "loses its power" if power_lost else "is gone")
            self.look()
            process.kill()
            self.server = None
            self.disk.crash_in = None
            self.died(process, power_lost=power_lost)
            if power_lost:
                self.disk.lose_power()

    def look(self) -> None:
        """A server fails by itself only if its disk does."""
        failure = None if self.server is None else self.failure(self.server)
        if failure is not None and not self.disk_was_full:
            self._found.violated(f"{self.name} has failed: {failure!r}")

    async def mend(self) -> None:
        """The disk works again; a server that has failed meanwhile is started anew."""
        self.disk.conditions = DiskConditions()
        if self.server is not None and self.failure(self.server) is not None:
            await self.stop()
        self.disk_was_full = False

    @abstractmethod
    async def begin(self, process: Process) -> ServerT:
        """A server that runs in this process."""

    @abstractmethod
    async def end(self, server: ServerT) -> None:
        """The server stops."""

    @abstractmethod
    def failure(self, server: ServerT) -> object | None:
        """Why it has ended by itself, if it has."""

    def died(self, process: Process, *, power_lost: bool) -> None:
        """Its process is no more."""


class Client(Protocol):
    """Does one thing after the other until it is told to stop, and counts the answers."""

    name: str
    answered: int
    stopping: bool


MachineT = TypeVar("MachineT", bound=Machine[Any])


class World(ABC, Generic[MachineT]):
    """Machines and what befalls them. Which faults there are, and how links are cut, is for each world to say."""

    def __init__(self, random: Random, seconds: float) -> None:
        self.loop = VirtualLoop(Random(random.getrandbits(64)))
        self.trace = Trace(self.loop.time)
        self.found = Findings(self.trace)
        self.machines: list[MachineT] = []
        self.faults: tuple[str, ...] = ()
        self._seconds = seconds
        self._random = random

    def draw_faults(self, known: Sequence[str], given: tuple[str, ...] | None) -> None:
        """Those that are given, or half of those that are known."""
        self.faults = tuple(fault for fault in known if self._random.random() < 0.5) if given is None else given

    # What each world says.

    @property
    @abstractmethod
    def cut_links(self) -> dict[tuple[str, str], None]:
        """The ways, from and to, on which nothing arrives now."""

    @abstractmethod
    def heal_links(self) -> None:
        """Everybody reaches everybody at once."""

    @abstractmethod
    async def run(self) -> None:
        """Faults for a while, then none; then everything is looked at."""

    @abstractmethod
    def processes(self) -> Iterable[Process]:
        """Those of clients."""

    @abstractmethod
    async def befall(self, kind: str, machine: MachineT) -> None:
        """A fault that not all worlds have."""

    # What all share.

    async def go_wrong(self, faults: Sequence[str]) -> None:
        """One of these faults after the other; who is down is started again."""
        end = self.loop.time() + self._seconds
        while self.loop.time() < end:
            await asyncio.sleep(self._random.expovariate(1 / MEAN_PAUSE_S))
            machine = self._random.choice(self.machines)
            if not machine.is_up:
                if not machine.stays_down:
                    await machine.start()
            elif faults:
                await self._happen(self._random.choice(faults), machine)

    async def _happen(self, kind: str, machine: MachineT) -> None:
        if kind in ("kill", "power"):
            machine.crash(power_lost=kind == "power")
        elif kind in ("kill in a call", "power in a call"):
            machine.power_fails_with_it = kind.startswith("power")
            machine.disk.crash_in = self._random.randrange(1, 40)
        elif kind == "stop":
            await machine.stop()
        else:
            await self.befall(kind, machine)

    def cut(self, machine: MachineT, others: Iterable[str], both_ways: bool | None) -> None:
        """Cut the way to the others, and back if `both_ways`; None leaves it to chance which way."""
        outwards = both_ways is not None or self._random.random() < 0.5
        for other in others:
            if outwards:
                self.cut_links[machine.name, other] = None
            if both_ways or not outwards:
                self.cut_links[other, machine.name] = None

    def some(self, names: Sequence[str]) -> list[str]:
        """At least one of them."""
        return self._random.sample(names, self._random.randrange(1, len(names) + 1))

    def others(self, machine: MachineT) -> list[str]:
        """The names of the other machines."""
        return [other.name for other in self.machines if other is not machine]

    async def heal(self) -> None:
        """All links and disks work, and all machines run."""
        self.trace.note("faults", "all is healed")
        self.heal_links()
        for machine in self.machines:
            await machine.mend()
            machine.disk.crash_in = None
            if not machine.is_up:
                await machine.start()

    async def look_for_progress(self, clients: Sequence[Client]) -> None:
        """Each of them gets answers again."""
        before = {client.name: client.answered for client in clients}
        end = self.loop.time() + PROGRESS_LIMIT_S
        while self.loop.time() < end:
            if all(client.answered > before[client.name] + 5 for client in clients):
                return
            await asyncio.sleep(0.25)
        self.found.violated(f"no progress within {PROGRESS_LIMIT_S:.0f} s")

    def run_to_the_end(self, *packages: str) -> None:
        """Run it; an exception that one of these packages logs is a violation."""
        with faults_in_logs(self.found.violated, *packages):
            try:
                self.loop.run_until_complete(self.run())
                for failure in self.loop.failures:
                    self.found.violated(failure)
            finally:
                for process in (*self.processes(), *(machine.process for machine in self.machines)):
                    if process is not None:
                        process.kill()  # nothing runs any more, whoever frees its memory
                self.loop.close()
