"""What directories of a cluster for tests begin with: a snapshot with the first voters, with other records, or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.log.names import partition_directory
from penstock.node.assembly.first_voters import FIRST_SNAPSHOT_NAME, NEWEST_LEVELS
from penstock.protocol.internal_topics import CLUSTER_METADATA
from penstock.testing.layout import format_as_one_cluster

SNAPSHOT = Path(partition_directory(CLUSTER_METADATA, 0)) / FIRST_SNAPSHOT_NAME


@pytest.mark.parametrize(
    ("voters", "has_records", "with_snapshots"),
    [
        (None, False, []),
        ({}, False, []),
        ({2: "h:1"}, False, [2]),
        ({1: "h:1", 2: "h:2"}, False, [1, 2]),
        (None, True, [1, 2, 3]),
        ({3: "h:1"}, True, [3]),
    ],
)
def test_who_has_a_snapshot(
    tmp_path: Path, voters: dict[int, str] | None, has_records: bool, with_snapshots: list[int]
) -> None:
    directories = {number: tmp_path / f"node-{number}" for number in (1, 2, 3)}
    records = [*NEWEST_LEVELS] if has_records else NEWEST_LEVELS
    cluster_id = format_as_one_cluster(directories, voters, records)
    found = {number: (directory / SNAPSHOT) for number, directory in directories.items()}
    assert [number for number, path in found.items() if path.exists()] == with_snapshots
    assert len({path.read_bytes() for path in found.values() if path.exists()}) == bool(with_snapshots)
    for directory in directories.values():
        assert f"cluster.id={cluster_id}" in (directory / "meta.properties").read_text()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert format_as_one_cluster(directories, voters, records) == cluster_id
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
