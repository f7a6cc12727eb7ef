"""A cluster as its controller sees it: brokers, operators, a log that is committed later, controllers that take over.

No node runs here, and no Raft: a decision is appended to a list, committed some time later, and lost if the controller
is replaced before that. Which is what the consensus promises, so that thousands of clusters can be looked at.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any
from uuid import UUID

from tests.simulation.controller_balance import BalanceInvariants
from tests.simulation.controller_brokers import UNKNOWN, SimulatedBroker
from tests.simulation.controller_groups import SimulatedGroups
from tests.simulation.controller_holders import Holders
from tests.simulation.controller_invariants import Invariants, must, settled
from tests.simulation.controller_operators import Operators

from penstock.controller.config_rules import DefinedConfigs
from penstock.controller.controller import Controller
from penstock.controller.decision import ControllerSettings, Decision
from penstock.controller.first_records import first_records
from penstock.leadership.balancer import BalanceSettings
from penstock.metadata.features import ELIGIBLE_LEADER_REPLICAS, METADATA_VERSION
from penstock.metadata.image import ClusterImage
from penstock.metadata.partition_index import each
from penstock.metadata.record_frames import decode_record, encode_record
from penstock.metadata.records import FeatureLevelRecord, MetadataRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from penstock.protocol.messages.alter_partition import AlterPartitionRequest
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from penstock.protocol.messages.broker_registration import BrokerRegistrationRequest
from penstock.protocol.messages.elect_leaders import ElectLeadersRequest
from penstock.protocol.requests.own_apis import BalanceAction, BalanceLeadersRequest, ClaimStorageGroupRequest
from penstock.protocol.schema import Message

CLUSTER = "penstock"
SESSION_MS = 900
BEAT_MS = 200
BALANCE_MS = 1_000
EVENTS = 400
TRACE_LINES = 60


@dataclass(slots=True)
class Batch:
    """One decision in the log."""

    frames: list[bytes]
    answer: Callable[[], None]
    holders: Holders
    """Who had all that was committed of each partition when it was decided."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a seed came to."""

    checksum: str
    trace_hash: str
    decisions: int
    takeovers: int
    fenced: int
    topics: int


