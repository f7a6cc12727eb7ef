"""Values that are lists of items with colons: limits for single addresses, and who should lead which partition."""

from collections.abc import Iterator

from penstock.metadata.configs.definitions import ConfigError
from penstock.protocol.address import is_number, split_address

ADDRESS_LIMITS_KEY = "max.connections.per.ip.overrides"
PINNED_LEADERS_KEY = "leader.balance.pinned"


def parse_address_limits(text: str) -> dict[str, int]:
    """Read `address:number` items by their addresses; an address of IPv6 may stand in brackets.

    Raises:
        ConfigError: An item is not an address and a number of at least 0.
    """
    limits: dict[str, int] = {}
    for item in _items(text):
        address, number = split_address(item)
        if not address or number is None or not is_number(number):
            raise ConfigError(ADDRESS_LIMITS_KEY, text, "address:number pairs with commas between")
        limits[address] = int(number)
    return limits


def parse_pinned_leaders(text: str) -> dict[tuple[str, int], int]:
    """Read `topic:partition:broker` items: the brokers, by topic and partition.

    Raises:
        ConfigError: An item is not a topic and two numbers, or a partition comes twice.
    """
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
