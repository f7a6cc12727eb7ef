"""The transcript of the generations of a source's tasks."""

import asyncio
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.golden.transcript import play
from tests.unit.work.connect.runtime.test_generations import Group

from penstock.client.errors import ConnectionFailedError
from penstock.work.connect.runtime.generations import FencedError
from penstock.work.connect.runtime.records import CONNECTOR

PATH = Path(__file__).with_name("source_generations.txt")


class Lecture:
    def __init__(self) -> None:
        self.group = Group()

    def handle(self, line: str) -> Iterator[str]:
        command, *words = line.split()
        match command, words:
            case "commit", [name, count]:
                self.group.commit(name, int(count))
                yield f"generation {self.group.generations.of(name)} of {name}"
            case "delete", [name]:
                self.group.take(f"{CONNECTOR}{name}", None)
            case "fail", []:
                self.group.admin.failures = 1
            case "round", [name]:
                yield from self._round(name)
            case "begins", [name]:
                yield "its tasks wait" if name in self.group.state.unfenced else "its tasks begin"
            case "goes-on", [name, generation]:
                yield from self._goes_on(name, int(generation))

    def _round(self, name: str) -> Iterator[str]:
        admin = self.group.admin
        admin.fenced.clear()
        try:
            asyncio.run(self.group.fencing._round(name))
        except ConnectionFailedError as error:
            yield f"cannot be fenced: {error}"
            return
        yield from (f"fenced {transactional_id}" for transactional_id in admin.fenced)
        yield f"written down: {self.group.state.task_counts[name]}"

    def _goes_on(self, name: str, generation: int) -> Iterator[str]:
        try:
            asyncio.run(self.group.generations.verify(name, generation, lambda: math.inf))
        except FencedError as error:
            yield f"ends: {error}"
        else:
            yield "goes on"


def test_source_generations(request: pytest.FixtureRequest) -> None:
    play(PATH, Lecture().handle, rewrite=request.config.getoption("--rewrite"))