class ControllerWorld:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now_ms = 1_000
        self.log: list[Batch] = []
        self.committed = 0
        self.image = ClusterImage(CLUSTER)
        self.invariants = Invariants()
        self.balance = BalanceInvariants(BALANCE_MS)
        self.trace: list[str] = []
        self.heard_ms: dict[int, int] = {}
        self.told: set[int] = set()
        self.decisions = self.takeovers = self.fenced = 0
        self.append_fails, self.was_appended = 0.0, True
        ids = [n * self.random.choice((1, 7)) for n in range(1, self.random.randrange(2, 6))]
        ids = list(dict.fromkeys(ids))
        racks = self.random.choice(((None,), ("a", "b"), ("a", "b", "c")))
        self.brokers = [SimulatedBroker(broker_id, self.random.choice(racks), self._disks()) for broker_id in ids]
        self.operators = Operators(self.random, ids)
        self.groups = SimulatedGroups(self.random, self.brokers)
        self.claimed: dict[int, int] = {}
        """The latest epoch of each storage group that the controller has believed."""
        self.settings = ControllerSettings(
            rules=DefinedConfigs({}),
            node_id=self.random.choice((-1, ids[0])),
            broker_session_timeout_ms=SESSION_MS,
            unused_limits_ms=300,
            max_moves_per_decision=self.random.choice((1, 2, 5, 5000)),
            leader_balance=BalanceSettings(self.random.choice((None, 700)), least_percent=0, timeout_ms=BALANCE_MS),
            unclean_election_interval_ms=self.random.choice((None, 500)),
        )
        self.controller = self._new_controller()
        formatted: list[MetadataRecord] = [
            FeatureLevelRecord(name=METADATA_VERSION, feature_level=self.random.choice((20, 24, 33, 33))),
            FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS, feature_level=self.random.choice((0, 1, 1))),
        ]
        self._append("begin", Decision(first_records(self.controller.state, formatted), None), _nobody_answers)
        self._commit_one()
        self.append_fails = self.random.choice((0.0, 0.0, 0.1))

    @property
    def end_offset(self) -> int:
        return self.image.offset + 1 + sum(len(batch.frames) for batch in self.log[self.committed :])

    def note(self, line: str) -> None:
        self.trace.append(f"{self.now_ms} {line}")

    # What happens.

    def run(self) -> Outcome:
        events = [self.pass_time] * 6 + [self.say] * 4 + [self.commit] * 4 + [self.operate] * 2
        events += [self.change_isr] * 4 + [self.tick] * 3 + [self.trouble] * 3
        events += [self.take_over, self.allocate, self.assign] + [self.claim] * 3
        for broker in self.brokers:
            broker.boot(self.random, self.now_ms)
        for _ in range(EVENTS):
            self.random.choice(events)()
        self.heal()
        self.stir()
        self.heal()
        trace_hash = hashlib.sha256("\n".join(self.trace).encode()).hexdigest()
        return Outcome(
            self.image.checksum(), trace_hash, self.decisions, self.takeovers, self.fenced, len(self.image.topics)
        )

    def pass_time(self) -> None:
        self.now_ms += self.random.choice((1, 10, 100, 200))
        for broker in self.brokers:
            if broker.incarnation is not None and self.now_ms >= broker.next_beat_ms:
                self.beat(broker)
        self.settle()

    def say(self) -> None:
        running = [broker for broker in self.brokers if broker.incarnation is not None]
        if running:
            broker = self.random.choice(running)
            broker.applied = max(broker.applied, self.random.randrange(broker.applied, self.image.offset + 1, 1))
            self.beat(broker)

    def beat(self, broker: SimulatedBroker) -> None:
        broker.next_beat_ms = self.now_ms + BEAT_MS
        if self.random.random() < 0.8:
            broker.applied = self.image.offset
        command, incarnation = broker.beat(CLUSTER), broker.incarnation
        is_registration = isinstance(command, BrokerRegistrationRequest)
        is_taken = isinstance(command, BrokerRegistrationRequest) and self._is_taken(command)
        if isinstance(command, BrokerHeartbeatRequest):
            self.balance.told(broker.id, command.current_metadata_offset)
        reply = self.submit(command, lambda reply: broker.answered(incarnation, reply))
        must(not is_taken or reply.error_code != ErrorCode.NONE, f"broker {broker.id} is registered twice")
        if reply.error_code == ErrorCode.NONE and (self.was_appended or not is_registration):
            self.heard_ms[broker.id] = self.now_ms
            if self.was_appended and isinstance(command, BrokerHeartbeatRequest):
                self.told.add(broker.id)
            if getattr(reply, "should_shut_down", False) and self.controller.image.brokers[broker.id].fenced:
                del self.heard_ms[broker.id]

    def operate(self) -> None:
        self.submit(self.operators.command(self.image))

    def change_isr(self) -> None:
        self._by_some_broker(lambda broker: broker.isr_changes(self.image, self.random))

    def assign(self) -> None:
        self._by_some_broker(lambda broker: broker.directory_changes(self.image, self.random))

    def claim(self) -> None:
        if self.random.random() < 0.4:
            self.groups.elect(self.image)
        if self.random.random() < 0.5:
            self.groups.change_voters(self.image)
        claim = self.groups.claim(self.image)
        if claim is not None:
            self._claim(claim)

    def _claim(self, claim: ClaimStorageGroupRequest) -> None:
        reply = self.submit(claim)
        if reply.error_code in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT):
            must(claim.group_epoch >= self.claimed.get(claim.group, 0), "an earlier epoch is believed:", claim)
            self.claimed[claim.group] = claim.group_epoch

    def allocate(self) -> None:
        def told(reply: Any) -> None:
            if reply.error_code == ErrorCode.NONE:
                self.invariants.allocated(reply.producer_id_start, reply.producer_id_len)

        broker = self.random.choice(self.brokers)
        self.submit(AllocateProducerIdsRequest(broker_id=broker.id, broker_epoch=broker.epoch), told)

    def trouble(self) -> None:
        broker = self.random.choice(self.brokers)
        if broker.incarnation is None:
            broker.boot(self.random, self.now_ms)
            return self.note(f"broker {broker.id} boots")
        kind = self.random.choice(("crash", "stop", "pause", "disk", "restart"))
        self.note(f"broker {broker.id}: {kind}")
        if kind == "crash":
            broker.stop(cleanly=False)
        elif kind == "stop":
            broker.is_stopping = broker.epoch != UNKNOWN
        elif kind == "pause":
            broker.next_beat_ms = self.now_ms + self.random.randrange(3 * SESSION_MS)
        elif kind == "disk":
            broker.offline = self.random.sample(broker.directories, 1)
        else:
            broker.stop(cleanly=False)
            broker.boot(self.random, self.now_ms)
        return None

    def tick(self) -> None:
        """One thing that is due, and no more: others may come between."""
        self._tick()

    def settle(self) -> None:
        """The timer rings: everything that is due is done."""
        while self._tick():
            pass
        deadline = self.controller.next_deadline_ms
        must(deadline is None or deadline > self.now_ms, f"it is {self.now_ms}, and the timer stands at {deadline}")
        settled(self.controller, self.heard_ms, self.told, self.now_ms)

    def commit(self) -> None:
        for _ in range(self.random.randrange(1, 6)):
            if self.committed < len(self.log):
                self._commit_one()

    def take_over(self) -> None:
        """Another controller is elected. It has all that is committed, and perhaps more, which is committed then."""
        kept = self.random.randrange(self.committed, len(self.log) + 1)
        self.note(f"another controller; {len(self.log) - kept} decisions are lost")
        for batch in self.log[kept:]:
            batch.answer = _nobody_answers
        del self.log[kept:]
        while self.committed < kept:
            self._commit_one()
        self._check_log()
        self.controller = self._new_controller()
        self.invariants.rewound(self.image, self.log[-1].holders if self.log else Holders())
        self.takeovers += 1
        if self.random.random() < 0.5:
            self.submit(BalanceLeadersRequest(action=BalanceAction.BEGIN))
        self._tick()

    @property
    def _moved(self) -> list[tuple[str, int]]:
        """What others lead than should, where the controller can bring that about."""
        return [one for one in each(self.image.index.moved) if one[0] != STORAGE_GROUPS]

    def heal(self) -> None:
        """All brokers are there, and nothing fails: then every partition is led, by who was there before."""
        self.note("all is well from now on")
        self.append_fails = 0.0
        for _ in range(40):
            self._heal_on()
        if self.settings.leader_balance.interval_ms is None or self.controller.state.balancer.late:
            self.submit(BalanceLeadersRequest(action=BalanceAction.BEGIN))
        for _ in range(400):
            if self.image.index.behind or self._moved or self.groups.healed(self.image):
                self._heal_on()
        must(not self.image.index.behind, "a replica is not in sync though all is well")
        must(not self._moved, "leadership is not balanced though all is well")
        wrong = self.groups.healed(self.image)
        must(not wrong, wrong)
        must(not any(broker.fenced for broker in self.image.brokers.values()), "a broker is fenced though all is well")
        must(len(self.image.brokers) == len(self.brokers), "a broker is not registered though all is well")
        must(self.controller.image == self.image, "what is committed is not what was decided")
        self._check_log()

    def stir(self) -> None:
        """Everything should be led by another one, and groups be elsewhere: they move, with some trouble on the way."""
        topics = [
            ReassignableTopic(
                name=topic.name,
                partitions=[
                    ReassignablePartition(partition_index=index, replicas=list(reversed(partition.replicas)))
                    for index, partition in topic.partitions.items()
                ],
            )
            for topic in self.image.topics.values()
        ]
        self.submit(AlterPartitionReassignmentsRequest(topics=topics))
        for _ in self.image.storage_groups:
            self.submit(self.operators.move_group(self.image))
        self.submit(BalanceLeadersRequest(action=BalanceAction.BEGIN))
        events = [self.pass_time] * 4 + [self.say] * 4 + [self.commit] * 4 + [self.tick] * 3
        events += [self.take_over, self.trouble] + [self.claim] * 2
        for _ in range(EVENTS // 4):
            self.random.choice(events)()

    def _heal_on(self) -> None:
        self.now_ms += BEAT_MS
        for broker in self.brokers:
            known = self.image.brokers.get(broker.id)
            is_going = known is not None and known.in_controlled_shutdown
            if broker.incarnation is None or broker.offline or is_going:
                broker.boot(self.random, self.now_ms)
            broker.is_stopping = False
            broker.applied = self.image.offset
            self.beat(broker)
            change = broker.isr_changes(self.image, self.random, grow_only=True)
            if change is not None:
                self.submit(change)
            assignment = broker.directory_changes(self.image, self.random, lost_only=True)
            if assignment is not None:
                self.submit(assignment)
        for claim in self.groups.heal(self.image):
            self._claim(claim)
        self.settle()
        while self.committed < len(self.log):
            self._commit_one()

    # How it happens.

    def submit(self, command: Message, told: Callable[[Any], None] = lambda reply: None) -> Any:
        decision = self.controller.decide(command, self.now_ms)
        if isinstance(command, AlterPartitionRequest) and decision.records:
            self.invariants.isr_changed(self.controller.image, command)
        what = {
            "is_unclean": isinstance(command, ElectLeadersRequest) and command.election_type == 1,
            "by_leader": isinstance(command, AlterPartitionRequest),
            "claim": command if isinstance(command, ClaimStorageGroupRequest) else None,
            "lost": self._lost(command, decision) if isinstance(command, BrokerRegistrationRequest) else None,
        }
        self._append(type(command).__name__, decision, lambda: told(decision.reply), **what)
        return decision.reply

    def _lost(self, command: BrokerRegistrationRequest, decision: Decision[Any]) -> int | None:
        """The broker that registers after a crash, if this registration is one."""
        present = self.controller.image.brokers.get(command.broker_id)
        if not decision.records or (present is not None and present.incarnation_id == command.incarnation_id):
            return None
        is_clean = present is not None and present.epoch == command.previous_broker_epoch
        return None if is_clean else command.broker_id

    def _append(self, name: str, decision: Decision[Any], answer: Callable[[], None], **what: Any) -> None:
        must(self.controller.state.next_offset == self.end_offset, "the controller's offset is not the log's")
        self.was_appended = not decision.records or self.random.random() >= self.append_fails
        if not self.was_appended:
            return self.note(f"{name}: {len(decision.records)} records could not be appended")
        if decision.records:
            self.note(f"{name}: {', '.join(map(short, decision.records))}")
        self.controller.apply(decision.records)
        self.invariants.decided(self.controller.image, **what)
        forgotten = self.groups.forgotten(self.controller.image)
        must(not forgotten, forgotten)
        holders = self.invariants.holders.copy()
        self.log.append(Batch([encode_record(record) for record in decision.records], answer, holders))
        self.decisions += 1
        return None

    def _tick(self) -> bool:
        deadline = self.controller.next_deadline_ms
        if deadline is None or deadline > self.now_ms:
            return False
        decision = self.controller.tick(self.now_ms)
        if decision is not None:
            self.fenced += sum(getattr(record, "fenced", 0) == 1 for record in decision.records)
            self.balance.decided(self.controller, decision.records, self.end_offset, self.now_ms)
            self._append("tick", decision, _nobody_answers)
        return decision is not None

    def _commit_one(self) -> None:
        batch = self.log[self.committed]
        for frame in batch.frames:
            self.image.apply(decode_record(frame))
        self.image.applied_to(self.image.offset + len(batch.frames))
        self.committed += 1
        batch.answer()

    def _new_controller(self) -> Controller:
        self.told, self.claimed = set(), {}
        self.heard_ms = {broker.node_id: self.now_ms for broker in self.image.brokers.values() if not broker.fenced}
        return Controller(self.image.copy(), self.settings, self.random, next_offset=self.end_offset)

    def _check_log(self) -> None:
        """Whoever applies the log, or a snapshot, comes to the same state."""
        for frames in (
            [frame for batch in self.log[: self.committed] for frame in batch.frames],
            [encode_record(record) for record in self.image.records()],
        ):
            replayed = ClusterImage(CLUSTER)
            for frame in frames:
                replayed.apply(decode_record(frame))
            must(replayed == self.image, "a replayed log gives another image")
            must(replayed.checksum() == self.image.checksum(), "a replayed log gives another checksum")

    def _is_taken(self, command: BrokerRegistrationRequest) -> bool:
        """Whether another process has the id, as far as this controller can know."""
        present = self.controller.image.brokers.get(command.broker_id)
        if present is None or present.incarnation_id == command.incarnation_id or present.in_controlled_shutdown:
            return False
        addresses = [(item.host, item.port) for item in command.listeners]
        same_place = addresses == [(item.host, item.port) for item in present.endpoints.values()]
        is_later = command.incarnation_id.int >> 80 >= present.incarnation_id.int >> 80
        if same_place and is_later and any(directory in present.directories for directory in command.log_dirs):
            return False
        heard_ms = self.heard_ms.get(command.broker_id)
        is_other = command.broker_id != self.settings.node_id
        return is_other and heard_ms is not None and self.now_ms < heard_ms + SESSION_MS

    def _by_some_broker(self, change: Callable[[SimulatedBroker], Message | None]) -> None:
        registered = [broker for broker in self.brokers if broker.incarnation is not None and broker.epoch != UNKNOWN]
        if registered:
            command = change(self.random.choice(registered))
            if command is not None:
                self.submit(command)

    def _disks(self) -> list[UUID]:
        count = self.random.choice((1, 1, 2))
        return [UUID(int=self.random.getrandbits(128), version=4) for _ in range(count)]


def _nobody_answers() -> None:
    pass


def short(record: MetadataRecord) -> str:
    """A record in one line: what it does not leave at its default."""
    fields = {name: getattr(record, name) for name in record.__fields__ if name not in ("features", "end_points")}
    told = (f"{name}={value}" for name, value in fields.items() if value != record.__fields__[name].new_default())
    return f"{type(record).__name__}({', '.join(told)})"


class SimulationError(AssertionError):
    """Carries the seed, what went wrong and the last lines of the trace."""


def simulate(seed: int) -> Outcome:
    """One seed from an empty cluster to the end of healing. Raises SimulationError."""
    world = ControllerWorld(seed)
    try:
        return world.run()
    except Exception as error:
        trace = "\n".join(world.trace[-TRACE_LINES:])
        raise SimulationError(f"{trace}\nseed {seed}: {type(error).__name__}: {error}") from error
