"""Broker keys that change while the node runs: from the committed metadata into this node's BrokerConfig.

Call `reload` when the metadata is loaded, and `on_metadata` with each list of records that was committed and applied.
A part that keeps something derived from broker keys registers a listener; it is called after each change. One such part
is here: the listeners that a broker gets while it runs (KIP-226).
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.broker_rules import added_listeners
from penstock.metadata.configs.definitions import ConfigError
from penstock.metadata.configs.listeners import Listener
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import ConfigRecord, MetadataRecord
from penstock.metadata.resources import ResourceType
from penstock.node.assembly.quorum_start import bind_listener
from penstock.node.environment.environment import Environment
from penstock.node.environment.tasks import Tasks
from penstock.node.serving.server import Server

logger = logging.getLogger(__name__)


class DynamicConfigs:
    """Keeps `config` in step with what `image` says about this broker and about all brokers."""

    def __init__(self, config: BrokerConfig, image: ClusterImage, node_id: int) -> None:
        self._config = config
        self._image = image
        self._names = ("", str(node_id))
        self._listeners: list[Callable[[], None]] = []

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def on_metadata(self, records: Iterable[MetadataRecord]) -> None:
        """Take over what committed records, already applied to the image, change for this broker."""
        if any(self._concerns_us(record) for record in records):
            self.reload()

    def reload(self) -> None:
        """Take over all that the image says. A value that this node does not understand leaves everything as it was."""
        default, broker = (self._image.config_of(ResourceType.BROKER, name) for name in self._names)
        try:
            self._config.apply_dynamic(broker=broker, default=default)
        except ConfigError as error:
            logger.error("the broker's configuration stays as it was: %s", error)
            return
        for listener in self._listeners:
            listener()

    def _concerns_us(self, record: MetadataRecord) -> bool:
        return (
            isinstance(record, ConfigRecord)
            and record.resource_type == ResourceType.BROKER
            and record.resource_name in self._names
        )


class AddedListeners:
    """Call `follow` when the broker serves, and with each change of its configuration after that."""

    def __init__(
        self, config: BrokerConfig, environment: Environment, server: Server, closed: Callable[[str], None]
    ) -> None:
        self._config = config
        self._environment = environment
        self._server = server
        self._closed = closed
        self._open: list[Listener] = []
        self._turn = asyncio.Lock()
        self._tasks = Tasks()

    def follow(self) -> None:
        """Open what is there now and close what is not. What is not allowed leaves the listeners as they were."""
        try:
            wanted = added_listeners(self._config, self._config.text)
        except ConfigError as error:
            logger.error("the listeners stay as they are: %s", error)
            return
        if self._open or wanted:
            self._tasks.start(self._settle(wanted), "listeners")

    async def stop(self) -> None:
        """Their sockets are the server's."""
        await self._tasks.stop()

    async def _settle(self, wanted: tuple[Listener, ...]) -> None:
        async with self._turn:
            for listener in [one for one in self._open if one not in wanted]:
                self._open.remove(listener)
                self._server.close(listener.name)
                self._closed(listener.name)
            for listener in wanted:
                if listener not in self._open:
                    await self._listen(listener)

    async def _listen(self, listener: Listener) -> None:
        try:
            bound = bind_listener(self._config, self._environment, listener)
        except OSError as error:
            reason = error.strerror or error
            logger.error("cannot listen on %s (%s): stop what uses the address, or set listeners", listener, reason)
            return
        try:
            await self._server.listen([bound])
        except ValueError as error:
            bound.close()
            self._closed(listener.name)
            logger.error("cannot listen on %s: %s", listener, error)
            return
        self._open.append(listener)
