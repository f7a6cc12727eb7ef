"""Broker keys that change while the node runs: from the committed metadata into this node's BrokerConfig.

Call `reload` when the metadata is loaded, and `on_metadata` with each list of records that was committed and applied.
A part that keeps something derived from broker keys registers a listener; it is called after each change.
"""

import logging
from collections.abc import Callable, Iterable

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.definitions import ConfigError
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import ConfigRecord, MetadataRecord
from penstock.metadata.resources import ResourceType

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
