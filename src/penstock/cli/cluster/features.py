"""`penstock features`: the levels of the cluster's features, with the subcommands of kafka-features.sh."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from penstock.cli.cluster.feature_levels import (
    feature_dependencies,
    named_levels,
    release_level,
    release_levels,
    version_mapping,
)
from penstock.cli.common.output import print_json
from penstock.cli.common.session import Reach, command_config_option, json_option, reach_options, run_with_admin
from penstock.client.admin.features import UpgradeType
from penstock.metadata.features import METADATA_VERSION, METADATA_VERSION_NAMES
from penstock.protocol.errors import KafkaError

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
UNKNOWN: Final = -1


@click.group(short_help="show and change the levels of features")
@reach_options
@click.pass_context
def command(context: click.Context, bootstrap_server: str | None, bootstrap_controller: str | None) -> None:
    """Show which features the cluster has, at which levels they hold, and change them.

    Where to reach the cluster may be said before the subcommand or behind it.
    """
    context.obj = Reach.of(bootstrap_server, bootstrap_controller)


@command.command("describe")
@reach_options
@command_config_option
@json_option
@click.pass_obj
def describe(
    outer: Reach,
    bootstrap_server: str | None,
    bootstrap_controller: str | None,
    command_config: Path | None,
    as_json: bool,
) -> None:
    """Show each feature: the levels that the node which answers can run at, and the level that holds."""
    reach = Reach.of(bootstrap_server, bootstrap_controller, outer)
    features, epoch = run_with_admin(reach, command_config, lambda admin: admin.features.describe())
    if as_json:
        rows = [
            {"feature": row.name, "min_version": row.lowest, "max_version": row.newest, "finalized_level": row.level}
            for row in features
        ]
        print_json({"epoch": epoch, "features": rows})
        return
    for row in features:
        click.echo(
            f"Feature: {row.name}\tSupportedMinVersion: {_shown(row.name, row.lowest)}\t"
            f"SupportedMaxVersion: {_shown(row.name, row.newest)}\t"
            f"FinalizedVersionLevel: {_shown(row.name, row.level)}\tEpoch: {'-' if epoch == UNKNOWN else epoch}"
        )


def _level_options(function: Decorated) -> Decorated:
    """--feature, --metadata, --release-version, --dry-run."""
    for option in (
        click.option("--dry-run", is_flag=True, help="Ask whether it could be done."),
        click.option("--metadata", help="The level of metadata.version: a number or a name, such as 4.0-IV3 or 3.9."),
        click.option("--release-version", metavar="RELEASE", help="The level of metadata.version of a release."),
        click.option("--feature", "features", multiple=True, metavar="NAME=LEVEL", help="May be given several times."),
    ):
        function = option(function)
    return function


@command.command("upgrade")
@reach_options
@command_config_option
@_level_options
@click.pass_obj
def upgrade(
    outer: Reach,
    bootstrap_server: str | None,
    bootstrap_controller: str | None,
    command_config: Path | None,
    features: tuple[str, ...],
    metadata: str | None,
    release_version: str | None,
    dry_run: bool,
) -> None:
    """Raise levels, all that are named or none."""
    reach = Reach.of(bootstrap_server, bootstrap_controller, outer)
    levels = _levels(features, metadata, release_version, is_upgrade=True)
    _update("upgrade", reach, command_config, levels, UpgradeType.UPGRADE, dry_run)


@command.command("downgrade")
@reach_options
@command_config_option
@_level_options
@click.option("--unsafe", is_flag=True, help="Even if metadata may be lost.")
@click.pass_obj
def downgrade(
    outer: Reach,
    bootstrap_server: str | None,
    bootstrap_controller: str | None,
    command_config: Path | None,
    features: tuple[str, ...],
    metadata: str | None,
    release_version: str | None,
    dry_run: bool,
    unsafe: bool,
) -> None:
    """Lower levels, all that are named or none."""
    reach = Reach.of(bootstrap_server, bootstrap_controller, outer)
    kind = UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE
    levels = _levels(features, metadata, release_version, is_upgrade=False)
    _update("downgrade", reach, command_config, levels, kind, dry_run)


@command.command("disable")
@reach_options
@command_config_option
@click.option("--feature", "features", multiple=True, required=True, metavar="NAME", help="May be given several times.")
@click.option("--dry-run", is_flag=True, help="Ask whether it could be done.")
@click.option("--unsafe", is_flag=True, help="Even if metadata may be lost.")
@click.pass_obj
def disable(
    outer: Reach,
    bootstrap_server: str | None,
    bootstrap_controller: str | None,
    command_config: Path | None,
    features: tuple[str, ...],
    dry_run: bool,
    unsafe: bool,
) -> None:
    """Lower features to level 0, all that are named or none."""
    reach = Reach.of(bootstrap_server, bootstrap_controller, outer)
    kind = UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE
    levels = named_levels(tuple(f"{name}=0" for name in features))
    _update("disable", reach, command_config, levels, kind, dry_run)


def _levels(
    features: tuple[str, ...], metadata: str | None, release_version: str | None, *, is_upgrade: bool
) -> dict[str, int]:
    """The level that each feature is to have. A release stands for those of its levels that there are here."""
    if release_version is not None:
        if features or metadata is not None:
            raise click.UsageError("--release-version stands for all features: give it alone")
        return release_levels(release_level("--release-version", release_version), is_upgrade=is_upgrade)
    levels = named_levels(features)
    if metadata is not None:
        if METADATA_VERSION in levels:
            raise click.UsageError(f"feature {METADATA_VERSION} is given more than once")
        levels[METADATA_VERSION] = int(metadata) if metadata.isdecimal() else release_level("--metadata", metadata)
    if not levels:
        raise click.UsageError("give at least one --feature NAME=LEVEL")
    return levels


def _shown(feature: str, level: int) -> str:
    """A level as kafka-features.sh shows it."""
    return METADATA_VERSION_NAMES.get(level, f"UNKNOWN {level}") if feature == METADATA_VERSION else str(level)


command.add_command(version_mapping)
command.add_command(feature_dependencies)


def _update(
    operation: str, reach: Reach, command_config: Path | None, levels: dict[str, int], kind: UpgradeType, dry_run: bool
) -> None:
    try:
        run_with_admin(reach, command_config, lambda admin: admin.features.update(levels, kind, validate_only=dry_run))
    except click.ClickException as error:
        if not isinstance(error.__cause__ or error.__context__, KafkaError):
            raise
        for name, level in sorted(levels.items()):
            what = name if operation == "disable" else f"{name} to {level}"
            click.echo(f"{'Can' if dry_run else 'Could'} not {operation} {what}. {error.format_message()}")
        raise click.ClickException(f"{len(levels)} out of {len(levels)} operation(s) failed.") from None
    for name, level in sorted(levels.items()):
        done = "disabled" if operation == "disable" else f"{operation}d to {level}"
        click.echo(f"{name} {'can be' if dry_run else 'was'} {done}.")
