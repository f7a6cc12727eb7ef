"""What makes a cluster for tests a secured one: it is made once for its directory, and found there again."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import SystemRandom
from typing import Final

from penstock.metadata.configs.pairs import decode_properties
from penstock.metadata.records import MetadataRecord
from penstock.protocol.secret import Secret
from penstock.testing.secured.folder import CLIENTS as OF_CLIENTS
from penstock.testing.secured.folder import SecuredFolder
from penstock.testing.secured.places import CLIENTS, CONTROLLER, NODES
from penstock.testing.secured.settings import LIBRDKAFKA_FILE, of_all_nodes, of_client, of_keys
from penstock.testing.secured.users import ADMIN, APP, drawn_passwords, first_records

FOLDER: Final = "security"
HERE: Final = ("127.0.0.1", "localhost")
USERS: Final = (ADMIN, APP)
LISTENERS: Final[Mapping[str, Sequence[str]]] = {"broker": (CLIENTS, NODES), "controller": (CONTROLLER,)}


class EmbeddedSecurity:
    """Raises AuthorityError where the package is missing that makes certificates."""

    listeners = LISTENERS

    def __init__(self, directory: Path, node_ids: Sequence[int]) -> None:
        self._folder = SecuredFolder(directory / FOLDER, dt.datetime.now(dt.UTC))
        self._node_ids = node_ids
        if not self._folder.authorities.numbers:
            self._folder.authorities.add()
        for node_id in node_ids:
            if not self._folder.node(node_id).is_dir():
                self._folder.add_keys(node_id, HERE)
        for user, password in drawn_passwords(USERS).items():
            if not self._client(user).is_dir():
                self._folder.add_client(user, password, "", self._client(user))

    @property
    def records(self) -> list[MetadataRecord]:
        """What the cluster begins with."""
        return first_records({user: self._password(user) for user in USERS}, SystemRandom())

    @property
    def common(self) -> dict[str, str]:
        """Settings of all nodes."""
        return of_all_nodes(self._node_ids)

    def settings_of(self, node_id: int) -> dict[str, str]:
        return of_keys(self._folder.node(node_id))

    def client_properties(self, user: str) -> dict[str, str]:
        """Without addresses; the log-in in Java's words and in librdkafka's. KeyError for a user that there is not."""
        if user not in USERS:
            raise KeyError(user)
        password = self._password(user)
        return {
            **of_client(user, password),
            "sasl.username": user,
            "sasl.password": password.text,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": self._folder.authorities.trusted,
        }

    def _client(self, user: str) -> Path:
        return self._folder.path / OF_CLIENTS / user

    def _password(self, user: str) -> Secret:
        return Secret(decode_properties((self._client(user) / LIBRDKAFKA_FILE).read_bytes())["sasl.password"])
