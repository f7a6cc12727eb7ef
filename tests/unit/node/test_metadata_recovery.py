"""A metadata log whose end is torn off anywhere opens as what was committed before: no decision is there by halves."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.unit.node.controller_node import create, on_disk, started

from penstock.log.disk import Disk
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import MetadataRecord
from penstock.node.metadata_log import MetadataLog

SEGMENT = "00000000000000000000.log"


class Replay:
    """What a log says was committed, as an image."""

    def __init__(self, directory: Path) -> None:
        self.image = ClusterImage("cluster")
        log = MetadataLog(on_disk(directory), Disk(), 1, lambda: 1_000)
        log.on_committed = self._committed
        log.replay()

    def _committed(self, records: Sequence[MetadataRecord], last_offset: int) -> None:
        for record in records:
            self.image.apply(record)


async def test_the_end_torn_off_at_every_byte_of_the_last_decisions(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    log = on_disk(whole)
    driver = await started(log)
    states: list[tuple[int, list[MetadataRecord]]] = [((whole / SEGMENT).stat().st_size, list(driver.image.records()))]
    for name in ("flights", "delays", "prices"):
        await driver.submit(create(name))
        states.append(((whole / SEGMENT).stat().st_size, list(driver.image.records())))
    log.abandon()
    for size in range(states[0][0], states[-1][0] + 1):
        torn = tmp_path / "torn"
        shutil.copytree(whole, torn)
        with (torn / SEGMENT).open("r+b") as file:
            file.truncate(size)
        expected = [state for end, state in states if end <= size][-1]
        assert list(Replay(torn).image.records()) == expected, f"torn off at byte {size}"
        shutil.rmtree(torn)
