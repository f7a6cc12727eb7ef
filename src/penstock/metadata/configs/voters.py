"""The voters of the metadata quorum as `controller.quorum.voters` lists them: `id@host:port` with commas between."""

from dataclasses import dataclass

from penstock.metadata.configs.definitions import ConfigError

VOTERS_KEY = "controller.quorum.voters"


@dataclass(frozen=True, slots=True)
class Voter:
    """One voter and the address of its controller listener."""

    node_id: int
    host: str
    port: int


def parse_voters(items: tuple[str, ...]) -> dict[int, Voter]:
    """Read the voters, by their node ids."""
    voters: dict[int, Voter] = {}
    for item in items:
        node_id, at, address = item.partition("@")
        host, colon, port = address.rpartition(":")
        well_formed = at and colon and host and _is_number(node_id) and _is_number(port) and int(port) <= 65535
        if not well_formed or int(node_id) in voters:
            raise ConfigError(VOTERS_KEY, ",".join(items), "id@host:port with commas between, each id once")
        voters[int(node_id)] = Voter(int(node_id), host.strip("[]"), int(port))
    return voters


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
