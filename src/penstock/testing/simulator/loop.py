"""An asyncio event loop on virtual time, on which several processes live and can be killed one by one.

Time stands still while a callback runs and jumps to the next timer when nothing is ready, so an hour of waiting costs
nothing. Which `Process` a callback belongs to is a context variable, which asyncio itself hands down from a task to all
that it starts. Callbacks of a process that is dead are dropped: from its point of view the world has ended. Those of a
process that is paused wait, and come all at once when it goes on.
"""

from __future__ import annotations

import asyncio
import heapq
import inspect
import itertools
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from random import Random
from typing import Any

MAX_TURNS_AT_A_MOMENT = 100_000
MAX_CANCELLED = 200
"""How many cancelled timers may be kept."""
EPOCH_MS = 1_700_000_000_000
"""The wall clock at the beginning of each simulation."""

_PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


class KilledError(BaseException):
    """Raised in a process that dies in the middle of its work; the process must not catch it."""


@dataclass(slots=True)
class Clock:
    """The rate stays for ever; the wall clock's error may change."""

    rate: float = 1.0
    wrong_by_ms: int = 0


class Process:
    """One process on one host: a node between start and crash, or a client."""

    def __init__(self, host: str, clock: Clock | None = None) -> None:
        self.host = host
        self.clock = clock or Clock()
        self.is_alive = True
        self.is_paused = False
        self.in_thread = False
        self.watch: Callable[[], None] | None = None
        """Called after each callback of this process."""
        self.context: Context = copy_context()
        self.context.run(_PROCESS.set, self)
        self._tasks: list[asyncio.Task[Any]] = []
        self._held: list[_Handle | _TimerHandle] = []

    def kill(self) -> None:
        """No callback of the process runs any more."""
        self.is_alive = False
        self.watch = None
        self._held.clear()
        for task in self._tasks:
            _end_unbegun(task)

    def pause(self) -> None:
        """No callback runs until `go_on`; the process does not notice."""
        self.is_paused = True

    def go_on(self, loop: VirtualLoop) -> None:
        """What was due meanwhile runs now, in that order."""
        self.is_paused = False
        held, self._held = self._held, []
        for handle in held:
            loop.add_ready(handle)

    def check_alive(self) -> None:
        """Raises KilledError in a dead process."""
        if not self.is_alive:
            raise KilledError(self.host)

    def spawn(self, loop: VirtualLoop, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """The coroutine and its task belong to the process."""
        return self.context.run(loop.create_task, work)

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Keeps a reference for as long as the process object lives, so that no memory is freed at a time by chance."""
        if not self.is_alive:
            _end_unbegun(task)
        self._tasks.append(task)
        if len(self._tasks) > 1000:
            self._tasks = [task for task in self._tasks if not task.done()]

    def hold(self, handle: _Handle | _TimerHandle) -> None:
        self._held.append(handle)


def _end_unbegun(task: asyncio.Task[Any]) -> None:
    """Of work that has not had its first turn, and never will, Python warns when its memory is freed."""
    work = task.get_coro()
    if inspect.iscoroutine(work) and inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
        work.close()


def current_process() -> Process | None:
    """None in the simulation's own code."""
    return _PROCESS.get()


class _Handle(asyncio.Handle):
    __slots__ = ("process",)
    process: Process | None

    def __init__(
        self, callback: Callable[..., object], args: Sequence[Any], loop: VirtualLoop, context: Context
    ) -> None:
        _begin(self, callback, args, loop, context)


class _TimerHandle(asyncio.TimerHandle):
    __slots__ = ("process",)
    process: Process | None

    def __init__(
        self, when: float, callback: Callable[..., object], args: Sequence[Any], loop: VirtualLoop, context: Context
    ) -> None:
        _begin(self, callback, args, loop, context)
        self._when = when
        self._scheduled = False


def _begin(
    handle: Any, callback: Callable[..., object], args: Sequence[Any], loop: VirtualLoop, context: Context
) -> None:
    """Sets what asyncio does, but for what it keeps for debugging: there are many handles."""
    handle._context, handle._loop, handle._callback, handle._args = context, loop, callback, args
    handle._cancelled = False
    handle._repr = handle._source_traceback = None
    handle.process = context.get(_PROCESS)


class VirtualLoop(asyncio.BaseEventLoop):
    """`thread_delay_s(process)` says how long work in a thread takes.

    `moment` is the true time in seconds since the simulation began; a process sees its host's clock.
    """

    def __init__(self, random: Random) -> None:
        super().__init__()
        self.moment = 0.0
        self._turns = 0
        self._numbers = itertools.count()
        self._random = random
        self.thread_delay_s: Callable[[Process | None], float] = lambda _: self._random.uniform(0.000_05, 0.01)
        self.failures: list[str] = []
        self._timers: list[tuple[float, int, _TimerHandle]] = []
        """Timers of one moment run in the order in which they were set."""
        self._cancelled = 0
        self._ready: deque[_Handle | _TimerHandle]
        self.set_exception_handler(self._note_failure)
        self.set_task_factory(_make_task)

    def time(self) -> float:
        """Seconds since the simulation began, by the clock of the calling process."""
        process = _PROCESS.get()
        return self.moment if process is None else self.moment * process.clock.rate

    def now_ms(self) -> int:
        """The true wall clock."""
        return EPOCH_MS + int(self.moment * 1000)

    def advance(self, seconds: float) -> None:
        """Time passes without running anything, as if a callback held the processor."""
        self.moment += seconds

    # asyncio's sockets, locks and threads are of no use here.

    def _run_once(self) -> None:
        """Turn by turn, until the loop is told to stop. Callbacks of dead processes do not run."""
        ready = self._ready
        while True:
            self._begin_turn()
            for _ in range(len(ready)):
                handle = ready.popleft()
                if handle._cancelled:
                    continue
                process = handle.process
                if process is None:
                    handle._run()
                elif process.is_paused:
                    process.hold(handle)
                elif process.is_alive:
                    handle._run()
                    if process.watch is not None:
                        process.watch()
            if self._stopping:  # type: ignore[attr-defined]  # typeshed lacks it
                return

    def _begin_turn(self) -> None:
        """What is due is ready; if nothing is, time passes."""
        ready, timers = self._ready, self._timers
        self._turns += 1
        if not ready and not self._stopping:  # type: ignore[attr-defined]  # the same
            self._let_time_pass()
        if self._turns > MAX_TURNS_AT_A_MOMENT:
            raise RuntimeError("somebody keeps the loop busy and lets no time pass")
        while timers and timers[0][0] <= self.moment:
            ready.append(heapq.heappop(timers)[2])

    def _let_time_pass(self) -> None:
        """To the next timer."""
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
            self._cancelled -= 1
        if not timers:
            raise RuntimeError("everybody waits and no timer is set")
        if timers[0][0] > self.moment:
            self.moment = timers[0][0]
            self._turns = 0

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self._cancelled += 1
        if self._cancelled > MAX_CANCELLED and 2 * self._cancelled > len(self._timers):
            self._timers[:] = [timer for timer in self._timers if not timer[2].cancelled()]
            heapq.heapify(self._timers)
            self._cancelled = 0

    def _write_to_self(self) -> None:
        pass

    # Callbacks belong to processes. What asyncio does to enter them is done here, with handles of our own.

    def add_ready(self, handle: _Handle | _TimerHandle) -> None:
        """In the order of the calls."""
        self._ready.append(handle)

    def call_soon(  # type: ignore[override]  # the arguments' types are of no use here
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """In the process whose context it is."""
        context = copy_context() if context is None else context
        handle = _Handle(callback, args, self, context)
        process = handle.process
        if process is None or process.is_alive:
            self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # there are no threads

    def call_later(  # type: ignore[override]  # the same
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """In the process whose context it is; `delay` is by the caller's clock."""
        process = _PROCESS.get()
        rate = 1.0 if process is None else process.clock.rate
        return self.call_at_moment((self.moment * rate + delay) / rate, callback, *args, context=context)

    def call_at(  # type: ignore[override]  # the same
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """In the process whose context it is; `when` is by the caller's clock."""
        process = _PROCESS.get()
        moment = when if process is None else when / process.clock.rate
        return self.call_at_moment(moment, callback, *args, context=context)

    def call_at_moment(
        self, moment: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """At this moment of the true time."""
        context = copy_context() if context is None else context
        handle = _TimerHandle(moment, callback, args, self, context)
        process = handle.process
        if process is None or process.is_alive:
            heapq.heappush(self._timers, (moment, next(self._numbers), handle))
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
