"""Settings of the clients that measure, as Kafka's tools take them: `--command-property a=1 b=2`, and files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from penstock.cli.terminal.failures import wrong_usage
from penstock.cli.terminal.options import argument, option
from penstock.cli.terminal.session import DEFAULT_BOOTSTRAP_SERVER, parse_pairs, read_properties, settings_from
from penstock.client.settings import ClientSettings
from penstock.protocol.address import parse_bootstrap_servers
from penstock.protocol.value import Value

SERVERS: Final = "bootstrap.servers"
Settings = TypeVar("Settings", bound=ClientSettings)


def config_option(old_name: str) -> Any:
    return option("A file with settings of the client.", "--command-config", old_name)


def properties_option(*old_names: str) -> Any:
    return option(
        "A setting of the client, such as client.id=me; more may follow it with blanks between them.",
        "--command-property",
        *old_names,
        metavar="KEY=VALUE",
    )


class Servers(Value):
    bootstrap_server: str | None = option(
        f"Where to reach the cluster. [default: {DEFAULT_BOOTSTRAP_SERVER}]", metavar="HOST:PORT,..."
    )
    more_properties: tuple[str, ...] = argument(nargs=-1, metavar="[KEY=VALUE]...")

    def client(
        self, config: Path | None, given: tuple[str, ...], defaults: Settings, options: Mapping[str, Any]
    ) -> tuple[str, Settings]:
        """Where to reach the cluster, and the settings: those of `options` go before all. Raises UsageError."""
        if self.more_properties and not given:
            raise click.UsageError(f"{self.more_properties[0]!r} belongs to no option")
        properties = read_properties(config) | parse_pairs((*given, *self.more_properties), "--command-property")
        servers = self.bootstrap_server or properties.get(SERVERS) or DEFAULT_BOOTSTRAP_SERVER
        with wrong_usage(ValueError):
            parse_bootstrap_servers(servers)
        properties.pop(SERVERS, None)
        said = {key: str(value) for key, value in options.items() if value is not None}
        return servers, settings_from(defaults, properties, said)
