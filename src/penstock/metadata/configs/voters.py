"""How a node is told to find the metadata quorum: by its voters, or by servers that know them.

`controller.quorum.voters` lists `id@host:port` with commas between, `controller.quorum.bootstrap.servers` `host:port`.
"""

from dataclasses import dataclass

from penstock.metadata.configs.definitions import ConfigError

VOTERS_KEY = "controller.quorum.voters"
BOOTSTRAP_KEY = "controller.quorum.bootstrap.servers"


@dataclass(frozen=True, slots=True)
class Voter:
    """One voter and the address of its controller listener."""

    node_id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a server listens of which nothing else is known."""

    host: str
    port: int


def parse_voters(items: tuple[str, ...]) -> dict[int, Voter]:
    """Read the voters, by their node ids."""
    voters: dict[int, Voter] = {}
    for item in items:
        node_id, at, text = item.partition("@")
        address = _address(text)
        if not at or address is None or not _is_number(node_id) or int(node_id) in voters:
            raise ConfigError(VOTERS_KEY, ",".join(items), "id@host:port with commas between, each id once")
        voters[int(node_id)] = Voter(int(node_id), address.host, address.port)
    return voters


def parse_servers(key: str, items: tuple[str, ...]) -> tuple[ServerAddress, ...]:
    """Read the addresses that `key` lists."""
    servers = []
    for item in items:
        address = _address(item)
        if address is None:
            raise ConfigError(key, ",".join(items), "host:port with commas between")
        servers.append(address)
    return tuple(servers)


def _address(text: str) -> ServerAddress | None:
    host, colon, port = text.rpartition(":")
    if not (colon and host and _is_number(port) and int(port) <= 65535):
        return None
    return ServerAddress(host.strip("[]"), int(port))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
