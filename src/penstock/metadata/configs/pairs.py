"""Values that are lists of items with colons: limits for single addresses, and who should lead which partition."""

from collections.abc import Iterator

from penstock.metadata.configs.definitions import ConfigError
from penstock.protocol.address import is_number, split_address

ADDRESS_LIMITS_KEY = "max.connections.per.ip.overrides"
PINNED_LEADERS_KEY = "leader.balance.pinned"


def parse_address_limits(text: str) -> dict[str, int]:
    """Items are `address:number`, with a number of at least 0; IPv6 may stand in brackets. Raises ConfigError."""
    limits: dict[str, int] = {}
    for item in _items(text):
        address, number = split_address(item)
        if not address or number is None or not is_number(number):
            raise ConfigError(ADDRESS_LIMITS_KEY, text, "address:number pairs with commas between")
        limits[address] = int(number)
    return limits


def parse_pinned_leaders(text: str) -> dict[tuple[str, int], int]:
    """Items are `topic:partition:broker`. Raises ConfigError, also for a partition that comes twice."""
    pinned: dict[tuple[str, int], int] = {}
    for item in _items(text):
        topic, *numbers = item.split(":")
        if not topic or len(numbers) != 2 or not all(map(is_number, numbers)):
            raise ConfigError(PINNED_LEADERS_KEY, text, "topic:partition:broker with commas between")
        partition = topic, int(numbers[0])
        if partition in pinned:
            raise ConfigError(PINNED_LEADERS_KEY, text, f"each partition once, and {topic}-{numbers[0]} comes twice")
        pinned[partition] = int(numbers[1])
    return pinned


def _items(text: str) -> Iterator[str]:
    return filter(None, (part.strip() for part in text.split(",")))
