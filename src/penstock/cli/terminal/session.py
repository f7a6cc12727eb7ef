"""What commands that talk to a cluster have in common: options, one way to run, one way to fail.

A failure is one line that names the cause and, where there is one, the cure. Exit codes: 0 done, 1 the cluster (or the
way to it) failed, 2 wrong usage, 130 interrupted by Ctrl-C, 143 by SIGTERM.
"""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource

from penstock.cli.terminal.failures import in_words, wrong_usage
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import option
from penstock.cli.terminal.output import print_rows
from penstock.client.admin import Admin
from penstock.client.errors import UNANSWERED, ClientError, ClusterUnreachableError
from penstock.client.properties import as_properties, with_properties
from penstock.client.providers import resolved, told
from penstock.client.settings import ClientSettings
from penstock.client.values import TopicPartition
from penstock.metadata.configs.pairs import PropertiesError, parse_properties
from penstock.protocol.address import parse_bootstrap_servers
from penstock.protocol.errors import KafkaError
from penstock.protocol.value import Value

Result = TypeVar("Result")
Settings = TypeVar("Settings", bound=ClientSettings)
Work = Callable[[Admin], Coroutine[Any, Any, Result]]
DEFAULT_BOOTSTRAP_SERVER: Final = "127.0.0.1:9092"
SETUP_TIMEOUT_MS: Final = 3_000
"""A node that hangs should not keep users from the others; socket.connection.setup.timeout.ms says otherwise."""
QUORUM_PATIENCE_MS: Final = 15_000
"""A user may look at the quorum because it has no leader: default.api.timeout.ms says otherwise."""
PATIENCE_MS: Final = ClientSettings().default_api_timeout_ms
INTERRUPTED: Final = 130
TERMINATED: Final = 143
TRACEBACK_VARIABLE: Final = "PENSTOCK_TRACEBACK"


