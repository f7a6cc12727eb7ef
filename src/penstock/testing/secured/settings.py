"""What stands in the files of a secured cluster's nodes and clients."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from penstock.metadata.configs.pairs import properties_text
from penstock.metadata.configs.protection import STANDARD_AUTHORIZER
from penstock.protocol.sasl.jaas import MODULES
from penstock.protocol.secret import Secret
from penstock.testing.secured.places import ABOVE, CLIENTS, CONTROLLER, NODES, Place
from penstock.testing.secured.users import ADMIN, MECHANISM

KEY_FILE: Final = "node.pem"
"""A node's key with its certificate."""
TRUST_FILE: Final = "trusted.pem"
"""The authorities that are trusted."""
JAVA_FILE: Final = "client.properties"
LIBRDKAFKA_FILE: Final = "librdkafka.properties"
PYTHON_FILE: Final = "client.py"


def principal_name(node_id: int) -> str:
    """What a node's certificate calls it."""
    return f"node-{node_id}"


def of_all_nodes(node_ids: Sequence[int]) -> dict[str, str]:
    """The same for each: who is let in, and how."""
    nodes = [f"User:CN={principal_name(node_id)}" for node_id in node_ids]
    return {
        "listener.security.protocol.map": f"{CLIENTS}:SASL_SSL,{NODES}:SSL,{CONTROLLER}:SSL",
        "inter.broker.listener.name": NODES,
        "controller.listener.names": CONTROLLER,
        "listener.name.nodes.ssl.client.auth": "required",
        "listener.name.controller.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": MECHANISM,
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": ";".join([f"User:{ADMIN}", *nodes]),
    }


def of_keys(folder: Path) -> dict[str, str]:
    """Where a node finds its own, and whom it trusts."""
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / KEY_FILE),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / TRUST_FILE),
    }


def of_node(place: Place, folder: Path) -> dict[str, str]:
    """`folder` is where the node finds its files."""
    return {
        "process.roles": "broker,controller",
        "node.id": str(place.node_id),
        "listeners": ",".join(map(place.binding, ABOVE)),
        "advertised.listeners": ",".join(f"{name}://{place.address(name)}" for name in ABOVE),
        "log.dirs": str(folder / "data"),
        **of_keys(folder),
    }


def of_client(user: str, password: Secret) -> dict[str, str]:
    """Without whom it trusts."""
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": MECHANISM,
        "sasl.jaas.config": f'{MODULES[MECHANISM]} required username="{user}" password="{password.text}";',
    }


def java_text(user: str, password: Secret, servers: str, trusted: str) -> str:
    """For Java's clients, Penstock's own and its commands. It needs no other file."""
    settings = {
        "bootstrap.servers": servers,
        **of_client(user, password),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": trusted.strip(),
    }
    return properties_text(settings, f"{user}, for clients of Java and of Penstock")


def librdkafka_text(user: str, password: Secret, servers: str, folder: Path) -> str:
    """Its files know no escapes."""
    settings = {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": MECHANISM,
        "sasl.username": user,
        "sasl.password": password.text,
        "ssl.ca.location": str(folder / TRUST_FILE),
    }
    title = f"# {user}, for librdkafka from 2.6.1 on: confluent-kafka, kcat -F and others"
    return "\n".join([title, *(f"{key}={value}" for key, value in settings.items())]) + "\n"


def python_text(user: str) -> str:
    """A program that tries what the user may do, to begin with."""
    return f'''"""A client that logs in as {user}: it lists the topics that {user} may see."""

import asyncio
from pathlib import Path

from penstock.client.admin import Admin
from penstock.client.files import from_file
from penstock.client.settings import ClientSettings

SERVERS, SETTINGS = from_file(Path(__file__).with_name("{JAVA_FILE}"), ClientSettings())


async def main() -> None:
    async with Admin(SERVERS, SETTINGS) as admin:
        for name in await admin.topics.names():
            print(name)


asyncio.run(main())
'''
