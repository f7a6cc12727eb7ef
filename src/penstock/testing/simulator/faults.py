"""Causes the faults of a plan, several at a time perhaps, and heals everything in the end."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from random import Random

from penstock.log.names import partition_directory
from penstock.testing.simulator.ledger import Ledger
from penstock.testing.simulator.machine import Machine
from penstock.testing.simulator.network import Network
from penstock.testing.simulator.trace import Trace

MEAN_PAUSE_S = 3.0
MEAN_DOWN_S = 2.0
MAX_CALLS_TO_A_CRASH = 60
MOST_WRONG_MS = 20_000

Link = tuple[str, str]


class Faults:
    def __init__(
        self,
        machines: Sequence[Machine],
        clients: Sequence[str],
        network: Network,
        random: Random,
        ledger: Ledger,
        trace: Trace,
    ) -> None:
        self._ledger = ledger
        self._machines = machines
        self._clients = clients
        self._network = network
        self._random = random
        self._trace = trace
        self._kinds: dict[str, Callable[[Machine], Awaitable[None]]] = {
            "kill": partial(self._crash, power_lost=False),
            "power": partial(self._crash, power_lost=True),
            "kill in a call": partial(self._crash_in_a_call, power_lost=False),
            "power in a call": partial(self._crash_in_a_call, power_lost=True),
            "kill all": lambda _: self._crash_all(power_lost=False),
            "power all": lambda _: self._crash_all(power_lost=True),
            "stop": lambda machine: machine.stop(),
            "power and a stop": self._power_and_a_stop,
            "stop unheard": self._stop_unheard,
            "break": self._break,
            "clock": self._set_clock,
            "pause": self._pause,
            "cut": self._cut,
            "one way": self._cut_one_way,
            "isolate": self._isolate,
            "isolate one way": self._isolate_one_way,
            "slow": self._slow,
            "slow sync": self._slow_sync,
            "sync errors": self._sync_errors,
            "read errors": self._read_errors,
            "full": self._full,
            "a full disk": self._a_full_disk,
            "an error": self._an_error,
            "a dead disk": self._a_dead_disk,
            "a new disk": self._a_new_disk,
            "lost logs": self._lost_logs,
        }

    async def run(self, kinds: Sequence[str], seconds: float, troubles: int = 1) -> None:
        await asyncio.gather(*(self._run(kinds, seconds) for _ in range(troubles)))

    async def _run(self, kinds: Sequence[str], seconds: float) -> None:
        loop = self._network.loop
        end = loop.time() + seconds
        while loop.time() < end and not self._ledger.violations:
            await asyncio.sleep(min(self._random.expovariate(1 / MEAN_PAUSE_S), max(end - loop.time(), 0.01)))
            down = [machine for machine in self._machines if not machine.is_up]
            if down and self._random.random() < 0.7:
                self._random.choice(down).launch()
            elif kinds:
                await self._happen(self._random.choice(list(kinds)))

    async def heal(self) -> None:
        """No faults from now on; machines that are down start."""
        self._trace.note("faults", "all is healed")
        self._network.heal()
        for machine in self._machines:
            machine.may_fail_to_start = False
            machine.heal_disk()
            machine.disk.crash_in = None
            machine.go_on()
            if machine.has_offline_directory:
                machine.crash(power_lost=False)
        for machine in self._machines:
            if not machine.is_up:
                machine.launch()
        for machine in self._machines:
            await machine.settled()

    async def _happen(self, kind: str) -> None:
        up = [machine for machine in self._machines if machine.is_up and not machine.is_paused]
        if kind.endswith("the leader"):
            up = [machine for machine in up if machine.observer.leads]
            kind = kind.removesuffix("the leader").removesuffix(" of ").rstrip()
        if up:
            await self._kinds[kind](self._random.choice(up))

    # What is over at once

    async def _crash(self, machine: Machine, *, power_lost: bool) -> None:
        machine.crash(power_lost=power_lost)

    async def _crash_all(self, *, power_lost: bool) -> None:
        """They come back one by one, in any order."""
        for machine in self._machines:
            machine.crash(power_lost=power_lost)
        for machine in self._random.sample(list(self._machines), len(self._machines)):
            await asyncio.sleep(self._random.choice((0, self._random.expovariate(1 / MEAN_DOWN_S))))
            if not machine.is_up:
                machine.launch()

    async def _power_and_a_stop(self, machine: Machine) -> None:
        """One machine loses its power, another one stops cleanly before the controller misses the first, which is back
        first.
        """
        up = [other for other in self._machines if other is not machine and other.is_up and not other.is_paused]
        machine.crash(power_lost=True)
        if not up:
            return
        other = self._random.choice(up)
        await other.stop()
        for each in (machine, other):
            if not each.is_up:
                each.launch()
            await asyncio.sleep(self._random.expovariate(1 / MEAN_DOWN_S))

    async def _crash_in_a_call(self, machine: Machine, *, power_lost: bool) -> None:
        machine.power_fails_with_it = power_lost
        machine.disk.crash_in = self._random.randrange(1, MAX_CALLS_TO_A_CRASH)

    async def _break(self, _: Machine) -> None:
        self._trace.note("faults", f"{self._network.break_some(self._random.random())} connections break")

    async def _set_clock(self, machine: Machine) -> None:
        machine.set_clock(self._random.randrange(-MOST_WRONG_MS, MOST_WRONG_MS))

    # What lasts

    async def _stop_unheard(self, machine: Machine) -> None:
        """The node asks the controller to be let go, and hears no answer."""
        controllers = [other for other in self._machines if other.observer.leads and other is not machine]
        links = [(other.name, machine.name) for other in controllers]
        await asyncio.gather(machine.stop(), self._cut_links("stops unheard", links))

    async def _pause(self, machine: Machine) -> None:
        machine.pause()
        await asyncio.sleep(self._random.uniform(0.1, 10))
        machine.go_on()

    async def _cut(self, machine: Machine) -> None:
        other = self._other(machine)
        await self._cut_links("cut", [(machine.name, other), (other, machine.name)])

    async def _cut_one_way(self, machine: Machine) -> None:
        other = self._other(machine)
        await self._cut_links("cut one way", [self._random.choice(((machine.name, other), (other, machine.name)))])

    async def _isolate(self, machine: Machine) -> None:
        to, back = self._links_of(machine)
        await self._cut_links("isolated", to + back)

    async def _isolate_one_way(self, machine: Machine) -> None:
        await self._cut_links("isolated one way", self._random.choice(self._links_of(machine)))

    def _links_of(self, machine: Machine) -> tuple[list[Link], list[Link]]:
        """From the machine to the other nodes, and back; now and then to the clients as well."""
        others = [other.name for other in self._machines if other is not machine]
        if self._random.random() < 0.3:
            others += self._clients
        return [(machine.name, other) for other in others], [(other, machine.name) for other in others]

    def _other(self, machine: Machine) -> str:
        names = [other.name for other in self._machines if other is not machine]
        return self._random.choice(names if names and self._random.random() < 0.6 else list(self._clients))

    async def _cut_links(self, what: str, links: Sequence[Link]) -> None:
        cut = self._network.conditions.cut
        mine = [link for link in links if link not in cut]
        cut.update(dict.fromkeys(mine))
        await self._last(f"{what}: {', '.join(f'{one} to {other}' for one, other in mine)}")
        self._network.mend(mine)

    async def _slow(self, machine: Machine) -> None:
        name = machine.name if self._random.random() < 0.3 else self._random.choice(list(self._clients))
        self._network.conditions.slow[name] = self._random.uniform(2, 200)
        await self._last(f"slow: {name}")
        self._network.conditions.slow.pop(name, None)

    async def _slow_sync(self, machine: Machine) -> None:
        machine.disk.conditions.sync_s = self._random.uniform(0.05, 1)
        await self._last(f"slow sync: {machine.name}")
        machine.heal_disk()

    async def _full(self, machine: Machine) -> None:
        with _may_fail_to_start(machine):
            machine.disk.conditions.full = True
            await self._last(f"full: {machine.name}")
            machine.heal_disk()

    async def _a_full_disk(self, machine: Machine) -> None:
        """A disk without the metadata log: the node goes on, and others can lead what lies there."""
        full = self._random.choice(machine.data_paths[1:]).strip("/")
        machine.disk.conditions.full_disks = frozenset({full})
        await self._last(f"full disk: {full} of {machine.name}")
        machine.heal_disk()

    async def _read_errors(self, machine: Machine) -> None:
        machine.disk.conditions.read_errors = self._random.choice((0.01, 0.2, 1))
        await self._last_and_restart(machine, f"read errors: {machine.name}")

    async def _sync_errors(self, machine: Machine) -> None:
        """After a failed sync nothing can be trusted: the operator mends the disk and starts the node again."""
        machine.disk.conditions.sync_errors = self._random.choice((0.1, 1))
        await self._last_and_restart(machine, f"sync errors: {machine.name}")

    async def _an_error(self, machine: Machine) -> None:
        """One call fails, of any kind; the disk works again at once, and the node must not rely on it."""
        machine.disk.error_in = self._random.randrange(1, MAX_CALLS_TO_A_CRASH)
        await self._last_and_restart(machine, f"an error: {machine.name}")

    async def _a_dead_disk(self, machine: Machine) -> None:
        """One disk does nothing any more, until it is plugged in again."""
        dead = self._random.choice(machine.data_paths).strip("/")
        machine.disk.conditions.dead = frozenset({dead})
        await self._last_and_restart(machine, f"dead disk: {dead} of {machine.name}")

    async def _a_new_disk(self, machine: Machine) -> None:
        """One disk is replaced by an empty one; not before all replicas are in sync, on the disks they have.

        The first disk has what makes the node a voter of the quorum, and stays.
        """
        paths = machine.data_paths[1:]
        if not paths or not self._is_in_sync():
            return
        machine.replace_disk(self._random.choice(paths))
        await self._launch_later(machine)

    async def _lost_logs(self, machine: Machine) -> None:
        """A disk loses flushed records of storage groups, or of partitions in them; not before all others have all.
        Now and then all nodes end with it, as in a power cut.
        """
        if not self._is_in_sync() or not all(one.groups_are_whole for one in self._machines):
            return
        names = self.logs_of_groups(machine)
        machine.lose_logs(names if self._random.random() < 0.3 else self._random.sample(names, min(len(names), 1)))
        if self._random.random() < 0.5:
            await self._crash_all(power_lost=False)
            return
        await self._launch_later(machine)

    def logs_of_groups(self, machine: Machine) -> list[str]:
        return [
            partition_directory(topic.name, index)
            for topic in machine.observer.image.topics.values()
            if topic.by_consensus
            for index, partition in topic.partitions.items()
            if machine.plan.node_id in partition.replicas
        ]

    def _is_in_sync(self) -> bool:
        image = self._ledger.agreement.newest
        if image is None or any(machine.has_bad_disk for machine in self._machines):
            return False
        ids = {machine.plan.node_id: machine.directory_ids() for machine in self._machines}
        return all(
            sorted(partition.isr) == sorted(partition.replicas)
            and not partition.removing_replicas
            and all(partition.directory_of(it) in ids[it] for it in partition.replicas)
            for topic in image.topics.values()
            for partition in topic.partitions.values()
        )

    async def _last_and_restart(self, machine: Machine, what: str) -> None:
        """A failed disk stays offline until the node starts again."""
        with _may_fail_to_start(machine):
            await self._last(what)
            machine.heal_disk()
            machine.disk.error_in = None
            machine.crash(power_lost=self._random.random() < 0.3)

    async def _launch_later(self, machine: Machine) -> None:
        await asyncio.sleep(self._random.expovariate(1 / MEAN_DOWN_S))
        if not machine.is_up:
            machine.launch()

    async def _last(self, what: str) -> None:
        seconds = self._random.uniform(0.5, 12)
        self._trace.note("faults", f"{what}, for {seconds:.1f} s")
        await asyncio.sleep(seconds)
        self._trace.note("faults", f"{what} is over")


@contextmanager
def _may_fail_to_start(machine: Machine) -> Iterator[None]:
    before, machine.may_fail_to_start = machine.may_fail_to_start, True
    try:
        yield
    finally:
        machine.may_fail_to_start = before
