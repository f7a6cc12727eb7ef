"""Long answers in slices: whoever asks for much waits for it, and nobody else does.

A long answer is a generator. Between two steps of at most half a millisecond it yields None; work that cannot be cut,
but needs nothing of the node, it yields as a function without arguments, which runs in a thread, and what it has to
wait for as an awaitable; the result (or error) of both comes back. However many long answers a node has, one slice of
them runs at a time, and one such work: what they unpack together is what one of them does. Requests wait for no such
work to be taken apart. A few answers are under way at a time; the others have not begun but for their first slice, or
wait for something, which keeps nobody from going on. So that what has been made so far is bounded as well, a client has
so many begun at most. Where clients wait for each other they take turns, however much one of them asks for.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Hashable, Sequence
from contextlib import asynccontextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from math import inf
from typing import Any, Final, Generic, TypeGuard, TypeVar

from penstock.node.serving.places import Places
from penstock.node.serving.room import RequestMemory, Room

T = TypeVar("T")
Work = Callable[[], Any]
Yielded = Work | Awaitable[Any] | None
Steps = Generator[Yielded, Any, T]

STEPS_AT_ONCE = 4
SLICE_NS = 2_000_000
"""A slice has no further step when it has taken so long."""
FIRST_SLICE_NS = 500_000
"""Nor has the first one so long after its first step: each connection may have one in the same turn of the loop."""

CLIENT: ContextVar[Hashable] = ContextVar("client", default=None)
"""For whom this task works: who has a turn is not asked for more before others have had theirs."""
ROOM: ContextVar[tuple[Room, asyncio.Task[Any] | None] | None] = ContextVar("room", default=None)
"""What the answer is lent, once it may begin, that is made in that task; not in those that it starts."""

UNDER_WAY_AT_ONCE = 4
UNDER_WAY_OF_ONE = 2
"""Of one client."""
ANSWER_BYTES = 1024 * 1024
"""What a long answer to a small request is taken to need; its size is known when it is made."""
SLICED_BYTES = 2 * ANSWER_BYTES
"""The same of one that is made in slices, which may be about all topics."""
COMMANDS_PART = 4
"""This part of the memory for all requests is of those that wait for the controller."""


class Pace:
    """Says when a step has done enough, whatever is counted in whatever portions."""

    __slots__ = ("_done", "_most")

    def __init__(self, most: int) -> None:
        self._done, self._most = 0, most

    def is_due(self, more: int = 1) -> bool:
        self._done += more
        if self._done < self._most:
            return False
        self._done = 0
        return True


def at_once(steps: Steps[T]) -> T:
    """The result of few steps, between which nobody has a turn."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: T = stop.value
            return result


def comes_later(answer: object) -> TypeGuard[Awaitable[Any]]:
    """Whether an answer is to be awaited; `isinstance` takes several times as long, and each request is asked."""
    return hasattr(answer, "__await__")


async def now_or_later(answer: Any) -> Any:
    """The answer, also where it is to be awaited."""
    return await answer if comes_later(answer) else answer


async def to_its_end(work: Awaitable[T]) -> T:
    """What it brings; who is cancelled meanwhile gives nothing back before it has ended, as a thread goes on."""
    future = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait([future])
        raise
    finally:
        del future, work  # an error of it would hold this frame, and the frame the error


def started(client: Hashable, answer: Awaitable[T]) -> asyncio.Future[T]:
    """A task that works for this client."""
    token = CLIENT.set(client)
    try:
        return asyncio.ensure_future(answer)
    finally:
        CLIENT.reset(token)


def _room() -> Room | None:
    """That of the answer that is made here, if it has to have one."""
    lent = ROOM.get()
    return None if lent is None or lent[1] is not asyncio.current_task() else lent[0]


async def _in_a_thread(work: Callable[[], T]) -> T:
    return await to_its_end(asyncio.get_running_loop().run_in_executor(None, work))


class BeforeAnswer(Awaitable[T]):
    """What an answer awaits before anything of it is made: it has no room meanwhile."""

    __slots__ = ("_work",)

    def __init__(self, work: Awaitable[T]) -> None:
        self._work = work

    def __await__(self) -> Generator[Any, Any, T]:
        return self._work.__await__()