def _check_servers(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    try:
        parse_bootstrap_servers(value)
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from None
    others = {"bootstrap_server", "bootstrap_controller"} - {parameter.name}
    if any(context.params.get(name) is not None for name in others):
        raise click.UsageError("give one of --bootstrap-server and --bootstrap-controller")
    return value


servers = partial(option, metavar="HOST:PORT,...", callback=_check_servers)
BOOTSTRAP_SERVER: Final = servers("Where to reach the cluster.", default=DEFAULT_BOOTSTRAP_SERVER, show_default=True)
SERVERS: Final = "bootstrap.servers"
"""In a client's file: where to reach the cluster, if the command line does not say so."""
COMMAND_CONFIG: Final = option("A file with properties of the client, such as request.timeout.ms=5000.")


class BrokerSession(Value):
    bootstrap_server: str = BOOTSTRAP_SERVER
    command_config: Path | None = COMMAND_CONFIG

    def run(self, work: Work[Result], *, patience_ms: int = PATIENCE_MS) -> Result:
        """Connect, work, disconnect; give up after `patience_ms`."""
        properties = read_properties(self.command_config)
        servers = servers_from(self.bootstrap_server, properties)
        return run_with_admin(servers, properties, work, patience_ms=patience_ms)


class NodeSession(Value):
    """Its options may also stand before the subcommand, at the group."""

    bootstrap_server: str | None = servers(f"Where to reach the cluster. [default: {DEFAULT_BOOTSTRAP_SERVER}]")
    bootstrap_controller: str | None = servers("Where to reach the cluster's controllers, instead of its brokers.")
    command_config: Path | None = COMMAND_CONFIG

    @property
    def are_given(self) -> bool:
        """Whether the command's own options say where the cluster is."""
        return self.bootstrap_server is not None or self.bootstrap_controller is not None

    @property
    def of_controllers(self) -> bool:
        return self._servers.bootstrap_controller is not None

    @property
    def file(self) -> Path | None:
        """That of --command-config."""
        return self.command_config or self._outer.command_config

    @property
    def _outer(self) -> "NodeSession":
        return click.get_current_context().find_object(NodeSession) or self

    @property
    def _servers(self) -> "NodeSession":
        return self if self.are_given else self._outer

    def run(self, work: Work[Result], *, patience_ms: int = PATIENCE_MS, with_file: bool = True) -> Result:
        """Connect, as the file says unless not `with_file`, work, disconnect; give up after `patience_ms`."""
        named = self._servers
        properties = read_properties(self.file if with_file else None)
        of_file = properties.get(SERVERS) or DEFAULT_BOOTSTRAP_SERVER
        addresses = named.bootstrap_controller or named.bootstrap_server or of_file
        return run_with_admin(addresses, properties, work, of_controllers=self.of_controllers, patience_ms=patience_ms)


def servers_from(given: str, properties: Mapping[str, str]) -> str:
    """Those of --bootstrap-server, or of the client's file if that option was not given."""
    source = click.get_current_context().get_parameter_source("bootstrap_server")
    of_file = properties.get(SERVERS)
    return of_file if of_file and source is ParameterSource.DEFAULT else given


def read_properties(path: Path | None) -> dict[str, str]:
    """Empty if no file is named. Raises click.ClickException."""
    if path is None:
        return {}
    with in_words(OSError, UnicodeDecodeError, before=f"{path} cannot be read: "):
        text = path.read_text(encoding="utf-8")
    with in_words(PropertiesError, before=f"{path}: "):
        return parse_properties(text)


def parse_pairs(texts: "list[str] | tuple[str, ...]", option: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            raise click.UsageError(f"{option}: {text!r} is not key=value")
        pairs[key.strip()] = value.strip()
    return pairs


def settings_from(defaults: Settings, *properties: Mapping[str, str]) -> Settings:
    """Later properties go before earlier ones. Values may stand elsewhere (`config.providers`)."""
    merged = {key: value for group in properties for key, value in group.items() if key != SERVERS}
    with wrong_usage(ValueError):
        found = resolved(merged)
    try:
        return with_properties(defaults, found)
    except ValueError as error:
        raise click.UsageError(told(str(error), found, merged)) from None


def show_settings(settings: ClientSettings, defaults: ClientSettings, *, as_json: bool) -> None:
    """Values that hold and default values, under Kafka's names."""
    usual = as_properties(defaults)
    rows = [(key, value or None, usual[key] or None) for key, value in sorted(as_properties(settings).items())]
    print_rows(["SETTING", "VALUE", "DEFAULT"], rows, as_json=as_json, empty="no settings")


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """A failure ends the process with a line that people understand; SIGTERM stops the work as Ctrl-C does."""
    try:
        return asyncio.run(_until_terminated(work))
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None
    except asyncio.CancelledError:
        raise click.exceptions.Exit(TERMINATED) from None
    except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
        raise
    except Exception as error:
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        raise click.ClickException(explain(error)) from None


async def _until_terminated(work: Coroutine[Any, Any, Result]) -> Result:
    task = asyncio.current_task()
    assert task is not None
    if threading.current_thread() is threading.main_thread():  # others have no say in signals
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        return await work
    except ExceptionGroup as failures:  # of tasks that ran beside each other: the others were cancelled
        raise failures.exceptions[0] from failures


def explain(error: Exception) -> str:
    if isinstance(error, ClusterUnreachableError) and UNANSWERED in str(error):
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
        say(explain(error), err=True)
    if failures:
        raise click.exceptions.Exit(1)


def run_with_admin(
    addresses: str,
    properties: Mapping[str, str],
    work: Work[Result],
    *,
    of_controllers: bool = False,
    patience_ms: int = PATIENCE_MS,
) -> Result:
    """Connect, work, disconnect; give up after `patience_ms`."""
    defaults = ClientSettings(
        client_id="penstock-cli",
        socket_connection_setup_timeout_ms=SETUP_TIMEOUT_MS,
        default_api_timeout_ms=patience_ms,
        request_timeout_ms=min(patience_ms, ClientSettings().request_timeout_ms),
    )
    settings = settings_from(defaults, properties)

    async def connected() -> Result:
        async with Admin(addresses, settings, of_controllers=of_controllers) as admin:
            return await work(admin)

    return run(connected())
