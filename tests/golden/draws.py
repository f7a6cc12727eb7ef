"""What histories that are drawn by chance have in common."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any, Generic, Protocol, TypeVar


class Lecture(Protocol):
    def handle(self, line: str, /) -> Iterable[object]: ...


L = TypeVar("L", bound=Lecture)


class Draw(Generic[L]):
    """Commands that make sense where the machine of a lecture stands, and some that do not: `said`."""

    def __init__(self, seed: int, lecture: L) -> None:
        self.random = Random(seed)
        self.lecture = lecture
        self.said: list[str] = []

    def say(self, command: str) -> list[str]:
        answers = [str(it) for it in self.lecture.handle(command)]
        self.said.append(command)
        return answers

    def draw(self, *options: Any) -> Any:
        return self.random.choice(options)

    def steps(self, count: int, kinds: dict[Callable[[], None], int]) -> None:
        """So many, each as often as it says beside the others."""
        for _ in range(count):
            self.random.choices(list(kinds), list(kinds.values()))[0]()


def write_histories(place: str, title: str, history: Callable[[int], list[str]]) -> None:
    """Those of the seeds FIRST and on, COUNT of them, as the command line says, to a transcript without answers."""
    first, count = map(int, sys.argv[1:3])
    histories = [f"# {seed}\n" + "\n".join(history(seed)) + "\n----" for seed in range(first, first + count)]
    (Path(__file__).parent / place).write_text("\n\n".join([title, *histories]) + "\n")
