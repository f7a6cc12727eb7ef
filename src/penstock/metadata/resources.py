"""What can be configured: a type and a name."""

from enum import IntEnum
from typing import NamedTuple


class ResourceType(IntEnum):
    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """A broker with an empty name stands for the default of all brokers."""

    resource_type: ResourceType
    name: str
