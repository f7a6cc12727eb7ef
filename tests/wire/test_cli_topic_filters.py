"""`penstock topics --describe` with the filters for trouble, against three nodes of which one goes."""

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from penstock.cli.main import main
from penstock.cli.records.topics import Filters
from penstock.client.metadata import PartitionMetadata
from penstock.protocol.errors import ErrorCode
from penstock.testing import Cluster
from penstock.testing.quorum_view import wait_until

FILTERS = ("under-replicated", "at-min-isr", "under-min-isr", "unavailable")
TOPICS = {
    "two-of-three": ("--replication-factor", "3", "--config", "min.insync.replicas=2"),
    "all-of-three": ("--replication-factor", "3", "--config", "min.insync.replicas=3"),
    "one-of-three": ("--replication-factor", "3", "--config", "min.insync.replicas=1"),
    "alone-on-3": ("--replica-assignment", "3", "--config", "min.insync.replicas=1"),
    "alone-on-1": ("--replica-assignment", "1", "--config", "min.insync.replicas=1"),
}


@pytest.fixture
def three() -> Iterator[Cluster]:
    with Cluster(nodes=3) as cluster:
        yield cluster


def penstock(cluster: Cluster, *arguments: str) -> str:
    result = CliRunner().invoke(main, [*arguments, "--bootstrap-server", str(cluster.nodes[0].address)])
    assert result.exit_code == 0, result.output
    return result.stdout


def shown(cluster: Cluster, option: str) -> set[str]:
    """The topics of which a filter shows partitions."""
    rows = json.loads(
        penstock(cluster, "topics", "--describe", f"--{option}-partitions", "--json", "--exclude-internal")
    )
    return {row["topic"] for row in rows}


def all_shown(cluster: Cluster) -> dict[str, set[str]]:
    return {option: shown(cluster, option) for option in FILTERS}


def test_each_filter_shows_what_is_in_that_trouble(three: Cluster) -> None:
    for topic, options in TOPICS.items():
        penstock(three, "topics", "--create", "--topic", topic, *options)
    nothing: dict[str, set[str]] = {"under-replicated": set(), "under-min-isr": set(), "unavailable": set()}
    all_well = {**nothing, "at-min-isr": {"all-of-three", "alone-on-1", "alone-on-3"}}
    wait_until(lambda: all_shown(three) == all_well or None, 30, "nobody has trouble")
    three.nodes[2].stop()
    trouble = {
        "under-replicated": {"two-of-three", "all-of-three", "one-of-three", "alone-on-3"},
        "at-min-isr": {"two-of-three", "alone-on-1"},
        "under-min-isr": {"all-of-three", "alone-on-3"},
        "unavailable": {"alone-on-3"},
    }
    wait_until(lambda: all_shown(three) == trouble or None, 60, "all know it")


def row(leader: int, isr: int, replicas: int) -> PartitionMetadata:
    nodes = list(range(1, replicas + 1))
    return PartitionMetadata("t", 0, leader, 1, nodes, nodes[:isr], [], ErrorCode.NONE)


def filters(*chosen: str) -> Filters:
    names = {f"{option.replace('-', '_')}_partitions": option in chosen for option in FILTERS}
    return Filters(topics_with_overrides=False, **names)


def test_replicas_that_are_still_to_come_are_not_missed() -> None:
    wanted = filters("under-replicated")
    assert wanted.shows(row(1, isr=2, replicas=3), 1, coming=0, is_led=True)
    assert not wanted.shows(row(1, isr=2, replicas=3), 1, coming=1, is_led=True)


def test_what_nobody_leads_has_too_few_in_sync() -> None:
    assert filters("under-min-isr").shows(row(-1, isr=1, replicas=1), 1, coming=0, is_led=False)
