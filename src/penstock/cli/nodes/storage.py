"""`penstock storage`: format the log directories of a node, with the options of kafka-storage.sh."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import SystemRandom
from secrets import token_bytes
from typing import Final

import click

from penstock.cli.cluster.feature_levels import feature_dependencies, named_levels, release_level, version_mapping
from penstock.cli.nodes.scram import parse_credential
from penstock.cli.terminal.failures import in_words, wrong_usage
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import declared, option
from penstock.log.directories.errors import LogDirectoryError
from penstock.log.directories.formatting import format_directories, identities, write_first_snapshot
from penstock.log.directories.meta_properties import MetaProperties
from penstock.log.disk import Disk
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.definitions import ConfigError
from penstock.metadata.configs.pairs import PropertiesError
from penstock.metadata.configs.voters import BOOTSTRAP_KEY, VOTERS_KEY, InitialController, parse_initial_controllers
from penstock.metadata.features import (
    KAFKAS_FEATURES,
    KRAFT_VERSION,
    METADATA_VERSION,
    METADATA_VERSION_NAMES,
    NEWEST_METADATA_VERSION,
    SCRAM_LEVEL,
    default_level,
    shown_level,
)
from penstock.metadata.records import FeatureLevelRecord, MetadataRecord
from penstock.node.assembly.first_voters import FIRST_SNAPSHOT_NAME, first_snapshot, read_first_voters, standalone
from penstock.node.assembly.properties import load_config
from penstock.node.environment.environment import Environment
from penstock.protocol.errors import DecodeError
from penstock.protocol.uuids import random_uuid, uuid_to_text

CLUSTER_ID: Final = re.compile(r"[A-Za-z0-9_.+/=:-]{1,200}")
"""Kafka's tool takes any text; this takes what tools draw: base64 of both alphabets, and UUIDs."""
VOTER_OPTIONS: Final = "--standalone, --initial-controllers or --no-initial-controllers"


CONFIG: Final = option(None, "-c", "--config", exists=False, required=True, metavar="FILE")


@click.group(short_help="format the log directories of a node")
def command() -> None:
    """Format the log directories of a node, and show what they say of themselves."""


@command.command("random-uuid")
def random_id() -> None:
    """Print a new id for a cluster: 22 characters."""
    say(uuid_to_text(random_uuid(SystemRandom())))


@command.command("format")
@declared
def format_command(
    cluster_id: str = option("The cluster's id, the same on all its nodes.", "-t", "--cluster-id", required=True),
    file: Path = CONFIG,
    ignore_formatted: bool = option("Leave alone what is formatted already.", "-g", "--ignore-formatted"),
    is_standalone: bool = option("The node is the first of its quorum, alone.", "-s", "--standalone"),
    initial_controllers: str | None = option(
        "The first voters: id@host:port:directory,…", "-I", "--initial-controllers", metavar="LIST"
    ),
    no_initial_controllers: bool = option(
        "The node joins a quorum that is there already.", "-N", "--no-initial-controllers"
    ),
    release_version: str | None = option(
        "The level of metadata.version to begin with: 4.0, 4.0-IV3.", "-r", "--release-version", metavar="RELEASE"
    ),
    features: tuple[str, ...] = option("A feature's level to begin with.", "-f", "--feature", metavar="NAME=LEVEL"),
    add_scram: tuple[str, ...] = option(
        "A credential: SCRAM-SHA-256=[name=…,password=…].", "-S", "--add-scram", metavar="TEXT"
    ),
) -> None:
    """Write meta.properties into log.dirs and metadata.log.dir: the ids of the cluster, the node and the directory.

    A directory that has one is not touched. Nothing is written if any directory belongs to another cluster or node.

    Where controller.quorum.voters is not set, a controller also has to know who votes first: itself alone
    (--standalone), a list that is the same for all nodes (--initial-controllers), or nobody whom it knows, as it joins
    later (--no-initial-controllers).

    Levels of features and credentials are what a new cluster begins with: the first active controller writes to the
    log what it was formatted with itself.
    """
    if is_standalone + (initial_controllers is not None) + no_initial_controllers > 1:
        raise click.UsageError(f"only one of {VOTER_OPTIONS} can be: they are three answers to one question")
    if not CLUSTER_ID.fullmatch(cluster_id):
        raise click.UsageError(
            f"--cluster-id {cluster_id!r}: it may have letters, digits and _.+/=:- (storage random-uuid draws one)"
        )
    config = _load(file)
    if is_standalone or initial_controllers is not None:
        voters = _first_voters(config, file, initial_controllers)
    else:
        voters = {}
        if not no_initial_controllers:
            _check_that_voters_are_known(config, file)
    levels = _first_levels(release_version, features, has_voters=bool(voters) or no_initial_controllers)
    records = [*levels, *_first_credentials(add_scram, levels)]
    is_asked = release_version is not None or bool(features or add_scram)
    with in_words(LogDirectoryError, OSError):
        _format(
            config,
            cluster_id,
            voters,
            records if voters or is_asked else [],
            is_standalone=is_standalone,
            ignore_formatted=ignore_formatted,
        )


