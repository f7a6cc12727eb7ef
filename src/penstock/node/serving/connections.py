"""All connections of one node: who may connect, and who has been idle for too long.

`active` is ordered by the last activity, so that the one timer looks at the oldest alone, however many there are.
"""

import asyncio
import itertools
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from penstock.node.serving.dispatch import Dispatcher
from penstock.node.serving.frames import FrameBuffers
from penstock.node.serving.memory import give_back_memory
from penstock.node.serving.refusals import Refusals
from penstock.node.serving.session import Session
from penstock.protocol.value import Value, fresh

logger = logging.getLogger(__name__)

LOST_BEFORE_GIVING_BACK = 1000
"""After so many lost connections their memory is given back to the system, ..."""
GIVING_BACK_AFTER_S = 0.25
"""... a moment later, so that the rest of a burst is with them."""


class Admitted(Protocol):
    """A connection, as seen by the parts that look after all of them."""

    session: Session | None

    @property
    def is_waiting(self) -> bool: ...

    def close_when_answered(self) -> None: ...

    def abort(self) -> None: ...


class ConnectionLimits(Value, kw_only=True):
    """`socket.request.max.bytes`, `connections.max.idle.ms` and their like. -1 idle: for ever."""

    max_frame_bytes: int = 104_857_600
    max_idle_ms: int = 600_000
    max_connections: int = 2_147_483_647
    max_connections_per_ip: int = 2_147_483_647
    max_connections_per_ip_overrides: dict[str, int] = fresh(dict)


class Connections:
    """What the connections of one node share. It lives on one event loop."""

    def __init__(self, dispatcher: Dispatcher, limits: ConnectionLimits, loop: asyncio.AbstractEventLoop) -> None:
        self.dispatcher = dispatcher
        self.buffers = FrameBuffers(limits.max_frame_bytes)
        self.memory = dispatcher.memory
        self.counts = dispatcher.counts
        self.active: OrderedDict[Admitted, float] = OrderedDict()
        self.clock_s = loop.time
        self.refusals = Refusals(loop.time)
        self._loop = loop
        self._limits = limits
        self._by_host: dict[str, int] = {}
        self._ids = itertools.count(1)
        self._idle_timer: asyncio.TimerHandle | None = None
        self._drained: asyncio.Event | None = None
        self._lost = 0

    def later(self, callback: Callable[[], None]) -> None:
        """Call back when every other connection that has something to do has had its turn."""
        self._loop.call_soon(callback)

    def set_limits(self, limits: ConnectionLimits) -> None:
        """Let other limits hold for connections to come; the largest frame stays as it was."""
        self._limits = limits

    def admit(self, connection: Admitted, transport: asyncio.BaseTransport, listener: str) -> Session | None:
        """Enter a new connection; None when a limit refuses it."""
        address = transport.get_extra_info("peername") or ("", 0)
        host, port = address[0], address[1]
        of_host = self._by_host.get(host, 0)
        limits = self._limits
        counts = self.counts.listener(listener)
        if len(self.active) >= limits.max_connections:
            counts.refused += 1
            logger.warning("%s:%s: refused: max.connections is %s", host, port, limits.max_connections)
            return None
        allowed = limits.max_connections_per_ip_overrides.get(host, limits.max_connections_per_ip)
        if of_host >= allowed:
            counts.refused += 1
            logger.warning("%s:%s: refused: max.connections.per.ip is %s", host, port, allowed)
            return None
        counts.created += 1
        self._by_host[host] = of_host + 1
        self.active[connection] = self.clock_s()
        if self._idle_timer is None and limits.max_idle_ms >= 0:
            self._idle_timer = self._loop.call_later(limits.max_idle_ms / 1000, self._close_idle)
        return Session(host, port, listener, next(self._ids))

    def remove(self, connection: Admitted, session: Session) -> None:
        del self.active[connection]
        self.counts.listener(session.listener).closed += 1
        left = self._by_host[session.client_host] - 1
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
        now_s, idle_s = self.clock_s(), self._limits.max_idle_ms / 1000
        while self.active:
            connection, last_active_s = next(iter(self.active.items()))
            if last_active_s + idle_s > now_s:
                self._idle_timer = self._loop.call_at(last_active_s + idle_s, self._close_idle)
                return
            if connection.is_waiting:
                self.touch(connection)
                continue
            logger.info("%s: closed: idle for connections.max.idle.ms=%s", connection.session, self._limits.max_idle_ms)
            connection.abort()
            self.active.move_to_end(connection)
            self.active[connection] = now_s

    def touch(self, connection: Admitted) -> float:
        """Returns the time, in seconds of the loop's clock."""
        now_s = self.clock_s()
        self.active[connection] = now_s
        self.active.move_to_end(connection)
        return now_s
