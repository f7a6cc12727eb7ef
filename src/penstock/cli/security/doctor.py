"""`penstock security doctor`: how far a client comes, at each address, and why no further."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import click

from penstock.cli.security.examination import EndError, Examination
from penstock.cli.security.rights import STAGE, on_cluster, on_group, on_topic
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import declared, option
from penstock.cli.terminal.session import (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    read_properties,
    servers_from,
    settings_from,
)
from penstock.client.errors import ClientError
from penstock.client.settings import ClientSettings
from penstock.protocol.acls import Operation
from penstock.protocol.address import Address, parse_bootstrap_servers
from penstock.protocol.errors import DecodeError, KafkaError
from penstock.protocol.value import Value

WIDTH: Final = 8
"""Of the longest stage."""
OF_NETWORK: Final = ("DNS", "TCP")
"""Where another address may lead further."""


class Wanted(Value):
    topic: str | None = option("A topic that the client is about.")
    group: str | None = option("A group of consumers that it belongs to.")
    producer: bool = option("It has to write the topic.")
    consumer: bool = option("It has to read the topic.")

    @property
    def operations(self) -> tuple[Operation, ...]:
        wanted = {Operation.WRITE: self.producer, Operation.READ: self.consumer}
        return tuple(operation for operation, is_wanted in wanted.items() if is_wanted)


@click.command("doctor")
@declared
def command(
    bootstrap_server: str = BOOTSTRAP_SERVER,
    command_config: Path | None = COMMAND_CONFIG,
    *,
    wanted: Wanted,
) -> None:
    """Go a client's way: the name, the connection, TLS, the log-in, its rights, and each broker's own address.

    Where it ends, one line says so, with the cause and the cure, and the exit code is 1. Nothing is changed.
    """
    if (wanted.producer or wanted.consumer) and wanted.topic is None:
        raise click.UsageError("--producer and --consumer need --topic")
    properties = read_properties(command_config)
    addresses = parse_bootstrap_servers(servers_from(bootstrap_server, properties))
    try:
        settings = settings_from(ClientSettings(), properties)
        asked = _first_that_is_reached(addresses, settings)
        brokers = _rights(asked, wanted)
        for broker_id, where in brokers.items():
            if where not in addresses:
                _walk_to_broker(broker_id, where, settings)
    except click.UsageError as error:
        raise _end(EndError("SETTINGS", error.message)) from None
    except ValueError as error:
        raise _end(EndError("SETTINGS", str(error))) from None
    except EndError as error:
        raise _end(error) from None
    say("all is well")


def _first_that_is_reached(addresses: Sequence[Address], settings: ClientSettings) -> Examination:
    """All are gone to, and told of. Raises EndError, that of the network only where none is reached."""
    reached, ends = [], []
    for address in addresses:
        say(f"{address}, a bootstrap server")
        examination = Examination(address, settings)
        try:
            _walk(examination)
            reached.append(examination)
        except EndError as error:
            if error.stage not in OF_NETWORK:
                raise
            ends.append(error)
            if len(addresses) > 1:
                say(f"  {error.stage:<{WIDTH}}  {error}")
    if not reached:
        raise ends[0]
    return reached[0]


def _walk(examination: Examination) -> None:
    for stage, found in examination.stages():
        say(f"  {stage:<{WIDTH}}  {found}")


def _rights(examination: Examination, wanted: Wanted) -> dict[int, Address]:
    """Where the brokers say that they listen. Raises EndError."""
    try:
        with closing(examination.connect()) as connection:
            words, brokers = on_cluster(connection)
            lines = [f"{examination.principal}, {words}"]
            if wanted.topic is not None:
                lines.append(on_topic(connection, examination.principal, wanted.topic, wanted.operations))
            if wanted.group is not None:
                lines.append(on_group(connection, examination.principal, wanted.group))
    except (ClientError, KafkaError, DecodeError, OSError) as error:
        raise EndError(STAGE, str(error)) from None
    for line in lines:
        say(f"  {STAGE:<{WIDTH}}  {line}")
    return brokers


def _walk_to_broker(broker_id: int, where: Address, settings: ClientSettings) -> None:
    say(f"{where}, where broker {broker_id} says that it listens")
    try:
        _walk(Examination(where, settings))
    except EndError as error:
        hint = "; that address is in advertised.listeners of the broker" if error.stage in OF_NETWORK else ""
        raise EndError(error.stage, f"{error}{hint}") from None


def _end(error: EndError) -> click.ClickException:
    return click.ClickException(f"it ends at {error.stage}: {error}")
