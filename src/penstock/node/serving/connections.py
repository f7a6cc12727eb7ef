"""All connections of one node: who may connect, and who has been idle for too long.

`active` is ordered by the last activity, so that the one timer looks at the oldest alone, however many there are.

What clients may take, their quotas say (`Throttling`); what enforces them is loaded when there is one, and a node
without any does nothing for them.
"""

import asyncio
import itertools
import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from penstock.node.serving.dispatch import Dispatcher, OnAnswer, log_request, request_log
from penstock.node.serving.frames import FrameBuffers
from penstock.node.serving.handler import Charge
from penstock.node.serving.memory import give_back_memory
from penstock.node.serving.outgoing import ResponsePart
from penstock.node.serving.refusals import Refusals
from penstock.node.serving.session import Session
from penstock.protocol.value import Value, fresh

if TYPE_CHECKING:
    from penstock.node.serving.creation_rates import CreationRates

logger = logging.getLogger(__name__)

UNLIMITED: Final = 2_147_483_647
"""The default of Kafka's keys."""
LOST_BEFORE_GIVING_BACK = 1000
"""After so many lost connections their memory is given back to the system, ..."""
GIVING_BACK_AFTER_S = 0.25
"""... a moment later, so that the rest of a burst is with them."""
ROUND_NS = 8_000_000
"""How long connections have first turns in one turn of the event loop, and again as long further turns: timers, threads
and other nodes have theirs in between, however many clients have sent something at once. First turns for which no time
is left become further ones; that their bytes are received is taken from the time of further turns."""
NEVER_NS = 1 << 63
UNWATCHED_NS = 2_000_000
"""For so long nobody asks when a turn of the loop begins: that would cost each request of a quiet node something."""


class Admitted(Protocol):
    """A connection, as seen by the parts that look after all of them."""

    session: Session | None
    began_ns: int
    """When it was heard of last, or something began or ended for it since, by the dispatcher's clock."""

    @property
    def is_waiting(self) -> bool: ...

    def close_when_answered(self) -> None: ...

    def abort(self) -> None: ...

    def mute(self, seconds: float) -> None: ...

    def unmute(self) -> None: ...


class Throttle(Protocol):
    """What enforces quotas (`throttle`)."""

    @property
    def has_quotas(self) -> bool: ...

    def begin(self, frame: memoryview, connection: Admitted, session: Session) -> tuple[OnAnswer, Charge] | None:
        """For one request: what is called with its answer. None where no quota holds for it. Raises DecodeError."""

    def refuses(self, host: str) -> bool:
        """Whether too many connections have come from there."""


ThrottleT = TypeVar("ThrottleT", bound=Throttle)


class Throttling(Generic[ThrottleT]):
    """The quotas of one node's clients. `active` is None while there are none, and `load` is called for the first."""

    def __init__(self, load: Callable[[], ThrottleT] | None = None) -> None:
        self.active: ThrottleT | None = None
        self._load = load
        self._loaded: ThrottleT | None = None

    @property
    def is_loaded(self) -> bool:
        return self._loaded is not None

    def change(self, change: Callable[[ThrottleT], object]) -> None:
        if self._loaded is None:
            assert self._load is not None
            self._loaded = self._load()
        change(self._loaded)
        self.active = self._loaded if self._loaded.has_quotas else None


class ConnectionLimits(Value, kw_only=True):
    """`socket.request.max.bytes`, `connections.max.idle.ms` and their like. -1 idle: for ever."""

    max_frame_bytes: int = 104_857_600
    max_idle_ms: int = 600_000
    max_connections: int = UNLIMITED
    max_connections_per_ip: int = UNLIMITED
    max_connections_per_ip_overrides: dict[str, int] = fresh(dict)
    max_connections_of: dict[str, int] = fresh(dict)
    """By listener, for those that have a limit of their own."""
    creation_rate: int = UNLIMITED
    creation_rate_of: dict[str, int] = fresh(dict)
    protected_listener: str | None = None
    """That of brokers, which does not wait for the rate of all."""
    rate_window_s: float = 1


