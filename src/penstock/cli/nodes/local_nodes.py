"""The nodes of a local cluster on the disk: a `.properties` file and a data directory for each, made once and kept.

penstock-data/node-1.properties                   what `penstock start` reads, also for one node alone
penstock-data/node-1/                             its data
penstock-data/nodes/node-1/server.properties      instead of both, where the cluster is secured
"""

import datetime as dt
from collections.abc import Collection, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Final

import click

from penstock import __version__
from penstock.log.directories.errors import LogDirectoryError
from penstock.metadata.configs.pairs import PropertiesError, properties_text
from penstock.node.assembly.properties import read_properties
from penstock.protocol.errors import DecodeError
from penstock.protocol.value import Value
from penstock.testing.layout import format_as_one_cluster, replica_settings, voters_settings
from penstock.testing.ports import LOOPBACK, ReservedPort
from penstock.testing.secured.authorities import AuthorityError
from penstock.testing.secured.folder import CLIENTS, NODE_FILE, NODES
from penstock.testing.secured.places import ABOVE, CONTROLLER, Place
from penstock.testing.secured.users import APP
from penstock.testing.secured_cluster import make_secured

DEFAULT_PORT: Final = 9092
PLAIN_ABOVE: Final = (0, ABOVE[CONTROLLER])
"""The controller of the broker on port 9092 listens on port 19092."""
SECURED_FILES: Final = f"{NODES}/node-*/{NODE_FILE}"
SECURED_CLIENTS: Final = CLIENTS

OTHER_PORTS: Final = "stop what uses it, or let a new cluster have other ports with --port; 0 is any that are free"


class LocalNode(Value):
    node_id: int
    file: Path
    listeners: tuple[str, ...]
    data: Path

    @property
    def bootstrap_server(self) -> str:
        return self.listeners[0].rpartition("/")[2]

    @property
    def ports(self) -> list[int]:
        """Only ports at the loopback address."""
        addresses = [listener.rpartition("/")[2].rpartition(":") for listener in self.listeners]
        return [int(port) for host, _, port in addresses if host == LOOPBACK and port.isdecimal()]


class LocalCluster(Value):
    cluster_id: str
    directory: Path
    nodes: tuple[LocalNode, ...]
    ports: tuple[ReservedPort, ...]
    """Reserved, so that no other process gets one of them, not even a node for a connection to another."""
    clients: Path | None
    """Files for clients, where the cluster is secured."""


def local_cluster(directory: Path, count: int, port: int | None, *, secure: bool = False) -> LocalCluster:
    """A new cluster begins at `port` (0: any free). Raises click.ClickException for foreign files or taken ports."""
    directory = directory.absolute()
    if (directory / "meta.properties").exists():
        raise click.ClickException(f"{directory} has the data of a single node: give another place with --directory")
    try:
        known, clients = _known(directory), directory / SECURED_CLIENTS
        if not known and secure:
            ports = _reserved(_wanted(count, DEFAULT_PORT if port is None else port, ABOVE.values()), OTHER_PORTS)
            _make_secured(directory, count, [reserved.port for reserved in ports])
            known = _known(directory)
        elif not known:
            ports = _reserved(_wanted(count, DEFAULT_PORT if port is None else port, PLAIN_ABOVE), OTHER_PORTS)
            known = _make(directory, count, [reserved.port for reserved in ports])
        elif secure and not clients.is_dir():
            raise click.ClickException(
                f"{directory} has a cluster that is not secured: give another place with --directory, or take the steps"
                " of docs/migration.md"
            )
        elif len(known) != count:
            raise click.ClickException(
                f"{directory} has a cluster of {len(known)} nodes: start it with --nodes {len(known)}, or give another "
                "place with --directory"
            )
        elif port not in (None, 0, int(known[0].bootstrap_server.rpartition(":")[2])):
            raise click.ClickException(f"the nodes in {directory} have their ports: {known[0].bootstrap_server} and on")
        else:
            cure = "if this cluster does not run already, stop what uses it, or change listeners in"
            ports = _reserved(
                [number for node in known for number in node.ports], f"{cure} {directory / 'node-*.properties'}"
            )
        cluster_id = format_as_one_cluster(
            {node.node_id: node.data for node in known},
            {node.node_id: f"{LOOPBACK}:{node.ports[-1]}" for node in known if node.ports},
        )
    except (LogDirectoryError, PropertiesError, DecodeError, AuthorityError) as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename or directory}: {error.strerror}") from None
    return LocalCluster(cluster_id, directory, tuple(known), tuple(ports), clients if clients.is_dir() else None)


def _known(directory: Path) -> list[LocalNode]:
    """From their files, by id. Raises PropertiesError."""
    files = [*directory.glob("node-*.properties")] or [*directory.glob(SECURED_FILES)]
    return sorted(map(_read, files), key=attrgetter("node_id"))


def _make_secured(directory: Path, count: int, ports: Sequence[int]) -> None:
    """`ports` are three for each node."""
    places = [
        Place(number + 1, (LOOPBACK, "localhost"), dict(zip(ABOVE, ports[3 * number :], strict=False)))
        for number in range(count)
    ]
    make_secured(directory, places, [APP], now=dt.datetime.now(dt.UTC))


def _read(file: Path) -> LocalNode:
    settings = read_properties(file)
    if not settings.get("node.id", "").isdecimal() or not settings.get("listeners"):
        raise PropertiesError(f"{file}: node.id or listeners is missing")
    data = Path(settings.get("log.dirs", str(file.with_suffix(""))).partition(",")[0])
    return LocalNode(int(settings["node.id"]), file, tuple(settings["listeners"].split(",")), data)


def _make(directory: Path, count: int, ports: Sequence[int]) -> list[LocalNode]:
    """`ports` are those of brokers and controllers in turn."""
    pairs = {number + 1: (ports[2 * number], ports[2 * number + 1]) for number in range(count)}
    controllers = {node_id: f"{LOOPBACK}:{controller}" for node_id, (_, controller) in pairs.items()}
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    nodes = []
    for node_id, (broker, controller) in pairs.items():
        file = directory / f"node-{node_id}.properties"
        listeners = (f"PLAINTEXT://{LOOPBACK}:{broker}", f"CONTROLLER://{LOOPBACK}:{controller}")
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(node_id),
            "listeners": ",".join(listeners),
            "log.dirs": str(directory / f"node-{node_id}"),
        }
        file.touch(mode=0o600)
        file.write_text(
            properties_text(
                settings | voters_settings(controllers, dynamic=True) | replica_settings(count),
                f"Node {node_id} of a local cluster of {count}, made by penstock {__version__}.",
                "To start it alone: penstock start THIS-FILE",
            )
        )
        nodes.append(LocalNode(node_id, file, listeners, directory / f"node-{node_id}"))
    return nodes


def _wanted(count: int, port: int, above: Collection[int]) -> list[int]:
    """Those of the listeners of each node in turn; 0 is any."""
    return [port + n + more if port else 0 for n in range(count) for more in above]


def _reserved(numbers: Sequence[int], cure: str) -> list[ReservedPort]:
    """Raises click.ClickException if one of them is taken."""
    held: list[ReservedPort] = []
    try:
        for number in numbers:
            held.append(ReservedPort(number))
    except OSError as error:
        for reserved in held:
            reserved.release()
        raise click.ClickException(f"port {number} cannot be had ({error.strerror}): {cure}") from None
    return held
