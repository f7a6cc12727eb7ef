"""Replicas of a storage group on virtual time, with producers, consumers and faults, all from one seed.

There are three, in half of the seeds also a newcomer, and who votes changes all the time. The leader hands over to
another voter now and then, by the scheme that the seed chooses, and one of them may be killed in the middle of it.

What is looked for: what was acknowledged is there, once; produces and fetches are linearizable at each partition; the
partitions' logs of all replicas are the same; at most one replica holds the lease at any moment of the true time; each
hand-over ends.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from tests.simulation import faulty_hosts as hosts
from tests.simulation.storage_groups.clients import Client, Consumer, IdempotentProducer, Mover, Producer
from tests.simulation.storage_groups.history import History
from tests.simulation.storage_groups.post import Post
from tests.simulation.storage_groups.server import FIRST_IDS, NEWCOMER, PARTITIONS, Server

from penstock.leadership.lease import MAX_DRIFT
from penstock.leadership.transfer import State
from penstock.protocol.errors import KafkaError
from penstock.replication.storage_groups.entries import Scheme
from penstock.testing.simulator.disk import DiskConditions
from penstock.testing.simulator.loop import Process

FAULTS = (
    "kill", "power", "kill in a call", "power in a call", "power of all", "kill all", "stop", "resign", "cut",
    "one way", "island", "slow", "slow sync", "pause", "hand over", "hand over and kill",
    "hand over and cut",
)  # fmt: skip
"""An island is a leader that clients reach and other replicas do not."""
HAND_OVERS = ("hand over", "hand over and kill", "hand over and cut")
TO_THE_DEAD = "hand over to the dead"
"""The successor dies at once, for a while: another one has to lead meanwhile, if nothing else happens."""
BESIDE = (*HAND_OVERS, TO_THE_DEAD)
"""These happen beside the others."""
KILLED_WITHIN_S = {Scheme.RUNS_OUT: 1.0, Scheme.MOVED: 0.1, Scheme.ENDED: 0.02}
LEADERLESS_LIMIT_S = {Scheme.RUNS_OUT: 4.0, Scheme.MOVED: 1.5, Scheme.ENDED: 1.3}


@dataclass(slots=True)
class Outcome:
    """What a seed did, and what it found."""

    violations: list[str]
    trace: list[str]
    hash: str
    answered: int
    forgotten: int
    """Offset up to which the group's log was forgotten, where most of it was."""
    changes: int
    """How often another quorum was agreed on."""
    copied: int
    """How often a replica asked another one for what the group has forgotten."""
    entries_per_proposal: float
    taken_over: int
    """How often a replica got the lead that another one gave away."""
    taken_over_proposals: int
    sent_on: int
    """So many batches were held and sent on to the successor."""


class Machine(hosts.Machine[Server]):
    """A host with a replica."""

    def __init__(self, node_id: int, world: "World", random: Random) -> None:
        super().__init__(f"s{node_id}", world.loop, random, world.found)
        self.id = node_id
        self.copied = self.proposals = self.entries = 0
        self.taken_over = self.taken_over_proposals = self.sent_on = 0
        self._world = world
        self._random = random
        self._clock = 1 + MAX_DRIFT * random.choice((-1, 1))

    async def begin(self, process: Process) -> Server:
        world, random = self._world, Random(self._random.getrandbits(64))
        server = Server(
            self.id, process, self.disk, world.post, random, self._clock, world.linger_ms, world.scheme, world.peer
        )
        await server.start()
        return server

    async def end(self, server: Server) -> None:
        self.look()
        self.server = None
        await server.stop()

    def failure(self, server: Server) -> object | None:
        return server.driver.failure

    def look(self) -> None:
        """What it has done is counted as well: it is not asked again."""
        super().look()
        if self.server is not None:
            self.proposals += self.server.group.proposer.proposals
            self.entries += self.server.group.proposer.entries
            self.copied += self.server.copies
            self.taken_over += self.server.group.taken_over
            self.taken_over_proposals += self.server.group.taken_over_proposals
            self.sent_on += self.server.sent_on_here


