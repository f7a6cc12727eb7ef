"""A node's keys: one set for each listener with TLS, and one for each way to the listeners of other nodes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.client.security import Security
from penstock.node.environment.context import NodeContext
from penstock.node.environment.tasks import Tasks
from penstock.node.serving.connection import Connection
from penstock.node.serving.connections import Connections
from penstock.node.serving.server import Accept, Endpoint
from penstock.node.serving.tls_listener import TlsListener
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.tls.contexts import asking_context, serving_context
from penstock.tls.errors import TlsConfigError
from penstock.tls.keys import Keys
from penstock.tls.principal_rules import KEY as RULES_KEY
from penstock.tls.principal_rules import PrincipalRules, parse_rules

if TYPE_CHECKING:
    import ssl

    from penstock.metadata.configs.broker_config import BrokerConfig
    from penstock.tls.stores import Settings

logger = logging.getLogger(__name__)

REFRESH_S: Final = 10.0
"""How often files are compared with what is used."""


class _NodeSecurity(Security):
    """For connections to other nodes."""

    __slots__ = ("_of_node",)

    def __init__(self, keys: Keys) -> None:
        super().__init__()
        self._of_node = keys

    def context(self) -> ssl.SSLContext:
        return self._of_node.context


class NodeTls:
    def __init__(self, context: NodeContext) -> None:
        self._config = context.config
        self._keys: dict[str, Keys] = {}
        """By what they are for, in words."""
        self._tasks = Tasks()
        self._tasks.start(self._watch(), "keys and certificates")

    def over(self, endpoint: Endpoint, accept: Callable[[], Connection], connections: Connections) -> Accept:
        """What accepts the connections of a listener. TlsConfigError."""
        name = endpoint.listener
        keys = self._kept(f"the listener {name}", serving_keys(self._config, name))
        rules = rules_of(self._config, name)
        return TlsListener(connections, endpoint.security_protocol, keys, rules, accept).accept

    def asking(self, listener: str) -> Security:
        """For connections to a listener of other nodes. TlsConfigError."""
        what = f"connections to {listener}"
        return _NodeSecurity(self._keys.get(what) or self._kept(what, asking_keys(self._config, listener)))

    async def stop(self) -> None:
        await self._tasks.stop()

    def _kept(self, what: str, keys: Keys) -> Keys:
        self._keys[what] = keys
        return keys

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_S)
            for what, keys in list(self._keys.items()):
                await self._refresh(what, keys)

    async def _refresh(self, what: str, keys: Keys) -> None:
        try:
            if await asyncio.get_running_loop().run_in_executor(None, keys.refresh):
                logger.info("keys and certificates of %s were replaced", what)
        except TlsConfigError as error:
            logger.error("keys and certificates of %s stay as they were: %s", what, error)


def serving_keys(config: BrokerConfig, listener: str) -> Keys:
    return Keys(partial(_settings, config, listener), serving_context)


def asking_keys(config: BrokerConfig, listener: str) -> Keys:
    return Keys(partial(_settings, config, listener), asking_context)


def rules_of(config: BrokerConfig, listener: str) -> PrincipalRules:
    return parse_rules(_settings(config, listener).get(RULES_KEY, "DEFAULT"))


def _settings(config: BrokerConfig, listener: str) -> Settings:
    return config.of_listener(listener, "ssl.")


def check_tls(config: BrokerConfig) -> None:
    """Raises KafkaError INVALID_CONFIG for keys that cannot be used."""
    for make, listeners in ((serving_keys, config.listeners_with_tls), (asking_keys, config.ways_with_tls)):
        for listener in listeners:
            try:
                make(config, listener)
                rules_of(config, listener)
            except TlsConfigError as error:
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"the listener {listener}: {error}") from error
