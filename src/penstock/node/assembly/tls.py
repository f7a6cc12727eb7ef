"""A node's keys: one set for each listener with TLS, and one for each way to the listeners of other nodes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from penstock.client.security import Security
from penstock.node.environment.context import NodeContext
from penstock.node.environment.tasks import Tasks
from penstock.node.metrics.registry import Gauge, Group, Labels
from penstock.node.serving.connection import Connection
from penstock.node.serving.connections import Connections
from penstock.node.serving.server import Accept, Endpoint
from penstock.node.serving.tls_listener import TlsListener
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.tls.contexts import asking_context, serving_context
from penstock.tls.errors import TlsConfigError
from penstock.tls.keys import Keys, MakeContext
from penstock.tls.layer import TlsBuffers
from penstock.tls.opening import Opening
from penstock.tls.principal_rules import KEY as RULES_KEY
from penstock.tls.principal_rules import PrincipalRules, parse_rules
from penstock.tls.shown import ShownCertificates
from penstock.tls.stores import CRL

if TYPE_CHECKING:
    import ssl

    from penstock.client.credentials import Credentials, TokenCredentials
    from penstock.metadata.configs.broker_config import BrokerConfig
    from penstock.tls.layer import TlsLayer
    from penstock.tls.stores import Settings

logger = logging.getLogger(__name__)

REFRESH_S: Final = 10.0
"""How often files are compared with what is used."""
CONTEXTS: Final[Mapping[str, MakeContext]] = {"serving": serving_context, "asking": asking_context}
WARN_DAYS: Final = (30, 7, 1, 0)
"""So long before a certificate expires it is told, and then that it has."""


class _NodeSecurity(Security):
    """For connections to other nodes."""

    __slots__ = ("_new_buffers", "_shown")

    def __init__(
        self,
        shown: ShownCertificates,
        new_buffers: Callable[[], TlsBuffers],
        credentials: Credentials | TokenCredentials | None,
    ) -> None:
        super().__init__(credentials=credentials)
        self._shown = shown
        self._new_buffers = new_buffers

    def context(self) -> ssl.SSLContext:
        """As it is; the node sees to what is new."""
        return self._shown.keys.context

    def opening(self, protocol: asyncio.BufferedProtocol, host: str, fail: Callable[[str], object]) -> Opening:
        return _NodeOpening(self._shown, protocol, self.context(), host, fail, self._new_buffers())


class _NodeOpening(Opening):
    """Of a connection to another node, which ends when that one's certificate does."""

    def __init__(self, shown: ShownCertificates, *of_connection: Any) -> None:
        super().__init__(*of_connection)
        self._shown = shown

    def secured(self, layer: TlsLayer) -> None:
        assert layer.peer_certificate is not None, "who listens shows one"
        try:
            self._shown.add(layer, layer.peer_certificate, self.broken)
        except ValueError as error:
            self.broken(layer, str(error))
        super().secured(layer)

    def lost(self, layer: TlsLayer) -> None:
        self._shown.lost(layer)


class Use(NamedTuple):
    """What keys are for."""

    listener: str
    side: Literal["serving", "asking"]

    def __str__(self) -> str:
        return f"the listener {self.listener}" if self.side == "serving" else f"connections to {self.listener}"


