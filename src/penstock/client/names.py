"""What the names of hosts stand for (client.dns.lookup)."""

import asyncio
import socket
from collections.abc import Iterable
from typing import Final

from penstock.protocol.address import Address

USE_ALL_DNS_IPS: Final = "use_all_dns_ips"
"""An address is reached if any that its name stands for is, one after the other."""
CANONICAL_BOOTSTRAP: Final = "resolve_canonical_bootstrap_servers_only"
"""The same, but a bootstrap server stands for all hosts behind its name, each under its own full name."""


async def hosts_of(address: Address) -> list[str]:
    """All of a name, in the resolver's order; a number stands for itself. OSError."""
    if _is_number(address.host):
        return [address.host]
    found = await asyncio.get_running_loop().getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[0]) for *_, place in found))


async def canonical(addresses: Iterable[Address]) -> list[Address]:
    """What is unknown to the resolver is left out, for another may be known. OSError if none is."""
    loop = asyncio.get_running_loop()
    found: dict[Address, None] = {}
    unknown: OSError | None = None
    for address in addresses:
        try:
            for host in await hosts_of(address):
                name, _ = await loop.getnameinfo((host, address.port))
                found[Address(name, address.port)] = None
        except OSError as error:
            unknown = error
    if not found and unknown is not None:
        raise unknown
    return list(found)


def _is_number(host: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
            return True
        except OSError:
            continue
    return False
