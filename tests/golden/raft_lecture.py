"""The language of the consensus transcripts: some nodes, the messages between them, and a clock that stands still.

    quorum 1 2 3 [observers=4,5] [static] [leases] [KEY=MS …]   new nodes with empty disks, not started (first of all)
    named NODE …                                they have directories and listeners, which no configuration says
    log NODE EPOCH …                            what its disk holds: a record of each of these epochs
    voted NODE epoch=N [for=NODE]               what its quorum-state says
    boot NODE … | crash NODE … | wipe NODE      start; stop at once; a new disk
    tick NODE                                   time goes on to the next deadline of that node, and nobody else notices
    wait MS                                     time goes on, everybody ticks, all messages arrive
    later MS                                    time goes on, and nobody notices
    deliver [FROM->TO …]                        the oldest message of each of these ways; or all, until nothing moves
    drop FROM->TO …                             the oldest message of each of these ways is lost
    cut FROM->TO … | isolate NODE … | heal      these ways lose all messages
    append NODE TEXT                            a record
    snapshot NODE                               of all that is committed; the log before it goes
    handover FROM TO MS                         FROM lays down its lease, which ends so much later, and appends that TO
                                                leads next; MS may be `never`, then it runs out
    takeback NODE                               it stands again, as nobody leads instead of it
    resign NODE | add NODE TO | remove NODE FROM | upgrade NODE | describe NODE
    roles | logs | voters | leases              each node, in a line

A line of `logs` has the epoch of each record; `|` stands behind those that the node knows to be committed, `[n]` for a
snapshot of n records. Effects are written `NODE: effect` and `FROM -> TO: message`. A disk flushes at once. After the
word `quietly` a command tells nothing but who leads.
"""

import math
from collections.abc import Iterable, Iterator
from random import Random
from typing import Any
from uuid import UUID

from tests.golden.raft_words import told
from tests.simulation.invariants import Invariants
from tests.simulation.memory import MemoryLog
from tests.simulation.node import Node

from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.records import Record, decode_batch, encode_batch
from penstock.raft import effects as do
from penstock.raft import requests as ask
from penstock.raft.leader import Leader
from penstock.raft.machine import Raft
from penstock.raft.settings import NEVER, RaftSettings
from penstock.raft.voters import DYNAMIC_VOTERS, STATIC_VOTERS, Quorum, ReplicaKey, Voter

Message = tuple[int, int, Any, Any]
"""Sender, receiver, request, and the answer to it or None."""


