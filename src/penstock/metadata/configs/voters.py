"""How a node is told to find the metadata quorum: by its voters, or by servers that know them.

`controller.quorum.voters` lists `id@host:port` with commas between, `controller.quorum.bootstrap.servers` `host:port`.
Where voters may change, the first ones are named when directories are formatted: `id@host:port:directory` (KIP-853).
"""

from uuid import UUID

from penstock.metadata.configs.definitions import ConfigError
from penstock.protocol.address import Address, is_number, listening_address
from penstock.protocol.uuids import uuid_from_text, uuid_to_text
from penstock.protocol.value import Value

VOTERS_KEY = "controller.quorum.voters"
BOOTSTRAP_KEY = "controller.quorum.bootstrap.servers"


class Voter(Value):
    """The address is that of the controller listener."""

    node_id: int
    host: str
    port: int


class InitialController(Value):
    """`directory_id` is the id that its metadata directory is going to have."""

    node_id: int
    host: str
    port: int
    directory_id: UUID

    def __str__(self) -> str:
        """The form for `storage format`."""
        return f"{self.node_id}@{Address(self.host, self.port)}:{uuid_to_text(self.directory_id)}"


def parse_voters(items: tuple[str, ...]) -> dict[int, Voter]:
    voters: dict[int, Voter] = {}
    for item in items:
        node_id, _, text = item.partition("@")
        address = _address(text)
        if address is None or not is_number(node_id) or int(node_id) in voters:
            raise ConfigError(VOTERS_KEY, ",".join(items), "id@host:port with commas between, each id once")
        voters[int(node_id)] = Voter(int(node_id), *address)
    return voters


def parse_initial_controllers(text: str) -> dict[int, InitialController]:
    """ValueError for nonsense."""
    found: dict[int, InitialController] = {}
    for item in filter(None, (item.strip() for item in text.split(","))):
        node_id, _, rest = item.partition("@")
        place, _, directory = rest.rpartition(":")
        address = _address(place)
        if address is None or not is_number(node_id):
            raise ValueError(f"{item} is not id@host:port:directory")
        if int(node_id) in found:
            raise ValueError(f"node {node_id} is named twice")
        try:
            directory_id = uuid_from_text(directory)
        except ValueError as error:
            raise ValueError(f"{item} has no id of a directory behind the port ({error})") from None
        found[int(node_id)] = InitialController(int(node_id), *address, directory_id)
    if not found:
        raise ValueError("it names no controller")
    return found


def parse_servers(key: str, items: tuple[str, ...]) -> tuple[Address, ...]:
    servers = []
    for item in items:
        address = _address(item)
        if address is None:
            raise ConfigError(key, ",".join(items), "host:port with commas between")
        servers.append(address)
    return tuple(servers)


def _address(text: str) -> Address | None:
    address = listening_address(text)
    return address if address is not None and address.host else None
