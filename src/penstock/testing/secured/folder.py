"""The folder of a secured cluster: all that its nodes and clients need to know each other.

authority/                      what signs: keep it away from the nodes
nodes/node-1/                   for one node, to be taken to its host as a whole
    server.properties
    node.pem                    its key and its certificate
    trusted.pem                 the authorities
    data/
clients/app/                    for one user
    client.properties           for clients of Java and of Penstock
    librdkafka.properties, trusted.pem
    client.py
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from penstock.log.disk import Disk
from penstock.metadata.configs.pairs import decode_properties, properties_text, property_line
from penstock.protocol.secret import Secret
from penstock.testing.secured import settings
from penstock.testing.secured.authorities import NODE_DAYS, Authorities, AuthorityError, write
from penstock.testing.secured.places import Place

AUTHORITY: Final = "authority"
NODES: Final = "nodes"
CLIENTS: Final = "clients"
NODE_FILE: Final = "server.properties"
TRUSTED: Final = "ssl.truststore.certificates"


class SecuredFolder:
    def __init__(self, path: Path, now: dt.datetime) -> None:
        """Nothing is written or read yet. Raises AuthorityError."""
        self.path = path
        self.authorities = Authorities(path / AUTHORITY, now)

    @classmethod
    def found(cls, path: Path, now: dt.datetime) -> SecuredFolder:
        """One that is there. Raises AuthorityError."""
        folder = cls(path, now)
        if not (path / NODES).is_dir():
            raise AuthorityError(
                f"{path} is no folder of a secured cluster: name it with --directory, or make one with `penstock"
                " security init`"
            )
        _ = folder.authorities.signing
        return folder

    @property
    def nodes(self) -> list[Path]:
        return sorted((self.path / NODES).glob("node-*"), key=lambda one: (len(one.name), one.name))

    def node(self, node_id: int) -> Path:
        return self.path / NODES / settings.principal_name(node_id)

    @property
    def clients(self) -> list[Path]:
        return sorted((self.path / CLIENTS).glob("*"))

    def add_node(self, place: Place, at: Path, common: Mapping[str, str]) -> None:
        """`at` is where the node will find its files; `common` is the same for all nodes."""
        folder = self.add_keys(place.node_id, place.names)
        title = f"Node {place.node_id}. To start it: penstock start {NODE_FILE}"
        text = properties_text(settings.of_node(place, at) | dict(common), title)
        write(folder / NODE_FILE, text)

    def add_keys(self, node_id: int, names: Sequence[str]) -> Path:
        """Returns the node's folder."""
        folder = self.node(node_id)
        made = self.authorities.sign(folder.name, names, NODE_DAYS)
        Disk().make_directory(str(folder), parents=True)
        write(folder / settings.TRUST_FILE, self.authorities.trusted)
        write(folder / settings.KEY_FILE, made.key + made.certificate)
        return folder

    def add_client(self, user: str, password: Secret, servers: str, at: Path) -> None:
        """`at` is where its folder will be in the end."""
        folder, trusted = self.path / CLIENTS / user, self.authorities.trusted
        Disk().make_directory(str(folder), parents=True)
        write(folder / settings.TRUST_FILE, trusted)
        write(folder / settings.JAVA_FILE, settings.java_text(user, password, servers, trusted))
        write(folder / settings.LIBRDKAFKA_FILE, settings.librdkafka_text(user, password, servers, at))
        write(folder / settings.PYTHON_FILE, settings.python_text(user))

    def write_trust(self) -> None:
        """What all trust, from the authorities that are there."""
        trusted = self.authorities.trusted
        for folder in (*self.nodes, *self.clients):
            write(folder / settings.TRUST_FILE, trusted)
        for folder in self.clients:
            file = folder / settings.JAVA_FILE
            lines = file.read_text(encoding="utf-8").splitlines()
            ours = property_line(TRUSTED, trusted.strip())
            write(file, "\n".join(ours if line.startswith(f"{TRUSTED}=") else line for line in lines) + "\n")

    def sign_again(self, node: Path, days: int) -> None:
        """A new key with a certificate for the same names, by the authority that signs now."""
        seen = self.authorities.shown(self.certificate_of(node))
        made = self.authorities.sign(seen.name, seen.hosts, days)
        write(node / settings.KEY_FILE, made.key + made.certificate)

    def certificate_of(self, node: Path) -> str:
        """Raises AuthorityError."""
        file = node / settings.KEY_FILE
        try:
            text = file.read_text(encoding="ascii")
        except (OSError, ValueError) as error:
            raise AuthorityError(f"{file} cannot be read: {error}") from None
        return text[text.find("-----BEGIN CERTIFICATE-----") :]

    def signed_by(self, number: int) -> Iterator[tuple[Path, bool]]:
        """Each node, and whether this authority has signed its certificate."""
        return ((node, self.authorities.has_signed(number, self.certificate_of(node))) for node in self.nodes)

    def client_properties(self, user: str) -> dict[str, str]:
        return decode_properties((self.path / CLIENTS / user / settings.JAVA_FILE).read_bytes())
