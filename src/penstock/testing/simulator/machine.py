"""A host that runs a node: it is started, stopped, paused, killed and cut from its power; its disk stays."""

import asyncio
from collections.abc import Collection, Mapping
from random import Random
from typing import Any
from uuid import UUID

from penstock.log.directories.formatting import format_directories, identities, write_first_snapshot
from penstock.log.names import LOG_SUFFIX
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.node.assembly.first_voters import FIRST_SNAPSHOT_NAME
from penstock.node.assembly.start import RunningNode, StartError, start_node
from penstock.node.environment.environment import Environment, SimulatedTls
from penstock.node.partitions.partition import Partition
from penstock.node.roles.broker import Broker
from penstock.node.storage_groups.group import StorageGroup
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.testing.simulator.disk import DiskConditions, HostDisk, SimulatedDisk
from penstock.testing.simulator.files import Directory, File
from penstock.testing.simulator.ledger import Ledger
from penstock.testing.simulator.loop import EPOCH_MS, Clock, Process, VirtualLoop
from penstock.testing.simulator.network import Network
from penstock.testing.simulator.observer import Observer
from penstock.testing.simulator.plan import BROKER_PORT, NodePlan, Plan
from penstock.testing.simulator.rounds import CleaningThreads
from penstock.testing.simulator.stand_in_tls import StandInContext
from penstock.testing.simulator.trace import Trace

DATA = "/data"
START_LIMIT_S = 60.0
STOP_LIMIT_S = 60.0
LOOK_S = 0.01


