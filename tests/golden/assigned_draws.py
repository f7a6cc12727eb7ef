"""Draws what members of share and streams groups do: `python -m tests.golden.assigned_draws FIRST COUNT`.

The commands are written to `assigned_groups/…_drawn.txt`; `pytest tests/golden --rewrite` adds the answers.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.golden.assigned_lecture import AssignedLecture
from tests.golden.draws import Draw, write_histories

STEPS = 30
TITLE = "# Histories drawn by chance (`assigned_draws.py`)."
ERRORS = ("NOT_ENOUGH_REPLICAS", "NOT_LEADER_OR_FOLLOWER")


class AssignedHistory(Draw[AssignedLecture]):
    """Commands that make sense where the group stands, and some that do not."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, AssignedLecture())
        self.members: dict[str, str] = {}
        """How each joined."""

    @property
    def kinds(self) -> dict[Callable[[], None], int]:
        return {
            self.join: 6, self.beat: 22, self.leave: 3, self.grow: 2, self.advance: 6, self.hold: 2, self.end_hold: 3,
            self.keep: 2, self.come_back: 4, self.restart: 1, self.delete: 1, self.describe: 3,
        }  # fmt: skip

    def history(self) -> list[str]:
        self.begin()
        self.join()
        self.steps(STEPS, self.kinds)
        if self.lecture.bench.under_way:
            self.say("commit")
        while self.lecture.bench.errands:
            self.say("come-back")
        for member in self.members:
            self.say(f"beat {member} obeys")
        self.say("describe")
        return self.said

    def begin(self) -> None:
        raise NotImplementedError

    def join(self) -> None:
        raise NotImplementedError

    def beat(self) -> None:
        raise NotImplementedError

    def grow(self) -> None:
        raise NotImplementedError

    @property
    def limits(self) -> str:
        return f"interval={self.draw(0, 0, 1_000)} most={self.draw(2, 200, 200)}"

    @property
    def present(self) -> list[str]:
        """Those that the group knows, and now and then one that it does not."""
        group = self.lecture.group()
        known = [member for member in self.members if group is not None and member in group.state.members]
        return known if known and self.draw(*[True] * 14, False) else list(self.members)

    def leave(self) -> None:
        if self.members:
            self.say(f"leave {self.draw(*self.present)}")

    def advance(self) -> None:
        self.say(f"advance {self.draw(50, 300, 1_000, 12_000, 46_000)}")

    def hold(self) -> None:
        self.say("hold")

    def end_hold(self) -> None:
        if self.lecture.bench.under_way:
            self.say(self.draw("commit", "commit", f"fail {self.draw(*ERRORS)}"))

    def keep(self) -> None:
        self.say("keep")

    def come_back(self) -> None:
        if self.lecture.bench.errands:
            self.say(self.draw("come-back", "come-back", "come-back NETWORK_EXCEPTION"))

    def restart(self) -> None:
        self.say(self.draw("restart", "hand-over"))

    def delete(self) -> None:
        self.say("delete")

    def describe(self) -> None:
        self.say("describe")


class Shares(AssignedHistory):
    """Members of a share group, and what an operator does about its offsets."""

    @property
    def kinds(self) -> dict[Callable[[], None], int]:
        return super().kinds | {self.alter: 3, self.forget: 2, self.remove: 1, self.refuse: 2, self.accept: 3}

    def begin(self) -> None:
        self.say(f"share a={self.draw(1, 2, 4)} b={self.draw(1, 2)} {self.limits}")

    def join(self) -> None:
        member = self.draw("ann", "ben", "cid")
        self.members[member] = " ".join(self.random.sample("abc", self.draw(1, 1, 2)))
        self.say(f"join {member} {self.members[member]}")

    def beat(self) -> None:
        if self.members:
            words = self.draw(*[""] * 8, " epoch=1", f" subscribed={self.draw('a', 'b', 'a,b')}")
            self.say(f"beat {self.draw(*self.present)}{words}")

    def grow(self) -> None:
        self.say(f"grow {self.draw('a', 'b', 'c')} {self.draw(1, 2)}")

    def remove(self) -> None:
        topics = list(self.lecture.bench.image.topics)
        if topics:
            self.say(f"remove {self.draw(*topics)}")

    def alter(self) -> None:
        self.say(f"alter {self.draw('a', 'b', 'z')} {self.draw(0, 0, 1)} {self.draw(0, 5, 90)}")

    def forget(self) -> None:
        self.say(f"forget {self.draw('a', 'b', 'z')}")

    def refuse(self) -> None:
        self.say(f"refuse {self.draw('COORDINATOR_LOAD_IN_PROGRESS', 'FENCED_STATE_EPOCH', 'INVALID_REQUEST')}")

    def accept(self) -> None:
        self.say("accept")


class Streams(AssignedHistory):
    """Members of a streams group: instances, processes, racks, topologies, and what they say of their tasks."""

    def begin(self) -> None:
        delay, standbys = self.draw(0, 0, 3_000), self.draw(0, 0, 1)
        count = self.draw(1, 2, 4)
        self.say(f"streams words={count} {self.limits} delay={delay} standbys={standbys}")
        for name in ("by-word", "counts") if self.draw(*[True] * 4, False) else ():
            self.say(f"grow {name} {count}")

    def join(self) -> None:
        member = self.draw("ann", "ben", "cid", "dan")
        words = self.draw("", "", f" instance_id=i{self.draw(1, 2)}") + self.draw("", " process_id=p")
        words += self.draw(*[""] * 5, " topology=2") + self.draw("", "", " rack_id=east")
        self.members[member] = words
        self.say(f"join {member}{words}")

    def beat(self) -> None:
        if self.members:
            member = self.draw(*self.present)
            words = self.draw("", *[" obeys"] * 8, " epoch=1", " rack_id=west", " process_id=q")
            self.say(f"beat {member}{words}")

    def leave(self) -> None:
        if self.members:
            member = self.draw(*self.present)
            instance = next((word for word in self.members[member].split() if word.startswith("instance")), "")
            epoch = " epoch=-2" if instance and self.draw(True, True, False) else ""
            self.say(f"leave {member}{epoch} {instance}".rstrip())

    def grow(self) -> None:
        for name in self.draw(("words", "by-word", "counts"), ("words", "by-word", "counts"), ("words",), ("counts",)):
            self.say(f"grow {name} 1")


def main() -> None:
    write_histories("assigned_groups/share_drawn.txt", TITLE, lambda seed: Shares(seed).history())
    write_histories("assigned_groups/streams_drawn.txt", TITLE, lambda seed: Streams(seed).history())


if __name__ == "__main__":
    main()
