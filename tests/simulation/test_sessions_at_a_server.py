"""Workers that die at any moment, with queries at a server of Spark Connect: none takes over from a later one.

The server is played: it opens a session when something is asked in it, never again after it was closed, and runs one
query for a checkpoint, the one that was begun last. What a worker has sent, to the server or to be stored, may arrive
long after its death.
"""

import asyncio
import json
import math
import random
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from penstock.client.errors import ConnectionFailedError
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jobs import at_server
from penstock.pipeline.jobs.at_server import Fence
from penstock.pipeline.jobs.report import JobReport
from penstock.work.connect.api import Changes, Position, SourceContext
from penstock.work.connect.runtime.generations import FencedError

STEPS, SEEDS = 60, 30
SERVER = "sc://a:1"
SINKS = ("one", "two")


class KilledError(Exception):
    pass


class World:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.wrong: list[str] = []
        self.generation, self.turn = 0, 0
        """The group counts its generations anew where it was forgotten, turns of the task are counted for all time."""
        self._stored: dict[str, tuple[Position, Position]] = {}
        self._late: list[Changes] = []
        self._open, self._closed = set[str](), set[str]()
        self._active: str | None = None
        self._turns: dict[str, int] = {}
        self._newest = 0
        self._on_the_way: list[str] = []
        self._holder: tuple[Fence, JobReport] | None = None
        self.is_unanswered = False

    # The server

    def ask_in(self, session: str) -> bool:
        if session not in self._closed:
            self._open.add(session)
        return session in self._open

    def close(self, session: str) -> None:
        self.ask_in(session)
        self._open.discard(session)
        self._closed.add(session)
        if self._active == session:
            self._active = None

    def _begin_query(self, session: str) -> None:
        if self.ask_in(session):
            self._active = session
            turn = self._turns[session]
            if turn < self._newest:
                self.wrong.append(f"turn {turn} takes over from {self._newest}")
            self._newest = max(self._newest, turn)

    def restart_server(self) -> None:
        """Its connections are gone with it."""
        self._open, self._closed, self._active, self._on_the_way = set(), set(), None, []

    # Workers

    def die_perhaps(self) -> None:
        if self.chance.random() < 0.15:
            raise KilledError

    def context(self, generation: int, *, is_over: bool = False) -> SourceContext:
        """`is_over`: the worker stood still since it has read what is stored, and its time is over."""
        read = list(self._stored.values())

        async def store(offsets: Changes) -> None:
            self.die_perhaps()
            if is_over:
                raise FencedError
            if self.chance.random() < 0.25:  # it stands still behind its look at the clock
                self._late.append(offsets)
                raise KilledError
            self.write(offsets)
            self.die_perhaps()

        answers = count(10**9)
        return SourceContext(
            lambda _: None,
            lambda: -math.inf if is_over else next(answers),
            all_stored=lambda: read,
            store=store,
            generation=generation,
        )

    def forget_stored(self) -> None:
        self._stored = {}

    def write(self, offsets: Changes) -> None:
        for partition, offset in offsets:
            if offset is None:
                self._stored.pop(json.dumps(partition), None)
            else:
                self._stored[json.dumps(partition)] = partition, offset

    async def begin(self) -> None:
        """Of a next generation, or of the same one again; who has had the task before is dead."""
        before = self.generation
        if self.chance.random() < 0.1:
            self.generation = 0  # nobody was in the group, and it is forgotten
        is_next = self.chance.random() < 0.7 or self.generation == 0
        self.generation, self.turn = self.generation + is_next, self.turn + is_next
        stale = self.context(before, is_over=True) if is_next and before else None
        fence, report = Fence(SINKS, self.context(self.generation), SERVER), JobReport(SINKS)
        try:
            await fence.begin(report)
            self.die_perhaps()
            assert fence.session is not None
            self.send(fence.session.session)
        except PipelineError as error:
            self.wrong.append(f"who has the task cannot begin: {error}")
        except (KilledError, ConnectionFailedError):
            self._holder = None
        else:
            self._holder = fence, report
        if stale is not None and self.chance.random() < 0.3:
            with suppress(FencedError, KilledError, PipelineError):
                await Fence(SINKS, stale, SERVER).begin(JobReport(SINKS))

    def send(self, session: str) -> None:
        self._turns[session] = self.turn
        if self.chance.random() < 0.6:
            self._begin_query(session)
        else:
            self._on_the_way.append(session)

    def arrive(self) -> None:
        if self._on_the_way:
            self._begin_query(self._on_the_way.pop(self.chance.randrange(len(self._on_the_way))))

    async def stop(self) -> None:
        """In good order, but for the process that watches, which may be killed: its time is over."""
        if self._holder is None:
            return
        (fence, report), self._holder = self._holder, None
        assert fence.session is not None
        session, self.is_unanswered = fence.session.session, False
        if self.chance.random() < 0.5:
            self.close(session)
            report.event({"event": "closed", "session": session})
        try:
            await fence.end(report)
        except KilledError:
            return
        self.arrive()
        if self._active == session and not self.is_unanswered:
            self.wrong.append("a query goes on though its task has stopped")

    async def run(self) -> list[str]:
        for _ in range(STEPS):
            if self._late and self.chance.random() < 0.3:
                self.write(self._late.pop(0))
            await self.chance.choice((self.begin, self.begin, self.stop, self._server_goes_on))()
        return self.wrong

    async def _server_goes_on(self) -> None:
        if self.chance.random() < 0.1:
            self.restart_server()
        self.arrive()


class PlayedCloser:
    """Closes, unless it or its worker dies."""

    world: World
    is_alive = False

    def __init__(self, _: object, given: str, __: object, report: JobReport) -> None:
        for _, session in json.loads(given):
            if self.world.chance.random() < 0.1:
                self.world.is_unanswered = True
                return
            self.world.close(session)
            report.event({"event": "closed", "session": session})

    def kill(self) -> None:
        self.world.die_perhaps()

    async def last_words(self) -> None: ...


def simulate(seed: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    world = World(seed)
    monkeypatch.setattr(PlayedCloser, "world", world, raising=False)
    monkeypatch.setattr(at_server, "GuardedProcess", PlayedCloser)
    return asyncio.run(world.run())


def all_wrong(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    return [wrong for seed in range(SEEDS) for wrong in simulate(seed, monkeypatch)]


def test_no_query_takes_over_from_a_later_one_and_none_outlives_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all_wrong(monkeypatch) == []


async def nothing(*_: Any) -> None: ...


def replaces_all(world: World, offsets: Changes, write: Callable[..., None] = World.write) -> None:
    """As a list of all sessions would."""
    world.forget_stored()
    write(world, offsets)


async def refuses(*_: Any) -> None:
    raise PipelineError("there is a later generation")


@pytest.mark.parametrize(
    ("of", "name", "bug", "wrong"),
    [
        (Fence, "_close", nothing, "takes over from"),
        (SourceContext, "store", nothing, "takes over from"),
        (World, "write", replaces_all, "takes over from"),
        (Fence, "_until_asked", refuses, "who has the task cannot begin"),
        (Fence, "end", nothing, "goes on though its task has stopped"),
        (World, "ask_in", lambda self, session: self._open.add(session) or True, "takes over from"),
    ],
)
def test_planted_bugs_are_found(
    monkeypatch: pytest.MonkeyPatch, of: type, name: str, bug: Callable[..., Any], wrong: str
) -> None:
    monkeypatch.setattr(of, name, bug)
    assert any(wrong in one for one in all_wrong(monkeypatch))
