"""What Kafka's scripts print about levels of features without asking a cluster (4.4.0's output)."""

import pytest
from click.testing import CliRunner

from penstock.cli.cluster.feature_levels import release_levels
from penstock.cli.main import main

NEWEST = """\
metadata.version=33 (4.4-IV2)
kraft.version=1
transaction.version=2
group.version=1
eligible.leader.replicas.version=1
share.version=2
streams.version=1
"""
OF_4_0 = """\
metadata.version=25 (4.0)
kraft.version=1
transaction.version=2
group.version=1
eligible.leader.replicas.version=0
share.version=0
streams.version=0
"""


@pytest.mark.parametrize("script", ["features", "storage"])
@pytest.mark.parametrize(("options", "printed"), [([], NEWEST), (["--release-version", "4.0"], OF_4_0)])
def test_the_levels_of_a_release(script: str, options: list[str], printed: str) -> None:
    assert CliRunner().invoke(main, [script, "version-mapping", *options]).stdout == printed


@pytest.mark.parametrize(
    ("feature", "printed"),
    [
        ("eligible.leader.replicas.version=1", "requires:\n    metadata.version=23 (4.0-IV1)\n"),
        ("share.version=2", "has no dependencies.\n"),
        ("kraft.version=0", "has no dependencies.\n"),
    ],
)
def test_what_a_level_needs(feature: str, printed: str) -> None:
    result = CliRunner().invoke(main, ["features", "feature-dependencies", "--feature", feature])
    assert result.stdout == f"{feature} {printed}"


@pytest.mark.parametrize(
    ("feature", "complaint"),
    [
        ("metadata.version=99", "Unknown metadata.version 99"),
        ("x=1", "Unknown feature: x"),
        ("group.version=9", "Feature level 9 is not supported for feature group.version"),
    ],
)
def test_levels_that_there_are_not(feature: str, complaint: str) -> None:
    result = CliRunner().invoke(main, ["storage", "feature-dependencies", "--feature", feature])
    assert (result.exit_code, result.stderr) == (1, f"Error: {complaint}\n")


def test_a_release_stands_for_all_levels_that_can_be_changed() -> None:
    newest = {
        "metadata.version": 33,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "share.version": 2,
        "streams.version": 1,
        "transaction.version": 2,
    }
    assert release_levels(33, is_upgrade=True) == release_levels(33, is_upgrade=False) == newest
    older = {"metadata.version": 25, "group.version": 1, "transaction.version": 2}
    assert release_levels(25, is_upgrade=True) == older
    lowered = {"eligible.leader.replicas.version": 0, "share.version": 0, "streams.version": 0}
    assert release_levels(25, is_upgrade=False) == older | lowered


def test_a_level_of_metadata_version_needs_nothing() -> None:
    result = CliRunner().invoke(main, ["features", "feature-dependencies", "--feature", "metadata.version=20"])
    assert result.stdout == "metadata.version=20 (3.8-IV0) has no dependencies.\n"
