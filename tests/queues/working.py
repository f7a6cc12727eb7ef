"""A worker in a process of its own, step by step, and what workers have in common; with Python's library alone."""

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

JOB_BYTES: Final = 100
TREE: Final = Path(__file__).parents[2]


class Working:
    """`python -m tests.queues.<system>_worker`: it says a word, and goes on when it is told to."""

    def __init__(self, python: Path, system: str, *asked: object) -> None:
        """`asked`: the fields of `Asked`."""
        self._process = subprocess.Popen(
            [str(python), "-m", f"tests.queues.{system}_worker", *map(str, asked)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=TREE,
            env={**os.environ, "PYTHONPATH": f"{TREE}{os.pathsep}{TREE / 'src'}"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def says(self, word: str) -> str:
        """The rest of its line."""
        assert self._process.stdout is not None
        said, _, rest = self._process.stdout.readline().partition(" ")
        if said.strip() != word:
            raise RuntimeError(f"the worker ended, or said {said!r} and not {word!r}; its errors are above")
        return rest

    def goes_on(self, word: str) -> str:
        assert self._process.stdin is not None
        print("go on", file=self._process.stdin, flush=True)
        return self.says(word)


class Asked(NamedTuple):
    """Of a worker: first `rate` jobs a second for so many seconds, then `jobs` that wait. Neither to send all, nor to
    take all that was sent, may last longer than `limit_s`: a disk may need five minutes for what another does in ten
    seconds.
    """

    address: str
    jobs: int
    rate: int
    seconds: int
    limit_s: int


def asked() -> Asked:
    address, *numbers = sys.argv[1:]
    return Asked(address, *map(int, numbers))


class Limit:
    """Of time, from now on."""

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds

    @property
    def left_s(self) -> float:
        return max(0.0, self._ends - time.monotonic())


def say(word: str, rest: object = "") -> None:
    """And go on when that is heard."""
    print(word, rest, flush=True)
    sys.stdin.readline()


def say_late(late_ms: Sequence[float], sent: int) -> None:
    """What was not taken in time is late for ever."""
    say("late", json.dumps([*late_ms, *[math.inf] * (sent - len(late_ms))]))


def say_drained(count: int, seconds: float) -> None:
    print("drained", count, seconds, flush=True)


def job() -> bytes:
    """It has its time in it."""
    return b"%020d" % time.time_ns() + b"x" * (JOB_BYTES - 20)


def late_ms(taken: bytes) -> float:
    return (time.time_ns() - int(taken[:20])) / 1e6


def at_a_rate(rate: int, seconds: int) -> Iterator[float]:
    """How long to wait before each job, in seconds; 0 where it is late already."""
    begun = time.monotonic()
    for number in range(rate * seconds):
        yield max(0.0, begun + number / rate - time.monotonic())
