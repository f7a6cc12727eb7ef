"""Where the nodes of a secured cluster listen.

| listener   | who comes, and how                                       | port           |
| ---------- | -------------------------------------------------------- | -------------- |
| CLIENTS    | clients, over TLS with a password (SCRAM)                | the node's     |
| NODES      | brokers to brokers, over TLS with certificates           | 5,000 above    |
| CONTROLLER | nodes to controllers, over TLS with certificates         | 10,000 above   |
"""

from collections.abc import Iterator, Sequence
from ipaddress import ip_address
from typing import Final

from penstock.protocol.address import MAX_PORT, Address, is_number, split_address
from penstock.protocol.value import Value

CLIENTS: Final = "CLIENTS"
NODES: Final = "NODES"
CONTROLLER: Final = "CONTROLLER"
ABOVE: Final = {CLIENTS: 0, NODES: 5_000, CONTROLLER: 10_000}
FIRST_PORT: Final = 9092
MOST_PORT: Final = MAX_PORT - max(ABOVE.values())


class Place(Value):
    """A node on a host. `ports` are by listener; `names` are what its certificate says, the host first."""

    node_id: int
    names: tuple[str, ...]
    ports: dict[str, int]

    @property
    def host(self) -> str:
        return self.names[0]

    def address(self, listener: str) -> str:
        return str(Address(self.host, self.ports[listener]))

    def binding(self, listener: str) -> str:
        """A node of this machine alone listens there alone, any other on all interfaces."""
        host = self.host if is_loopback(self.host) else ""
        return f"{listener}://{Address(host, self.ports[listener])}"


def place(node_id: int, names: Sequence[str], port: int) -> Place:
    return Place(node_id, tuple(dict.fromkeys(names)), {name: port + above for name, above in ABOVE.items()})


def parse_places(text: str) -> list[Place]:
    """`host`, `host:port`, `host/another-name/10.0.0.1:port`, with commas between; ids begin at 1.

    A host that comes again without a port gets the next one. ValueError.
    """
    places: list[Place] = []
    for item in filter(None, map(str.strip, text.split(","))):
        names, port = _names_and_port(item)
        if port is None:
            others = [one.ports[CLIENTS] for one in places if _machine(one.host) == _machine(names[0])]
            port = max(others, default=FIRST_PORT - 1) + 1
        if port > MOST_PORT:
            raise ValueError(
                f"{item}: a node's port is at most {MOST_PORT}, as it listens {ABOVE[NODES]} and {ABOVE[CONTROLLER]}"
                " above as well"
            )
        places.append(place(len(places) + 1, names, port))
    if not places:
        raise ValueError("no node is given: write their hosts with commas between")
    _check_that_all_differ(places)
    return places


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _names_and_port(item: str) -> tuple[list[str], int | None]:
    text, port = split_address(item)
    if port is not None and (not is_number(port) or not int(port)):
        raise ValueError(f"{item}: {port!r} is no port")
    names = [name.removeprefix("[").removesuffix("]") for name in text.split("/")]
    for name in names:
        _check_name(item, name)
    return names, None if port is None else int(port)


def _check_name(item: str, name: str) -> None:
    try:
        ip_address(name)
    except ValueError:
        parts = name.split(".")
        if not all(part.replace("-", "").replace("_", "").isalnum() and part.isascii() for part in parts):
            raise ValueError(f"{item}: {name!r} is no name of a host, and no address") from None


def _check_that_all_differ(places: Sequence[Place]) -> None:
    taken: dict[str, int] = {}
    for one, address in _addresses(places):
        other = taken.setdefault(str(address), one.node_id)
        if other != one.node_id:
            raise ValueError(f"the nodes {other} and {one.node_id} would both listen on {address}: give other ports")


def _addresses(places: Sequence[Place]) -> Iterator[tuple[Place, Address]]:
    return ((one, Address(_machine(one.host), one.ports[name])) for one in places for name in ABOVE)


def _machine(host: str) -> str:
    """The same for all names of this one."""
    return "localhost" if is_loopback(host) else host
