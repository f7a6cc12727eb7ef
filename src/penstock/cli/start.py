"""`penstock start`: run a node until it is told to stop."""

import asyncio
import logging
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock import __version__
from penstock.log.directory_errors import LogDirectoryError
from penstock.log.disk import Disk
from penstock.log.formatting import identities
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.definitions import ConfigError
from penstock.node.properties import PropertiesError, load_config

if TYPE_CHECKING:
    from penstock.node.start import RunningNode

LOG_LEVELS = ("debug", "info", "warning", "error")
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@click.command(short_help="start a node")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Set a key; may be given several times.")
@click.option("--log-level", type=click.Choice(LOG_LEVELS), default="warning", show_default=True, help="What to log.")
def command(file: Path | None, overrides: tuple[str, ...], log_level: str) -> None:
    """Start a node and run it until SIGINT (Ctrl-C) or SIGTERM.

    FILE is a Kafka server.properties. Without it an embedded single node listens on 127.0.0.1:9092 and keeps its data
    in ./penstock-data. Variables such as PENSTOCK_NUM_PARTITIONS go before the file, and --set goes before both. New
    directories are formatted; `penstock storage format` does so beforehand, with a cluster id of your choice.
    """
    try:
        loaded = load_config(file, environment=os.environ, overrides=overrides)
    except (ConfigError, PropertiesError) as error:
        raise click.ClickException(str(error)) from None
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)
    if file is not None:
        _tell_of_new_directories(file, loaded.config)
    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    asyncio.run(_run(loaded.config))


def _tell_of_new_directories(file: Path, config: BrokerConfig) -> None:
    """Say so when all directories of a configured node are new: a disk that is not mounted would look the same.

    Kafka refuses to start then. A node that is its whole cluster has nobody to contradict, so it starts, as a new one.
    """
    try:
        found = identities(Disk(), config.log_dirs)
    except (LogDirectoryError, OSError) as error:
        raise click.ClickException(str(error)) from None
    if not any(found.values()):
        click.echo(
            f"warning: no log directory of {file} was formatted ({', '.join(found)}): this starts as a new node; "
            "if it had data before, is its disk mounted?",
            err=True,
        )


async def _run(config: BrokerConfig) -> None:
    """Start the node, say where it is, wait for a signal, stop it."""
    from penstock.node.memory import keep_for_good
    from penstock.node.start import StartError, start_node

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stop.set)
    starting = asyncio.create_task(start_node(config))
    await _first_of(starting, stop)
    if not starting.done():  # it may wait for a controller
        starting.cancel()
        await asyncio.wait([starting])
        return
    try:
        node = starting.result()
    except StartError as error:
        raise click.ClickException(str(error)) from None
    keep_for_good()
    _announce(config, node)
    await _first_of(node.failed, stop)
    for number in STOP_SIGNALS:  # a second signal does not wait
        loop.remove_signal_handler(number)
    click.echo("stopping")
    await node.stop()
    if node.failed.done():
        raise click.ClickException(f"node {config.node_id} had to stop: {node.failed.result()}")
    click.echo("stopped")


async def _first_of(future: "asyncio.Future[Any]", stop: asyncio.Event) -> None:
    """Wait until that is done, or a signal asks to stop."""
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait([future, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()


def _announce(config: BrokerConfig, node: "RunningNode") -> None:
    listeners = ", ".join(f"{endpoint.listener}://{endpoint.host}:{endpoint.port}" for endpoint in node.endpoints)
    directories = ", ".join(str(Path(directory).absolute()) for directory in node.log_dirs)
    click.echo(
        f"Penstock {__version__}, node {config.node_id} of cluster {node.cluster_id}\n"
        f"  listens on  {listeners}\n"
        f"  data in     {directories}\n"
        f"  to stop     Ctrl-C, or kill {os.getpid()}"
    )
