"""The hosts that access rules name, and those of clients.

They are compared as addresses, however they are written: `::1` is `0:0:0:0:0:0:0:1`, and an IPv4 client that came over
IPv6 has its IPv4 address. A network in CIDR notation (KIP-1276) never is compared as a text.
"""

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple

_NETWORK: Final = re.compile(r"([^/%]+)/\+?(\d{1,3})")
_OCTETS: Final = re.compile(r"\d{1,3}(\.\d{1,3}){3}")
HOSTS_KEPT: Final = 4096
_LONGEST_KEPT: Final = 64
"""Characters: an address has fewer, and the host of a rule may have 32 kB."""

Network = tuple[int, int, int]
"""The version of IP, how many bits count, and these bits."""


class Address(NamedTuple):
    text: str
    version: int
    """Of IP; 0 for what is no address."""
    number: int
    bits: int

    def in_network(self, length: int) -> Network:
        """The network of that length that it is in."""
        return self.version, length, self.number >> (self.bits - length)


def address_of(host: str) -> Address:
    return _kept_address(host) if len(host) <= _LONGEST_KEPT else _address_of(host)


def _address_of(host: str) -> Address:
    found = _parsed(host.partition("%")[0])
    if found is None:
        return Address(host, 0, 0, 0)
    return Address(str(found), found.version, int(found), found.max_prefixlen)


_kept_address: Final = lru_cache(HOSTS_KEPT)(_address_of)


def network_of(host: str) -> Network | None:
    """What a text in CIDR notation stands for; None if it is none. Bits behind the length do not matter."""
    match = _NETWORK.fullmatch(host)
    if match is None:
        return None
    text, length = match[1], int(match[2])
    if _OCTETS.fullmatch(text):  # Java reads 010 as 10
        text = ".".join(str(int(octet)) for octet in text.split("."))
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if length > address.max_prefixlen or _parsed(text) != address:  # no IPv4 network in IPv6 notation, as in Kafka
        return None
    return address.version, length, int(address) >> (address.max_prefixlen - length)


def host_key(text: str) -> str | Network:
    """Of a rule's host: equal where they mean the same, however they are written."""
    return network_of(text) or address_of(text).text


def network_text(network: Network) -> str:
    """In CIDR notation, without the bits that do not matter."""
    version, length, number = network
    kind, bits = (IPv4Address, 32) if version == 4 else (IPv6Address, 128)
    return f"{kind(number << (bits - length))}/{length}"


def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
