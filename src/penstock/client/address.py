"""Addresses of brokers, as people write them: `host:port`, several with commas, IPv6 in brackets."""

from typing import NamedTuple

DEFAULT_PORT = 9092


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Read one address; without a port it is 9092. ValueError says what is wrong."""
    host, separator, port = text.strip().rpartition(":")
    if not separator or port.endswith("]"):
        host, port = text.strip(), str(DEFAULT_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host:
        raise ValueError(f"{text!r} is not an address: write host:port, as in 127.0.0.1:9092")
    if not (port.isascii() and port.isdigit() and 0 < int(port) <= 65535):
        raise ValueError(f"{text!r} is not an address: {port!r} is no port, allowed are 1 to 65535")
    return Address(host, int(port))


def parse_bootstrap_servers(text: str) -> list[Address]:
    """Read a list of addresses separated by commas."""
    addresses = [parse_address(item) for item in text.split(",") if item.strip()]
    if not addresses:
        raise ValueError("no bootstrap server is given: write host:port, several with commas")
    return addresses
