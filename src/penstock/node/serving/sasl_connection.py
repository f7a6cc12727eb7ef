"""A connection on a listener with SASL: nothing but the log-in is taken before it, and a session ends with its cause.

What `login` refuses is answered after `connection.failed.authentication.delay.ms`, as in Kafka, and then the connection
is closed; until then it is held, and nobody waits for it.
"""

import asyncio
import logging
from collections.abc import Set
from functools import partial
from typing import Final

from penstock.node.serving.connection import Connection
from penstock.node.serving.connections import Connections
from penstock.node.serving.late_answer import Slot
from penstock.node.serving.login import Login, Mechanisms, Refusal
from penstock.node.serving.session import Principal
from penstock.protocol.sasl.mechanism import NotYet, shown
from penstock.protocol.value import Value

logger = logging.getLogger(__name__)

LOGIN_S: Final = 30.0
"""How long a client may take to say who it is."""


class SaslLimits(Value):
    """`sasl.server.max.receive.size` and `connection.failed.authentication.delay.ms`."""

    max_receive_bytes: int
    failure_delay_ms: int


class SaslListener:
    """What the connections of one listener share; it knows which of them are open."""

    def __init__(self, name: str, protocol: str, mechanisms: Mechanisms, limits: SaslLimits) -> None:
        self.name = name
        self.protocol = protocol
        self.mechanisms = mechanisms
        self.limits = limits
        self.open: dict[SaslConnection, None] = {}
        """In the order in which they came."""

    def accept(self, connections: Connections) -> Connection:
        return SaslConnection(connections, self)

    def offer(self, mechanisms: Mechanisms) -> None:
        """From now on."""
        self.mechanisms = mechanisms

    def look(self, users: Set[str] | None = None, tokens: Set[str] = frozenset()) -> None:
        """Credentials of these users have changed, or of all, or these tokens: end sessions that could not begin so."""
        for connection in list(self.open):
            if (users is None or connection.user in users or connection.token_id in tokens) and not connection.holds:
                connection.end_session()


class SaslConnection(Connection):
    __slots__ = ("_frame_limit", "_limit", "_login", "_of")

    def __init__(self, connections: Connections, listener: SaslListener) -> None:
        super().__init__(connections, listener.name)
        self._of = listener
        self._login = Login(listener)
        self._limit: asyncio.TimerHandle | None = None
        self._frame_limit = "sasl.server.max.receive.size"
        self._max_frame_bytes = min(self._max_frame_bytes, listener.limits.max_receive_bytes)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self.session is not None:
            self.session = self.session.replace(security_protocol=self._of.protocol)
            self._of.open[self] = None
            self._limit = asyncio.get_running_loop().call_later(LOGIN_S, self._too_late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._of.open.pop(self, None)
        if self._limit is not None:
            self._limit.cancel()
        super().connection_lost(exc)

    @property
    def user(self) -> str | None:
        return self._login.user

    @property
    def token_id(self) -> str | None:
        return self._login.token_id

    @property
    def holds(self) -> bool:
        return self._login.holds

    def end_session(self) -> None:
        self._tell(f"the user {shown(self._login.user or '')} is removed, or has another password", "removed")
        self.abort()

    def _handle(self, frame: memoryview, is_watched: bool) -> bool:
        try:
            outcome = self._login.take(frame, int(self._connections.clock_s() * 1000))
        except NotYet as later:
            self._wait_for(later, bytes(frame))
            return False
        except Exception as error:
            self.fail(error)
            return False
        if outcome is None:
            return super()._handle(frame, is_watched)
        if isinstance(outcome, Refusal):
            self._answer_late(outcome)
            return False
        if self._login.user is not None:
            self._know(self._login.user)
        self._out.add(list(outcome.parts))
        return True

    def _wait_for(self, later: NotYet, frame: bytes) -> None:
        """Nothing may overtake the log-in, which then takes the same request once more."""
        slot = Slot(self)
        self._hold_behind(slot)
        later.listen(partial(self._take_again, slot, frame))

    def _take_again(self, slot: Slot, frame: bytes) -> None:
        if self._closed:
            return
        self._waiting.remove(slot)
        self._held_by_request = False
        self._handle(memoryview(frame), False)
        self._proceed_now()

    def _know(self, user: str) -> None:
        assert self.session is not None
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None
            self._connections.counts.listener(self._of.name).logins += 1
        self._max_frame_bytes, self._frame_limit = self._buffers.max_frame_bytes, Connection._frame_limit
        self.session = self.session.replace(
            principal=Principal("User", user, self._login.token_id is not None), mechanism=self._login.mechanism
        )

    def _answer_late(self, refusal: Refusal) -> None:
        self._tell(refusal.cause, "refused")
        self._connections.counts.listener(self._of.name).failed_logins += 1
        slot = Slot(self)
        delay_s = self._of.limits.failure_delay_ms / 1000
        slot.call_off = asyncio.get_running_loop().call_later(delay_s, self._answer_and_end, refusal).cancel
        self._hold_behind(slot)

    def _hold_behind(self, slot: Slot) -> None:
        """As behind a request that nothing may overtake."""
        self._waiting.append(slot)
        self._held_by_request = True

    def _answer_and_end(self, refusal: Refusal) -> None:
        self._out.add(list(refusal.parts))
        self._end()

    def _tell(self, reason: str, kind: str) -> None:
        """In the log, together with others from the same host: they may come with very many names."""
        assert self.session is not None
        self._connections.refusals.tell((kind, self.session.client_host), self.session, reason)

    def _too_late(self) -> None:
        logger.debug("%s: closed: it has not logged in within %d s", self.session, LOGIN_S)
        self.abort()
