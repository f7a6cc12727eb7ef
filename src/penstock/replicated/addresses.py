"""Servers as the command line names them: `host:port:id`, several with commas, IPv6 in brackets."""

from typing import NamedTuple

from penstock.protocol.address import Address, parse_address, split_address

SCHEME = "list://"
MAX_ID = 2**31 - 1


class ServerAddress(NamedTuple):
    """One server: where it listens, and the number by which the others know it."""

    host: str
    port: int
    id: int

    @property
    def address(self) -> Address:
        """Where it listens."""
        return Address(self.host, self.port)

    def __str__(self) -> str:
        return f"{self.address}:{self.id}"


def parse_server(text: str) -> ServerAddress:
    """Read one `host:port:id`. ValueError says what is wrong."""
    address, _, number = text.strip().rpartition(":")
    if not _has_port(address):
        raise ValueError(f"{text!r} is no server: write host:port:id, as in localhost:16010:1")
    if not (number.isascii() and number.isdigit() and int(number) <= MAX_ID):
        raise ValueError(f"{text!r} is no server: {number!r} is no id, allowed are 0 to {MAX_ID}")
    host, port = parse_address(address)
    return ServerAddress(host, port, int(number))


def parse_servers(text: str) -> list[ServerAddress]:
    """Read a list with commas between; each id and each address may stand there once."""
    servers = [parse_server(item) for item in _items(text)]
    if len({server.id for server in servers}) < len(servers):
        raise ValueError(f"{text!r} names an id twice")
    if len({server.address for server in servers}) < len(servers):
        raise ValueError(f"{text!r} names an address twice")
    return servers


def parse_addresses(text: str) -> list[Address]:
    """Read what a client is given: `host:port` with commas between, or a list of servers."""
    return [parse_server(item).address if _has_port(item.rpartition(":")[0]) else parse_address(item)
            for item in _items(text)]  # fmt: skip


def _items(text: str) -> list[str]:
    items = [item.strip() for item in text.strip().removeprefix(SCHEME).split(",") if item.strip()]
    if not items:
        raise ValueError("no server is given: write host:port, several with commas")
    return items


def _has_port(text: str) -> bool:
    """Whether this is a host and a port, where an IPv6 address has its brackets."""
    return split_address(text)[1] is not None
