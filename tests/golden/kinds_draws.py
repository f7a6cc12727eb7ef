"""Draws what is asked of one group of changing kinds: `python -m tests.golden.kinds_draws FIRST COUNT`.

The commands are written to `kinds_drawn.txt`; `pytest tests/golden --rewrite` adds the answers.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.golden.draws import Draw, write_histories
from tests.golden.kinds_lecture import KindsLecture
from tests.golden.test_kinds_and_requests import REQUESTS

STEPS = 40
TITLE = "# Histories drawn by chance (`kinds_draws.py`): one group, of all kinds, with offsets and transactions."


class KindsHistory(Draw[KindsLecture]):
    """Requests of all kinds, those of the kind that is there more often."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, KindsLecture())

    def history(self) -> list[str]:
        self.say("anew")
        kinds: dict[Callable[[], None], int] = {
            self.ask: 30, self.ask_alike: 24, self.end: 4, self.hold: 4, self.go_on: 8, self.advance: 6, self.gone: 1,
            self.promised: 4, self.restart: 2, self.hand_over: 3,
        }  # fmt: skip
        self.steps(STEPS, kinds)
        self.say("commit")
        self.say("hand-over")
        return self.said

    def ask(self) -> None:
        self.say(f"ask {self.random.choice('nm~~')} {self.random.choice(list(REQUESTS))}")

    def ask_alike(self) -> None:
        words = {
            "classic": ("join", "join again", "sync", "heartbeat", "leave", "commit 1"),
            "nothing": ("join", "commit"),
        }
        usual = [name for name in REQUESTS if name.startswith(self.lecture.kind)]
        request = self.random.choice(words.get(self.lecture.kind, usual or ["pending"]))
        self.say(f"ask {'~' if self.lecture.kind in words else self.random.choice('nn~')} {request}")

    def end(self) -> None:
        if self.random.random() < 0.7:
            self.say("ask m pending")
        if self.random.random() < 0.3:
            self.restart()
        self.say(f"ends {self.random.choice(['commit', 'commit', 'abort'])}")

    def hold(self) -> None:
        self.say("hold")

    def go_on(self) -> None:
        if self.lecture.bench.under_way:
            self.say(self.random.choice(["commit", "commit", "fail NOT_ENOUGH_REPLICAS"]))

    def advance(self) -> None:
        self.say(f"advance {self.random.choice([10, 3_000, 12_000, 46_000, 700_000_000])}")

    def promised(self) -> None:
        self.say("promised")

    def gone(self) -> None:
        self.say("gone")

    def restart(self) -> None:
        self.say("restart")

    def hand_over(self) -> None:
        self.say("hand-over")


def main() -> None:
    write_histories("kinds_drawn.txt", TITLE, lambda seed: KindsHistory(seed).history())


if __name__ == "__main__":
    main()
