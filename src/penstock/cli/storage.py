"""`penstock storage`: format the log directories of a node, with the options of kafka-storage.sh."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from random import SystemRandom
from typing import Any, Final, TypeVar

import click

from penstock.log.directory_errors import LogDirectoryError
from penstock.log.disk import Disk
from penstock.log.formatting import format_directories, identities
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.definitions import ConfigError
from penstock.metadata.configs.voters import VOTERS_KEY
from penstock.node.properties import PropertiesError, load_config
from penstock.protocol.uuids import random_uuid, uuid_to_text

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
CLUSTER_ID: Final = re.compile(r"[A-Za-z0-9_.-]{1,200}")
LATER: Final = "comes with the metadata quorum of several nodes; a node that is its own quorum needs no such option"


def config_option(function: Decorated) -> Decorated:
    """-c FILE."""
    option = click.option("-c", "--config", "file", required=True, type=click.Path(path_type=Path), metavar="FILE")
    return option(function)


@click.group(short_help="format the log directories of a node")
def command() -> None:
    """Format the log directories of a node, and show what they say of themselves."""


@command.command("random-uuid")
def random_id() -> None:
    """Print a new id for a cluster: 22 characters."""
    click.echo(uuid_to_text(random_uuid(SystemRandom())))


@command.command("format")
@click.option("-t", "--cluster-id", required=True, help="The cluster's id, the same on all its nodes.")
@config_option
@click.option("-g", "--ignore-formatted", is_flag=True, help="Leave alone what is formatted already.")
@click.option("-s", "--standalone", is_flag=True, help="The node is the first of its quorum.")
@click.option("-I", "--initial-controllers", metavar="LIST", help="Not yet: the first controllers of a quorum.")
@click.option("-S", "--add-scram", multiple=True, metavar="TEXT", help="Not yet: a credential to begin with.")
def format_command(
    cluster_id: str,
    file: Path,
    ignore_formatted: bool,
    standalone: bool,
    initial_controllers: str | None,
    add_scram: tuple[str, ...],
) -> None:
    """Write meta.properties into each of log.dirs: the ids of the cluster, the node and the directory.

    A directory that has one is not touched. Nothing is written if any directory belongs to another cluster or node.
    """
    for option, is_given in (("--initial-controllers", initial_controllers), ("--add-scram", add_scram)):
        if is_given:
            raise click.UsageError(f"{option} {LATER}")
    if not CLUSTER_ID.fullmatch(cluster_id):
        raise click.UsageError(f"--cluster-id {cluster_id!r}: take what penstock storage random-uuid prints")
    config = _load(file)
    if standalone and config.static.get(VOTERS_KEY):
        raise click.UsageError(f"--standalone: {file} sets {VOTERS_KEY}, which names the quorum: leave one of them out")
    formatted = 0
    try:
        for path in format_directories(
            Disk(),
            config.log_dirs,
            cluster_id=cluster_id,
            node_id=config.node_id,
            random=SystemRandom(),
            ignore_formatted=ignore_formatted,
        ):
            click.echo(f"Formatting {path}")
            formatted += 1
    except (LogDirectoryError, OSError) as error:
        raise click.ClickException(str(error)) from None
    if not formatted:
        click.echo("All of the log directories are already formatted.")


@command.command("info")
@config_option
def info(file: Path) -> None:
    """Show the log directories of a node and their ids; the exit code is 1 if anything is wrong with them."""
    config = _load(file)
    try:
        found = identities(Disk(), config.log_dirs)
    except (LogDirectoryError, OSError) as error:
        raise click.ClickException(str(error)) from None
    _paragraph("Found log directories:", [path for path in found if Disk().is_directory(path)])
    problems = []
    for path, identity in found.items():
        if identity is None:
            problems.append(f"{path} is not formatted" if Disk().is_directory(path) else f"{path} does not exist")
            continue
        directory_id = uuid_to_text(identity.directory_id) if identity.directory_id else "-"
        click.echo(
            f"Found metadata in {path}: cluster.id={identity.cluster_id}, node.id={identity.node_id}, "
            f"directory.id={directory_id}"
        )
        if identity.node_id != config.node_id:
            problems.append(f"{path} belongs to node.id {identity.node_id}, {file} says node.id {config.node_id}")
    cluster_ids = sorted({identity.cluster_id for identity in found.values() if identity is not None})
    if len(cluster_ids) > 1:
        problems.append(f"the directories belong to several clusters: {', '.join(cluster_ids)}")
    _paragraph("Found problems:", problems)
    if problems:
        raise click.exceptions.Exit(1)


def _load(file: Path) -> BrokerConfig:
    try:
        return load_config(file, environment=os.environ).config
    except (ConfigError, PropertiesError) as error:
        raise click.ClickException(str(error)) from None


def _paragraph(title: str, lines: list[str]) -> None:
    if lines:
        click.echo("\n".join([title, *(f"  {line}" for line in lines)]))
