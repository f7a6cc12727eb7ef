"""A cluster of machines in virtual time: one seed decides everything that happens.

First comes trouble for a while, then everything heals, and a record that is appended after that must reach all.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any
from uuid import UUID
from zlib import crc32

from tests.simulation.invariants import InvariantError, Invariants
from tests.simulation.node import Clock, Node
from tests.simulation.plan import Plan, draw_plan

from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.records import Record, encode_batch
from penstock.raft import effects as do
from penstock.raft import requests as ask
from penstock.raft.settings import NEVER
from penstock.raft.voters import CONFIGURED, DYNAMIC_VOTERS, Endpoint, Quorum, ReplicaKey, Voter

HEALING_TIMEOUTS = 400
"""So many election time-outs the cluster has to recover; a fraction is the rule."""

MAX_EVENTS = 50_000
"""Replicas that ask each other more often in one seed turn in a circle; a seventh is the most that is seen."""


@dataclass(frozen=True, slots=True)
class Call:
    """The token of a request: who asked, in which life, and what."""

    sender: int
    incarnation: int
    request: ask.PeerRequest | None


@dataclass(slots=True)
class Outcome:
    trace_hash: int
    committed: int
    epochs: int
    events: int
    leases: int
    """So often a node was found to hold a lease."""


class World:
    def __init__(self, seed: int, **given: Any) -> None:
        """`given` is what of the plan is not left to chance."""
        self.seed = seed
        self.random = Random(seed)
        self.plan: Plan = replace(draw_plan(self.random), **given)
        self.invariants = Invariants()
        self.now_ms = 0
        self.calm = False
        self.trace: list[str] = [str(self.plan)]
        self.trace_hash = 0
        self.events = 0
        self.leases = 0
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0
        self.cut_links: dict[tuple[int, int], bool] = {}
        self.directories = 0
        self.nodes = self._draw_nodes()

    def _draw_nodes(self) -> dict[int, Node]:
        plan = self.plan
        ids = range(1, plan.voters + plan.observers + 1)
        voters = [self.new_voter(node_id) for node_id in ids]
        named = voters if plan.kraft_version else [Voter(ReplicaKey(node_id)) for node_id in ids]
        quorum = Quorum.of(named[: plan.voters], plan.kraft_version)
        self.invariants.quorums = [(CONFIGURED, quorum)]
        nodes = {}
        for voter in voters:
            nobody = plan.kraft_version and voter.key.id > plan.voters and self.random.random() < 0.5
            configured = Quorum((), plan.kraft_version) if nobody else quorum
            settings = plan.settings.replace(leases=plan.leases)
            clock = Clock(plan.clocks[voter.key.id - 1], 100_000 * voter.key.id)
            nodes[voter.key.id] = Node(voter, configured, settings, self.invariants, clock)
        return nodes

    def new_voter(self, node_id: int) -> Voter:
        """It has a name only where voters may change."""
        self.directories += 1
        if not self.plan.may_change_voters:
            return Voter(ReplicaKey(node_id))
        endpoint = Endpoint("CONTROLLER", f"n{node_id}", 9093)
        return Voter(ReplicaKey(node_id, UUID(int=self.directories)), (endpoint,))

    # The clock.

    def clock(self, node: Node) -> int:
        """The time that this node believes."""
        return node.clock.at(self.now_ms)

    def at(self, time_ms: int, act: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._queue, (time_ms, self._number, act))

    def after(self, delay_ms: int, act: Callable[[], None]) -> None:
        self.at(self.now_ms + delay_ms, act)

    def run_until(self, end_ms: int, done: Callable[[], bool] = lambda: False) -> None:
        while self._queue and self._queue[0][0] <= end_ms and not done():
            self.now_ms, _, act = heapq.heappop(self._queue)
            act()
        if not done():
            self.now_ms = end_ms

    # Events and effects.

    def event(self, node: Node, what: str, make: Callable[[], list[do.Effect]]) -> None:
        """One event at one machine, its effects, and the invariants after it."""
        raft = node.raft
        assert raft is not None
        effects = make()
        replica = raft.replica
        line = (
            f"{self.now_ms} n{node.id} {what}: {raft.role.name} e{replica.epoch} "
            f"{replica.log.start_offset}..{replica.high_watermark}..{replica.flushed_offset}..{replica.log.end_offset}"
        )
        self.note(line)
        self.events += 1
        if self.events > MAX_EVENTS:
            raise InvariantError("no rest: the replicas turn in a circle")
        self._carry_out(node, effects)
        if node.raft is raft:
            self.invariants.epoch_seen(node.id, replica.epoch)
            if node.leads:
                self.invariants.led(node.id, replica.epoch, node.log)
            self._wake(node)
        self._look_at_leases()

    def _look_at_leases(self) -> None:
        """All nodes may try to act as the only master; it is looked at who could, each by its own clock."""
        running = [node for node in self.nodes.values() if node.raft is not None]
        for node in running:
            assert node.raft is not None
            if node.raft.holds_lease(self.clock(node)):
                self.leases += 1
                others = {other.id: other.epoch for other in running if other.leads and other is not node}
                self.invariants.acts_alone(node.id, node.epoch, node.applied, others)

    def note(self, line: str) -> None:
        self.trace.append(line)
        self.trace_hash = crc32(line.encode(), self.trace_hash)

    def _carry_out(self, node: Node, effects: list[do.Effect]) -> None:
        chance = 0.0 if self.calm else self.plan.crash_between_effects
        incarnation = node.incarnation
        for effect in effects:
            if chance and self.random.random() < chance:
                self.crash(node)
            if node.incarnation != incarnation:
                return
            CARRY_OUT[type(effect)](self, node, effect)
        chance = 0.0 if self.calm else self.plan.crash_after_persist
        if chance and any(isinstance(effect, do.Persist) for effect in effects) and self.random.random() < chance:
            self.crash(node)

    def persist(self, node: Node, effect: do.Persist) -> None:
        node.disk.state = effect.state

    def commit(self, node: Node, effect: do.Commit) -> None:
        node.apply(effect.high_watermark)
        self._check_voters(node)

    def examine(self, node: Node, effect: do.Examine) -> None:
        incarnation = node.incarnation

        def examined() -> None:
            raft = node.raft
            if node.incarnation == incarnation and raft is not None:
                self.event(node, "examined", lambda: raft.examined(effect.snapshot, self.clock(node)))

        self.after(self.random.randint(0, self.plan.longest_examination_ms), examined)

    def load_snapshot(self, node: Node, effect: do.LoadSnapshot) -> None:
        node.load(effect.snapshot)
        self._check_voters(node)

    def _check_voters(self, node: Node) -> None:
        assert node.raft is not None
        self.invariants.voters_known(node.id, node.applied, node.raft.quorum_at(node.applied))

    def announce(self, node: Node, effect: do.Announce) -> None:
        self.note(f"{self.now_ms} n{node.id} leader {effect.leader_id} of epoch {effect.epoch}")

    def flush(self, node: Node, effect: do.Flush) -> None:
        slow = self.plan.slow_disks[node.id - 1] and not self.calm
        longest_ms = self.plan.settings.election_timeout_ms if slow else 3
        incarnation, contents = node.incarnation, node.log

        def flushed() -> None:
            raft = node.raft
            if node.incarnation == incarnation and raft is not None:
                contents.flush()
                self.event(node, "flushed", lambda: raft.flushed(self.clock(node)))

        self.after(self.random.randint(0, longest_ms), flushed)

    def _wake(self, node: Node) -> None:
        raft = node.raft
        assert raft is not None
        deadline_ms = raft.deadline_ms
        due_ms = node.clock.true_ms(deadline_ms)
        if deadline_ms >= NEVER or (self.now_ms < node.wake_ms <= due_ms):
            return
        node.wake_ms = max(due_ms, self.now_ms + 1)
        incarnation, wake_ms = node.incarnation, node.wake_ms

        def tick() -> None:
            if node.incarnation != incarnation or node.wake_ms != wake_ms:
                return
            node.wake_ms = 0
            if raft.deadline_ms <= self.clock(node):
                self.event(node, "tick", lambda: raft.tick(self.clock(node)))
            else:
                self._wake(node)

        self.at(node.wake_ms, tick)

    # The network.

    def send(self, node: Node, effect: do.Send) -> None:
        to = effect.to
        if to == do.ANY_SERVER:
            to = self.random.choice([other for other in self.nodes if other != node.id])
        call = Call(node.id, node.incarnation, effect.request)
        for _ in range(1 + self._chance(self.plan.duplication)):
            self.travel(node.id, to, lambda: self._arrive(call, to), lambda: self._failed(call, to))

    def travel(self, sender: int, to: int, arrive: Callable[[], None], lost: Callable[[], None]) -> None:
        """Messages of one connection keep their order in reality; here they come as they like."""
        is_late = self._chance(self.plan.late)
        longest_ms = 2 * self.plan.settings.fetch_timeout_ms if is_late else self.plan.longest_delay_ms
        delay_ms = self.random.randint(0, 2 if self.calm else longest_ms)
        if self._chance(self.plan.loss) or (sender, to) in self.cut_links:
            if self.random.random() < 0.5:
                self.after(delay_ms + self.plan.longest_delay_ms, lost)
            return
        self.after(delay_ms, arrive)

    def _arrive(self, call: Call, to: int) -> None:
        node, request = self.nodes[to], call.request
        if node.raft is not None and isinstance(request, ask.Vote) and self._chance(self.plan.restart_before_vote):
            self.crash(node)
            self.revive(node)
        raft = node.raft
        if raft is None:
            self._failed(call, to)
        elif isinstance(request, ask.AskVersions):
            self._answer(call, to, ask.AskVersionsAnswer(ErrorCode.NONE, 0, 1))
        else:
            assert request is not None
            what = f"{type(request).__name__} from {call.sender}"
            self.event(node, what, lambda: raft.received(request, call, self.clock(node)))

    def reply(self, node: Node, effect: do.Reply) -> None:
        call = effect.token
        assert isinstance(call, Call)
        if call.request is None:
            self.note(f"{self.now_ms} n{node.id} says {effect.answer}")
        else:
            self.travel(node.id, call.sender, lambda: self._answer(call, node.id, effect.answer), lambda: None)

    def _answer(self, call: Call, sender: int, answer: Any) -> None:
        node, request = self.nodes[call.sender], call.request
        raft = node.raft
        if raft is None or node.incarnation != call.incarnation:
            return
        assert request is not None
        what = f"{type(answer).__name__} from {sender}"
        self.event(node, what, lambda: raft.answered(sender, request, answer, self.clock(node)))

    def _failed(self, call: Call, to: int) -> None:
        node, request = self.nodes[call.sender], call.request
        raft = node.raft
        if raft is not None and node.incarnation == call.incarnation and request is not None:
            self.event(node, f"no answer from {to}", lambda: raft.request_failed(to, request, self.clock(node)))

    def _chance(self, chance: float) -> bool:
        return not self.calm and chance > 0 and self.random.random() < chance

    # Life and death.

    def boot(self, node: Node) -> None:
        if self.plan.may_change_voters and not self.calm and self.random.random() < 0.2:
            node.move(f"n{node.id}-{node.incarnation}")
        raft = node.boot(Random(self.seed if self.plan.same_lots else self.random.getrandbits(32)))
        node.wake_ms = 0
        self.event(node, "boots", lambda: raft.start(self.clock(node)))

    def crash(self, node: Node) -> None:
        self.note(f"{self.now_ms} n{node.id} crashes")
        node.crash(self.random)
        self.after(self.random.randint(1, self.plan.longest_down_ms), lambda: self.revive(node))

    def revive(self, node: Node) -> None:
        if node.raft is None:
            self.boot(node)

    def upgrade(self, node: Node) -> None:
        """Ask a leader that the voters may change from now on; not all may have told it what it needs."""
        raft = node.raft
        assert raft is not None
        try:
            self.event(node, "upgrade", lambda: raft.upgrade(DYNAMIC_VOTERS, raft.epoch, self.clock(node)))
        except KafkaError as error:
            self.note(f"{self.now_ms} n{node.id} refuses: {error.message}")

    def append(self, node: Node, records: int = 1) -> int:
        """Returns the end offset of what was appended."""
        raft = node.raft
        assert raft is not None
        self._number += 1
        values = [Record(timestamp_ms=self.now_ms, value=b"%d/%d" % (self._number, i)) for i in range(records)]
        self.event(node, "append", lambda: raft.append(encode_batch(values), raft.epoch, self.clock(node)))
        return node.log.end_offset


CARRY_OUT: dict[type, Callable[[World, Node, Any], None]] = {
    do.Persist: lambda world, node, effect: world.persist(node, effect),
    do.Send: lambda world, node, effect: world.send(node, effect),
    do.Reply: lambda world, node, effect: world.reply(node, effect),
    do.Flush: lambda world, node, effect: world.flush(node, effect),
    do.Commit: lambda world, node, effect: world.commit(node, effect),
    do.Examine: lambda world, node, effect: world.examine(node, effect),
    do.LoadSnapshot: lambda world, node, effect: world.load_snapshot(node, effect),
    do.Announce: lambda world, node, effect: world.announce(node, effect),
}

__all__ = ["Call", "InvariantError", "Outcome", "World"]