class Machine:
    """`node` is None unless a node serves there."""

    def __init__(
        self, node: NodePlan, plan: Plan, network: Network, random: Random, ledger: Ledger, trace: Trace
    ) -> None:
        self.name = node.name
        self.plan = node
        self.disk = HostDisk(network.loop, Random(random.getrandbits(64)))
        self.node: RunningNode | None = None
        self.process: Process | None = None
        self.power_fails_with_it = False
        self.may_fail_to_start = False
        """Whether a failed start is no violation."""
        self.away_since: float | None = 0.0
        self.disk_healed_at = 0.0
        self.observer = Observer(node, ledger, trace)
        self.observer.on_event = self._look
        self.clock = Clock()
        self._settings = plan.settings_of(node)
        self._cluster_id = ""
        self._max_open_segments = plan.max_open_segments
        self._network = network
        self._random = random
        self._ledger = ledger
        self._trace = trace
        self._starting: asyncio.Task[None] | None = None
        self._is_stopping = False
        self._processes: list[Process] = []  # kept, so that no memory is freed at a time by chance
        self.disk.on_crash = lambda: self.crash(power_lost=self.power_fails_with_it)
        self.disk.on_write = ledger.replica_agreement.written
        for path in self.data_paths:
            self.disk.add_root(path)
        self.disk.root.sync()

    def _look(self) -> None:
        ledger, node = self._ledger, self.node
        if ledger.leader_claims.watches:
            ledger.leader_claims.look(self)
        ledger.group_leads.look(self)
        if node is not None:
            ledger.given_up.look(self.name, node.hand_overs)

    @property
    def address(self) -> str:
        return f"{self.name}:{BROKER_PORT}"

    @property
    def data_paths(self) -> list[str]:
        """The log directories, each on a disk of its own; the first has the metadata log."""
        return self._settings.get("log.dirs", DATA).split(",")

    @property
    def has_offline_directory(self) -> bool:
        return self.node is not None and bool(self.node.parts.context.directories.roots.offline)

    def now_ms(self) -> int:
        """By its wall clock."""
        return EPOCH_MS + self.clock.wrong_by_ms + int(self._network.loop.moment * self.clock.rate * 1000)

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.is_alive

    @property
    def is_paused(self) -> bool:
        return self.is_up and self.process is not None and self.process.is_paused

    @property
    def serving(self) -> Broker | None:
        node = self.node
        return node.broker if node is not None and node.is_broker and not self.is_paused else None

    def would_answer(self, partition: Partition) -> bool:
        """As the partition's leader, by its broker's own clock."""
        broker, process = self.serving, self.process
        return broker is not None and process is not None and process.context.run(broker.may_lead, partition)

    def groups_led(self) -> dict[int, StorageGroup]:
        """As far as its broker knows."""
        broker = self.serving
        if broker is None or not broker.storage_groups.by_number:
            return {}
        return {number: replica.group for number, replica in broker.storage_groups.by_number.items() if replica.leads}

    def may_read(self, group: StorageGroup) -> bool:
        """Whether its broker would answer reads of the group, by its own clock."""
        return self.process is not None and self.process.context.run(getattr, group, "can_be_read")

    @property
    def groups_are_whole(self) -> bool:
        """Whether all storage groups of this node are there, vote, and have all that is committed."""
        broker = self.serving
        if broker is None:
            return not self.plan.is_broker
        image, here = broker.image, broker.storage_groups.by_number
        return all(
            number in here
            and here[number].is_running
            and here[number].quorum.quorum.has(here[number].quorum.local_key)
            and here[number].quorum.applied_offset == here[number].quorum.log_end_offset
            for number, group in image.storage_groups.items()
            if broker.node_id in group.replicas
        )

    @property
    def has_bad_disk(self) -> bool:
        return self.disk.conditions != DiskConditions()

    def format(self, cluster_id: str, directory_id: UUID, first_snapshot: bytes | None) -> None:
        """As `penstock storage format` does, perhaps with the first voters."""
        self._cluster_id = cluster_id
        self._format({DATA: directory_id}, first_snapshot)

    def _format(self, directory_ids: Mapping[str, UUID], first_snapshot: bytes | None = None) -> None:
        disk = SimulatedDisk(self.disk, Process(self.name))
        for path in format_directories(
            disk,
            self.data_paths,
            cluster_id=self._cluster_id,
            node_id=self.plan.node_id,
            random=self._random,
            ignore_formatted=True,
            directory_ids=directory_ids,
        ):
            if first_snapshot is not None and path == DATA:
                write_first_snapshot(disk, path, FIRST_SNAPSHOT_NAME, first_snapshot)
        self.disk.sync()

    def directory_ids(self) -> list[UUID]:
        """As they are on the disks."""
        found = identities(SimulatedDisk(self.disk, Process(self.name)), self.data_paths).values()
        return [one.directory_id for one in found if one is not None and one.directory_id is not None]

    def replace_disk(self, path: str) -> None:
        """An empty disk takes its place, whatever the node does."""
        self._trace.note(self.name, f"has a new disk for {path}")
        self.crash(power_lost=False)
        self._ledger.disk_replaced(self.name)
        self.disk.add_root(path)
        self.disk.root.sync()
        self._format({})

    def lose_logs(self, names: Collection[str]) -> None:
        """Logs lose records that were on the disk: all, or those behind some offset. A group's own log loses all: it
        does not tell afterwards that there was more.
        """
        self.crash(power_lost=False)
        for path in self.data_paths:
            directory = self.disk.directory(path)
            for name in [name for name in directory.entries if name in names]:
                log = directory.entries[name]
                segments = (
                    sorted(it for it in log.entries if it.endswith(LOG_SUFFIX)) if isinstance(log, Directory) else ()
                )
                if segments and not name.startswith(STORAGE_GROUPS) and self._random.random() < 0.5:
                    cut = self.disk.directory(f"{path}/{name}").entries[segments[-1]]
                    assert isinstance(cut, File)
                    cut.truncate(self._random.randrange(len(cut.content) + 1), self.now_ms())
                    cut.sync()
                    self._trace.note(self.name, f"loses what lies behind byte {len(cut.content)} of {name}")
                else:
                    directory.unlink(name)
                    self._trace.note(self.name, f"loses {name}")
            directory.sync()

    async def start(self) -> None:
        """Returns when the node serves, or was killed before that."""
        self.launch()
        await self.settled()

    async def settled(self) -> None:
        if self._starting is not None:
            await asyncio.wait([self._starting])

    def launch(self) -> None:
        """The node serves when `node` is set."""
        assert not self.is_up
        process = self.process = Process(self.name, self.clock)
        self._processes.append(process)
        self._network.host_is_back(self.name)
        self._trace.note(self.name, "starts")
        self.away_since = None
        self._starting = asyncio.ensure_future(self._follow_start(process))

    async def _follow_start(self, process: Process) -> None:
        versions = self._ledger.promises.versions()
        starting = process.spawn(self._network.loop, self._start(self._network.loop, process))
        since = self._network.loop.moment
        while not await _has_ended(process, starting):
            if self._network.loop.moment - since > START_LIMIT_S:
                if not self.may_fail_to_start:
                    self._ledger.violated(f"{self.name} does not start within {START_LIMIT_S:.0f} s")
                    return
                since = self._network.loop.moment
        if not process.is_alive:
            return
        error = starting.exception()
        if error is not None:
            if self.may_fail_to_start and isinstance(error, StartError):
                self._trace.note(self.name, f"cannot start: {error}")
            else:
                self._ledger.violated(f"{self.name} does not start: {error!r}")
            self._end(process, power_lost=False)
            return
        self.node = starting.result()
        self.node.failed.add_done_callback(lambda failed: self._on_failure(process, failed.result()))
        self._trace.note(self.name, "serves")
        self._ledger.started(self.name, self.node, versions)

    async def _start(self, loop: VirtualLoop, process: Process) -> RunningNode:
        config = BrokerConfig.embedded({"log.dirs": DATA} | self._settings)
        environment = Environment(
            random=Random(self._random.getrandbits(64)),
            disk=SimulatedDisk(self.disk, process),
            now_ms=self.now_ms,
            elapsed_s=loop.time,
            clock_ns=lambda: int(loop.time() * 1_000_000_000),
            bind=self._network.bind,
            run_rounds=CleaningThreads,
            tls=SimulatedTls(StandInContext, loop.time),
            max_open_segments=self._max_open_segments,
        )
        return await start_node(config, environment, on_parts=lambda parts: self.observer.begun(process, parts))

    def _on_failure(self, process: Process, error: Exception) -> None:
        """The node cannot go on: its process ends, as `penstock start` does."""
        self._trace.note(self.name, f"gives up: {error!r}")
        if not self.may_fail_to_start:
            self._ledger.violated(f"{self.name} gives up: {error!r}")
        if self.disk.has_lost:
            self._ledger.crashing(self.name, self.node, power_lost=True)
        self._end(process, power_lost=False)

    async def stop(self) -> None:
        """Cleanly; the node may be killed meanwhile."""
        process, node = self.process, self.node
        if process is None or node is None or self._is_stopping or process.is_paused:
            return
        self._trace.note(self.name, "is asked to stop")
        self._is_stopping = True
        loop = self._network.loop
        stopping = process.spawn(loop, node.stop())
        since = loop.moment
        while not await _has_ended(process, stopping):
            if loop.moment - since > STOP_LIMIT_S:
                self._ledger.violated(f"{self.name} does not stop within {STOP_LIMIT_S:.0f} s")
                return
        if process.is_alive:
            error = stopping.exception()
            self._ledger.stopped(self.name)
            self._trace.note(self.name, "has stopped" if error is None else f"stopped badly: {error!r}")
            self._end(process, power_lost=False)

    def pause(self) -> None:
        """The process does not notice."""
        if self.process is not None and self.is_up:
            self._trace.note(self.name, "is paused")
            self.away_since = self._network.loop.moment
            self.process.pause()

    def go_on(self) -> None:
        """The process goes on with what it believes."""
        if self.process is not None and self.is_paused:
            self._trace.note(self.name, "goes on")
            self.away_since = None
            self.observer.went_on()
            self.process.go_on(self._network.loop)

    def crash(self, *, power_lost: bool) -> None:
        """Kills the node now, in the middle of whatever it does.

        Without power the page cache is lost, also that of processes that have ended.
        """
        process = self.process
        is_alive = process is not None and process.is_alive
        if not is_alive and not power_lost:
            return
        self._trace.note(self.name, "loses its power" if power_lost else "is killed")
        self._ledger.crashing(self.name, self.node, power_lost=power_lost or self.disk.has_lost)
        if process is not None and is_alive:
            self._end(process, power_lost=power_lost)
        if power_lost:
            self.disk.lose_power()

    def set_clock(self, wrong_by_ms: int) -> None:
        """Sets the wall clock; the clock of timers never jumps."""
        self._trace.note(self.name, f"its clock is wrong by {wrong_by_ms} ms")
        self.clock.wrong_by_ms = wrong_by_ms
        self._ledger.clocks.is_set(wrong_by_ms)

    def heal_disk(self) -> None:
        self.disk.conditions = DiskConditions()
        self.disk_healed_at = self._network.loop.moment

    def _end(self, process: Process, *, power_lost: bool) -> None:
        process.kill()
        self.node = None
        self._is_stopping = False
        self.away_since = self._network.loop.moment
        self.disk.crash_in = None
        self.observer.ended()
        self._network.process_died(process, power_lost=power_lost)


async def _has_ended(process: Process, task: asyncio.Task[Any]) -> bool:
    """A task of a dead process never ends: look from outside."""
    if process.is_alive and not task.done():
        await asyncio.sleep(LOOK_S)
    return not process.is_alive or task.done()
