"""Draws what happens to a quorum, as a transcript: `python -m tests.golden.raft_draws FIRST COUNT`.

The commands are written to `raft/drawn.txt`; `pytest tests/golden --rewrite` adds the answers.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.golden.draws import Draw, write_histories
from tests.golden.raft_lecture import RaftLecture
from tests.simulation.node import Node

from penstock.raft.settings import NEVER
from penstock.raft.voters import DYNAMIC_VOTERS

STEPS = 40
TITLE = "# Histories drawn by chance (`raft_draws.py`): elections, lost messages, other voters, snapshots, leases."


class QuorumHistory(Draw[RaftLecture]):
    """Commands that make sense where the quorum stands, and some that do not."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, RaftLecture())

    def history(self) -> list[str]:
        self.begin()
        kinds: dict[Callable[[], None], int] = {
            self.tick: 12, self.wait: 12, self.deliver: 16, self.drop: 5, self.append: 10, self.later: 2, self.cut: 3,
            self.heal: 5, self.snapshot: 3, self.crash: 2, self.boot: 6, self.resign: 2, self.hand_over: 3,
            self.take_back: 2, self.add: 3, self.remove: 2, self.upgrade: 1, self.describe: 2, self.look: 4,
        }  # fmt: skip
        self.steps(STEPS, kinds)
        self.say("heal")
        for node in [node for node in self.nodes if node.raft is None]:
            self.say(f"boot {node.id}")
        self.say("quietly wait 5000")
        for command in ("roles", "logs", "voters", "leases"):
            self.say(command)
        return self.said

    def begin(self) -> None:
        count = self.draw(1, 2, 3, 3, 3, 4, 5)
        self.is_static = self.draw(True, False, False)
        words = [str(node) for node in range(1, count + 1)]
        if not self.is_static or count > 1:
            words.append(f"observers={self.draw('8', '8,9')}")
        words += ["static"] if self.is_static else []
        words += ["leases"] if self.draw(True, False) else []
        words += ["auto_join"] if self.draw(True, False) else []
        words += [f"fetch_snapshot_max_bytes={self.draw(100, 300)}", f"fetch_max_bytes={self.draw(1, 200, 8_000)}"]
        self.say(f"quorum {' '.join(words)}")
        ids = " ".join(str(node.id) for node in self.nodes)
        if self.draw(True, False):
            self.say(f"named {ids}")
        common, epoch = ["1"] * self.draw(0, 0, 1, 2), 2
        for node in self.nodes[:count]:
            own = self.draw(0, 0, 1, 2)
            if common or own:
                self.say(f"log {node.id} {' '.join([*common, *[str(epoch)] * own])}")
            epoch += 1
        for node in self.nodes[:count] if any(node.disk.contents.batches for node in self.nodes) else ():
            self.say(f"voted {node.id} epoch={epoch}")  # who has a record of an epoch, a majority knows that epoch
        self.say(f"boot {ids}")
        if self.draw(True, True, False):
            self.say("quietly wait 3000")

    @property
    def nodes(self) -> list[Node]:
        return list(self.lecture.nodes.values())

    @property
    def running(self) -> list[Node]:
        return [node for node in self.nodes if node.raft is not None]

    def one(self) -> Node | None:
        return self.random.choice(self.running) if self.running else None

    def leading(self) -> Node | None:
        """A node that leads, if there is one; seldom another."""
        leaders = [node for node in self.running if node.leads]
        return self.random.choice(leaders) if leaders and self.draw(*[True] * 7, False) else self.one()

    def tick(self) -> None:
        node = self.one()
        if node is not None and node.raft is not None and node.raft.deadline_ms < NEVER:
            self.say(f"tick {node.id}")

    def wait(self) -> None:
        if self.running:
            self.say(self.draw("wait 20", "wait 100", "wait 300", f"quietly wait {self.draw(500, 1200, 3000)}"))

    def later(self) -> None:
        self.say(f"later {self.draw(1, 300, 2500)}")

    def way(self) -> str:
        sender, to, *_ = self.random.choice(self.lecture.network)
        return f"{sender}->{to}"

    def deliver(self) -> None:
        if self.lecture.network:
            self.say(self.draw("deliver", f"deliver {self.way()}"))

    def drop(self) -> None:
        if self.lecture.network:
            self.say(f"drop {self.way()}")

    def append(self) -> None:
        node = self.leading()
        if node is not None:
            self.say(f"append {node.id} {self.random.choice('abc')}{len(self.said)}")

    def cut(self) -> None:
        a, b = self.random.choice(self.nodes).id, self.random.choice(self.nodes).id
        self.say(self.draw(f"isolate {a}", f"cut {a}->{b}", f"cut {a}->{b} {b}->{a}"))

    def heal(self) -> None:
        if self.lecture.lost:
            self.say("heal")

    def snapshot(self) -> None:
        node = self.one()
        if node is not None and node.applied > node.log.start_offset:
            self.say(f"snapshot {node.id}")

    def crash(self) -> None:
        node = self.one()
        if node is not None:
            self.say(f"crash {node.id}")
            if not self.is_static and self.draw(True, False, False, False):
                self.say(f"wipe {node.id}")

    def boot(self) -> None:
        down = [node for node in self.nodes if node.raft is None]
        if down:
            self.say(f"boot {self.random.choice(down).id}")

    def resign(self) -> None:
        node = self.leading()
        if node is not None:
            self.say(f"resign {node.id}")

    def hand_over(self) -> None:
        node = self.leading()
        if node is not None:
            self.say(f"handover {node.id} {self.random.choice(self.nodes).id} {self.draw(0, 50, 800, 'never')}")

    def take_back(self) -> None:
        node = self.leading()
        if node is not None:
            self.say(f"takeback {node.id}")

    def add(self) -> None:
        node = self.leading()
        if node is not None:
            others = [one.id for one in self.nodes if one.id not in node.quorum.ids] or [1]
            self.say(f"add {self.random.choice(others)} {node.id}")

    def remove(self) -> None:
        node = self.leading()
        if node is not None and node.quorum.kraft_version == DYNAMIC_VOTERS:
            self.say(f"remove {self.random.choice(self.nodes).id} {node.id}")

    def upgrade(self) -> None:
        node = self.leading()
        if node is not None:
            self.say(f"upgrade {node.id}")

    def describe(self) -> None:
        node = self.leading()
        if node is not None:
            self.say(f"describe {node.id}")

    def look(self) -> None:
        self.say(self.draw("roles", "logs", "voters", "leases"))


def main() -> None:
    write_histories("raft/drawn.txt", TITLE, lambda seed: QuorumHistory(seed).history())


if __name__ == "__main__":
    main()
