"""Who should lead which partition, as `leader.balance.pinned` lists it: `topic:partition:broker`, commas between."""

from penstock.metadata.configs.definitions import ConfigError

PINNED_LEADERS_KEY = "leader.balance.pinned"


def parse_pinned_leaders(text: str) -> dict[tuple[str, int], int]:
    """Read the brokers, by topic and partition.

    Raises:
        ConfigError: An item is not a topic and two numbers, or a partition comes twice.
    """
    pinned: dict[tuple[str, int], int] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        topic, *numbers = item.split(":")
        if not topic or len(numbers) != 2 or not all(part.isascii() and part.isdigit() for part in numbers):
            raise ConfigError(PINNED_LEADERS_KEY, text, "topic:partition:broker with commas between")
        partition = topic, int(numbers[0])
        if partition in pinned:
            raise ConfigError(PINNED_LEADERS_KEY, text, f"each partition once, and {topic}-{numbers[0]} comes twice")
        pinned[partition] = int(numbers[1])
    return pinned
