"""Levels of features as options name them, and what can be said of them without a cluster.

`penstock features` and `penstock storage` have both subcommands, as Kafka's scripts do.
"""

from typing import Final

import click

from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import declared, option
from penstock.metadata.features import (
    KAFKAS_FEATURES,
    KRAFT_VERSION,
    METADATA_VERSION,
    METADATA_VERSION_NAMES,
    NEWEST_METADATA_VERSION,
    SUPPORTED_FEATURES,
    default_level,
    metadata_version_named,
    shown_level,
)

MAX_LEVEL: Final = (1 << 15) - 1


def release_level(option: str, text: str) -> int:
    """The level of metadata.version of a release such as 4.0 or 4.0-IV3."""
    level = metadata_version_named(text)
    if level is None:
        raise click.UsageError(f"{option} {text}: known are {', '.join(METADATA_VERSION_NAMES.values())}")
    return level


def release_levels(metadata_version: int, *, is_upgrade: bool) -> dict[str, int]:
    """Only features that can be changed here; no upgrade takes one away."""
    changeable = sorted(KAFKAS_FEATURES.keys() & SUPPORTED_FEATURES.keys() - {KRAFT_VERSION})
    levels = {name: min(default_level(name, metadata_version), SUPPORTED_FEATURES[name].newest) for name in changeable}
    return {METADATA_VERSION: metadata_version} | {
        name: level for name, level in levels.items() if level or not is_upgrade
    }


def named_levels(texts: tuple[str, ...]) -> dict[str, int]:
    """Reads `--feature NAME=LEVEL`, each feature once."""
    levels: dict[str, int] = {}
    for text in texts:
        name, separator, level = (part.strip() for part in text.partition("="))
        if not (separator and name and level.isdecimal() and int(level) <= MAX_LEVEL):
            raise click.UsageError(f"--feature {text}: expected NAME=LEVEL, such as metadata.version=25")
        if name in levels:
            raise click.UsageError(f"feature {name} is given more than once")
        levels[name] = int(level)
    return levels


@click.command("version-mapping")
@declared
def version_mapping(
    release_version: str | None = option(
        "Such as 4.0 or 4.0-IV3; the newest by default.", "-r", "--release-version", metavar="RELEASE"
    ),
) -> None:
    """Show which levels Apache Kafka's features have in a new cluster of a release."""
    name = METADATA_VERSION_NAMES[NEWEST_METADATA_VERSION] if release_version is None else release_version
    level = release_level("--release-version", name)
    say(f"{METADATA_VERSION}={level} ({name})")
    for feature in KAFKAS_FEATURES:
        say(f"{feature}={default_level(feature, level)}")


@click.command("feature-dependencies")
@declared
def feature_dependencies(
    features: tuple[str, ...] = option("Can be repeated.", "-f", "--feature", required=True, metavar="NAME=LEVEL"),
) -> None:
    """Show which levels of other features a level of one of Apache Kafka's features needs."""
    for name, level in named_levels(features).items():
        shown, needs = _needs(name, level)
        if not needs:
            say(f"{name}={shown} has no dependencies.")
            continue
        say(f"{name}={shown} requires:")
        for other, needed in needs.items():
            say(f"    {other}={shown_level(needed) if other == METADATA_VERSION else needed}")


def _needs(name: str, level: int) -> tuple[str, dict[str, int]]:
    """How a level is shown, and what it needs."""
    if name == METADATA_VERSION:
        if level not in METADATA_VERSION_NAMES:
            raise click.ClickException(f"Unknown metadata.version {level}")
        return shown_level(level), {}
    levels = KAFKAS_FEATURES.get(name)
    if levels is None:
        raise click.ClickException(f"Unknown feature: {name}")
    if level >= len(levels):
        raise click.ClickException(f"Feature level {level} is not supported for feature {name}")
    return str(level), levels[level].needs