class Connections:
    """What the connections of one node share. It lives on one event loop."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        limits: ConnectionLimits,
        loop: asyncio.AbstractEventLoop,
        throttling: Throttling[Any] | None = None,
    ) -> None:
        self.dispatcher = dispatcher
        self.throttling = throttling or Throttling()
        self.buffers = FrameBuffers(limits.max_frame_bytes)
        self.memory = dispatcher.memory
        self.counts = dispatcher.counts
        self.active: OrderedDict[Admitted, None] = OrderedDict()
        """That was heard of last is last."""
        self._early: set[Admitted] = set()
        """Those that have come too fast, until their turn."""
        self.clock_s = loop.time
        self.refusals = Refusals(loop.time)
        self._loop = loop
        self._rates: CreationRates | None = None
        self.set_limits(limits)
        self._by_host: dict[str, int] = {}
        self._by_listener: dict[str, int] = {}
        self._ids = itertools.count(1)
        self._muted: dict[Admitted, tuple[float, asyncio.TimerHandle]] = {}
        """Until when, and what ends it."""
        self._idle_timer: asyncio.TimerHandle | None = None
        self._drained: asyncio.Event | None = None
        self._lost = 0
        self._turns: deque[Callable[[], None]] = deque()
        self._takes_turns = False
        self.looks_ns = 0
        """From when on a connection asks before its first turn whether there is time for it (`look`)."""
        self.is_late = self._is_watched = False
        self._round_ends_ns = NEVER_NS
        """When further turns are over, by what first turns have taken."""

    def look(self, now_ns: int) -> bool:
        """Whether first turns have had all their time in this turn of the event loop."""
        if self._is_watched:
            self.is_late = True
        else:
            self._is_watched, self.looks_ns = True, now_ns + ROUND_NS
            self._round_ends_ns = self.looks_ns + ROUND_NS
            self._loop.call_soon(self._begin_turn_of_loop)
        return self.is_late

    def _begin_turn_of_loop(self) -> None:
        self.is_late = self._is_watched = False
        self.looks_ns = self.dispatcher.clock_ns() + UNWATCHED_NS

    def later(self, callback: Callable[[], None]) -> None:
        """Call back when every other connection that has something to do has had its turn."""
        self._turns.append(callback)
        if not self._takes_turns:
            self._takes_turns = True
            self._loop.call_soon(self._take_turns)

    def _take_turns(self) -> None:
        """One each, as far as the round goes."""
        clock_ns = self.dispatcher.clock_ns
        ends_ns = min(clock_ns() + ROUND_NS, self._round_ends_ns)
        self._round_ends_ns = NEVER_NS
        try:
            for _ in range(len(self._turns)):
                self._turns.popleft()()
                if clock_ns() >= ends_ns:
                    break
        finally:
            self._takes_turns = bool(self._turns)
            if self._takes_turns:
                self._loop.call_soon(self._take_turns)

    def end_slow(self, connection: Admitted, what: str) -> None:
        """It keeps others waiting by what it does."""
        reason = f"the peer {what}, and others wait for the memory: queued.max.request.bytes is all held"
        self.refusals.tell(what, connection.session, reason)
        connection.abort()

    def unmute_later(self, connection: Admitted, seconds: float) -> None:
        """When the longest of its times is up. One that is lost is forgotten: its time may be days."""
        ends_s = self.clock_s() + seconds
        before_s, timer = self._muted.get(connection, (0.0, None))
        if timer is not None:
            if before_s >= ends_s:
                return
            timer.cancel()
        self._muted[connection] = ends_s, self._loop.call_at(ends_s, self._unmute, connection)

    def _unmute(self, connection: Admitted) -> None:
        del self._muted[connection]
        self._early.discard(connection)
        connection.unmute()

    def watch(self, frame: memoryview, connection: Admitted, session: Session) -> tuple[OnAnswer | None, Charge | None]:
        """What is to be called with the answer to a request, and what the request costs."""
        throttle = self.throttling.active
        on_answer, charge = (throttle and throttle.begin(frame, connection, session)) or (None, None)
        if not request_log.isEnabledFor(logging.DEBUG):
            return on_answer, charge
        log = log_request(frame, session, self.clock_s)
        return (log if on_answer is None else partial(_both, on_answer, log)), charge

    def set_limits(self, limits: ConnectionLimits) -> None:
        """Let other limits hold for connections to come; the largest frame stays as it was."""
        self._limits = limits
        if limits.creation_rate == UNLIMITED and not limits.creation_rate_of:
            self._rates = None
            return
        from penstock.node.serving.creation_rates import CreationRates, Rates

        rates = Rates(limits.creation_rate, limits.creation_rate_of, limits.protected_listener, limits.rate_window_s)
        self._rates = CreationRates(rates, int(self.clock_s() * 1000))

    def admit(self, connection: Admitted, transport: asyncio.BaseTransport, listener: str) -> Session | None:
        """Enter a new connection; None when a limit refuses it."""
        address = transport.get_extra_info("peername") or ("", 0)
        host, port = address[0], address[1]
        of_host = self._by_host.get(host, 0)
        limits = self._limits
        counts = self.counts.listener(listener)
        throttle = self.throttling.active
        if throttle is not None and throttle.refuses(host):
            counts.refused += 1
            self.refusals.tell(("rate", host), f"{host}:{port}", f"connection_creation_rate of {host} is exceeded")
            return None
        if len(self.active) >= limits.max_connections:
            counts.refused += 1
            logger.warning("%s:%s: refused: max.connections is %s", host, port, limits.max_connections)
            return None
        allowed = limits.max_connections_per_ip_overrides.get(host, limits.max_connections_per_ip)
        if of_host >= allowed:
            counts.refused += 1
            logger.warning("%s:%s: refused: max.connections.per.ip is %s", host, port, allowed)
            return None
        of_listener = self._by_listener.get(listener, 0)
        if of_listener >= limits.max_connections_of.get(listener, UNLIMITED):
            counts.refused += 1
            name = f"listener.name.{listener.lower()}.max.connections"
            logger.warning("%s:%s: refused: %s is %s", host, port, name, limits.max_connections_of[listener])
            return None
        if self._rates is not None:
            delay_ms = self._rates.delay_ms(listener, int(self.clock_s() * 1000))
            if delay_ms:
                self._early.add(connection)
                connection.mute(delay_ms / 1000)
        self._by_listener[listener] = of_listener + 1
        counts.created += 1
        self._by_host[host] = of_host + 1
        self._touch(connection)
        if self._idle_timer is None and limits.max_idle_ms >= 0:
            self._idle_timer = self._loop.call_later(limits.max_idle_ms / 1000, self._close_idle)
        return Session(host, port, listener, next(self._ids))

    def remove(self, connection: Admitted, session: Session) -> None:
        del self.active[connection]
        _, timer = self._muted.pop(connection, (0.0, None))
        if timer is not None:
            timer.cancel()
        if connection in self._early:
            self._early.remove(connection)
            if self._rates is not None:
                self._rates.give_back(session.listener)
        self.counts.listener(session.listener).closed += 1
        farewell = self.dispatcher.gone.pop(session.connection_id, None)
        if farewell is not None:
            farewell()
        left = self._by_host[session.client_host] - 1
        self._by_listener[session.listener] -= 1
        if left:
            self._by_host[session.client_host] = left
        else:
            del self._by_host[session.client_host]
        if self._drained is not None and not self.active:
            self._drained.set()
        self._lost += 1
        if self._lost == LOST_BEFORE_GIVING_BACK:
            self._loop.call_later(GIVING_BACK_AFTER_S, self._give_back_memory)

    def end(self, listener: str) -> None:
        """Close the connections of one listener, those with a request that waits once it is answered."""
        for connection in list(self.active):
            if connection.session is not None and connection.session.listener == listener:
                connection.close_when_answered()

    async def stop(self, patience_s: float) -> None:
        """Close every connection: those with a request that waits once it is answered, but at most `patience_s`."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._drained = asyncio.Event()
        for connection in list(self.active):
            connection.close_when_answered()
        if self.active:
            try:
                async with asyncio.timeout(patience_s):
                    await self._drained.wait()
            except TimeoutError:
                for connection in list(self.active):
                    connection.abort()
                await self._drained.wait()

    def _give_back_memory(self) -> None:
        self._lost = 0
        self._loop.run_in_executor(None, give_back_memory)

    def _close_idle(self) -> None:
        """Close those at the front that were idle for too long, and come back when the next one could be."""
        self._idle_timer = None
        now_ns, idle_ns = self.dispatcher.clock_ns(), self._limits.max_idle_ms * 1_000_000
        while self.active:
            connection = next(iter(self.active))
            if (left_ns := connection.began_ns + idle_ns - now_ns) > 0:
                self._idle_timer = self._loop.call_later(left_ns / 1_000_000_000, self._close_idle)
                return
            self._touch(connection)
            if connection.is_waiting:
                continue
            logger.info("%s: closed: idle for connections.max.idle.ms=%s", connection.session, self._limits.max_idle_ms)
            connection.abort()

    def _touch(self, connection: Admitted) -> None:
        """It counts as heard of now. A connection does the same by itself for each read, without a call."""
        connection.began_ns = self.dispatcher.clock_ns()
        self.active[connection] = None
        self.active.move_to_end(connection)


def _both(one: OnAnswer, other: OnAnswer, parts: list[ResponsePart]) -> None:
    one(parts)
    other(parts)
