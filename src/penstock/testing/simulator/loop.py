"""An asyncio event loop on virtual time, on which several processes live and can be killed one by one.

Time stands still while a callback runs and jumps to the next timer when nothing is ready, so an hour of waiting costs
nothing. Which `Process` a callback belongs to is a context variable, which asyncio itself hands down from a task to all
that it starts. Callbacks of a process that is dead are dropped: from its point of view the world has ended. Those of a
process that is paused wait, and come all at once when it goes on.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import selectors
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any, NoReturn, cast

MAX_TURNS_AT_A_MOMENT = 100_000
EPOCH_MS = 1_700_000_000_000
"""The wall clock at the beginning of each simulation."""

_PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


class KilledError(BaseException):
    """Raised in a process that dies in the middle of what it does; nothing in it may catch this."""


class Process:
    """One process on one host: a node between start and crash, or a client."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.is_alive = True
        self.is_paused = False
        self.in_thread = False
        self.watch: Callable[[], None] | None = None
        """Called after each callback of this process."""
        self.context: Context = copy_context()
        self.context.run(_PROCESS.set, self)
        self._tasks: list[asyncio.Task[Any]] = []
        self._held: list[asyncio.Handle] = []

    def kill(self) -> None:
        """End the process: no callback of it runs any more."""
        self.is_alive = False
        self.watch = None
        self._held.clear()

    def pause(self) -> None:
        """Nothing of it runs until `go_on`; it does not notice."""
        self.is_paused = True

    def go_on(self, loop: VirtualLoop) -> None:
        """What was due meanwhile runs now, in that order."""
        self.is_paused = False
        held, self._held = self._held, []
        for handle in held:
            loop.add_ready(handle)

    def check_alive(self) -> None:
        """Raise KilledError in a process that is dead."""
        if not self.is_alive:
            raise KilledError(self.host)

    def spawn(self, loop: VirtualLoop, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine as this process; the task belongs to the process as well."""
        return self.context.run(loop.create_task, work)

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Refer to a task for as long as the process object lives, so that no memory is freed at a time by chance."""
        self._tasks.append(task)
        if len(self._tasks) > 1000:
            self._tasks = [task for task in self._tasks if not task.done()]

    def hold(self, handle: asyncio.Handle) -> None:
        """This is due while the process is paused."""
        self._held.append(handle)


def current_process() -> Process | None:
    """The process whose code runs now; None in the simulation's own."""
    return _PROCESS.get()


def _run(handle: _Handle | _TimerHandle, run: Callable[[], None]) -> None:
    """Call back, if there is still somebody."""
    process = handle.process
    if process is None:
        run()
    elif process.is_paused:
        process.hold(handle)
    elif process.is_alive:
        run()
        if process.watch is not None:
            process.watch()


class _Handle(asyncio.Handle):
    """A callback of a process."""

    __slots__ = ("process",)
    process: Process | None

    def _run(self) -> None:
        _run(self, super()._run)


class _TimerHandle(asyncio.TimerHandle):
    """A callback of a process, at a time; of several at one time the first that was asked for is the first."""

    __slots__ = ("number", "process")
    number: int
    process: Process | None

    def __lt__(self, other: object) -> bool:
        assert isinstance(other, _TimerHandle)
        return (self._when, self.number) < (other._when, other.number)  # type: ignore[attr-defined]  # typeshed lacks it

    def _run(self) -> None:
        _run(self, super()._run)


class _VirtualSelector(selectors.BaseSelector):
    """Instead of waiting for sockets it lets time pass."""

    def __init__(self) -> None:
        self.loop: VirtualLoop | None = None
        self._turns = 0

    def register(self, fileobj: object, events: int, data: object = None) -> NoReturn:
        raise AssertionError("a simulation has no real files to wait for")

    def unregister(self, fileobj: object) -> NoReturn:
        raise AssertionError("a simulation has no real files to wait for")

    def get_map(self) -> dict[Any, selectors.SelectorKey]:
        return {}

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("everybody waits and no timer is set")
        assert self.loop is not None
        self._turns = 0 if timeout > 0 else self._turns + 1
        if self._turns > MAX_TURNS_AT_A_MOMENT:
            raise RuntimeError("somebody keeps the loop busy and lets no time pass")
        self.loop.advance(max(timeout, 0))
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the module. `thread_delay_s(process)` says how long work in a thread takes."""

    def __init__(self, random: Random) -> None:
        self._now = 0.0
        self._numbers = itertools.count()
        self._random = random
        self.thread_delay_s: Callable[[Process | None], float] = lambda _: self._random.uniform(0.000_05, 0.01)
        self.failures: list[str] = []
        selector = _VirtualSelector()
        selector.loop = self
        super().__init__(selector)
        self.set_exception_handler(self._note_failure)
        self.set_task_factory(_make_task)

    def time(self) -> float:
        """Seconds since the simulation began."""
        return self._now

    def now_ms(self) -> int:
        """The wall clock."""
        return EPOCH_MS + int(self._now * 1000)

    def advance(self, seconds: float) -> None:
        """Let time pass without running anything: somebody holds the processor."""
        self._now += seconds

    # A loop without sockets needs no way to be woken from another thread.

    def _make_self_pipe(self) -> None:
        self._ssock = self._csock = None

    def _close_self_pipe(self) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    # Callbacks belong to processes. What asyncio does to enter them is done here, with handles of our own.

    def add_ready(self, handle: asyncio.Handle) -> None:
        """Run this as soon as what was entered before it has run."""
        self._ready: deque[asyncio.Handle]
        self._ready.append(handle)

    def call_soon(  # type: ignore[override]  # the arguments' types are of no use here
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Call back within the process whose context it is."""
        context = copy_context() if context is None else context
        handle = _Handle(callback, args, self, context)
        process = handle.process = context.get(_PROCESS)
        if process is None or process.is_alive:
            self.add_ready(handle)
        return handle

    def call_at(  # type: ignore[override]  # the same
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call back later, within the process whose context it is."""
        context = copy_context() if context is None else context
        handle = _TimerHandle(when, callback, args, self, context)
        handle.number = next(self._numbers)
        process = handle.process = context.get(_PROCESS)
        if process is None or process.is_alive:
            self._scheduled: list[asyncio.TimerHandle]
            heapq.heappush(self._scheduled, handle)
            cast("Any", handle)._scheduled = True
        return handle

    def run_in_executor(  # type: ignore[override]  # the same
        self, executor: object, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """A thread's work happens at one moment, between the call and its result."""
        future = self.create_future()
        process = current_process()
        delay_s = self.thread_delay_s(process)
        before_s = self._random.uniform(0, delay_s)
        self.call_later(before_s, self._work, process, future, delay_s - before_s, func, *args)
        return future

    def _work(
        self, process: Process | None, future: asyncio.Future[Any], after_s: float, func: Callable[..., Any], *args: Any
    ) -> None:
        if process is not None:
            process.in_thread = True
        try:
            result, error = func(*args), None
        except Exception as raised:
            result, error = None, raised
        finally:
            if process is not None:
                process.in_thread = False
        self.call_later(after_s, _finish, future, result, error)

    def _note_failure(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, KilledError) or "handle" not in context:
            return  # unhandled futures are told of when memory is freed, which is not the same in each run
        self.failures.append(f"{context.get('message')}: {error!r}")


def _finish(future: asyncio.Future[Any], result: object, error: Exception | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)


def _make_task(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
    task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **options)
    process = current_process()
    if process is not None:
        process.keep(task)
    return task
