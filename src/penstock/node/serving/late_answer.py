"""An answer that comes later, and is told within the call that makes it.

A future tells in the next turn of the event loop; for a record that waits for all replicas such a turn costs as much as
what is done in it. A caller that does not listen can await it. A `Slot` is where an answer that comes later will stand.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from typing import Final, Generic, TypeVar

from penstock.node.serving.handler import RequestContext
from penstock.node.serving.outgoing import ResponsePart
from penstock.protocol.requests.api import ApiKey

_API_KEY: Final = slice(4, 6)
"""Its place in a request, behind the length."""
_FETCH_OR_UNKNOWN: Final = (ApiKey.FETCH.to_bytes(2, "big"), b"\0", b"")
"""What says of the next request that the one that waits need not hurry; or has not arrived."""

AnswerT = TypeVar("AnswerT")


class LateAnswer(ABC, Generic[AnswerT]):
    """What a handler returns that has to wait; it gives one answer, or one error, or is called off."""

    __slots__ = ("_failed", "_future", "_told")

    def __init__(self) -> None:
        self._told: Callable[[AnswerT], None] | None = None
        self._failed: Callable[[Exception], None] | None = None
        self._future: asyncio.Future[AnswerT] | None = None

    @abstractmethod
    def call_off(self) -> None:
        """Wait no longer: the answer is not wanted any more."""

    def cut_short(self) -> None:
        """Answer soon, if this one can: other requests wait behind it."""

    def listen(self, told: Callable[[AnswerT], None], failed: Callable[[Exception], None]) -> None:
        self._told, self._failed = told, failed

    def tell(self, answer: AnswerT) -> None:
        told, self._told, self._failed = self._told, None, None  # else this object and its listener keep each other
        if told is not None:
            told(answer)
        else:
            self._awaited().set_result(answer)

    def fail(self, error: Exception) -> None:
        failed, self._told, self._failed = self._failed, None, None
        if failed is not None:
            failed(error)
        else:
            self._awaited().set_exception(error)

    def __await__(self) -> Generator[object, None, AnswerT]:
        try:
            return (yield from self._awaited())
        except asyncio.CancelledError:
            self.call_off()
            raise

    def _awaited(self) -> asyncio.Future[AnswerT]:
        if self._future is None:
            self._future = asyncio.get_running_loop().create_future()
        return self._future


class Slot:
    """The place of a waiting request in the order of responses."""

    __slots__ = ("began_ns", "call_off", "context", "cut_short", "on_answer", "parts", "waits_with")

    def __init__(
        self,
        on_answer: Callable[[list[ResponsePart]], None] | None = None,
        parts: list[ResponsePart] | None = None,
        context: RequestContext | None = None,
        began_ns: int = 0,
    ) -> None:
        self.on_answer = on_answer
        self.parts = parts
        self.context = context
        self.began_ns = began_ns
        self.waits_with = None if context is None else context.counts
        """A handler may find out later whose request it is, and count with other counts."""
        if self.waits_with is not None:
            self.waits_with.waiting += 1
        self.call_off: Callable[[], object] | None = None
        """Ends the waiting when the peer has gone, if it may be ended."""
        self.cut_short: Callable[[], object] | None = None
        """Has the request answered soon; None once it was called."""

    def answered(self, parts: list[ResponsePart], clock_ns: Callable[[], int]) -> None:
        self.parts = parts
        self._waits_no_longer()
        if self.context is not None:
            self.context.counts.done(self.context.api_version, clock_ns() - self.began_ns)
        if self.on_answer is not None:
            self.on_answer(parts)

    def client_has_gone(self) -> None:
        self._waits_no_longer()
        call_off, self.call_off, self.cut_short = self.call_off, None, None  # the answer leads here
        if call_off is not None:
            call_off()

    def _waits_no_longer(self) -> None:
        if self.waits_with is not None:
            self.waits_with.waiting -= 1
            self.waits_with = None


def hasten(waiting: Sequence[Slot], behind: bytes) -> None:
    """Have the fetch that waits last answered, if the peer asks something else behind it: it hears of that only then.

    Only another fetch waits for its turn, else a client that sends several ahead would poll all the time.
    """
    last = waiting[-1] if waiting else None
    if last is None or last.cut_short is None or behind[_API_KEY] in _FETCH_OR_UNKNOWN:
        return
    cut_short, last.cut_short = last.cut_short, None
    cut_short()