class RaftLecture:
    def __init__(self) -> None:
        self.now_ms = 0
        self.nodes: dict[int, Node] = {}
        self.network: list[Message] = []
        self.lost: dict[tuple[int, int], bool] = {}
        self.directories = 0
        self.handed_over: dict[bytes, tuple[int, int | None]] = {}
        self.invariants = Invariants()

    def handle(self, line: str) -> Iterable[object]:
        """Plays one line."""
        words = line.split()
        if words[0] == "quietly":
            return [told for told in self.handle(" ".join(words[1:])) if "leads" in str(told)]
        return list(getattr(self, f"do_{words[0]}")(*words[1:]))

    # Nodes.

    def do_quorum(self, *words: str) -> Iterator[str]:
        self.__init__()  # type: ignore[misc]
        options = dict(word.split("=") for word in words if "=" in word)
        observers = [int(word) for word in options.pop("observers", "").split(",") if word]
        ids = [int(word) for word in words if word.isdigit()]
        numbers = {name: int(value) for name, value in options.items()}
        settings = RaftSettings(**numbers, auto_join="auto_join" in words, leases="leases" in words)
        version = STATIC_VOTERS if "static" in words else DYNAMIC_VOTERS
        quorum = Quorum.of([self.new_voter(node, version) for node in ids], version)
        for node in ids:
            voter = quorum.voter(node)
            assert voter is not None
            self.nodes[node] = Node(voter, quorum, settings, self.invariants)
        for node in observers:
            configured = quorum if version == STATIC_VOTERS else Quorum((), version)
            self.nodes[node] = Node(self.new_voter(node, version), configured, settings, self.invariants)
        yield from ()

    def new_voter(self, node: int, version: int = DYNAMIC_VOTERS) -> Voter:
        self.directories += 1
        return Voter(ReplicaKey(node, UUID(int=self.directories if version else 0)))

    def do_named(self, *ids: str) -> Iterator[str]:
        for node in self._nodes(ids):
            node.voter = self.new_voter(node.id)
            node.move(f"n{node.id}")
        yield from ()

    def do_log(self, node: str, *epochs: str) -> Iterator[str]:
        log = MemoryLog()
        for offset, epoch in enumerate(epochs):
            record = Record(timestamp_ms=0, value=f"{offset} of {epoch}".encode())
            log.append(encode_batch([record], base_offset=offset, partition_leader_epoch=int(epoch)))
        disk = self.nodes[int(node)].disk
        disk.contents = log.contents()
        disk.state = do.ElectionState(max(disk.state.epoch, log.last_epoch))
        yield from ()

    def do_voted(self, node: str, epoch: str, candidate: str = "") -> Iterator[str]:
        voted = self.nodes[int(candidate.removeprefix("for="))].voter.key if candidate else None
        self.nodes[int(node)].disk.state = do.ElectionState(int(epoch.removeprefix("epoch=")), None, voted)
        yield from ()

    def do_boot(self, *ids: str) -> Iterator[str]:
        for node in self._nodes(ids):
            raft = node.boot(Random(node.id))
            yield from self.carry_out(node, raft.start(self.now_ms))

    def do_crash(self, *ids: str) -> Iterator[str]:
        for node in self._nodes(ids):
            node.disk.contents = node.log.disk
            node.raft = None
            self.network = [m for m in self.network if node.id not in m[:2]]
        yield from ()

    def do_wipe(self, node: str) -> Iterator[str]:
        wiped = self.nodes[int(node)]
        wiped.wipe(self.new_voter(wiped.id))
        yield from ()

    def _nodes(self, ids: Iterable[str]) -> list[Node]:
        return [self.nodes[int(node)] for node in ids]

    def _raft(self, node: str | int) -> Raft:
        raft = self.nodes[int(node)].raft
        assert raft is not None, f"{node} does not run"
        return raft

    # Effects.

    def carry_out(self, node: Node, effects: list[do.Effect]) -> Iterator[str]:
        fetched = [effect.snapshot for effect in effects if isinstance(effect, do.Examine)]
        for effect in effects:
            if isinstance(effect, do.Send):
                to = next(iter(self.nodes)) if effect.to == do.ANY_SERVER else effect.to
                yield from self._post((node.id, to, effect.request, None))
            elif isinstance(effect, do.Reply):
                yield from self._post_answer(node, effect)
            elif isinstance(effect, do.Flush):
                node.log.flush()
                yield from self.carry_out(node, self._raft(node.id).flushed(self.now_ms))
            else:
                before = node.applied
                self._obey(node, effect)
                yield f"{node.id}: {told(effect)}"
                if isinstance(effect, do.Commit):
                    yield from self._give_way(node, before)
        for snapshot in fetched:
            yield from self.carry_out(node, self._raft(node.id).examined(snapshot, self.now_ms))
        if node.leads:
            self.invariants.led(node.id, node.epoch, node.log)

    def _give_way(self, node: Node, offset: int) -> Iterator[str]:
        """What a node has applied from here on may say that another one leads next."""
        for batch in [batch for batch in node.log.batches if offset <= batch.base_offset < node.applied]:
            for record in decode_batch(batch.data, 0):
                if (found := self.handed_over.get(record.value or b"")) is not None:
                    effects = self._raft(node.id).handed_over(batch.epoch, *found, self.now_ms)
                    yield from self.carry_out(node, effects)

    def _obey(self, node: Node, effect: do.Effect) -> None:
        if isinstance(effect, do.Persist):
            node.disk.state = effect.state
        elif isinstance(effect, do.Commit):
            node.apply(effect.high_watermark)
        elif isinstance(effect, do.LoadSnapshot):
            node.load(effect.snapshot)

    def _post(self, message: Message) -> Iterator[str]:
        sender, to, request, answer = message
        self.network.append(message)
        yield f"{sender} -> {to}: {told(request if answer is None else answer)}"

    def _post_answer(self, node: Node, effect: do.Reply) -> Iterator[str]:
        if isinstance(effect.token, tuple):
            asker, request = effect.token
            yield from self._post((node.id, asker, request, effect.answer))
        else:
            yield f"{node.id} -> {effect.token}: {told(effect.answer)}"

    # Time and messages.

    def do_tick(self, node: str) -> Iterator[str]:
        raft = self._raft(node)
        self.now_ms = max(self.now_ms, raft.deadline_ms)
        yield from self.carry_out(self.nodes[int(node)], raft.tick(self.now_ms))

    def do_wait(self, milliseconds: str) -> Iterator[str]:
        end_ms = self.now_ms + int(milliseconds)
        while True:
            yield from self.do_deliver()
            running = [node for node in self.nodes.values() if node.raft is not None]
            node = min(running, key=lambda node: node.raft.deadline_ms if node.raft else NEVER)
            assert node.raft is not None
            if node.raft.deadline_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, node.raft.deadline_ms)
            yield from self.carry_out(node, node.raft.tick(self.now_ms))
        self.now_ms = end_ms

    def do_later(self, milliseconds: str) -> Iterator[str]:
        self.now_ms += int(milliseconds)
        yield from ()

    def do_deliver(self, *ways: str) -> Iterator[str]:
        if not ways:
            while self.network:
                yield from self._arrive(self.network.pop(0))
        for way in ways:
            yield from self._arrive(self._take(way))

    def do_drop(self, *ways: str) -> Iterator[str]:
        for way in ways:
            self._take(way)
        yield from ()

    def _take(self, way: str) -> Message:
        sender, to = map(int, way.split("->"))
        found = next((m for m in self.network if m[:2] == (sender, to)), None)
        assert found is not None, f"nothing is on its way {way}"
        self.network.remove(found)
        return found

    def _arrive(self, message: Message) -> Iterator[str]:
        sender, to, request, answer = message
        node = self.nodes[to]
        if (sender, to) in self.lost:
            return
        if node.raft is None:
            if answer is None:
                effects = self._raft(sender).request_failed(to, request, self.now_ms)
                yield from self.carry_out(self.nodes[sender], effects)
            return
        if answer is not None:
            effects = node.raft.answered(sender, request, answer, self.now_ms)
        elif isinstance(request, ask.AskVersions):
            yield from self._post((to, sender, request, ask.AskVersionsAnswer(ErrorCode.NONE, 0, DYNAMIC_VOTERS)))
            return
        else:
            effects = node.raft.received(request, (sender, request), self.now_ms)
        yield from self.carry_out(node, effects)

    def do_cut(self, *ways: str) -> Iterator[str]:
        for way in ways:
            sender, to = map(int, way.split("->"))
            self.lost[sender, to] = True
        yield from ()

    def do_isolate(self, *ids: str) -> Iterator[str]:
        for node in map(int, ids):
            for other in self.nodes:
                self.lost[node, other] = self.lost[other, node] = True
        yield from ()

    def do_heal(self) -> Iterator[str]:
        self.lost = {}
        yield from ()

    # What is asked of a node.

    def do_append(self, node: str, text: str) -> Iterator[str]:
        raft = self._raft(node)
        batch = encode_batch([Record(timestamp_ms=self.now_ms, value=text.encode())])
        try:
            effects = raft.append(batch, raft.epoch, self.now_ms)
        except KafkaError as error:
            yield f"{node}: {error.code.name}"
            return
        yield from self.carry_out(self.nodes[int(node)], effects)

    def do_snapshot(self, node: str) -> Iterator[str]:
        raft = self._raft(node)
        raft.forget_log_behind(self.nodes[int(node)].take_snapshot(self.now_ms))
        yield from ()

    def do_resign(self, node: str) -> Iterator[str]:
        yield from self.carry_out(self.nodes[int(node)], self._raft(node).resign(self.now_ms))

    def do_handover(self, node: str, successor: str, milliseconds: str) -> Iterator[str]:
        raft, text = self._raft(node), f"{successor} leads next, {milliseconds} ms"
        ends_in_ms = None if milliseconds == "never" else int(milliseconds)
        self.handed_over[text.encode()] = int(successor), ends_in_ms
        yield from self.carry_out(self.nodes[int(node)], raft.lay_down(raft.epoch, ends_in_ms, self.now_ms))
        yield from self.do_append(node, text)

    def do_takeback(self, node: str) -> Iterator[str]:
        raft = self._raft(node)
        yield from self.carry_out(self.nodes[int(node)], raft.take_back(raft.epoch, self.now_ms))

    def do_add(self, node: str, leader: str) -> Iterator[str]:
        request = ask.AddVoter(self.nodes[int(node)].voter.key)
        effects = self._raft(leader).received(request, "administrator", self.now_ms)
        yield from self.carry_out(self.nodes[int(leader)], effects)

    def do_remove(self, node: str, leader: str) -> Iterator[str]:
        voter = self._raft(leader).quorum.voter(int(node))
        key = self.nodes[int(node)].voter.key if voter is None else voter.key
        request = ask.RemoveVoter(key)
        effects = self._raft(leader).received(request, "administrator", self.now_ms)
        yield from self.carry_out(self.nodes[int(leader)], effects)

    def do_upgrade(self, leader: str) -> Iterator[str]:
        raft = self._raft(leader)
        try:
            yield from self.carry_out(self.nodes[int(leader)], raft.upgrade(DYNAMIC_VOTERS, raft.epoch, self.now_ms))
        except KafkaError as error:
            yield f"{leader} -> administrator: {ErrorCode(error.code).name}: {error.message}"

    def do_describe(self, node: str) -> Iterator[str]:
        try:
            found = self._raft(node).describe(self.now_ms)
        except KafkaError as error:
            yield f"{node}: {error.code.name}"
            return
        yield f"leader {found.leader_id} epoch {found.epoch} high watermark {found.high_watermark}"
        for kind, replicas in (("voter", found.voters), ("observer", found.observers)):
            for replica in replicas:
                lag_ms = self.now_ms - replica.last_caught_up_ms if replica.last_caught_up_ms >= 0 else "?"
                yield f"{kind} {replica.key.id} end {replica.log_end_offset} caught up {lag_ms} ms ago"

    # Looking.

    def do_roles(self) -> Iterator[str]:
        for node in self.nodes.values():
            if node.raft is None:
                yield f"{node.id} is down"
                continue
            leader = "" if node.raft.leader_id is None else f", leader {node.raft.leader_id}"
            yield f"{node.id} {node.raft.role.name} in epoch {node.raft.epoch}{leader}"

    def do_logs(self) -> Iterator[str]:
        for node in self.nodes.values():
            log, high_watermark = node.log, node.high_watermark if node.raft is not None else -1
            words = [f"[{log.start_offset}]"] if log.start_offset else []
            words += ["|"] if high_watermark == log.start_offset else []
            for batch in log.batches:
                words += [str(batch.epoch)] * (batch.last_offset - batch.base_offset + 1)
                words += ["|"] if batch.last_offset + 1 == high_watermark else []
            yield f"{node.id}: {' '.join(words)}".rstrip()

    def do_leases(self) -> Iterator[str]:
        for node in self.nodes.values():
            if node.raft is None:
                continue
            if isinstance(node.raft.role, Leader):
                until = node.raft.lease_until_ms
                ends = f"until {int(until)}" if math.isfinite(until) else "for ever"
                acts = f"acts {ends}" if node.raft.holds_lease(self.now_ms) else "does not act"
                yield f"at {self.now_ms} {node.id} {acts}"
            elif (until_ms := node.raft.replica.promised_until_ms) > self.now_ms:
                yield f"at {self.now_ms} {node.id} votes for nobody until {until_ms}"
            else:
                yield f"at {self.now_ms} {node.id} may vote"

    def do_voters(self) -> Iterator[str]:
        for node in self.nodes.values():
            if node.raft is not None:
                yield f"{node.id}: {' '.join(map(str, node.raft.quorum.ids))}"
