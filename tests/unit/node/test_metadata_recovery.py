"""A metadata log whose end is torn off anywhere opens as what was committed before: no decision is there by halves."""

import shutil
from pathlib import Path

from tests.unit.node.controller_node import create, node_over, started
from tests.unit.node.gated_log import GatedLog

from penstock.metadata.image import ClusterImage
from penstock.metadata.records import FeatureLevelRecord, MetadataRecord

SEGMENT = "00000000000000000000.log"


async def state_in(directory: Path) -> ClusterImage:
    """What a node finds there."""
    log = GatedLog(directory)
    node = node_over(log)
    await node.start()
    await node.stop()
    log.partition_log.abandon()
    return node.image


def without_features(image: ClusterImage) -> list[MetadataRecord]:
    """A log without its first record gets that anew."""
    return [record for record in image.records() if not isinstance(record, FeatureLevelRecord)]


async def test_the_end_torn_off_at_every_byte_of_the_last_decisions(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    log = GatedLog(whole)
    node = await started(log)
    states = [((whole / SEGMENT).stat().st_size, without_features(node.image))]
    for name in ("flights", "delays", "prices"):
        await node.submit(create(name))
        states.append(((whole / SEGMENT).stat().st_size, without_features(node.image)))
    log.partition_log.abandon()
    for size in range(states[0][0], states[-1][0] + 1):
        torn = tmp_path / "torn"
        shutil.copytree(whole, torn)
        with (torn / SEGMENT).open("r+b") as file:
            file.truncate(size)
        expected = [state for end, state in states if end <= size][-1]
        assert without_features(await state_in(torn)) == expected, f"torn off at byte {size}"
        shutil.rmtree(torn)
