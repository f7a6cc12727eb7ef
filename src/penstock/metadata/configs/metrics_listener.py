"""Where a node tells its figures to Prometheus."""

from typing import Final

from penstock.metadata.configs.definitions import ConfigError
from penstock.protocol.address import Address, listening_address

METRICS_KEY: Final = "penstock.metrics.listener"
METRICS_LISTENER: Final = "METRICS"
"""Its name among the listeners that a node binds; clients never hear it."""
LOOPBACK: Final = "127.0.0.1"
PARTITIONS_LEVEL: Final = "partitions"
"""The value of `penstock.metrics.level` for rows of each partition."""


def parse_metrics_listener(text: str | None) -> Address | None:
    """None for none. Without a host it is this machine alone. Raises ConfigError."""
    if not text or not text.strip():
        return None
    address = listening_address(text.strip())
    if address is None:
        raise ConfigError(METRICS_KEY, text, "host:port, or :port for this machine alone")
    return Address(address.host or LOOPBACK, address.port)
