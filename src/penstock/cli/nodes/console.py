"""`penstock console`: the cluster in a browser (docs/console.md)."""

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Final

import click

from penstock.cli.terminal.failures import in_words, wrong_usage
from penstock.cli.terminal.lines import begin_logging, say
from penstock.cli.terminal.options import declared, option
from penstock.cli.terminal.session import (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    SERVERS,
    SETUP_TIMEOUT_MS,
    read_properties,
    run,
    servers_from,
    settings_from,
)
from penstock.cli.terminal.shipped import folders
from penstock.client.providers import resolved
from penstock.client.settings import ClientSettings
from penstock.protocol.address import listening_address
from penstock.protocol.secret import Secret

LISTEN: Final = "127.0.0.1:8085"
PATIENCE_MS: Final = 5_000
"""A page is to say soon that the cluster does not answer: default.api.timeout.ms says otherwise."""


@click.command("console")
@declared
def command(
    bootstrap_server: str = BOOTSTRAP_SERVER,
    command_config: Path | None = COMMAND_CONFIG,
    listen: str = option("Where browsers come to.", default=LISTEN, show_default=True, metavar="HOST:PORT"),
    users: Path | None = option("A file of user=password lines: nobody else is let in."),
    insecure: bool = option("Let in everybody who reaches an address beyond this machine."),
    allowed_hosts: tuple[str, ...] = option(
        "Another name by which browsers may come; may be repeated.", "--allowed-host", metavar="NAME"
    ),
    read_only: bool = option("Refuse all changes."),
    worker: str | None = option("A Connect worker's REST interface, whose connectors are shown.", metavar="URL"),
    until_eof: bool = option(None, "--until-eof", hidden=True),
) -> None:
    """Show the cluster in a browser until Ctrl-C: what there is, what is wrong, records as they come; and change it.

    Without --users it listens on this machine alone, and whoever is at it may do what the client's user may. Each
    change is written to the standard error, with who made it.
    """
    properties = read_properties(command_config)
    host, port = _address(listen)
    try:
        from penstock.console.serving.guard import is_loopback
        from penstock.console.serving.server import ConsoleServer
        from penstock.console.serving.settings import ConsoleSettings, NotServedError
    except ModuleNotFoundError as error:
        raise click.ClickException(f"{error}: pip install 'penstock[work]'") from None
    if not is_loopback(host) and users is None and not insecure:
        raise click.UsageError(
            f"--listen {listen}: beyond this machine anybody could change the cluster; --users FILE asks for a "
            "password, --insecure lets everybody in"
        )
    client = ClientSettings(
        client_id="penstock-console",
        socket_connection_setup_timeout_ms=SETUP_TIMEOUT_MS,
        default_api_timeout_ms=PATIENCE_MS,
        request_timeout_ms=PATIENCE_MS,
    )
    with wrong_usage(ValueError):
        found = resolved({key: value for key, value in properties.items() if key != SERVERS})
    settings = ConsoleSettings(
        bootstrap_servers=servers_from(bootstrap_server, properties),
        client=settings_from(client, properties),
        properties=found,
        host=host,
        port=port,
        allowed_hosts=allowed_hosts,
        users=_users(users) if users else {},
        read_only=read_only,
        worker=worker,
        site=folders().get("site"),
    )
    begin_logging(logging.WARNING)
    logging.getLogger("penstock.console.audit").setLevel(logging.INFO)

    async def serve() -> None:
        with in_words(NotServedError):
            async with ConsoleServer(settings) as server:
                say(
                    f"console at {server.url} of the cluster at {settings.bootstrap_servers}",
                    f"  to stop  Ctrl-C, or kill {os.getpid()}",
                )
                await _end(until_eof=until_eof)

    run(serve())


async def _end(*, until_eof: bool) -> None:
    """Of this process: a signal, or the end of the standard input, whose writer has gone."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if until_eof:
        loop.add_reader(sys.stdin.fileno(), _stop_at_eof, stop)
    await stop.wait()


def _stop_at_eof(stop: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 1):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        stop.set()


def _address(listen: str) -> tuple[str, int]:
    address = listening_address(listen)
    if address is None:
        raise click.UsageError(f"--listen {listen}: write HOST:PORT, as in {LISTEN}")
    return address


def _users(file: Path) -> dict[str, Secret]:
    found = read_properties(file)
    if not found or not all(found.values()):
        raise click.UsageError(f"--users {file}: it needs lines of user=password, and no password is empty")
    return {user: Secret(password) for user, password in found.items()}
