"""One partition on several brokers, with the controller that decides on it: the machines of replication alone.

No loop, no sockets, no files. Messages are delayed, lost and overtake each other; brokers crash, are silent for a while
and are cut off; an operator moves the partition and asks for its preferred leader. What the controller decides is
committed at once, and each broker hears of it in its own time.
"""

import hashlib
import heapq
import itertools
from collections.abc import Callable
from random import Random
from typing import Any

from tests.simulation.replication_hosts import TOPIC, UNKNOWN, Fetch, Host
from tests.simulation.replication_invariants import Invariants, must

from penstock.controller.config_rules import DefinedConfigs
from penstock.controller.controller import Controller
from penstock.controller.decision import ControllerSettings, Decision
from penstock.metadata.image import ClusterImage, PartitionImage
from penstock.metadata.records import MetadataRecord
from penstock.node.partitions.partition import ALL_REPLICAS
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.alter_partition import AlterPartitionRequest
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from penstock.protocol.schema import Message
from penstock.protocol.uuids import process_uuid
from penstock.protocol.value import Value

SESSION_MS = 900
BEAT_MS = 200
FETCH_MS = 40
LOOK_MS = 250
REQUEST_TIMEOUT_MS = 500
TROUBLE_MS = 8_000
HEALING_MS = 12_000
MOST_RECORDS = 3
TRACE_LINES = 80
CONTROLLER = 0


class Outcome(Value):
    """What a seed came to."""

    trace_hash: str
    committed: int
    acknowledged: int
    epochs: int


