"""Addresses as people write them: `host:port`, several with commas, IPv6 in brackets."""

from typing import Final, NamedTuple, TypeGuard

DEFAULT_PORT = 9092
MAX_PORT = 65535
MOST_DIGITS: Final = 10


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def split_address(text: str) -> tuple[str, str | None]:
    """The host without brackets, and the text behind its colon; None without a colon."""
    host, port = text, None
    if ":" in text.rpartition("]")[2]:
        host, _, port = text.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), port


def is_number(text: str | None) -> TypeGuard[str]:
    """That of a port, a partition, a node or the like: Python makes no number of very many digits."""
    return text is not None and text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS


def listening_address(text: str) -> Address | None:
    """Read `host:port` where every host (none) and any free port (0) can be meant; None if it is not that."""
    host, port = split_address(text)
    if not is_number(port) or int(port) > MAX_PORT:
        return None
    return Address(host, int(port))


def parse_address(text: str, default_port: int | None = DEFAULT_PORT) -> Address:
    """Read one address to connect to; without a port it has the default. ValueError says what is wrong."""
    host, port = split_address(text.strip())
    if port is None and default_port is not None:
        port = str(default_port)
    if not host or port is None:
        raise ValueError(f"{text!r} is not an address: write host:port, as in 127.0.0.1:9092")
    if not is_number(port) or not 0 < int(port) <= MAX_PORT:
        raise ValueError(f"{text!r} is not an address: {port!r} is no port, allowed are 1 to {MAX_PORT}")
    return Address(host, int(port))


def parse_bootstrap_servers(text: str, default_port: int | None = DEFAULT_PORT) -> tuple[Address, ...]:
    addresses = tuple(parse_address(item, default_port) for item in text.split(",") if item.strip())
    if not addresses:
        raise ValueError("no bootstrap server is given: write host:port, several with commas")
    return addresses
