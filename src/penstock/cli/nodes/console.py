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
from penstock.cli.terminal.lines import ask_password, begin_logging, say
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
from penstock.console.serving.passwords import hashed, is_hashed
from penstock.console.serving.settings import ConsoleSettings, NotServedError, is_loopback
from penstock.console.serving.tls import why_unsafe
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
    users: Path | None = option("A file of user=password lines, hashed or not: nobody else is let in."),
    make_user: str | None = option("Ask for a password and print a line for that file.", metavar="NAME"),
    certificate: Path | None = option("A certificate in PEM, with its chain: browsers come by https."),
    key: Path | None = option("Its key, in PEM and without a password."),
    insecure: bool = option("Listen beyond this machine without a log-in, or without TLS, as behind a proxy."),
    allowed_hosts: tuple[str, ...] = option(
        "Another name by which browsers may come; may be repeated.", "--allowed-host", metavar="NAME"
    ),
    read_only: bool = option("Refuse all changes."),
    worker: str | None = option("A Connect worker's REST interface, whose connectors are shown.", metavar="URL"),
    schema_registry: str | None = option(
        "A schema registry, by whose schemas records are shown and sent.", metavar="URL"
    ),
    until_eof: bool = option(None, "--until-eof", hidden=True),
) -> None:
    """Show the cluster in a browser until Ctrl-C: what there is, what is wrong, records as they come; and change it.

    Without --users it listens on this machine alone, and whoever is at it may do what the client's user may. Each
    change is written to the standard error, with who made it.
    """
    if make_user is not None:
        _make_user(make_user)
        return
    properties = read_properties(command_config)
    host, port = _address(listen)
    client = ClientSettings(
        client_id="penstock-console",
        socket_connection_setup_timeout_ms=SETUP_TIMEOUT_MS,
        default_api_timeout_ms=PATIENCE_MS,
        request_timeout_ms=PATIENCE_MS,
    )
    with wrong_usage(ValueError):
        found = resolved({name: value for name, value in properties.items() if name != SERVERS})
    settings = ConsoleSettings(
        bootstrap_servers=servers_from(bootstrap_server, properties),
        client=settings_from(client, properties),
        properties=found,
        host=host,
        port=port,
        allowed_hosts=allowed_hosts,
        users=_users(users) if users else {},
        certificate=certificate,
        key=key,
        read_only=read_only,
        worker=worker,
        schema_registry=schema_registry,
        site=folders().get("site"),
    )
    _check(settings, listen, insecure=insecure)
    _serve(settings, until_eof=until_eof)


def _check(settings: ConsoleSettings, listen: str, *, insecure: bool) -> None:
    """Refuses by its name what would let others in, or passwords out."""
    if (settings.certificate is None) != (settings.key is None):
        raise click.UsageError("--certificate and --key go together")
    if is_loopback(settings.host) or insecure:
        return
    if not settings.users:
        raise click.UsageError(
            f"--listen {listen}: beyond this machine anybody could change the cluster; --users FILE asks for a "
            "password, --insecure lets everybody in"
        )
    if settings.certificate is None:
        raise click.UsageError(
            f"--listen {listen}: beyond this machine passwords would pass in the clear; --certificate FILE and --key "
            "FILE speak TLS, --insecure leaves that to a proxy"
        )


def _serve(settings: ConsoleSettings, *, until_eof: bool) -> None:
    try:
        from penstock.console.serving.server import ConsoleServer
    except ModuleNotFoundError as error:
        raise click.ClickException(f"{error}: pip install 'penstock[console]'") from None
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


def _make_user(name: str) -> None:
    if not name or any(it in name for it in "=:# \\\t\n"):
        raise click.UsageError(f"--make-user {name}: a name has no blank, =, :, # or \\")
    say(f"{name}={hashed(ask_password(name))}")


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
    users = {user: Secret(password) for user, password in found.items()}
    for user, password in users.items():
        try:
            has_plain = not is_hashed(password)
        except ValueError:
            raise click.UsageError(f"--users {file}: what {user} has is no hash: --make-user makes one") from None
        if has_plain and (problem := why_unsafe(file)):
            raise click.UsageError(f"--users {file}: it has passwords as they are, and {problem}")
    return users
