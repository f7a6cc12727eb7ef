"""Storage groups on three nodes, one of which has lost what lies on its disk, or a part of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.cluster.test_storage_groups import (
    FORGETFUL,
    create,
    ends,
    is_whole,
    leaders_of,
    produce,
    replica,
    three,
    until,
)


@pytest.mark.parametrize("lost", ["the end of a segment", "a partition", "all partitions"])
async def test_who_has_lost_what_the_group_has_forgotten_copies_it_before_it_takes_part(
    tmp_path: Path, lost: str
) -> None:
    async with three(tmp_path, **FORGETFUL) as cluster:
        await create(cluster, "orders", partitions=2)
        await cluster.until_everywhere(is_whole)
        for _ in range(20):
            await produce(cluster, "orders")
        (leader_id,) = leaders_of(cluster)
        await until(lambda: all(replica(cluster, it).quorum.log_start_offset > 10 for it in (1, 2, 3)))
        loser, other = leader_id % 3 + 1, (leader_id + 1) % 3 + 1
        await cluster.stop(loser)
        place = tmp_path / f"node-{loser}" / "orders-0"
        if lost == "the end of a segment":
            (segment,) = place.glob("*.log")
            segment.write_bytes(segment.read_bytes()[:300])
        for index in range(2 if lost == "all partitions" else 1) if lost != "the end of a segment" else ():
            shutil.rmtree(place.with_name(f"orders-{index}"))
        await cluster.start(loser)
        await until(lambda: 0 in cluster.running[loser].broker.storage_groups.by_number)
        await until(lambda: len(set(ends(cluster, "orders"))) == 1)
        await cluster.until_everywhere(is_whole)
        await cluster.stop(other)
        assert await produce(cluster, "orders") >= 20
