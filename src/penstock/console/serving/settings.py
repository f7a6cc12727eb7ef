"""What a console is told when it starts."""

from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from penstock.client.settings import ClientSettings
from penstock.protocol.secret import Secret
from penstock.protocol.value import Value, fresh

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8085
LOCAL: Final = ("localhost", "127.0.0.1", "::1")


class NotServedError(Exception):
    """The address cannot be listened on, or not in this way."""


class ConsoleSettings(Value, kw_only=True):
    """`properties` are the client's, for what reads and sends records; `worker` is the URL of Connect's,
    `schema_registry` that of a registry with Confluent's interface.

    With a `certificate` and its `key` it speaks TLS. `site` is the folder of the documentation's pages.
    """

    bootstrap_servers: str
    client: ClientSettings
    properties: Mapping[str, str] = fresh(dict)
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    allowed_hosts: tuple[str, ...] = ()
    users: Mapping[str, Secret] = fresh(dict)
    certificate: Path | None = None
    key: Path | None = None
    read_only: bool = False
    worker: str | None = None
    schema_registry: str | None = None
    site: Path | None = None

    @property
    def is_tls(self) -> bool:
        return self.certificate is not None


def is_loopback(host: str) -> bool:
    return host in LOCAL or (is_address(host) and ip_address(host).is_loopback)


def is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