def _first_levels(release_version: str | None, features: tuple[str, ...], *, has_voters: bool) -> list[MetadataRecord]:
    levels = named_levels(features)
    level = NEWEST_METADATA_VERSION
    if release_version is not None:
        level = release_level("--release-version", release_version)
        if levels.setdefault(METADATA_VERSION, level) != level:
            raise click.UsageError(f"--feature {METADATA_VERSION}: --release-version says {shown_level(level)}")
    level = levels.pop(METADATA_VERSION, level)
    if level not in METADATA_VERSION_NAMES:
        raise click.UsageError(
            f"--feature {METADATA_VERSION}={level}: known are {', '.join(map(str, METADATA_VERSION_NAMES))}"
        )
    if levels.pop(KRAFT_VERSION, has_voters) != has_voters:
        raise click.UsageError(f"--feature {KRAFT_VERSION}: it is 1 with {VOTER_OPTIONS}, and 0 with {VOTERS_KEY}")
    for name in levels:
        if name not in KAFKAS_FEATURES:
            raise click.UsageError(f"--feature {name}: known are {', '.join([METADATA_VERSION, *KAFKAS_FEATURES])}")
    records: list[MetadataRecord] = [FeatureLevelRecord(name=METADATA_VERSION, feature_level=level)]
    for name in KAFKAS_FEATURES:
        if name == KRAFT_VERSION:
            continue
        default = default_level(name, level)
        wanted = levels.get(name, default)
        _check_level(name, wanted, level)
        if wanted or default:  # level 0 has to be told only where there would be another one
            records.append(FeatureLevelRecord(name=name, feature_level=wanted))
    return records


def _check_level(feature: str, level: int, metadata_version: int) -> None:
    levels = KAFKAS_FEATURES[feature]
    if level >= len(levels):
        raise click.UsageError(f"--feature {feature}={level}: known are 0 to {len(levels) - 1}")
    needed = levels[level].needs.get(METADATA_VERSION, 0)
    if metadata_version < needed:
        raise click.UsageError(
            f"--feature {feature}={level}: it needs {METADATA_VERSION} {shown_level(needed)}, not"
            f" {shown_level(metadata_version)}"
        )


def _first_credentials(texts: tuple[str, ...], levels: list[MetadataRecord]) -> list[MetadataRecord]:
    records: list[MetadataRecord] = []
    for text in texts:
        with wrong_usage(ValueError, of="--add-scram"):
            records.append(parse_credential(text, token_bytes))
    for level in levels:
        assert isinstance(level, FeatureLevelRecord)
        if records and level.name == METADATA_VERSION and level.feature_level < SCRAM_LEVEL:
            raise click.UsageError(
                f"--add-scram: credentials are there from metadata.version {shown_level(SCRAM_LEVEL)} on"
            )
    return records


def _check_that_voters_are_known(config: BrokerConfig, file: Path) -> None:
    if config.is_controller and config.controller_listeners and not config.voters:
        raise click.UsageError(
            f"{file} does not set {VOTERS_KEY}, so this controller has to be told who votes first: give one of "
            f"{VOTER_OPTIONS}"
        )