class Begins(Awaitable[None]):
    """What an answer yields before it takes up much: it goes on when it has begun, and has its place and its room."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, Any, None]:
        return
        yield


BEGINS: Final = Begins()


async def _outcome(steps: Steps[Any], work: Awaitable[Any]) -> Callable[[], Yielded]:
    try:
        return partial(steps.send, await work)
    except Exception as error:
        return partial(steps.throw, error)


class Slices:
    """What the long answers of one node share."""

    __slots__ = (
        "_begun",
        "_clock_ns",
        "_parsing",
        "_turn",
        "_unawaited",
        "_under_way",
        "_working",
        "commands",
        "memory",
    )

    def __init__(self, memory_bytes: int = -1, clock_ns: Callable[[], int] = lambda: 0) -> None:
        """By default the clock stands still: a slice ends by its steps."""
        self._clock_ns = clock_ns
        of_commands = memory_bytes // COMMANDS_PART
        of_requests = memory_bytes - of_commands if memory_bytes >= 0 else memory_bytes
        self.memory = RequestMemory(of_requests)
        self.commands = RequestMemory(of_commands)
        """For those that wait for the controller: it may be away for long, and they must not keep all others out."""
        self._begun = Places(inf, max(of_requests // 2 // SLICED_BYTES, UNDER_WAY_OF_ONE) if memory_bytes >= 0 else inf)
        """One client's have room in half of the memory at most, while threads work for them or others are under way."""
        self._under_way = Places(UNDER_WAY_AT_ONCE, UNDER_WAY_OF_ONE)
        self._turn = asyncio.Lock()
        self._working = Places(1)
        self._parsing = Places(1)
        self._unawaited: dict[asyncio.Future[Any], None] = {}

    def answer(self, steps: Steps[T], *, waits: bool = True) -> T | Awaitable[T]:
        """The result, at once if the first slice brings it.

        One that never `waits` goes on though many are under way, and itself has nothing to wait for.
        """
        try:
            work = next(steps)
            if work is None:
                work = self._first_slice(steps)
        except StopIteration as stop:
            result: T = stop.value
            return result
        return self._go_on(steps, work) if waits else self._to_its_end(steps, work, partial(next, steps))

    def _first_slice(self, steps: Steps[Any]) -> Yielded:
        """What is left of it behind the first step, which most answers do not outlast."""
        ends_ns = self._clock_ns() + FIRST_SLICE_NS
        work: Yielded = None
        for _ in range(STEPS_AT_ONCE - 1):
            if work is not None or self._clock_ns() > ends_ns:
                break
            work = next(steps)
        return work

    def run(self, steps: Steps[Any]) -> None:
        """To their end, though nobody waits for it."""
        answer = self.answer(steps)
        if isinstance(answer, Awaitable):
            running = asyncio.ensure_future(answer)
            self._unawaited[running] = None
            running.add_done_callback(self._unawaited.pop)

    async def _go_on(self, steps: Steps[T], work: Yielded) -> T:
        """What a thread is to do before anything else is done before it begins: it need hold nothing meanwhile."""
        client, room = CLIENT.get(), _room()
        step: Callable[[], Yielded] = partial(next, steps)
        try:
            if work is not None and not isinstance(work, Awaitable):
                step, work = await _outcome(steps, self.work(work)), None
            async with self._begun.of(client):
                if room is not None:
                    await room.take()
                async with self._under_way.of(client):
                    return await self._to_its_end(steps, work, step)
        finally:
            del step  # as there

    async def _to_its_end(self, steps: Steps[T], work: Yielded, step: Callable[[], Yielded]) -> T:
        try:
            while True:
                if work is not None and work is not BEGINS:
                    step = await self._worked(steps, work)
                async with self._turn:
                    await asyncio.sleep(0)
                    ends_ns = self._clock_ns() + SLICE_NS
                    try:
                        work, step = step(), partial(next, steps)
                        for _ in range(STEPS_AT_ONCE - 1):
                            if work is not None or self._clock_ns() > ends_ns:
                                break
                            work = step()
                    except StopIteration as stop:
                        result: T = stop.value
                        return result
        finally:
            del step  # it may have an error, and that this frame: only the collector would free what both hold

    async def _worked(self, steps: Steps[T], work: Work | Awaitable[Any]) -> Callable[[], Yielded]:
        """What goes on with the result of the work, or with its error."""
        client = CLIENT.get()
        self._under_way.leave(client)
        try:
            if isinstance(work, Awaitable):
                return await self._awaited(steps, work, client)
            return await _outcome(steps, self.work(work))
        finally:
            await to_its_end(self._under_way.enter(client))

    async def _awaited(self, steps: Steps[T], work: Awaitable[Any], client: Hashable) -> Callable[[], Yielded]:
        room = _room() if isinstance(work, BeforeAnswer) else None
        self._begun.leave(client)  # what is awaited may be one that is to begin
        try:
            if room is None:
                return await _outcome(steps, work)
            room.give()
            outcome = await _outcome(steps, work)
            await room.take()
            return outcome
        finally:
            self._begun.come_back(client)  # it has room, for which others that have begun may wait

    async def work(self, work: Callable[[], T]) -> T:
        """The result of work in a thread, one at a time."""
        async with self._working.of(CLIENT.get()):
            return await _in_a_thread(work)

    async def taken_apart(self, parse: Callable[[], T], *, waits: bool = True) -> T:
        """What a thread makes of a large request: one at a time as well, beside other work, which may take seconds.

        One that never `waits` is done beside the others.
        """
        async with self._parsing.of(CLIENT.get()) if waits else nullcontext():
            return await _in_a_thread(parse)

    @asynccontextmanager
    async def of_frame(
        self, frame_bytes: int, size: int, parse: Callable[[], T], *, waits: bool = True
    ) -> AsyncIterator[T]:
        """What a thread makes of a frame, and room of `size` for it; the frame is parked until it is made."""
        room = Room(self.memory, size, waits=waits)
        try:
            with self.memory.parked(frame_bytes):
                await room.take()
                made = await self.taken_apart(parse, waits=waits)
                del parse
            yield made
        finally:
            room.give()

    async def each(self, items: Sequence[T], at_once: int, do: Callable[[Sequence[T]], object]) -> None:
        """Do something with very many items, `at_once` in a turn."""
        for first in range(0, len(items), at_once):
            async with self._turn:
                await asyncio.sleep(0)
                do(items[first : first + at_once])


class Shared(Generic[T]):
    """Long work about a state that only moves on: one at a time, and once for all who asked before it began."""

    __slots__ = ("_at", "_found", "_turn")

    def __init__(self) -> None:
        self._at = -1
        self._found: T | None = None
        self._turn = asyncio.Lock()

    async def get(self, at: int, make: Callable[[], Awaitable[tuple[int, T]]]) -> T:
        """Of the state as it is `at` this number, or later; `make` says of which."""
        async with self._turn:
            if self._found is None or self._at < at:
                self._at, self._found = await make()
            return self._found
