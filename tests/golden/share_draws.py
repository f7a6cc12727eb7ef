"""Draws what members of a share partition do, as another transcript: `python -m tests.golden.share_draws FIRST COUNT`.

Each history has its own settings and what the leader before it left, all by chance. Its commands are written to
`share_partitions/drawn.txt`; `pytest tests/golden --rewrite` adds the answers.
"""

import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.golden.draws import Draw
from tests.golden.share_lecture import ShareLecture, shown

from penstock.sharing.in_flight import RecordState
from penstock.sharing.ordered import OrderedPartition

STEPS = 30
MEMBERS = ("ann", "bob")
MOST_IN_FLIGHT = 14
TITLE = "# Histories drawn by chance (`share_draws.py`): what is in flight, after all that members do."


class ShareHistory(Draw[ShareLecture]):
    """Commands that make sense where the partition stands, and some that do not."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, ShareLecture())
        self.log: list[tuple[int, int]] = []
        self.end = 0
        self.offset = 0
        self.writes: list[tuple[int, str, str]] = []
        """Their numbers, and what their member gets then, where that is a delivery."""

    def say(self, command: str) -> list[str]:
        answers = super().say(command)
        for answer in answers:
            if answer.startswith("write "):
                self.writes.append((int(answer.split()[1]), "", ""))
        return answers

    def history(self) -> list[str]:
        self.begin()
        kinds = {self.take: 9, self.speak: 9, self.answer: 8, self.wait: 4, self.read: 5, self.leave: 1}
        kinds[self.bury] = 8 if self.dies else 3
        rare = {self.cut: 1, self.compact: 1, self.configure: 1}
        for _ in range(STEPS):
            kind = self.random.choices([*kinds, *rare], [*kinds.values(), *rare.values()])[0]
            before = len(self.said)
            kind()
            if len(self.said) > before:
                self.say("all")
        return self.said

    def begin(self) -> None:
        draw = self.random.choice
        self.dies = dies = self.random.random() < 0.3
        self.options = options = {
            "lock": draw([1000, 3000]),
            "limit": draw([1, 2]) if dies else draw([2, 3, 5]),
            "locks": draw([6, MOST_IN_FLIGHT]),
            "backoff": draw([0, 0, 400]),
            "longest": 500,
            "renew": draw(["yes", "yes", "no"]),
            "durable": draw(["no", "no", "yes"]),
            "dead": "yes" if dies else draw(["no", "yes"]),
            "rate": draw([1, 2, 20]) if dies else -1,
            "order": draw(["key", "none"]),
        }
        self.end = draw([0, 3])
        start, batches = self.end, []
        for _ in range(draw([0, 0, 2, 3])):
            begin = self.end + draw([0, 0, 1, 2])
            self.end = begin + draw([1, 2, 3])
            state, held = draw(["available", "available", "acknowledged", "archived", "archiving"]), draw([0, 0, 700])
            batches.append(f"{shown(begin, self.end - 1)}:{state}:{draw([1, 2])}" + (f":{held}" if held else ""))
        if self.end > start:
            self.log.append((start, self.end - 1))
        self.say(f"partition {start} {' '.join(batches)} {_words(options)}")

    def configure(self) -> None:
        """The group has other settings."""
        self.options |= {"lock": self.random.choice([200, 3000]), "backoff": self.random.choice([0, 400])}
        self.say(f"configure {_words(self.options)}")

    @property
    def member(self) -> str:
        return self.random.choice(MEMBERS)

    def append(self) -> None:
        count = self.random.choice([1, 2, 3, 5])
        self.log.append((self.end, self.end + count - 1))
        self.end += count

    def take(self) -> None:
        self.offset = self.lecture.partition.next_fetch_offset if self.random.random() < 0.85 else self.offset
        offset = self.offset  # of one that has waited for what it reads it may be where others have read since
        if self.random.random() < 0.6:
            self.append()
        batches = [it for it in self.log if it[1] >= offset][: self.random.choice([1, 2, 3])]
        if not batches:
            return
        limits = f"from={offset} max={self.random.choice([1, 2, 4, 500])} size={self.random.choice([1, 2, 3, 500])}"
        exactly = " exactly" if self.random.random() < 0.4 else ""
        aborted = f" aborted={shown(*self.random.choice(batches))}" if self.random.random() < 0.08 else ""
        member = self.member
        known = len(self.writes)
        answers = self.say(f"{member} takes {' '.join(shown(*it) for it in batches)} {limits}{exactly}{aborted}")
        if len(self.writes) > known:
            self.writes[-1] = (self.writes[-1][0], member, answers[0].partition(" has ")[2])

    def speak(self) -> None:
        runs = [it for it in self.lecture.partition.flight.runs() if it.state is RecordState.ACQUIRED]
        if not runs:
            return
        run = self.random.choice(runs)
        first = self.random.choice([run.first, run.first, run.last])
        last = self.random.choice([run.last, run.last, first, run.last + 1])
        member = run.member if self.random.random() < 0.9 else self.member
        kinds = [self.random.choice([3, 3, 1] if self.dies else [1, 1, 2, 2, 3, 4, 0]) for _ in range(first, last + 1)]
        types = ",".join(map(str, kinds if self.random.random() < 0.6 else kinds[:1]))
        delays = self.random.choice(["", "", " delays=300", " delays=0"])
        self.say(f"{member} says {shown(first, last)}:{types}{delays}")

    def answer(self) -> None:
        if not self.writes:
            return
        number, member, given = self.writes.pop(0)
        is_written = self.random.random() < 0.75
        self.say(f"{'written' if is_written else 'lost'} {number}")
        for count, same in groupby((it.rpartition("*") for it in given.split()), key=lambda it: it[2]):
            self.say(f"{member} gets {' '.join(it[0] for it in same)} count={count}")

    def wait(self) -> None:
        self.say(f"at {self.lecture.now_ms + self.random.choice([-300, 10, 400, 1000, 3000, 40000])}")
        self.say("locks")

    def bury(self) -> None:
        self.say("buried" if self.lecture.letters else "letters")

    def read(self) -> None:
        partition = self.lecture.partition
        if not isinstance(partition, OrderedPartition) or not partition.wants_keys:
            return
        if self.random.random() < 0.6:
            self.append()
        batches = [it for it in self.log if it[1] >= partition.keyed_to][: self.random.choice([1, 2, 3])]
        if batches:
            keys = [(shown(a, b), ",".join(self.random.choice("aabc-.") for _ in range(a, b + 1))) for a, b in batches]
            self.say(f"keys {' '.join(f'{records}:{of}' for records, of in keys)}")

    def leave(self) -> None:
        self.say(f"{self.member} leaves")

    def cut(self) -> None:
        if self.log:
            first, last = self.log[0]
            begin = self.random.choice([first, last + 1, last])
            self.log = [it for it in self.log if it[1] >= begin]
            self.say(f"log {begin}")

    def compact(self) -> None:
        if len(self.log) > 2:
            del self.log[self.random.randrange(len(self.log) - 1)]


def _words(options: dict[str, Any]) -> str:
    return " ".join(f"{key}={it}" for key, it in options.items())


def blocks(seeds: range) -> Iterator[str]:
    for seed in seeds:
        commands = "\n".join(ShareHistory(seed).history())
        yield f"# {seed}\n{commands}\n----\n"


def main() -> None:
    first, count = map(int, sys.argv[1:3])
    path = Path(__file__).parent / "share_partitions" / "drawn.txt"
    path.write_text("\n\n".join([TITLE, *blocks(range(first, first + count))]))


if __name__ == "__main__":
    main()