def _first_voters(config: BrokerConfig, file: Path, text: str | None) -> dict[int, InitialController]:
    """Without a list this node alone."""
    option = "--standalone" if text is None else "--initial-controllers"
    if config.voters:
        raise click.UsageError(
            f"{option}: {file} sets {VOTERS_KEY}, and voters that are fixed there cannot change: remove it and set "
            f"{BOOTSTRAP_KEY}, or leave the option out"
        )
    if text is None:
        if not config.is_controller:
            raise click.UsageError(f"--standalone: {file} has no controller in process.roles; brokers have no vote")
        if not config.controller_listeners:
            raise click.UsageError(
                f"--standalone: {file} has no listener for controllers, so this node is its own quorum anyway: leave "
                "the option out, or set controller.listener.names and such a listener"
            )
        return standalone(config, random_uuid(SystemRandom()))
    if not config.controller_listener_names:
        raise click.UsageError(f"--initial-controllers: {file} does not set controller.listener.names; name one there")
    try:
        return parse_initial_controllers(text)
    except ValueError as error:
        raise click.UsageError(f"--initial-controllers: {error}; give id@host:port:directory,…") from None


def _format(
    config: BrokerConfig,
    cluster_id: str,
    voters: Mapping[int, InitialController],
    records: Sequence[MetadataRecord],
    *,
    is_standalone: bool,
    ignore_formatted: bool,
) -> None:
    disk, metadata_dir = Disk(), config.metadata_dir
    me = voters.get(config.node_id)
    if me is not None and not is_standalone:
        _check_directory_id(metadata_dir, identities(disk, [metadata_dir])[metadata_dir], me)
    formatted = 0
    for path in format_directories(
        disk,
        config.all_dirs,
        cluster_id=cluster_id,
        node_id=config.node_id,
        random=SystemRandom(),
        ignore_formatted=ignore_formatted,
        directory_ids={} if me is None else {metadata_dir: me.directory_id},
    ):
        text = ""
        if path == metadata_dir and records:
            listener = config.controller_listener_names[0] if voters else ""
            snapshot = first_snapshot(voters, listener, Environment().now_ms(), records)
            write_first_snapshot(disk, path, FIRST_SNAPSHOT_NAME, snapshot)
            text = f", first voters: {_listed(voters)}" if voters else ""
        say(f"Formatting {path}{text}")
        formatted += 1
    if not formatted:
        say("All of the log directories are already formatted.")


def _check_directory_id(path: str, identity: MetaProperties | None, me: InitialController) -> None:
    if identity is not None and identity.directory_id != me.directory_id:
        found = uuid_to_text(identity.directory_id) if identity.directory_id else "none"
        raise click.ClickException(
            f"--initial-controllers names the directory {uuid_to_text(me.directory_id)} for node {me.node_id}, and "
            f"{path} is formatted with the id {found}: correct the list on all nodes, or empty the directory"
        )


def _listed(voters: Mapping[int, InitialController]) -> str:
    return ",".join(str(voters[node_id]) for node_id in sorted(voters))


@command.command("info")
@declared
def info(file: Path = CONFIG) -> None:
    """Show the log directories of a node and their ids; the exit code is 1 if anything is wrong with them."""
    config = _load(file)
    with in_words(LogDirectoryError, OSError, DecodeError):
        found = identities(Disk(), config.all_dirs)
        voters = read_first_voters(Disk(), config.metadata_dir)
    _paragraph("Found log directories:", [path for path in found if Disk().is_directory(path)])
    problems = []
    for path, identity in found.items():
        if identity is None:
            problems.append(f"{path} is not formatted" if Disk().is_directory(path) else f"{path} does not exist")
            continue
        directory_id = uuid_to_text(identity.directory_id) if identity.directory_id else "-"
        say(
            f"Found metadata in {path}: cluster.id={identity.cluster_id}, node.id={identity.node_id}, "
            f"directory.id={directory_id}"
        )
        if identity.node_id != config.node_id:
            problems.append(f"{path} belongs to node.id {identity.node_id}, {file} says node.id {config.node_id}")
    if voters:
        say(f"Found first voters in {config.metadata_dir}: {_listed(voters)}")
    cluster_ids = sorted({identity.cluster_id for identity in found.values() if identity is not None})
    if len(cluster_ids) > 1:
        problems.append(f"the directories belong to several clusters: {', '.join(cluster_ids)}")
    _paragraph("Found problems:", problems)
    if problems:
        raise click.exceptions.Exit(1)


def _load(file: Path) -> BrokerConfig:
    with in_words(ConfigError, PropertiesError):
        return load_config(file, environment=os.environ).config


command.add_command(version_mapping)
command.add_command(feature_dependencies)


def _paragraph(title: str, lines: list[str]) -> None:
    if lines:
        say(title, *(f"  {line}" for line in lines))