class NodeTls:
    def __init__(self, context: NodeContext) -> None:
        self._config = context.config
        self._now_ms = context.now_ms
        self._simulated = context.environment.tls
        self._new_buffers = TlsBuffers if self._simulated is None else partial(TlsBuffers, self._simulated.clock_s)
        self._keys: dict[Use, Keys] = {}
        self._told: dict[Use, tuple[bytes, int]] = {}
        """Of each, the certificate whose end was told, and so many days before."""
        self._faults: dict[Use, str] = {}
        """Why what is in the files now is not used; told once."""
        self._listeners: dict[str, TlsListener] = {}
        self._shown: dict[Use, ShownCertificates] = {}
        """Of nodes to which this one comes."""
        self._tasks = Tasks()
        self._tasks.keep(self._watch, "keys and certificates")
        what = "Days until the certificate expires that is shown; less than 0: it has"
        context.metrics.add(Gauge(Group.TLS, "days-left", what, self._days_left, labels=("listener", "side")))

    def over(self, endpoint: Endpoint, accept: Callable[[], Connection], connections: Connections) -> Accept:
        """What accepts the connections of a listener. TlsConfigError."""
        name = endpoint.listener
        shown = ShownCertificates(self._kept(Use(name, "serving")), self._now_ms)
        protocol, rules = endpoint.security_protocol, rules_of(self._config, name)
        listener = TlsListener(connections, protocol, shown, rules, self._new_buffers(), accept)
        self._listeners[name] = listener
        return listener.accept

    def closed(self, listener: str) -> None:
        """Nobody comes that way any more."""
        use = Use(listener, "serving")
        self._listeners.pop(listener, None)
        for kept in (self._keys, self._told, self._faults):
            kept.pop(use, None)

    def asking(self, listener: str, credentials: Credentials | TokenCredentials | None) -> Security:
        """For connections to a listener of other nodes, with a log-in or without. TlsConfigError."""
        use = Use(listener, "asking")
        shown = self._shown.setdefault(use, ShownCertificates(self._kept(use), self._now_ms))
        return _NodeSecurity(shown, self._new_buffers, credentials)

    def refresh_soon(self) -> None:
        """Settings may have changed."""
        self._tasks.start(self.refresh(), "keys and certificates, on command")

    async def refresh(self) -> None:
        """Take what is new in settings and files, and tell what cannot be used, or will soon be of no use.

        Connections whose certificates hold no longer end.
        """
        for use, keys in list(self._keys.items()):
            await self._refresh(use, keys)
        for listener in list(self._listeners.values()):
            listener.look()
        for shown in self._shown.values():
            shown.look()

    async def stop(self) -> None:
        await self._tasks.stop()

    def _kept(self, use: Use) -> Keys:
        keys = self._keys.get(use)
        if keys is None:
            make = CONTEXTS[use.side] if self._simulated is None else self._simulated.make_context
            keys = self._keys[use] = Keys(partial(_settings, self._config, use.listener), make)
            self._warn(use, keys)
        return keys

    def _days_left(self) -> dict[Labels, float]:
        found = {use: keys.days_left(self._now_ms()) for use, keys in self._keys.items()}
        return {(*use,): days for use, days in found.items() if days is not None}

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_S)
            await self.refresh()

    async def _refresh(self, use: Use, keys: Keys) -> None:
        fault = ""
        try:
            if await asyncio.get_running_loop().run_in_executor(None, keys.refresh):
                logger.info("keys and certificates of %s were replaced", use)
        except TlsConfigError as error:
            fault = str(error)
        if self._keys.get(use) is not keys:
            return  # its listener was closed meanwhile
        if fault and fault != self._faults.get(use):
            logger.error("keys and certificates of %s stay as they were: %s", use, fault)
        self._faults[use] = fault
        self._warn(use, keys)

    def _warn(self, use: Use, keys: Keys) -> None:
        """Once for each of `WARN_DAYS`, and each certificate."""
        days = keys.days_left(self._now_ms())
        due = None if days is None else min((limit for limit in WARN_DAYS if days < limit), default=None)
        if due is None or keys.certificate is None or self._told.get(use) == (keys.certificate, due):
            return
        self._told[use] = keys.certificate, due
        when = f"expires in {days} days" if due else "has expired"
        logger.warning("the certificate of %s %s: replace it, the file is read again while the node runs", use, when)


def rules_of(config: BrokerConfig, listener: str) -> PrincipalRules:
    return parse_rules(_settings(config, listener).get(RULES_KEY, "DEFAULT"))


def _settings(config: BrokerConfig, listener: str) -> Settings:
    return config.of_listener(listener, "ssl.") | config.of_listener(listener, CRL)


def check_tls(config: BrokerConfig) -> None:
    """Raises KafkaError INVALID_CONFIG for keys that cannot be used."""
    for side, listeners in (("serving", config.listeners_with_tls), ("asking", config.ways_with_tls)):
        for listener in listeners:
            try:
                Keys(partial(_settings, config, listener), CONTEXTS[side])
                rules_of(config, listener)
            except TlsConfigError as error:
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"the listener {listener}: {error}") from error
