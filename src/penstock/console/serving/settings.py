"""What a console is told when it starts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from penstock.client.settings import ClientSettings
from penstock.protocol.secret import Secret
from penstock.protocol.value import Value, fresh

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8085


class NotServedError(Exception):
    """The address cannot be listened on."""


class ConsoleSettings(Value, kw_only=True):
    """`properties` are the client's, for what reads and sends records; `worker` is the URL of Connect's.

    `site` is the folder of the documentation's pages.
    """

    bootstrap_servers: str
    client: ClientSettings
    properties: Mapping[str, str] = fresh(dict)
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    allowed_hosts: tuple[str, ...] = ()
    users: Mapping[str, Secret] = fresh(dict)
    read_only: bool = False
    worker: str | None = None
    site: Path | None = None
