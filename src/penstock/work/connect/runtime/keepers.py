"""Things that a worker keeps as they should be: each is brought there step by step, what is to be may change meanwhile.

A keeper ends what runs before it starts what is to run instead, and does so only if that is something else.
"""

import asyncio
from collections.abc import Callable, Mapping

from penstock.protocol.value import Value
from penstock.work.connect.jobs import Kept, State
from penstock.work.connect.runtime.records import Target

Begin = Callable[["Keeper", "Wanted"], Kept]
Tell = Callable[[State], None]


class Wanted(Value):
    """What is to be. `life` counts the restarts that somebody has asked for."""

    config: Mapping[str, str]
    target: Target = Target.STARTED
    life: int = 0


class Keeper:
    """See the module. `begin` starts what is wanted, `tell` is told of what is not running, and why.

    What is fenced belongs to another worker by now: nothing of it may be stored.
    """

    def __init__(self, name: str, begin: Begin, tell: Tell) -> None:
        self.kept: Kept | None = None
        self.is_fenced = False
        self._begin = begin
        self._tell = tell
        self._wanted: Wanted | None = None
        self._is: Wanted | None = None
        self._is_over = False
        self._news = asyncio.Event()
        self._keeping = asyncio.create_task(self._keep(), name=f"keeper of {name}")

    def want(self, wanted: Wanted | None) -> None:
        """Bring it there; None: it is not known yet what is to be."""
        if wanted != self._wanted:
            self._wanted = wanted
            self._news.set()

    @property
    def wanted(self) -> Wanted | None:
        """What is to be."""
        return self._wanted

    async def give_up(self, last: State | None) -> None:
        """End it in good order, and say that it is so now (None: say nothing)."""
        self._is_over = True
        self._news.set()
        await asyncio.wait([self._keeping])
        if last is not None:
            self._tell(last)

    def fence(self) -> None:
        """End it at once, for others may have it already: from now on nothing of it is stored or told."""
        self.is_fenced = True
        self._tell = lambda _: None
        self._keeping.cancel()

    async def fenced(self) -> None:
        """Wait until what was fenced has ended."""
        await asyncio.wait([self._keeping])
        if self.kept is not None:
            await self.kept.abandon()

    async def _keep(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            if self._goal != self._is:
                await self._end()
                self._is = wanted = self._goal  # it may have changed meanwhile
                if wanted is not None and wanted.target is Target.STARTED:
                    self.kept = self._begin(self, wanted)
                elif wanted is not None:
                    self._tell(State.PAUSED if wanted.target is Target.PAUSED else State.STOPPED)
            if self._is_over:
                return

    @property
    def _goal(self) -> Wanted | None:
        return None if self._is_over else self._wanted

    async def _end(self) -> None:
        kept, self.kept = self.kept, None
        if kept is not None:
            try:
                await kept.stop()
            except asyncio.CancelledError:
                self.kept = kept
                raise


def told(tell: Callable[[State, str], None], kept_now: Callable[[], Kept | None]) -> Callable[[str, State, str], None]:
    """What a `Kept` is to call: it tells its state with the reason and the trace, but not that it has stopped."""

    def on_change(_: str, state: State, reason: str) -> None:
        kept = kept_now()
        trace = kept.trace if kept is not None else ""
        if state is not State.STOPPED:
            tell(state, "\n".join(dict.fromkeys(part for part in (reason, trace) if part)))

    return on_change
