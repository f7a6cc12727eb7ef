"""Limits for single addresses, as `max.connections.per.ip.overrides` lists them: `address:number`, commas between."""

from penstock.metadata.configs.definitions import ConfigError

ADDRESS_LIMITS_KEY = "max.connections.per.ip.overrides"


def parse_address_limits(text: str) -> dict[str, int]:
    """Read the limits, by their addresses; an address of IPv6 may stand in brackets.

    Raises:
        ConfigError: An item is not an address and a number of at least 0.
    """
    limits: dict[str, int] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        address, colon, number = item.rpartition(":")
        if not colon or not address or not (number.isascii() and number.isdigit()):
            raise ConfigError(ADDRESS_LIMITS_KEY, text, "address:number pairs with commas between")
        limits[address.strip("[]")] = int(number)
    return limits
