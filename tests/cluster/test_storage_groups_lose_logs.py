"""Storage groups on three nodes, one of which has lost what lies on its disk, or a part of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.cluster.nodes_in_a_loop import Nodes
from tests.cluster.storage_groups import (
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

from penstock.raft.voters import ReplicaKey


async def fill(cluster: Nodes) -> None:
    """A topic in a group, with enough in it for the group to forget its log."""
    await create(cluster, "orders", partitions=2)
    await cluster.until_everywhere(is_whole)
    for _ in range(20):
        await produce(cluster, "orders")


@pytest.mark.parametrize("lost", ["the end of a segment", "a partition", "all partitions"])
async def test_who_has_lost_what_the_group_has_forgotten_copies_it_before_it_takes_part(
    tmp_path: Path, lost: str
) -> None:
    async with three(tmp_path, **FORGETFUL) as cluster:
        await fill(cluster)
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


async def test_who_has_lost_the_groups_own_log_is_another_replica(tmp_path: Path) -> None:
    async with three(tmp_path, **FORGETFUL) as cluster:
        await fill(cluster)
        (leader_id,) = leaders_of(cluster)
        await until(lambda: replica(cluster, leader_id).quorum.log_start_offset > 10)
        loser, other = leader_id % 3 + 1, (leader_id + 1) % 3 + 1
        before = replica(cluster, loser).quorum.local_key
        await cluster.stop(loser)
        shutil.rmtree(tmp_path / f"node-{loser}" / "__storage_group-0")
        await cluster.start(loser)
        key = replica(cluster, loser).quorum.local_key
        assert key == ReplicaKey(loser, key.directory_id) != before
        await until(lambda: replica(cluster, loser).quorum.quorum.has(key))
        assert not replica(cluster, loser).quorum.quorum.has(before)
        await cluster.until_everywhere(is_whole)
        assert cluster.image(loser).storage_groups[0].directory_of(loser) == before.directory_id
        await cluster.stop(loser)
        await cluster.start(loser)
        assert replica(cluster, loser).quorum.local_key == key
        await cluster.until_everywhere(is_whole)
        await cluster.stop(other)
        assert await produce(cluster, "orders") >= 20


async def test_who_has_lost_its_votes_says_what_to_do(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with three(tmp_path) as cluster:
        await create(cluster, "orders")
        await cluster.until_everywhere(is_whole)
        await produce(cluster, "orders")
        (leader_id,) = leaders_of(cluster)
        loser, place = leader_id % 3 + 1, tmp_path / f"node-{leader_id % 3 + 1}" / "__storage_group-0"
        await cluster.stop(loser)
        (place / "quorum-state").unlink()
        await cluster.start(loser)
        assert 0 not in cluster.running[loser].broker.storage_groups.by_number
        assert f"it could vote twice. If the other replicas are well, move {place} away and start" in caplog.text
        await cluster.stop(loser)
        place.rename(tmp_path / "away")
        await cluster.start(loser)
        await cluster.until_everywhere(is_whole)
