"""What a worker keeps running: a task or a connector is brought to what it is to be, and started again when it fails.

UNASSIGNED --start--> RUNNING --(it raises)--> FAILED --(back-off, while restarts are left)--> RUNNING
                         |                        |
                         +----- (another goal) ---+--> PAUSED, STOPPED, or UNASSIGNED and so on

What runs ends before what is to run instead starts, and only if that is something else. It may hang in a plugin's code:
then it is left behind, and what it still reports is ignored.
"""

import asyncio
import logging
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

from penstock.client.errors import ConnectionFailedError
from penstock.client.providers import Resolved
from penstock.protocol.value import Value, fresh
from penstock.work.connect.calls import LONG_S, Calls
from penstock.work.connect.runtime.kinds import RELOAD, RESTARTS
from penstock.work.connect.runtime.records import Target
from penstock.work.connect.runtime.secret_values import Words, discretion

FIRST_RESTART_S: Final = 1.0
LONGEST_RESTART_S: Final = 60.0
WELL_AGAIN_S: Final = 600.0
"""After so long a run all restarts are available again. A cluster that cannot be reached costs none."""
logger = logging.getLogger(__name__)


class RunState(Enum):
    """PAUSED is to run later."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"
    RESTARTING = "RESTARTING"


class Goal(Value):
    """`restarts` counts the requested ones, `generation` the times that the tasks of its connector were new, where that
    ends those of the last one.
    """

    config: Mapping[str, str]
    target: Target
    restarts: int
    generation: int = 0


KEPT_FAILURES: Final = 5


class Attempt(Value):
    """Given to each run: it ends when `stopping` is set, and reports when it has `begun`. `written` is the
    configuration with its references, `failures` are the last ones before, the newest at the end, of `failed_runs`.
    """

    calls: Calls
    stopping: asyncio.Event
    begun: Callable[[], None]
    written: Mapping[str, str]
    failures: tuple[str, ...] = ()
    failed_runs: int = 0
    generation: int = 0
    lasts: Callable[[str], None] = lambda _: None
    """Told what goes on for long while it runs, and "" when that is over."""
    left: asyncio.Event = fresh(asyncio.Event)
    """Set when the worker waits for its end no longer, as another one may run what it runs."""
    discreet: Words = str
    """Gives words without the secrets of the configuration."""


class Runnable(Protocol):
    """`run` lasts until it is to stop, or raises."""

    async def run(self) -> None: ...


Running = TypeVar("Running", bound=Runnable)


class Supervisor(ABC, Generic[Running]):
    """Brings one task or connector to its goal.

    What is fenced belongs to another worker by now: nothing of it may be stored or told.
    """

    def __init__(self, name: str, patience_s: float) -> None:
        """`patience_s` is how long an orderly end may take (task.shutdown.graceful.timeout.ms)."""
        self.current: Running | None = None
        """What runs, or has failed and may be started again."""
        self.version: str | None = None
        """Of the plugin, when that is known."""
        self.is_fenced = False
        self._name = name
        self.patience_s = patience_s
        self._restarts = 0
        self._failures: deque[str] = deque(maxlen=KEPT_FAILURES)
        self._failed_runs = 0
        self._discreet: Words = str
        self._wanted: Goal | None = None
        self._is: Goal | None = None
        self._is_over = False
        self._news = asyncio.Event()
        self._state = RunState.UNASSIGNED
        self._stopping = asyncio.Event()
        self._left = asyncio.Event()
        self._life: asyncio.Task[None] | None = None
        self._supervising = asyncio.create_task(self._supervise(), name=f"supervisor of {name}")

    @abstractmethod
    def look_up(self, config: Mapping[str, str]) -> Resolved:
        """What its references stand for; called before each run, in a thread of its own."""

    @abstractmethod
    def make(self, config: Mapping[str, str], attempt: Attempt) -> Running:
        """The same, after that, with what was looked up."""

    @abstractmethod
    def tell(self, state: RunState, trace: str = "") -> None: ...

    def want(self, config: Mapping[str, str] | None, target: Target = Target.STARTED, generation: int = 0) -> None:
        """None: the goal is not known yet."""
        self._set_wanted(None if config is None else Goal(config, target, self._restarts, generation))

    def restart(self) -> None:
        self._restarts += 1
        self.tell(RunState.RESTARTING)
        if self._wanted is not None:
            self._set_wanted(self._wanted.replace(restarts=self._restarts))

    def _set_wanted(self, wanted: Goal | None) -> None:
        if wanted != self._wanted:
            self._wanted = wanted
            self._news.set()

    async def give_up(self, last: RunState | None = None) -> None:
        """End in good order, then report that state (None: report nothing)."""
        self._is_over = True
        self._news.set()
        await asyncio.wait([self._supervising])
        if last is not None:
            self.tell(last)

    def fence(self) -> None:
        """End at once: another worker may run it already."""
        self.is_fenced = True
        self._supervising.cancel()

    async def fenced(self) -> None:
        """Wait until the fenced run has ended, or is left behind."""
        await asyncio.wait([self._supervising])
        if self._life is not None:
            self._stopping.set()
            self._life.cancel()
            await asyncio.wait([self._life], timeout=self.patience_s)
            self._left.set()

    async def _supervise(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            if self._goal != self._is:
                await self._end()
                self._is = self._goal  # the goal may have changed meanwhile
                if self._is is not None:
                    self._begin(self._is)
            if self._is_over:
                return

    @property
    def _goal(self) -> Goal | None:
        return None if self._is_over else self._wanted

    def _begin(self, wanted: Goal) -> None:
        if wanted.target is not Target.STARTED:
            self.tell(RunState.PAUSED if wanted.target is Target.PAUSED else RunState.STOPPED)
            return
        self._state, self._stopping, self._left = RunState.UNASSIGNED, asyncio.Event(), asyncio.Event()
        self._life = asyncio.create_task(self._live(wanted, self._stopping, self._left), name=self._name)

    async def _end(self) -> None:
        if self._life is None:
            return
        self.current = None
        self._stopping.set()
        done, _ = await asyncio.wait([self._life], timeout=self.patience_s)
        if not done:
            logger.warning("%s did not end in time, and is left behind", self._name)
            self._left.set()
            self._life.cancel()
        self._life = None

    # One life, from a start to a stop

    async def _live(self, wanted: Goal, stopping: asyncio.Event, left: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        failures, pause_s = 0, FIRST_RESTART_S
        while not stopping.is_set():
            began = loop.time()
            try:
                await self._run(wanted, stopping, left)
                return
            except Exception as error:
                if loop.time() - began >= WELL_AGAIN_S:
                    failures, pause_s = 0, FIRST_RESTART_S
                failures += not isinstance(error, ConnectionFailedError)
                is_over = failures > _most_restarts(wanted.config)
                how = "it is not started again" if is_over else f"it is started again in {pause_s:g} s"
                self._failures.append(f"{type(error).__name__}: {error}")
                self._failed_runs += 1
                trace = "".join(traceback.format_exception(error))
                self._say(stopping, RunState.FAILED, f"{type(error).__name__}: {error}; {how}\n{trace}")
                if is_over:
                    return
            await pause(stopping, pause_s)
            pause_s = min(2 * pause_s, LONGEST_RESTART_S)

    async def _run(self, wanted: Goal, stopping: asyncio.Event, left: asyncio.Event) -> None:
        calls = Calls(self._name, partial(self._say_what_lasts, stopping))
        begun, failures = (lambda: self._say_it_runs(stopping)), tuple(self._failures)
        config = wanted.config
        lasts = partial(self._say_of_it, stopping)
        again: asyncio.TimerHandle | None = None
        try:
            await self._keep_quiet_of(Resolved(config), calls, stopping)
            resolved: Resolved = await calls.call(self.look_up, config)
            discreet = await self._keep_quiet_of(resolved, calls, stopping)
            reload = RELOAD.parse(resolved.config.get(RELOAD.name))
            if resolved.good_for_ms is not None and reload == RELOAD.default:
                again = asyncio.get_running_loop().call_later(resolved.good_for_ms / 1000, self._begin_again, stopping)
            attempt = Attempt(
                *(calls, stopping, begun, config, failures, self._failed_runs, wanted.generation),
                lasts=lasts,
                left=left,
                discreet=discreet,
            )
            made = await calls.call(self.make, resolved.config, attempt)
            if not stopping.is_set():
                self.current = made
                await made.run()
        finally:
            if again is not None:
                again.cancel()
            calls.close()

    async def _keep_quiet_of(self, resolved: Resolved, calls: Calls, stopping: asyncio.Event) -> Words:
        """What was looked up is told by its references, and what is secret not at all, from now on."""
        discreet: Words = await calls.call(discretion, resolved)
        if stopping is self._stopping:
            self._discreet = discreet
        return discreet

    def _begin_again(self, stopping: asyncio.Event) -> None:
        """What was looked up for this run is good no longer (config.action.reload)."""
        if self._life is not None and stopping is self._stopping:
            self.restart()

    def _say_it_runs(self, stopping: asyncio.Event) -> None:
        """Not as it ends: a status that was taken away with its task would come back for good."""
        if not stopping.is_set():
            self._say(stopping, RunState.RUNNING)

    def _say_what_lasts(self, stopping: asyncio.Event, method: str) -> None:
        self._say_of_it(stopping, f"{method} has not returned for {LONG_S:g} s" if method else "")

    def _say_of_it(self, stopping: asyncio.Event, trace: str) -> None:
        self._say(stopping, self._state, trace)

    def _say(self, stopping: asyncio.Event, state: RunState, trace: str = "") -> None:
        """Ignored from a run, known by its `stopping`, that is over or left behind."""
        if self._life is not None and stopping is self._stopping:
            self._state = state
            self.tell(state, self._discreet(trace))


def _most_restarts(config: Mapping[str, str]) -> int:
    try:
        most: int = RESTARTS.parse(config.get(RESTARTS.name))
        return most
    except ValueError:
        return 0


async def pause(stopping: asyncio.Event, seconds: float) -> None:
    """Ends early when `stopping` is set."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stopping.wait()
