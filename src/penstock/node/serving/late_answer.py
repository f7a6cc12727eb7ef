"""An answer that comes later, and is told within the call that makes it.

A future tells in the next turn of the event loop; for a record that waits for all replicas such a turn costs as much as
what is done in it. A caller that does not listen can await it. A `Slot` is where an answer that comes later will stand.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

from penstock.node.serving.handler import Handler, RequestContext
from penstock.node.serving.outgoing import ResponsePart
from penstock.protocol.requests.api import ApiKey

_API_KEY: Final = slice(4, 6)
"""Its place in a request, behind the length."""
_FETCH_OR_UNKNOWN: Final = (ApiKey.FETCH.to_bytes(2, "big"), b"\0", b"")
"""What says of the next request that the one that waits need not hurry; or has not arrived."""

AnswerT = TypeVar("AnswerT")


class Listener(Protocol):
    """Who hears of a late answer; no error comes of that."""

    def told(self, answer: Any, /) -> None: ...

    def failed(self, error: Exception, /) -> None: ...


class LateAnswer(ABC, Generic[AnswerT]):
    """What a handler returns that has to wait; it gives one answer, or one error, or is called off."""

    __slots__ = ("_future", "_listener")

    def __init__(self) -> None:
        self._listener: Listener | None = None
        self._future: asyncio.Future[AnswerT] | None = None

    @abstractmethod
    def call_off(self) -> None:
        """Wait no longer: the answer is not wanted any more."""

    def cut_short(self) -> None:
        """Answer soon, if this one can: other requests wait behind it."""

    def listen(self, listener: Listener) -> None:
        self._listener = listener

    def forget(self) -> Listener | None:
        """Who has listened; nobody does any more, else this object and its listener would keep each other."""
        listener, self._listener = self._listener, None
        return listener

    def tell(self, answer: AnswerT) -> None:
        listener = self.forget()
        if listener is not None:
            listener.told(answer)
        elif not (future := self.awaited()).done():
            future.set_result(answer)

    def fail(self, error: Exception) -> None:
        listener = self.forget()
        if listener is not None:
            listener.failed(error)
        elif not (future := self.awaited()).done():
            future.set_exception(error)

    def __await__(self) -> Generator[object, None, AnswerT]:
        try:
            return (yield from self.awaited())
        except asyncio.CancelledError:
            self.call_off()
            raise

    def awaited(self) -> asyncio.Future[AnswerT]:
        """The answer as a future, for who does not listen; to cancel it calls nothing off."""
        if self._future is None:
            self._future = asyncio.get_running_loop().create_future()
        return self._future


class Asking(Protocol):
    """The connection of a request that waits."""

    def came(self, slot: Slot, reply: Any, /) -> None: ...

    def fail(self, error: Exception, /) -> None: ...


class Slot:
    """The place of a waiting request in the order of responses, and who hears of its answer."""

    __slots__ = (
        "_connection",
        "_is_hastened",
        "_late",
        "began_ns",
        "call_off",
        "context",
        "handler",
        "on_answer",
        "parts",
        "waits_with",
    )

    def __init__(
        self,
        connection: Asking,
        handler: Handler | None = None,
        on_answer: Callable[[list[ResponsePart]], None] | None = None,
        parts: list[ResponsePart] | None = None,
        context: RequestContext | None = None,
        began_ns: int = 0,
    ) -> None:
        self._connection = connection
        self.handler = handler
        self.on_answer = on_answer
        self.parts = parts
        self.context = context
        self.began_ns = began_ns
        self.waits_with = None if context is None else context.counts
        """A handler may find out later whose request it is, and count with other counts."""
        if self.waits_with is not None:
            self.waits_with.waiting += 1
        self.call_off: Callable[[], object] | None = None
        """Ends the waiting when the peer has gone, if it may be ended; a late answer is called off itself."""
        self._late: LateAnswer[Any] | None = None
        self._is_hastened = False

    def wait_for(self, late: LateAnswer[Any]) -> None:
        self._late = late
        late.listen(self)

    def done(self, future: asyncio.Future[Any]) -> None:
        if future.cancelled():
            return
        try:
            reply = future.result()
        except Exception as error:
            del future  # the error has this frame
            self.failed(error)
        else:
            self.told(reply)

    def told(self, reply: Any) -> None:
        self._connection.came(self, reply)

    def failed(self, error: Exception) -> None:
        self._connection.fail(error)

    def hasten(self) -> None:
        """Have the request answered soon, if it can be."""
        if self._late is not None and not self._is_hastened:
            self._is_hastened = True
            self._late.cut_short()

    def answered(self, parts: list[ResponsePart], clock_ns: Callable[[], int]) -> None:
        self.parts = parts
        self._waits_no_longer()
        if self.context is not None:
            self.context.counts.done(self.context.api_version, clock_ns() - self.began_ns)
        if self.on_answer is not None:
            self.on_answer(parts)

    def client_has_gone(self) -> None:
        self._waits_no_longer()
        call_off, late, self.call_off, self._late = self.call_off, self._late, None, None  # the answer leads here
        if late is not None:
            late.call_off()
        elif call_off is not None:
            call_off()

    def _waits_no_longer(self) -> None:
        if self.waits_with is not None:
            self.waits_with.waiting -= 1
            self.waits_with = None


def hasten(waiting: Sequence[Slot], behind: bytes) -> None:
    """Have the fetch that waits last answered, if the peer asks something else behind it: it hears of that only then.

    Only another fetch waits for its turn, else a client that sends several ahead would poll all the time.
    """
    if waiting and behind[_API_KEY] not in _FETCH_OR_UNKNOWN:
        waiting[-1].hasten()
