"""What goes wrong in a simulated cluster, and what its users do meanwhile. Each thing happens at random times."""

from collections.abc import Callable

from tests.simulation.node import Node
from tests.simulation.world import Call, World

from penstock.raft.requests import AddVoter, RemoveVoter
from penstock.raft.voters import DYNAMIC_VOTERS, ReplicaKey

ADDITION_TIMEOUT_MS = 5000


class Faults:
    def __init__(self, world: World) -> None:
        self.world = world
        self.random = world.random
        self.additions: dict[ReplicaKey, int] = {}

    def schedule(self) -> None:
        plan = self.world.plan
        for rate, act in (
            (plan.appends, self.append),
            (plan.crashes, self.crash),
            (plan.partitions, self.partition),
            (plan.snapshots, self.snapshot),
            (plan.voter_changes, self.change_voters),
            (plan.resignations, self.resign),
        ):
            if rate:
                self._again(rate, act)

    def _again(self, rate: float, act: Callable[[], None]) -> None:
        def happen() -> None:
            if not self.world.calm:
                act()
                self._again(rate, act)

        self.world.after(int(self.random.expovariate(rate)) + 1, happen)

    def _leader(self) -> Node | None:
        """Anyone who believes that it leads: users cannot know better."""
        leaders = [node for node in self.world.nodes.values() if node.leads]
        return self.random.choice(leaders) if leaders else None

    def append(self) -> None:
        leader = self._leader()
        if leader is not None:
            self.world.append(leader, self.random.randint(1, 3))

    def crash(self) -> None:
        """One node, the leader perhaps, or all of them at once."""
        nodes = list(self.world.nodes.values())
        leader = self._leader()
        chosen = [self.random.choice(nodes)]
        if leader is not None and self.random.random() < 0.4:
            chosen = [leader]
        elif self.random.random() < 0.1:
            chosen = nodes
        for node in chosen:
            if node.raft is not None:
                self.world.crash(node)
                self._lose_disk(node)

    def _lose_disk(self, node: Node) -> None:
        """Of an observer only: a voter that forgets is more than Raft promises to survive."""
        world = self.world
        if world.plan.may_change_voters and self.random.random() < 0.3 and not self._may_vote(node):
            node.wipe(world.new_voter(node.id))
            world.note(f"{world.now_ms} n{node.id} lost its disk")

    def _may_vote(self, node: Node) -> bool:
        """Whether any log anywhere names it as a voter, or soon may: those may count its vote."""
        if self.world.now_ms <= self.additions.get(node.voter.key, -1):
            return True
        logs = [other.raft.quorum for other in self.world.nodes.values() if other.raft is not None]
        known = [*logs, *(other.configured for other in self.world.nodes.values())]
        crashed = any(other.raft is None for other in self.world.nodes.values() if other is not node)
        return crashed or any(quorum.has(node.voter.key) for quorum in known)

    def partition(self) -> None:
        """Cut links, each in one direction or in both, or mend them all."""
        links = self.world.cut_links
        if links and self.random.random() < 0.5:
            links.clear()
            self.world.note(f"{self.world.now_ms} all links are mended")
            return
        ids = list(self.world.nodes)
        side = {node_id: self.random.random() < 0.5 for node_id in ids}
        both_ways = self.random.random() < 0.5
        for one in ids:
            for other in ids:
                if side[one] and not side[other]:
                    links[one, other] = True
                    if both_ways:
                        links[other, one] = True
        self.world.note(f"{self.world.now_ms} cut links: {list(links)}")

    def snapshot(self) -> None:
        node = self.random.choice(list(self.world.nodes.values()))
        raft = node.raft
        if raft is None or node.applied <= node.log.start_offset:
            return
        snapshot = node.take_snapshot(self.world.now_ms)
        if self.random.random() < 0.7:
            oldest = min(node.disk.snapshots.whole)
            raft.forget_log_behind(self.random.choice((snapshot, oldest)))
        self.world.note(f"{self.world.now_ms} n{node.id} takes {snapshot}, its log starts at {node.log.start_offset}")

    def change_voters(self) -> None:
        leader = self._leader()
        if leader is None or leader.raft is None:
            return
        raft, now_ms = leader.raft, self.world.now_ms
        their_ms = self.world.clock(leader)
        if raft.quorum.kraft_version < DYNAMIC_VOTERS:
            self.world.upgrade(leader)
            return
        node = self.random.choice(list(self.world.nodes.values()))
        token = Call(0, 0, None)
        if raft.quorum.has(node.voter.key):
            removal = RemoveVoter(node.voter.key)
            self.world.event(leader, f"remove {node.id}", lambda: raft.received(removal, token, their_ms))
        else:
            self.additions[node.voter.key] = now_ms + ADDITION_TIMEOUT_MS
            waits = self.random.random() < 0.5
            voter = node.voter
            addition = AddVoter(voter.key, voter.endpoints, waits, ADDITION_TIMEOUT_MS)
            self.world.event(leader, f"add {node.id}", lambda: raft.received(addition, token, their_ms))

    def resign(self) -> None:
        leader = self._leader()
        if leader is not None and leader.raft is not None:
            raft = leader.raft
            self.world.event(leader, "resign", lambda: raft.resign(self.world.clock(leader)))