class World(hosts.World[Machine]):
    """One simulation."""

    def __init__(self, seed: int, faults: tuple[str, ...] | None, seconds: float, scheme: Scheme | None) -> None:
        random = Random(seed)
        super().__init__(random, seconds)
        self.history = History()
        self.post = Post(self.loop, Random(random.getrandbits(64)))
        self.post.delay_s = random.choice((0.000_5, 0.005))
        self.linger_ms = random.choice((0, 5, 50))
        self.scheme = random.choice(tuple(Scheme)) if scheme is None else scheme
        moves = random.random() < 0.5
        ids = (*FIRST_IDS, NEWCOMER) if moves else FIRST_IDS
        self.machines = [Machine(node_id, self, Random(random.getrandbits(64))) for node_id in ids]
        self.clients = [self._client(number, random) for number in range(7 if moves else 6)]
        self.draw_faults(FAULTS, faults)

    def _client(self, number: int, random: Random) -> Client:
        given = self.post, Random(random.getrandbits(64)), self.history, self.trace, self.peer
        if number < 4:
            return IdempotentProducer(f"p{number}", *given, producer_id=number) if number else Producer("p0", *given)
        return Consumer(f"c{number}", *given) if number < 6 else Mover("mover", *given)

    def peer(self, node_id: int) -> Server | None:
        """The replica that runs under this id."""
        return next((machine.server for machine in self.machines if machine.id == node_id), None)

    @property
    def cut_links(self) -> dict[tuple[str, str], None]:
        return self.post.cut

    def heal_links(self) -> None:
        self.post.heal()

    def processes(self) -> Iterable[Process]:
        return (client.process for client in self.clients)

    async def run(self) -> None:
        self.trace.note("plan", f"faults: {', '.join(self.faults) or 'none'}")
        await asyncio.gather(*(machine.start() for machine in self.machines))
        tasks = [client.process.spawn(self.loop, client.run()) for client in self.clients]
        watching = self.loop.create_task(self._watch_leases())
        handing_over = self.loop.create_task(self._hand_over_now_and_then())
        await self.go_wrong([fault for fault in self.faults if fault not in BESIDE])
        handing_over.cancel()
        await self.heal()
        await self.look_for_progress(self.clients[:6])
        await self._look_at_hand_overs()
        watching.cancel()
        for client in self.clients:
            client.stopping = True
        await asyncio.wait(tasks)
        await self._look_at_logs()
        for machine in self.machines:
            machine.look()

    async def _watch_leases(self) -> None:
        while True:
            holders = [m.name for m in self.machines if m.is_up and m.server is not None and m.server.group.can_be_read]
            if len(holders) > 1:
                self.found.violated(f"{' and '.join(holders)} hold the lease at once")
            await asyncio.sleep(0.005)

    async def _hand_over_now_and_then(self) -> None:
        """To one that is drawn, which may be no voter, and be down; who is cut off has just heard that all agree."""
        kinds = [fault for fault in self.faults if fault in BESIDE]
        while kinds:
            await asyncio.sleep(self._random.expovariate(1 / hosts.MEAN_PAUSE_S))
            leader, kind = self._leader(), self._random.choice(kinds)
            if leader is None or leader.server is None or leader.server.process.is_paused:
                continue
            successor = self._random.choice([machine for machine in self.machines if machine is not leader]).id
            try:
                leader.server.process.context.copy().run(leader.server.hand_over, successor)
            except KafkaError:
                continue
            self.trace.note(leader.name, f"hands over to s{successor} by scheme {self.scheme}")
            if kind == TO_THE_DEAD:
                await self._stay_dead(next(machine for machine in self.machines if machine.id == successor))
            if kind == "hand over and kill":
                await asyncio.sleep(self._random.expovariate(1 / KILLED_WITHIN_S[self.scheme]))
                self._random.choice(self.machines).crash(power_lost=self._random.random() < 0.5)
            elif kind == "hand over and cut" and await self._is_agreed(leader):
                self.cut(leader, self.others(leader), True)
                await asyncio.sleep(self._random.uniform(0.5, 3))
                self.post.heal()

    async def _stay_dead(self, machine: Machine) -> None:
        machine.crash(power_lost=False)
        machine.stays_down = True
        await asyncio.sleep(LEADERLESS_LIMIT_S[self.scheme])
        if not any(m.is_up and m.server is not None and m.server.group.can_be_read for m in self.machines):
            self.found.violated("nobody leads although the successor has died long ago")
        machine.stays_down = False
        await machine.start()

    async def _is_agreed(self, leader: Machine) -> bool:
        """Whether the voters agree to a hand-over; then that is just so."""
        for _ in range(1000):
            if leader.server is None or leader.server.handing_over is None:
                return False
            if (state := leader.server.handing_over.machine.state) is State.DECIDED:
                return True
            if state in (State.FORWARDING, State.OVER):
                return False
            await asyncio.sleep(0.000_2)
        return False

    async def befall(self, kind: str, machine: Machine) -> None:
        if kind in ("power of all", "kill all"):
            for one in self.machines:
                one.crash(power_lost=kind == "power of all")
            for one in self.machines:
                await one.start()
        elif kind == "resign":
            if (leader := self._leader()) is not None and leader.server is not None:
                leader.server.process.context.run(leader.server.driver.resign)
        else:
            await self._for_a_while(kind, machine)

    async def _for_a_while(self, kind: str, machine: Machine) -> None:
        seconds = self._random.uniform(0.5, 8)
        if kind == "island":
            machine = self._leader() or machine
        if kind in ("cut", "one way"):
            names = [*self.others(machine), *(client.name for client in self.clients)]
            self.cut(machine, self.some(names), kind == "cut" or None)
        elif kind == "island":
            self.cut(machine, self.others(machine), True)
        elif kind == "pause":
            if machine.process is not None:
                machine.process.pause()
        elif kind == "slow":
            self.post.slow[machine.name] = self._random.uniform(2, 200)
        else:
            machine.disk.conditions.sync_s = self._random.uniform(0.05, 1)
        self.trace.note("faults", f"{kind} for {seconds:.1f} s: {machine.name}")
        await asyncio.sleep(seconds)
        if machine.process is not None:
            machine.process.go_on(self.loop)
        self.post.heal()
        machine.disk.conditions = DiskConditions()

    def _leader(self) -> Machine | None:
        for machine in self.machines:
            if machine.is_up and machine.server is not None and machine.server.group.proposer.epoch is not None:
                return machine
        return None

    async def _look_at_hand_overs(self) -> None:
        """Each one ends, also one of which nobody hears anything any more."""
        end = self.loop.time() + hosts.PROGRESS_LIMIT_S
        while self.loop.time() < end:
            servers = [machine.server for machine in self.machines if machine.server is not None]
            if all(server.group.hand_over is None for server in servers):
                return
            await asyncio.sleep(0.25)
        self.found.violated("a hand-over does not end")

    async def _look_at_logs(self) -> None:
        """All replicas come to have the same."""
        servers = [machine.server for machine in self.machines if machine.server is not None]
        end = self.loop.time() + hosts.PROGRESS_LIMIT_S
        while self.loop.time() < end:
            await asyncio.sleep(0.1)
            if len({server.driver.applied_offset for server in servers}) == 1:
                break
        if len(servers) < len(self.machines):
            self.found.violated("not all replicas live")
        for partition in PARTITIONS:
            if without := [server.id for server in servers if partition not in server.group.partitions]:
                self.found.violated(f"{without} have no {partition}")
                continue
            ends = {server.group.partition(partition).end_offset for server in servers}
            if len(ends) > 1:
                self.found.violated(f"{partition.number} ends at {ends}")
            for server in servers:
                for offset, value in server.values(partition):
                    self.history.saw(server.process.host, partition, offset, value)


def simulate(
    seed: int, *, faults: tuple[str, ...] | None = None, seconds: float = 20, scheme: Scheme | None = None
) -> Outcome:
    """Run the simulation that this seed decides."""
    world = World(seed, faults, seconds, scheme)
    world.run_to_the_end()
    machines = world.machines
    return Outcome(
        violations=world.found.violations + list(world.history.violations()),
        trace=world.trace.lines,
        hash=world.trace.hash,
        answered=sum(client.answered for client in world.clients[:6]),
        changes=sum(client.answered for client in world.clients[6:]),
        forgotten=max((m.server.driver.log_start_offset for m in machines if m.server is not None), default=0),
        copied=sum(machine.copied for machine in machines),
        entries_per_proposal=sum(m.entries for m in machines) / max(1, sum(m.proposals for m in machines)),
        taken_over=sum(machine.taken_over for machine in machines),
        taken_over_proposals=sum(machine.taken_over_proposals for machine in machines),
        sent_on=sum(machine.sent_on for machine in machines),
    )