class World:
    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.now_ms = 1_000
        self.trace: list[str] = []
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._values = itertools.count()
        self.calm = False
        self.cut: dict[tuple[int, int], None] = {}
        self.loss = random.choice((0.0, 0.02, 0.1))
        self.longest_delay_ms = random.choice((2, 20, 100))
        self.longest_metadata_ms = random.choice((5, 50, 700))
        self.limits = Random(seed + 1)
        self.held_back = self.limits.choice((0.0, 0.0, 0.8))
        """How often a limit of replication is exceeded."""
        count = random.choice((3, 3, 4, 5))
        self.factor = random.choice((1, 2, 3, 3, 3))
        self.min_in_sync = random.randrange(1, self.factor + 1)
        self.hosts = {n: Host(n, lambda: self.now_ms, self.min_in_sync) for n in range(1, count + 1)}
        self.paused: dict[int, int] = {}
        settings = ControllerSettings(rules=DefinedConfigs({}), broker_session_timeout_ms=SESSION_MS)
        self.controller = Controller(ClusterImage("penstock"), settings, random)
        self.decisions: list[list[MetadataRecord]] = []
        self.invariants = Invariants()

    def note(self, line: str) -> None:
        self.trace.append(f"{self.now_ms} {line}")

    # Time and messages

    def after(self, ms: int, what: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (self.now_ms + ms, next(self._numbers), what))

    def every(self, ms: int, what: Callable[[], None]) -> None:
        def again() -> None:
            what()
            self.after(ms + self.random.randrange(ms // 4 + 1), again)

        self.after(self.random.randrange(ms + 1), again)

    def run_until(self, end_ms: int, is_done: Callable[[], bool] = lambda: False) -> None:
        while self._queue and self._queue[0][0] <= end_ms and not is_done():
            self.now_ms, _, what = heapq.heappop(self._queue)
            what()
            self.invariants.look(self.hosts, self.newest)
        self.now_ms = max(self.now_ms, end_ms if not is_done() else self.now_ms)

    def at_host(self, host: Host, what: Callable[[], None], life: int | None = None) -> Callable[[], None]:
        """To be done by a life of the host, the present one: never, if it has ended; later, while it is paused."""
        life = host.lives if life is None else life

        def do() -> None:
            if not host.is_up or host.lives != life:
                return
            if self.paused.get(host.id, 0) > self.now_ms:
                self.after(self.paused[host.id] - self.now_ms, do)
            else:
                what()

        return do

    def send(self, source: int, target: int, what: Callable[[], None]) -> None:
        """Something arrives there, perhaps."""
        if (source, target) in self.cut or (not self.calm and self.random.random() < self.loss):
            return
        self.after(self.random.randrange(1, self.longest_delay_ms + 1), what)

    # The controller

    @property
    def newest(self) -> PartitionImage | None:
        topic = self.controller.image.topics.get(TOPIC)
        return None if topic is None else topic.partitions[0]

    def decide(self, command: Message) -> Any:
        decision = self.controller.decide(command, self.now_ms)
        self._commit(decision)
        if isinstance(command, AlterPartitionRequest) and decision.records:
            self.invariants.altered(self.controller.image, command)
        return decision.reply

    def tick(self) -> None:
        while (deadline := self.controller.next_deadline_ms) is not None and deadline <= self.now_ms:
            decision = self.controller.tick(self.now_ms)
            if decision is None:
                return
            self._commit(decision)

    def _commit(self, decision: Decision[Any]) -> None:
        if not decision.records:
            return
        self.controller.apply(decision.records)
        self.controller.image.applied_to(self.controller.image.offset + len(decision.records))
        self.decisions.append(decision.records)
        self.note(f"controller: {self.newest}")
        for host in self.hosts.values():
            if host.is_up and host.is_open:
                self._let_hear(host)

    def _let_hear(self, host: Host) -> None:
        delay_ms = self.random.randrange(1, 5 if self.calm else self.longest_metadata_ms)
        self.after(delay_ms, self.at_host(host, lambda: self._hear(host)))

    def _hear(self, host: Host) -> None:
        """It reads on in the metadata log, unless it is cut off from it."""
        if host.applied == len(self.decisions):
            return
        if (CONTROLLER, host.id) in self.cut or (host.id, CONTROLLER) in self.cut:
            self.after(50, self.at_host(host, lambda: self._hear(host)))
            return
        host.apply(self.decisions[host.applied])
        self.note(f"{self.state(host)}")
        if host.applied < len(self.decisions):
            self._let_hear(host)

    def ask_controller(self, host: Host, request: Message, told: Callable[[Any, int], None]) -> None:
        """Request and answer; `told` hears the reply, or of a time-out, and how many decisions there were by then."""
        answered, life = [False], host.lives

        def tell(reply: Any, end: int) -> None:
            if not answered[0]:
                answered[0] = True
                told(reply, end)

        def decide() -> None:
            reply, end = self.decide(request), len(self.decisions)
            self.send(CONTROLLER, host.id, self.at_host(host, lambda: tell(reply, end), life))

        self.send(host.id, CONTROLLER, decide)
        late = self.at_host(host, lambda: tell(KafkaError(ErrorCode.REQUEST_TIMED_OUT), 0))
        self.after(REQUEST_TIMEOUT_MS, late)

    # Brokers

    def boot(self, host: Host) -> None:
        host.boot(process_uuid(self.now_ms, self.random))
        self.note(f"{host.id} boots")
        for ms, what in ((BEAT_MS, self.beat), (FETCH_MS, self.fetch), (LOOK_MS, self.look), (FETCH_MS, self.tell)):
            self._repeat(host, ms, what)

    def _repeat(self, host: Host, ms: int, what: Callable[[Host], None]) -> None:
        def again() -> None:
            what(host)
            self.after(ms + self.random.randrange(ms // 4 + 1), self.at_host(host, again))

        self.after(self.random.randrange(ms), self.at_host(host, again))

    def beat(self, host: Host) -> None:
        def told(reply: Any, end: int) -> None:
            error = reply.code if isinstance(reply, KafkaError) else reply.error_code
            if error in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED):
                self.crash(host)
            elif not error and hasattr(reply, "broker_epoch"):
                host.context.lease.is_registered(reply.broker_epoch)
                self._open(host, self.random.randrange(end, len(self.decisions) + 1))

        self.ask_controller(host, host.beat(), told)

    def _open(self, host: Host, end: int) -> None:
        """It knows at least the metadata with its registration."""
        while host.applied < end:
            host.apply(self.decisions[host.applied])
        host.open()
        self.note(f"{self.state(host)}")
        self._let_hear(host)

    def fetch(self, host: Host) -> None:
        if host.under_way is not None and self.random.random() < 0.9:
            return  # it waits for an answer, now and then for too long
        if host.under_way is None and host.may_rest and self._is_exceeded():
            return
        asked = host.fetch()
        if asked is not None:
            assert host.partition is not None
            assert host.partition.follower is not None
            leader = self.hosts[host.partition.follower.leader_id]
            life = host.lives
            self.send(host.id, leader.id, lambda: self._serve(leader, host, asked, life))

    def _is_exceeded(self) -> bool:
        return not self.calm and self.limits.random() < self.held_back

    def _serve(self, leader: Host, follower: Host, asked: Fetch, life: int) -> None:
        def serve() -> None:
            fetched = leader.serve(asked, self.random.randrange(1, MOST_RECORDS + 1))

            def take() -> None:
                follower.take(fetched)
                if fetched.records or fetched.diverging:
                    self.note(f"{self.state(follower)}")

            self.send(leader.id, follower.id, self.at_host(follower, take, life))

        self.at_host(leader, serve)()

    def look(self, host: Host) -> None:
        host.look()

    def tell(self, host: Host) -> None:
        request = host.tell()
        if request is not None:
            self.note(f"{host.id} proposes {[t.partitions[0].new_isr_with_epochs for t in request.topics]}")  # type: ignore[attr-defined]  # it is AlterPartition
            self.ask_controller(host, request, lambda reply, _: host.told(reply))

    def crash(self, host: Host) -> None:
        self.note(f"{host.id} crashes")
        if host.partition is not None:
            host.kept_high_watermark = self.random.randrange(
                min(host.kept_high_watermark, host.partition.high_watermark), host.partition.high_watermark + 1
            )
        host.die()

    def state(self, host: Host) -> str:
        p = host.partition
        if p is None:
            return f"{host.id} has nothing"
        role = "leads" if p.leader is not None else "follows"
        return f"{host.id} {role} e{p.leader_epoch} {self._ends(host)}"

    @staticmethod
    def _ends(host: Host) -> str:
        assert host.partition is not None
        isr = "" if host.partition.leader is None else f" isr {host.partition.leader.maximal_isr}"
        return f"..{host.partition.high_watermark}..{host.log.log_end_offset}{isr}"

    # Clients

    def produce(self) -> None:
        """To whoever believes to lead, waiting for all in sync or not."""
        if self.calm and self.random.random() < 0.9:
            return
        leaders = [host for host in self.hosts.values() if self._may_be_asked(host)]
        if not leaders:
            return
        host = self.random.choice(leaders)
        partition, value = host.partition, f"v{next(self._values)}"
        assert partition is not None
        acks = ALL_REPLICAS if self.calm else self.random.choice((ALL_REPLICAS, ALL_REPLICAS, 1))
        try:
            result = partition.append(memoryview(value.encode()), acks=acks, now_ms=self.now_ms)
        except KafkaError:
            return
        if acks != ALL_REPLICAS:
            return
        leader, offset = partition.leader, result.last_offset
        assert leader is not None

        def look() -> None:
            if partition.leader is leader and partition.high_watermark > offset:
                must(len(leader.isr) >= leader.needed_replicas, "acknowledged while too few replicas are in sync")
                self.invariants.acknowledged(offset, value)

        if partition.high_watermark > offset:
            look()
        else:
            partition.committed.waits.add(offset + 1, look)

    def consume(self) -> None:
        for host in self.hosts.values():
            if self._may_be_asked(host):
                assert host.partition is not None
                self.invariants.read(host.log.records[: host.partition.high_watermark])

    def _may_be_asked(self, host: Host) -> bool:
        is_awake = host.is_up and self.paused.get(host.id, 0) <= self.now_ms
        return is_awake and host.partition is not None and host.partition.leader is not None

    # From the beginning to the end

    def run(self) -> Outcome:
        for host in self.hosts.values():
            self.boot(host)
        self.every(30, self.tick)
        self.run_until(2_000)
        reply = self.decide(
            CreateTopicsRequest(topics=[CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=self.factor)])
        )
        if reply.topics[0].error_code:  # too few brokers have come through so far
            self.calm = True
            self.run_until(4_000)
            self.calm = False
            self.decide(
                CreateTopicsRequest(
                    topics=[CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=self.factor)]
                )
            )
        self.every(80, self.produce)
        self.every(150, self.consume)
        self.every(300, self.trouble)
        self.every(1_500, self.operate)
        self.run_until(self.now_ms + TROUBLE_MS)
        self.heal()
        return Outcome(
            hashlib.sha256("\n".join(self.trace).encode()).hexdigest(),
            len(self.invariants.committed),
            self.invariants.acknowledgements,
            len(self.invariants.leaders),
        )

    def trouble(self) -> None:
        if self.calm:
            return
        host = self.random.choice(list(self.hosts.values()))
        if not host.is_up:
            if self.random.random() < 0.5:
                self.boot(host)
            return
        kind = self.random.choice(("crash", "restart", "pause", "cut", "isolate", *["nothing"] * 4))
        if kind in ("crash", "restart"):
            self.crash(host)
            if kind == "restart":
                self.boot(host)
        elif kind == "pause":
            self.paused[host.id] = self.now_ms + self.random.randrange(3 * SESSION_MS)
            self.note(f"{host.id} is paused until {self.paused[host.id]}")
        elif kind in ("cut", "isolate"):
            others = [other for other in (CONTROLLER, *self.hosts) if other != host.id]
            if kind == "cut":
                others = [self.random.choice(others)]
            ways = self.random.choice(((True, True), (True, False), (False, True)))
            links = [(host.id, other) for other in others if ways[0]]
            links += [(other, host.id) for other in others if ways[1]]
            self._cut(links)

    def _cut(self, links: list[tuple[int, int]]) -> None:
        mine = [link for link in links if link not in self.cut]
        self.cut |= dict.fromkeys(mine)
        self.note(f"cut: {mine}")

        def mend() -> None:
            for link in mine:
                self.cut.pop(link, None)
            self.note(f"mended: {mine}")

        self.after(self.random.randrange(100, 3 * SESSION_MS), mend)

    def operate(self) -> None:
        if self.calm:
            return
        if self.random.random() < 0.4:
            named = [TopicPartitions(topic=TOPIC, partitions=[0])]
            self.decide(ElectLeadersRequest(election_type=0, topic_partitions=named))
            return
        replicas = self.random.sample(list(self.hosts), min(len(self.hosts), self.random.randrange(1, 4)))
        asked = ReassignablePartition(partition_index=0, replicas=None if self.random.random() < 0.3 else replicas)
        topics = [ReassignableTopic(name=TOPIC, partitions=[asked])]
        self.decide(AlterPartitionReassignmentsRequest(topics=topics))

    def heal(self) -> None:
        """Everything works again: all are in sync, have the same, and something new is acknowledged."""
        self.calm = True
        self.cut.clear()
        self.paused.clear()
        self.note("all is well from now on")
        for host in self.hosts.values():
            if not host.is_up:
                self.boot(host)
        before = self.invariants.acknowledgements
        self.run_until(self.now_ms + HEALING_MS, lambda: self._is_healed(before))
        must(self._is_healed(before), f"not healed: {self.newest}, {[self.state(h) for h in self.hosts.values()]}")

    def _is_healed(self, before: int) -> bool:
        newest = self.newest
        if newest is None or self.invariants.acknowledgements == before:
            return False
        if newest.adding_replicas or newest.removing_replicas or sorted(newest.isr) != sorted(newest.replicas):
            return False
        logs = [self.hosts[replica].log.records for replica in newest.replicas]
        return all(host.epoch != UNKNOWN for host in self.hosts.values()) and all(log == logs[0] for log in logs)


class SimulationError(AssertionError):
    """Carries the seed, what went wrong and the last lines of the trace."""


def simulate(seed: int, world_of: Callable[[int], World] = World) -> Outcome:
    """One seed from an empty cluster to the end of healing. Raises SimulationError."""
    world = world_of(seed)
    try:
        return world.run()
    except Exception as error:
        trace = "\n".join(world.trace[-TRACE_LINES:])
        raise SimulationError(f"{trace}\nseed {seed}: {type(error).__name__}: {error}") from error
    finally:
        for host in world.hosts.values():
            if host.is_up:
                host.die()
