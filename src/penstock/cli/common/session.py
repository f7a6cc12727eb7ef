"""What commands that talk to a cluster have in common: options, one way to run, one way to fail.

A failure is one line that names the cause and, where there is one, the cure. Exit codes: 0 done, 1 the cluster (or the
way to it) failed, 2 wrong usage, 130 interrupted.
"""

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from penstock.cli.common.output import print_rows
from penstock.client.admin import Admin
from penstock.client.errors import ClientError, ClusterUnreachableError
from penstock.client.properties import as_properties, with_properties
from penstock.client.settings import ClientSettings
from penstock.client.values import TopicPartition
from penstock.protocol.address import parse_bootstrap_servers
from penstock.protocol.errors import KafkaError
from penstock.protocol.value import Value

Result = TypeVar("Result")
Settings = TypeVar("Settings", bound=ClientSettings)
Decorated = TypeVar("Decorated", bound=Callable[..., Any])
DEFAULT_BOOTSTRAP_SERVER: Final = "127.0.0.1:9092"
SETUP_TIMEOUT_MS: Final = 3_000
"""A node that hangs should not keep a person from the others; socket.connection.setup.timeout.ms says otherwise."""
QUORUM_PATIENCE_MS: Final = 15_000
"""Whoever looks at the quorum may do so because it has no leader: default.api.timeout.ms says otherwise."""
INTERRUPTED: Final = 130
TRACEBACK_VARIABLE: Final = "PENSTOCK_TRACEBACK"


def bootstrap_option(function: Decorated) -> Decorated:
    """The option --bootstrap-server."""
    return click.option(
        "--bootstrap-server",
        default=DEFAULT_BOOTSTRAP_SERVER,
        show_default=True,
        metavar="HOST:PORT,...",
        callback=_check_servers,
        help="Where to reach the cluster.",
    )(function)


def reach_options(function: Decorated) -> Decorated:
    """--bootstrap-server or --bootstrap-controller, before or behind the name of a subcommand; see `Reach.of`."""
    for name, text in (
        ("--bootstrap-controller", "Where to reach the cluster's controllers, instead of its brokers."),
        ("--bootstrap-server", f"Where to reach the cluster. [default: {DEFAULT_BOOTSTRAP_SERVER}]"),
    ):
        function = click.option(name, metavar="HOST:PORT,...", callback=_check_servers, help=text)(function)
    return function


class Reach(Value):
    """Where to reach a cluster, and whether its controllers listen there."""

    addresses: str = DEFAULT_BOOTSTRAP_SERVER
    of_controllers: bool = False

    @classmethod
    def of(
        cls, bootstrap_server: str | None, bootstrap_controller: str | None, outer: "Reach | None" = None
    ) -> "Reach":
        """What `reach_options` gave; where they gave nothing, what was given before the subcommand."""
        if bootstrap_server is not None and bootstrap_controller is not None:
            raise click.UsageError("give one of --bootstrap-server and --bootstrap-controller")
        if bootstrap_controller is not None:
            return cls(bootstrap_controller, of_controllers=True)
        return cls(bootstrap_server) if bootstrap_server is not None else outer or cls()


def json_option(function: Decorated) -> Decorated:
    """The option --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(function)


def command_config_option(function: Decorated) -> Decorated:
    """The option --command-config."""
    return click.option(
        "--command-config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="A file with properties of the client, such as request.timeout.ms=5000.",
    )(function)


def _check_servers(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    try:
        if value is not None:
            parse_bootstrap_servers(value)
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from None
    return value


def read_properties(path: Path | None) -> dict[str, str]:
    """The properties in a file, if one is named. Raises click.ClickException."""
    if path is None:
        return {}
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{path} cannot be read: {error}") from None
    lines = (line.strip() for line in text.splitlines())
    return parse_pairs([line for line in lines if line and line[0] not in "#!"], str(path))


def parse_pairs(texts: "list[str] | tuple[str, ...]", option: str) -> dict[str, str]:
    """key=value texts as a dictionary."""
    pairs: dict[str, str] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            raise click.UsageError(f"{option}: {text!r} is not key=value")
        pairs[key.strip()] = value.strip()
    return pairs


def settings_from(defaults: Settings, *properties: Mapping[str, str]) -> Settings:
    """The defaults with properties from files and options; later ones go before earlier ones."""
    merged = {key: value for group in properties for key, value in group.items()}
    try:
        return with_properties(defaults, merged)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def show_settings(settings: ClientSettings, defaults: ClientSettings, *, as_json: bool) -> None:
    """What holds and what would hold if nothing were said, under Kafka's names."""
    usual = as_properties(defaults)
    rows = [(key, value or None, usual[key] or None) for key, value in sorted(as_properties(settings).items())]
    print_rows(["SETTING", "VALUE", "DEFAULT"], rows, as_json=as_json, empty="no settings")


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a command's work to its end, or end the process with a line that people understand."""
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None
    except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
        raise
    except Exception as error:
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        raise click.ClickException(explain(error)) from None


def explain(error: Exception) -> str:
    """A failure as one line."""
    if isinstance(error, ClusterUnreachableError):
        return f"{error}: is a node running there? start one with `penstock start`"
    if isinstance(error, KafkaError):
        return f"{error.message or 'the cluster refused'} ({error.code.name})"
    if isinstance(error, ClientError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    return f"{type(error).__name__}: {error} (a fault of this program: {TRACEBACK_VARIABLE}=1 shows where)"


def complain_of(failures: Mapping[TopicPartition, Exception]) -> None:
    """Name what could not be had beside what was printed; then the exit code is 1."""
    for error in failures.values():
        click.echo(explain(error), err=True)
    if failures:
        raise click.exceptions.Exit(1)


def run_with_admin(
    reach: str | Reach,
    command_config: Path | None,
    work: Callable[[Admin], Coroutine[Any, Any, Result]],
    *,
    patience_ms: int = ClientSettings().default_api_timeout_ms,
) -> Result:
    """Connect to brokers (or to what `Reach` says), work, disconnect; try nothing for longer than `patience_ms`."""
    where = Reach(reach) if isinstance(reach, str) else reach
    defaults = ClientSettings(
        client_id="penstock-cli",
        socket_connection_setup_timeout_ms=SETUP_TIMEOUT_MS,
        default_api_timeout_ms=patience_ms,
        request_timeout_ms=min(patience_ms, ClientSettings().request_timeout_ms),
    )
    settings = settings_from(defaults, read_properties(command_config))

    async def connected() -> Result:
        async with Admin(where.addresses, settings, of_controllers=where.of_controllers) as admin:
            return await work(admin)

    return run(connected())


def one_of(actions: Mapping[str, bool]) -> str:
    """The one action that was asked for."""
    chosen = [name for name, given in actions.items() if given]
    if len(chosen) != 1:
        names = ", ".join(f"--{name}" for name in actions)
        raise click.UsageError(f"give exactly one of {names}" + (f"; given are {len(chosen)}" if chosen else ""))
    return chosen[0]
