"""`penstock metadata-quorum`: who leads, how far the replicas are, who votes; as kafka-metadata-quorum.sh tells it."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import UUID

import click

from penstock.cli.cluster.quorum_views import quorum_as_json, replication_lines, status_lines
from penstock.cli.terminal.failures import in_words, wrong_usage
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import JSON, declared, option
from penstock.cli.terminal.output import print_lines
from penstock.cli.terminal.session import QUORUM_PATIENCE_MS, NodeSession
from penstock.client.admin import Admin
from penstock.client.admin.quorum import QuorumEndpoint, QuorumInfo
from penstock.client.settings import wall_clock_ms
from penstock.log.directories.errors import LogDirectoryError
from penstock.log.directories.formatting import identities
from penstock.log.disk import Disk
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.definitions import ConfigError
from penstock.metadata.configs.pairs import PropertiesError
from penstock.node.assembly.properties import load_config
from penstock.protocol.errors import KafkaError
from penstock.protocol.uuids import uuid_from_text, uuid_to_text


@click.group(short_help="describe and change the quorum of controllers")
@declared
def command(session: NodeSession) -> None:
    """Look at the metadata quorum, and change who votes in it.

    Where to reach the cluster, and as whom, may be said before the subcommand, as for kafka-metadata-quorum.sh,
    or behind it.
    """
    click.get_current_context().obj = session


@command.command("describe")
@declared
def describe(
    session: NodeSession,
    status: bool = option("A short summary: leader, epoch, lag, voters, observers."),
    replication: bool = option("Each replica of the metadata log, and how far it is."),
    human_readable: bool = option("With --replication: times as milliseconds from now."),
    as_json: bool = JSON,
) -> None:
    """Show who leads the quorum and how far its replicas are."""
    if status == replication:
        raise click.UsageError("give one of --status and --replication")
    if human_readable and not replication:
        raise click.UsageError("--human-readable goes with --replication")

    async def work(admin: Admin) -> tuple[str, QuorumInfo]:
        info = await admin.quorum.describe()
        return admin.cluster.metadata.cluster_id or "", info

    cluster_id, info = session.run(work, patience_ms=QUORUM_PATIENCE_MS)
    now_ms = wall_clock_ms() if human_readable else None
    lines = status_lines(cluster_id, info) if status else replication_lines(info, now_ms)
    print_lines(list(lines), quorum_as_json(cluster_id, info), as_json=as_json)


@command.command("add-controller")
@declared
def add_controller(
    session: NodeSession,
    file: Path | None = option(
        "The server.properties of the controller. Without it --command-config is taken, as Kafka's tool does.",
        "-c",
        "--config",
        exists=False,
        metavar="FILE",
    ),
    dry_run: bool = option("Say what would be done."),
) -> None:
    """Let a controller vote that runs already and follows the metadata log.

    Its id, its directory's id and its addresses are read from its configuration and its data directory, so this runs
    on the controller's machine.
    """
    source = file or session.file
    if source is None:
        raise click.UsageError("give the configuration file of the controller: --config FILE")
    config = _load(source)
    directory_id, endpoints = _directory_id(config, source), _endpoints(config, source)
    if not dry_run:
        session.run(
            lambda admin: admin.quorum.add_voter(config.node_id, directory_id, endpoints), with_file=file is not None
        )
    say(
        f"{'DRY RUN of adding' if dry_run else 'Added'} controller {config.node_id} with directory id "
        f"{uuid_to_text(directory_id)} and endpoints: {', '.join(map(str, endpoints))}"
    )


@command.command("remove-controller")
@declared
def remove_controller(
    session: NodeSession,
    controller_id: int = option("The controller's node id.", "-i", "--controller-id", min=0, required=True),
    controller_directory_id: str = option(
        "The id of its metadata directory.", "-d", "--controller-directory-id", required=True
    ),
    dry_run: bool = option("Say what would be done."),
    unregister: bool = option("Then forget it, too: stop it before, or it registers anew."),
) -> None:
    """Let a controller vote no longer; `describe --status` shows the ids."""
    with wrong_usage(ValueError, of="--controller-directory-id"):
        directory_id = uuid_from_text(controller_directory_id)
    removed = f"KRaft controller {controller_id} with directory id {uuid_to_text(directory_id)}"
    unregistered = f"KRaft controller {controller_id}"
    if dry_run:
        say(f"DRY RUN of removing {removed}")
        if unregister:
            say(f"DRY RUN of unregistering {unregistered}")
        return

    async def work(admin: Admin) -> None:
        try:
            await admin.quorum.remove_voter(controller_id, directory_id)
            say(f"Removed {removed}")
            if unregister:
                await admin.unregister_controller(controller_id)
                say(f"Unregistered {unregistered}")
        except KafkaError as error:
            if not unregister:
                raise
            cure = f"to unregister it alone: penstock cluster unregister-controller --id {controller_id}"
            raise KafkaError(error.code, f"{error.message}; {cure}") from error

    session.run(work)


def _load(file: Path) -> BrokerConfig:
    with in_words(ConfigError, PropertiesError):
        config = load_config(file, environment=os.environ).config
    if not config.is_controller:
        raise click.ClickException(f"{file}: process.roles names no controller")
    return config


def _directory_id(config: BrokerConfig, file: Path) -> UUID:
    directory = config.metadata_dir
    with in_words(LogDirectoryError, OSError):
        identity = identities(Disk(), [directory])[directory]
    if identity is None or not identity.directory_id:
        raise click.ClickException(f"{directory} of {file} has no directory id: format it and start the controller")
    return identity.directory_id


def _endpoints(config: BrokerConfig, file: Path) -> list[QuorumEndpoint]:
    """What the controller advertises, else where it listens."""
    advertised = {listener.name: listener for listener in config.advertised_listeners}
    found = [advertised.get(listener.name, listener) for listener in config.controller_listeners]
    if not found:
        raise click.ClickException(f"{file}: listeners has none of controller.listener.names")
    return [QuorumEndpoint(listener.name, listener.host or "localhost", listener.port) for listener in found]
