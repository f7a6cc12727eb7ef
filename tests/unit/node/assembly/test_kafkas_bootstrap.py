"""A directory that Kafka formatted and never started: what Kafka before 4.4 wrote beside the logs counts as well."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.unit.node.stopped_node import METADATA, config

from penstock.metadata.features import METADATA_VERSION, NEWEST_METADATA_VERSION
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import FeatureLevelRecord, MetadataRecord
from penstock.metadata.security_records import UserScramCredentialRecord
from penstock.metadata.snapshot import snapshot_name
from penstock.node.assembly.first_voters import first_snapshot
from penstock.node.assembly.start import StartError, start_node

FORMATTED_LEVEL = NEWEST_METADATA_VERSION - 2
USER = UserScramCredentialRecord(name="alice", mechanism=1, iterations=4096)


def formatted(directory: Path, name: str, level: int, *more: MetadataRecord) -> None:
    (directory / "p1" / METADATA).mkdir(parents=True, exist_ok=True)
    (directory / "p1" / "meta.properties").write_text("version=1\ncluster.id=kafkas\nnode.id=1\n")
    records: Sequence[MetadataRecord] = [FeatureLevelRecord(name=METADATA_VERSION, feature_level=level), *more]
    (directory / "p1" / name).write_bytes(first_snapshot({}, "CONTROLLER", 0, records))


def image_of_a_node(directory: Path) -> ClusterImage:
    """After it has started and stopped."""

    async def run() -> ClusterImage:
        node = await start_node(config(directory, penstock_security_ignored="true"))
        await node.stop()
        return node.parts.context.image

    return asyncio.run(run())


def test_a_cluster_begins_with_the_levels_and_users_that_kafka_wrote(tmp_path: Path) -> None:
    formatted(tmp_path, "bootstrap.checkpoint", FORMATTED_LEVEL, USER)
    image = image_of_a_node(tmp_path)
    assert image.metadata_version == FORMATTED_LEVEL
    assert image.security.scram_credentials
    (tmp_path / "p1" / "bootstrap.checkpoint").write_bytes(b"nonsense")
    assert image_of_a_node(tmp_path).metadata_version == FORMATTED_LEVEL, "once there is a log, it alone counts"


def test_the_snapshot_of_a_newer_kafka_goes_before_it(tmp_path: Path) -> None:
    formatted(tmp_path, "bootstrap.checkpoint", FORMATTED_LEVEL)
    formatted(tmp_path, f"{METADATA}/{snapshot_name(0, 0)}", FORMATTED_LEVEL + 1)
    assert image_of_a_node(tmp_path).metadata_version == FORMATTED_LEVEL + 1


def test_one_that_is_damaged_is_named_and_nothing_is_touched(tmp_path: Path) -> None:
    formatted(tmp_path, "bootstrap.checkpoint", FORMATTED_LEVEL)
    (tmp_path / "p1" / "bootstrap.checkpoint").write_bytes(b"nonsense")
    with pytest.raises(StartError, match=r"bootstrap\.checkpoint: "):
        asyncio.run(start_node(config(tmp_path)))
    assert not (tmp_path / "p1" / METADATA / "quorum-state").exists()
