"""Connect's workers on virtual time, as they are: a node, workers that share connectors, and a database outside.

Rows of a table go to a topic; records of another topic go to a table, through a function to a third topic, and to a
sink that holds back. Everything is killed, paused and cut off for a while, between any two steps; then all is healed,
and nothing may be missing anywhere.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from tests.simulation.connect.database import Database
from tests.simulation.connect.faults import Faults
from tests.simulation.connect.hosts import GOES_WRONG, WORKER, WorkerHost
from tests.simulation.connect.plugins import KEPT

from penstock.client.admin.topics import NewTopic
from penstock.client.background import SameLoop
from penstock.client.values import ConsumedRecord, TopicPartition
from penstock.protocol.errors import KafkaError
from penstock.testing.simulator.ledger import Ledger
from penstock.testing.simulator.logged_faults import faults_in_logs
from penstock.testing.simulator.loop import Process, VirtualLoop
from penstock.testing.simulator.machine import Machine
from penstock.testing.simulator.network import Network
from penstock.testing.simulator.plan import Plan
from penstock.testing.simulator.run import _clear_away, _no_collection
from penstock.testing.simulator.trace import Trace
from penstock.work.connect.api import Position
from penstock.work.connect.clients import Clients
from penstock.work.connect.distributed.worker import DistributedWorker
from penstock.work.connect.runtime.leading import Leading
from penstock.work.connect.runtime.logs import NotLeadingError
from penstock.work.connect.runtime.records import Target, TaskId

HEALED_LIMIT_S = 20.0
BUILT_IN = "penstock.work.connect.built_in"
PLUGINS = "tests.simulation.connect.plugins"
STORE = "holding"
OF_ALL = {
    "transforms": "t",
    "transforms.t.type": f"{PLUGINS}:AsItIs",
    "task.restarts.max": "1000",
    "producer.override.linger.ms": "400",
}


EXACTLY_ONCE = {"exactly.once.source.support": "enabled", "producer.transaction.timeout.ms": "5000"}


class World:
    """With `is_exact` sources write transactions: each row comes once to readers of committed records."""

    def __init__(self, seed: int, folder: Path, seconds: float, *, is_exact: bool = False) -> None:
        self.random = random = Random(seed)
        self.seconds = seconds
        self.is_exact = is_exact
        self.loop = VirtualLoop(Random(random.getrandbits(64)))
        self.trace = Trace(lambda: self.loop.moment)
        plan = _plan(random)
        self.ledger = Ledger(
            self.trace, flushes_each=False, replicas=1, retention_ms=None, is_careless=False, has_leases=False
        )
        self.network = Network(self.loop, Random(random.getrandbits(64)), self.trace)
        self.network.conditions.delay_s = plan.delay_s
        self.machine = Machine(
            plan.nodes[0], plan, self.network, Random(random.getrandbits(64)), self.ledger, self.trace
        )
        self.hosts = [
            WorkerHost(
                f"worker{n}",
                self.network,
                Random(random.getrandbits(64)),
                self.machine.address,
                self,
                WORKER | EXACTLY_ONCE if is_exact else WORKER,
            )
            for n in range(random.randrange(1, 4))
        ]
        self.databases = [
            Database(folder / name, Random(random.getrandbits(64)), self._kill) for name in ("source", "sink")
        ]
        self.rows, self.table = self.databases
        self.kept = KEPT[STORE] = {}
        self.connectors = list(_connectors(self, random))
        self.sent: dict[int, None] = {}
        """Ids of acknowledged records."""
        self.inserted = 0
        self.there: dict[str, set[int]] = {"from-a": set(), "from-b": set(), "out": set()}
        """Ids in the topics that connectors write, as far as they were read."""
        self.stored: dict[str, int] = {}
        """How far tables are, as far as that topic was read."""
        self.read_to: dict[TopicPartition, int] = {}
        self._app = Process("app")
        self._is_over = False

    def violated(self, what: str) -> None:
        self.ledger.violated(what)

    def _kill(self, host: str) -> None:
        for one in self.hosts:
            if one.name == host:
                one.kill()

    # Rules
    def died(self, process: Process) -> None:
        for database in self.databases:
            database.died(process)

    def stores(self, worker: DistributedWorker, connector: str, offsets: list[tuple[Position, Position]]) -> None:
        """Only who has a task stores its offsets. There is one task for each table, in their order."""
        for partition, offset in offsets:
            task = TaskId(connector, ("a", "b").index(partition["table"]))
            for host in self.hosts:
                if host.worker is not worker and host.runs(task):
                    self.violated(f"{worker.worker_id} stores {offset} of {task}, which {host.name} runs")

    # What goes on

    async def run(self) -> None:
        await self.machine.start()
        for host in self.hosts:
            host.start()
        for name in ("a", "b"):
            self.rows.run(f"create table {name} (id integer primary key, at text)")
        for topic in ("in", "out"):
            await self._spawned(self._create(topic))
        using = self._app.spawn(self.loop, self._use())
        await self._create_connectors()
        faults = [
            Faults(Random(self.random.getrandbits(64)), self.network, self.machine, self.hosts, self.databases)
            for _ in range(self.random.randrange(1, 3))
        ]
        await asyncio.gather(self._use_connectors(), *(one.run(self.seconds) for one in faults))
        await self._heal()
        self._is_over = True
        await asyncio.wait([using])
        using.result()
        await self._look_at_everything()
        await asyncio.gather(*(host.stop() for host in self.hosts))
        await self.machine.stop()

    async def _spawned(self, work: Any) -> Any:
        return await self._app.spawn(self.loop, work)

    def _clients(self) -> Clients:
        seams = {"random": Random(self.random.getrandbits(64)), "request_timeout_ms": 5_000, "reconnect_backoff_ms": 0}
        return Clients(
            bootstrap_servers=self.machine.address, now_ms=self.loop.now_ms, seams=seams, background=SameLoop
        )

    async def _create(self, topic: str) -> None:
        async with self._clients().admin("app") as admin:
            await admin.topics.create(NewTopic(name=topic, partitions=2, replication_factor=1))
            await admin.topics.wait_until_led(topic)

    async def _use(self) -> None:
        """Rows are inserted and records are sent, some at a time."""
        random, number = Random(self.random.getrandbits(64)), 0
        async with self._clients().producer({}, client_id="app") as producer:
            while not self._is_over:
                for _ in range(random.randrange(6)):
                    self.inserted += 1
                    self.rows.run(
                        f"insert into {random.choice('ab')} values (?, ?)", self.inserted, f"{self.loop.now_ms():020}"
                    )
                numbers = range(number, number := number + random.randrange(1, 6))
                sent = [
                    await producer.send("in", json.dumps({"id": one, "v": f"v{one}"}).encode(), partition=one % 2)
                    for one in numbers
                ]
                outcomes = await asyncio.gather(*sent, return_exceptions=True)
                for one, outcome in zip(numbers, outcomes, strict=True):
                    if not isinstance(outcome, BaseException):
                        self.sent[one] = None
                await asyncio.sleep(random.expovariate(5))

    async def _create_connectors(self) -> None:
        for config in self.connectors:
            await self._as_leader(Leading.put_connector, config["name"], config, None)

    async def _use_connectors(self) -> None:
        """They are paused, stopped and resumed, and get other tasks: table b goes to and fro between two of them."""
        random, end = Random(self.random.getrandbits(64)), self.loop.time() + self.seconds
        while self.loop.time() < end:
            await asyncio.sleep(random.expovariate(0.5 if self.is_exact else 0.2))
            if self.is_exact and random.random() < 0.5:
                self.connectors[0] |= {"tasks.max": random.choice("12")}
                await self._as_leader(Leading.put_connector, self.connectors[0]["name"], dict(self.connectors[0]), None)
                continue
            name = random.choice(self.connectors)["name"]
            for target in (random.choice((Target.PAUSED, Target.STOPPED)), Target.STARTED):
                self.trace.note(name, f"is to be {target.name}")
                await self._as_leader(Leading.set_target, name, target)
                await asyncio.sleep(4 * random.random())

    async def _as_leader(self, change: Callable[..., Coroutine[Any, Any, None]], *arguments: object) -> None:
        """As a request to whichever worker leads at the moment; some fail, and are repeated."""
        while True:
            for host in self.hosts:
                worker, process = host.worker, host.process
                if worker is None or process is None or host.is_paused or not worker.leading.leads:
                    continue
                changing = process.spawn(self.loop, change(worker.leading, *arguments))
                while process.is_alive and not changing.done():
                    await asyncio.sleep(0.05)
                if changing.done() and changing.exception() is None:
                    return
                if changing.done() and not isinstance(changing.exception(), (*GOES_WRONG, NotLeadingError)):
                    changing.result()
            await asyncio.sleep(0.2)

    async def _heal(self) -> None:
        self.trace.note("all", "is healed")
        for database in self.databases:
            database.heal()
        self.network.heal()
        if not self.machine.is_up:
            await self.machine.start()
        for host in self.hosts:
            host.go_on()
            if not host.is_up:
                host.start()

    # In the end nothing is missing

    async def _look_at_everything(self) -> None:
        """Gives up when nothing has come for a while."""
        until, before = self.loop.time() + HEALED_LIMIT_S, [""]
        while missing := await self._spawned(self._missing()):
            if self.ledger.violations:
                return
            if missing != before:
                until, before = self.loop.time() + HEALED_LIMIT_S, missing
            if self.loop.time() >= until:
                break
            await asyncio.sleep(2)
        for what in missing and [*missing, *await self._spawned(self._not_committed())]:
            self.violated(what)

    async def _missing(self) -> list[str]:
        missing: list[str] = []
        for topic, ids in self.there.items():
            await self._read(topic, partial(self._arrived, topic, ids))
        if self.is_exact and not missing:
            missing += await self._offsets_and_records()
        for name in ("a", "b"):
            rows = [number for (number,) in self.rows.run(f"select id from {name} order by id")]
            missing += _told(f"table {name}, not in its topic", rows, self.there[f"from-{name}"])
        is_there = self.table.run("select 1 from sqlite_master where name = 'out'")
        written = {number for (number,) in self.table.run("select id from out")} if is_there else set()
        for what, there in (
            ("the table", written),
            ("the other topic", self.there["out"]),
            ("the holding sink", set(self.kept)),
        ):
            missing += _told(f"topic in, not in {what}", list(self.sent), there)
        return missing or await self._not_committed()

    async def _offsets_and_records(self) -> list[str]:
        """What a source's offsets say is what its topics have."""
        await self._read("offsets", self._stored)
        last = {name: max(self.there[f"from-{name}"], default=0) for name in ("a", "b")}
        wrong = [name for name in last if self.stored.get(name, 0) != last[name]]
        return [f"table {name} is stored at {self.stored.get(name)}, and not at {last[name]}" for name in wrong]

    def _stored(self, record: ConsumedRecord) -> None:
        table = json.loads(record.key or b"null")[1]["table"]
        self.stored[table] = json.loads(record.value or b"null")["incrementing"]

    async def _not_committed(self) -> list[str]:
        missing: list[str] = []
        partitions = [TopicPartition("in", number) for number in range(2)]
        async with self._clients().admin("app") as admin, self._clients().consumer({}, client_id="app") as consumer:
            ends = await consumer.end_offsets(partitions)
            for name in ("to-table", "to-topic", "holding"):
                committed = await admin.groups.offsets(f"connect-{name}")
                for partition, end in ends.items():
                    at = committed[partition].offset if partition in committed else 0
                    if at < end:
                        missing.append(f"{name} has committed {at} of {end} in {partition}")
        return missing

    def _arrived(self, topic: str, ids: set[int], record: ConsumedRecord) -> None:
        number = json.loads(record.value or b"null")["id"]
        if self.is_exact and topic != "out" and number in ids:
            self.violated(f"{topic} has row {number} twice")
        ids.add(number)

    async def _read(self, topic: str, take: Callable[[ConsumedRecord], object]) -> None:
        """The records behind those that were read before."""
        async with self._clients().consumer(
            {},
            client_id="app",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer:
            try:
                partitions = await consumer.partitions_for(topic)
            except KafkaError:  # nothing was written to it yet
                return
            await consumer.assign(partitions)
            ends = await consumer.end_offsets(partitions)
            for partition in partitions:
                consumer.seek(partition, self.read_to.get(partition, 0))
            while any([await consumer.position(one) < ends[one] for one in partitions]):
                for record in await consumer.poll(500):
                    take(record)
            for partition in partitions:
                self.read_to[partition] = await consumer.position(partition)

    def close(self) -> None:
        self._app.kill()
        for host in self.hosts:
            host.freeze()
        if self.machine.process is not None:
            self.machine.process.kill()
        for database in self.databases:
            database.close()
        del KEPT[STORE]


def _told(what: str, wanted: list[int], there: Any) -> Iterator[str]:
    lost = [number for number in wanted if number not in there]
    if lost:
        yield f"{what}: {len(lost)} of {len(wanted)}, {lost[:5]}…"


def _plan(random: Random) -> Plan:
    settings = {
        "offsets.topic.num.partitions": "2",
        "group.min.session.timeout.ms": "1000",
        "group.initial.rebalance.delay.ms": str(random.choice((0, 500))),
    }
    return Plan(
        settings=settings,
        flushes_each=False,
        producers=0,
        consumers=0,
        groups=0,
        topics=0,
        faults=(),
        seconds=0,
        delay_s=random.choice((0.001, 0.01)),
        socket_bytes=65_536,
    )


def _connectors(world: World, random: Random) -> Iterator[dict[str, str]]:
    mode = random.choice(("incrementing", "timestamp", "timestamp+incrementing"))
    exactly: dict[str, str] = {}
    if world.is_exact:
        mode = random.choice(("incrementing", "timestamp+incrementing"))
        exactly = {"exactly.once.support": "required", "transaction.boundary": random.choice(("poll", "interval"))}
    yield (
        OF_ALL
        | exactly
        | {
            "name": "from-table",
            "connector.class": f"{BUILT_IN}.sql_source:SqlSourceConnector",
            "connection.url": world.rows.url,
            "mode": mode,
            "incrementing.column.name": "id",
            "timestamp.column.name": "at",
            "table.whitelist": "a,b",
            "topic.prefix": "from-",
            "poll.interval.ms": "300",
            "batch.max.rows": str(random.choice((1, 3, 100))),
            "tasks.max": "2",
        }
    )
    of_sinks = OF_ALL | {"topics": "in", "tasks.max": str(random.randrange(1, 3))}
    yield of_sinks | {
        "name": "to-table",
        "connector.class": f"{BUILT_IN}.sql_sink:SqlSinkConnector",
        "connection.url": world.table.url,
        "table.name.format": "out",
        "insert.mode": "upsert",
        "pk.mode": "record_value",
        "pk.fields": "id",
        "auto.create": "true",
    }
    yield of_sinks | {
        "name": "to-topic",
        "connector.class": "penstock.FunctionConnector",
        "function": f"{PLUGINS}:copy",
        "output.topic": "out",
    }
    yield of_sinks | {"name": "holding", "connector.class": f"{PLUGINS}:HoldingSink", "store": STORE}


class Outcome(NamedTuple):
    violations: list[str]
    trace: list[str]
    hash: str


def simulate(seed: int, seconds: float = 10, *, is_exact: bool = False) -> Outcome:
    """What is wrong in the world of this seed."""
    left: list[object] = []
    with _no_collection(), TemporaryDirectory() as folder:
        world = World(seed, Path(folder), seconds, is_exact=is_exact)
        with faults_in_logs(world.violated):
            try:
                world.loop.run_until_complete(world.run())
                for failure in world.loop.failures:
                    world.violated(failure)
            finally:
                world.close()
                world.loop.close()
        outcome = Outcome(world.ledger.violations, world.trace.lines, world.trace.hash)
        left.append(world)
        del world
        _clear_away(left)
    return outcome
