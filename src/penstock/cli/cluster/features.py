"""`penstock features`: the levels of the cluster's features, with the subcommands of kafka-features.sh."""

from __future__ import annotations

from typing import Final

import click

from penstock.cli.cluster.feature_levels import (
    feature_dependencies,
    named_levels,
    release_level,
    release_levels,
    version_mapping,
)
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import JSON, declared, option
from penstock.cli.terminal.output import joined, print_lines
from penstock.cli.terminal.session import NodeSession
from penstock.client.admin import Admin
from penstock.client.admin.features import FeatureDescription, UpgradeType
from penstock.metadata.features import (
    GROUP_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    METADATA_VERSION_NAMES,
    TRANSACTION_VERSION,
)
from penstock.protocol.errors import KafkaError
from penstock.protocol.value import Value

UNKNOWN: Final = -1
WAY_BACK: Final = {
    GROUP_VERSION: "A release without this feature serves no group of the consumer protocol, and none that shares a "
    "partition with one: delete those groups and lower the level before going back to it.",
    KRAFT_VERSION: "There is no way back.",
    TRANSACTION_VERSION: "A release without this feature reads what was aborted, too: go back to it only while nobody "
    "has used transactions.",
}
"""What who raises a level should know before."""
DRY_RUN: Final = option("Ask whether it could be done.")
UNSAFE: Final = option("Even if metadata may be lost.")


class Wanted(Value):
    features: tuple[str, ...] = option("May be given several times.", "--feature", metavar="NAME=LEVEL")
    release_version: str | None = option("The level of metadata.version of a release.", metavar="RELEASE")
    metadata: str | None = option("The level of metadata.version: a number or a name, such as 4.0-IV3 or 3.9.")

    def levels(self, *, is_upgrade: bool) -> dict[str, int]:
        """A release stands for those of its levels that there are here."""
        release, metadata = self.release_version, self.metadata
        if release is not None:
            if self.features or metadata is not None:
                raise click.UsageError("--release-version stands for all features: give it alone")
            return release_levels(release_level("--release-version", release), is_upgrade=is_upgrade)
        levels = named_levels(self.features)
        if metadata is not None:
            if METADATA_VERSION in levels:
                raise click.UsageError(f"feature {METADATA_VERSION} is given more than once")
            levels[METADATA_VERSION] = int(metadata) if metadata.isdecimal() else release_level("--metadata", metadata)
        if not levels:
            raise click.UsageError("give at least one --feature NAME=LEVEL")
        return levels


@click.group(short_help="show and change the levels of features")
@declared
def command(session: NodeSession) -> None:
    """Show which features the cluster has, at which levels they hold, and change them.

    Where to reach the cluster, and as whom, may be said before the subcommand or behind it.
    """
    click.get_current_context().obj = session


@command.command("describe")
@declared
def describe(
    session: NodeSession,
    node_id: int | None = option("The node that shall answer (default: any).", min=0),
    as_json: bool = JSON,
) -> None:
    """Show each feature: the levels that the node which answers can run at, and the level that holds."""

    async def work(admin: Admin) -> tuple[list[FeatureDescription], int]:
        known = admin.cluster.metadata.brokers
        if node_id is not None and node_id not in known:
            of = "controller" if session.of_controllers else "broker"
            raise click.ClickException(f"there is no {of} {node_id} in this cluster: there are {joined(sorted(known))}")
        return await admin.features.describe(node_id)

    features, epoch = session.run(work)
    rows = [
        {"feature": row.name, "min_version": row.lowest, "max_version": row.newest, "finalized_level": row.level}
        for row in features
    ]
    lines = [
        f"Feature: {row.name}\tSupportedMinVersion: {_shown(row.name, row.lowest)}\t"
        f"SupportedMaxVersion: {_shown(row.name, row.newest)}\t"
        f"FinalizedVersionLevel: {_shown(row.name, row.level)}\tEpoch: {'-' if epoch == UNKNOWN else epoch}"
        for row in features
    ]
    print_lines(lines, {"epoch": epoch, "features": rows}, as_json=as_json)


@command.command("upgrade")
@declared
def upgrade(session: NodeSession, wanted: Wanted, dry_run: bool = DRY_RUN) -> None:
    """Raise levels, all that are named or none."""
    _update("upgrade", session, wanted.levels(is_upgrade=True), UpgradeType.UPGRADE, dry_run)


@command.command("downgrade")
@declared
def downgrade(session: NodeSession, wanted: Wanted, dry_run: bool = DRY_RUN, unsafe: bool = UNSAFE) -> None:
    """Lower levels, all that are named or none."""
    _update("downgrade", session, wanted.levels(is_upgrade=False), _lowering(unsafe), dry_run)


@command.command("disable")
@declared
def disable(
    session: NodeSession,
    features: tuple[str, ...] = option("May be given several times.", "--feature", required=True, metavar="NAME"),
    dry_run: bool = DRY_RUN,
    unsafe: bool = UNSAFE,
) -> None:
    """Lower features to level 0, all that are named or none."""
    for name in features:
        if "=" in name:
            raise click.UsageError(f"--feature {name}: give the name alone, as the level will be 0")
    levels = named_levels(tuple(f"{name}=0" for name in features))
    _update("disable", session, levels, _lowering(unsafe), dry_run)


def _lowering(unsafe: bool) -> UpgradeType:
    return UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE


def _shown(feature: str, level: int) -> str:
    return METADATA_VERSION_NAMES.get(level, f"UNKNOWN {level}") if feature == METADATA_VERSION else str(level)


command.add_command(version_mapping)
command.add_command(feature_dependencies)


def _update(operation: str, session: NodeSession, levels: dict[str, int], kind: UpgradeType, dry_run: bool) -> None:
    try:
        session.run(lambda admin: admin.features.update(levels, kind, validate_only=dry_run))
    except click.ClickException as error:
        if not isinstance(error.__cause__ or error.__context__, KafkaError):
            raise
        for name, level in sorted(levels.items()):
            what = name if operation == "disable" else f"{name} to {level}"
            say(f"{'Can' if dry_run else 'Could'} not {operation} {what}. {error.format_message()}")
        raise click.ClickException(f"{len(levels)} out of {len(levels)} operation(s) failed.") from None
    for name, level in sorted(levels.items()):
        done = "disabled" if operation == "disable" else f"{operation}d to {level}"
        say(f"{name} {'can be' if dry_run else 'was'} {done}.")
        if operation == "upgrade" and name in WAY_BACK:
            say(WAY_BACK[name], err=True)
