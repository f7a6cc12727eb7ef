"""Storage groups on three nodes: who takes part, who leads, what becomes of topics that come and go, and of disks."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from tests.cluster.nodes_in_a_loop import BOTH, PATIENCE_S, Nodes, nodes
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

from penstock.client.values import TopicPartition
from penstock.node.api.describe_metrics import metric_rows
from penstock.node.partitions.hand_overs import HandOvers
from penstock.node.storage_groups import hand_over, keeper
from penstock.node.storage_groups.group import StorageGroup
from penstock.raft.effects import ElectionState
from penstock.raft.follower import Follower
from penstock.raft.progress import Progress
from penstock.raft.voters import ReplicaKey


async def test_a_group_begins_leads_and_says_so(tmp_path: Path) -> None:
    async with three(tmp_path) as cluster:
        await create(cluster, "orders", partitions=2)
        await cluster.until_everywhere(is_whole)
        (leader_id,) = leaders_of(cluster)
        assert cluster.image(1).storage_groups[0].leader == leader_id
        assert [await produce(cluster, "orders") for _ in range(3)] == [0, 1, 2]
        await until(lambda: ends(cluster, "orders") == [3, 3, 3])
        told = {(one.group, one.name): one.value for one in metric_rows(cluster.running[leader_id].broker.metrics)}
        assert told["storage-groups", "LeaderCount"] == "1"
        assert told["storage-groups", "group-0.leader"] == str(leader_id)


async def test_the_first_voter_of_a_new_group_stands_at_once(tmp_path: Path) -> None:
    roles = {1: BOTH, 2: "broker", 3: "broker"}
    never = str(PATIENCE_S * 1000 * 10)
    async with nodes(tmp_path, roles, controller_quorum_election_timeout_ms=never) as cluster:
        for number in range(3):
            await create(cluster, f"topic-{number}", group=number)
        await cluster.until_everywhere(lambda image: is_whole(image, count=3))
        for number, group in cluster.image(1).storage_groups.items():
            assert leaders_of(cluster, number) == [group.replicas[0]]


async def test_a_voter_that_comes_back_and_has_not_heard_who_won_asks(tmp_path: Path) -> None:
    never = str(PATIENCE_S * 1000 * 10)
    never_reminded = {f"controller_quorum_{key}_timeout_ms": never for key in ("election", "fetch")}
    async with nodes(tmp_path, {1: BOTH, 2: "broker", 3: "broker"}, **never_reminded) as cluster:
        await create(cluster, "orders")
        await cluster.until_everywhere(is_whole)
        (leader_id,) = leaders_of(cluster)
        follower_id = 2 if leader_id == 3 else 3
        driver = replica(cluster, follower_id).quorum
        await cluster.stop(follower_id)
        driver._state.write(
            ElectionState(driver.epoch, None, replica(cluster, leader_id).quorum.local_key), driver.quorum
        )
        await cluster.start(follower_id)
        await until(lambda: replica(cluster, follower_id).quorum.leader_id == leader_id)


async def test_the_leader_stops_and_comes_back(tmp_path: Path) -> None:
    async with three(tmp_path) as cluster:
        await create(cluster, "orders")
        await cluster.until_everywhere(is_whole)
        assert await produce(cluster, "orders") == 0
        (leader_id,) = leaders_of(cluster)
        await cluster.stop(leader_id)
        end_offset = await produce(cluster, "orders") + 1  # what was refused may be there
        await cluster.until_everywhere(lambda image: image.storage_groups[0].leader not in (-1, leader_id))
        await cluster.start(leader_id)
        await cluster.until_everywhere(is_whole)
        await until(lambda: ends(cluster, "orders") == [end_offset] * 3)


async def test_a_leader_that_stops_waits_until_the_metadata_name_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "RESIGN_S", PATIENCE_S)
    async with three(tmp_path) as cluster:
        await create(cluster, "orders")
        await cluster.until_everywhere(is_whole)
        (leader_id,) = leaders_of(cluster)
        named: list[int] = []
        log = cluster.running[leader_id % 3 + 1].parts.log
        log.add_listener(lambda _: named.append(log.image.storage_groups[0].leader), lambda: None)
        await cluster.stop(leader_id)
        assert -1 not in named
        assert named[-1] != leader_id


async def test_a_node_that_stops_hands_over_the_groups_that_it_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "HAND_OVER_S", PATIENCE_S)
    monkeypatch.setattr(hand_over, "STAND_MS", PATIENCE_S * 1000)
    numbers = range(5)
    async with three(tmp_path) as cluster:
        for number in numbers:
            await create(cluster, f"topic-{number}", group=number)
        await cluster.until_everywhere(lambda image: is_whole(image, count=len(numbers)))
        (leader_id,) = leaders_of(cluster, 0)
        led = [number for number in numbers if leaders_of(cluster, number) == [leader_id]]
        await cluster.stop(leader_id)
        for number in led:
            (successor_id,) = leaders_of(cluster, number)
            assert replica(cluster, successor_id, number).group.taken_over == 1


async def test_a_new_leader_keeps_those_in_sync_that_were_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched = Progress.fetched

    def is_never_known_to_have_all(progress: Progress, *words: int) -> None:
        fetched(progress, *words)
        progress.caught_up_ms = -1

    monkeypatch.setattr(Progress, "fetched", is_never_known_to_have_all)
    async with three(tmp_path) as cluster:
        await create(cluster, "orders")
        await cluster.until_everywhere(is_whole)
        (leader_id,) = leaders_of(cluster)
        await cluster.stop(leader_id)
        await cluster.until_everywhere(lambda image: is_whole(image, in_sync=2))


async def test_a_node_that_stops_waits_for_no_successor_that_does_not_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "HAND_OVER_S", 0.1)
    monkeypatch.setattr(HandOvers, "hand_over_group", lambda *_: asyncio.Event().wait())
    async with three(tmp_path) as cluster:
        await create(cluster, "orders")
        await cluster.until_everywhere(is_whole)
        (leader_id,) = leaders_of(cluster)
        await cluster.stop(leader_id)
        await until(lambda: leaders_of(cluster) != [])


async def test_a_node_that_stops_does_not_wait_until_it_leads_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed_over, hand_over_group, is_under_way = Follower.handed_over, HandOvers.hand_over_group, list[bool]()

    async def note(hand_overs: HandOvers, group: StorageGroup, successor: int) -> bool:
        result = await hand_over_group(hand_overs, group, successor)
        is_under_way.append(group.hand_over is not None)
        return result

    monkeypatch.setattr(Follower, "handed_over", lambda follower, _, now_ms: handed_over(follower, -1, now_ms))
    monkeypatch.setattr(HandOvers, "hand_over_group", note)
    async with three(tmp_path) as cluster:
        await create(cluster, "orders")
        await cluster.until_everywhere(is_whole)
        (leader_id,) = leaders_of(cluster)
        await cluster.stop(leader_id)
        assert is_under_way[0]
        await until(lambda: leaders_of(cluster) != [])


async def test_a_topic_that_is_deleted_and_made_anew_begins_anew(tmp_path: Path) -> None:
    async with three(tmp_path) as cluster, cluster.admin() as admin:
        await create(cluster, "payments")
        for _ in range(3):
            await create(cluster, "orders")
            await cluster.until_everywhere(is_whole)
            assert [await produce(cluster, "orders") for _ in range(2)] == [0, 1]
            await produce(cluster, "payments")
            await admin.topics.delete("orders")
            await cluster.until_everywhere(lambda image: "orders" not in image.topics)
        for node_id in (1, 2, 3):
            group = replica(cluster, node_id).group
            await until(lambda group=group: len(group.partitions) == 1 and not group.removed)  # type: ignore[misc]
        await cluster.stop(1)
        end_offset = await produce(cluster, "payments") + 1
        await cluster.start(1)
        await until(lambda: ends(cluster, "payments") == [end_offset] * 3)


async def test_several_groups_share_their_nodes(tmp_path: Path) -> None:
    async with three(tmp_path) as cluster:
        for number in range(5):
            await create(cluster, f"topic-{number}", group=number)
        await cluster.until_everywhere(lambda image: is_whole(image, count=5))
        assert await asyncio.gather(*(produce(cluster, f"topic-{number}") for number in range(5))) == [0] * 5
        await cluster.stop(2)
        await asyncio.gather(*(produce(cluster, f"topic-{number}") for number in range(5)))


def lose_disk(directory: Path) -> None:
    """What a node finds whose disk was replaced: an empty directory of the same cluster."""
    for path in directory.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
    meta = directory / "meta.properties"
    lines = [line for line in meta.read_text().splitlines() if not line.startswith("directory.id")]
    meta.write_text("\n".join(lines) + "\n")


async def test_who_has_lost_its_disk_votes_again_when_it_has_caught_up(tmp_path: Path) -> None:
    async with three(tmp_path, **FORGETFUL) as cluster:
        await create(cluster, "orders")
        await cluster.until_everywhere(is_whole)
        for _ in range(20):
            await produce(cluster, "orders")
        (leader_id,) = leaders_of(cluster)
        await until(lambda: replica(cluster, leader_id).quorum.log_start_offset > 10)
        lost, other = leader_id % 3 + 1, (leader_id + 1) % 3 + 1
        key = replica(cluster, lost).quorum.local_key
        await cluster.stop(lost)
        lose_disk(tmp_path / f"node-{lost}")
        await cluster.start(lost)
        mine = replica(cluster, lost).quorum.local_key
        assert mine == ReplicaKey(lost, mine.directory_id) != key
        await cluster.until_everywhere(lambda image: image.storage_groups[0].directory_of(lost) == mine.directory_id)
        await cluster.until_everywhere(is_whole)
        await until(lambda: replica(cluster, lost).quorum.quorum.has(mine))
        assert not replica(cluster, lost).quorum.quorum.has(key)
        end_offset = await produce(cluster, "orders") + 1
        await until(lambda: ends(cluster, "orders") == [end_offset] * 3)
        await cluster.stop(other)
        assert await produce(cluster, "orders") >= end_offset


async def test_records_are_deleted_on_all_replicas(tmp_path: Path) -> None:
    async with three(tmp_path, **FORGETFUL) as cluster, cluster.admin() as admin:
        await create(cluster, "orders")
        await cluster.until_everywhere(is_whole)
        for _ in range(10):
            await produce(cluster, "orders")
        (leader_id,) = leaders_of(cluster)
        absent, partition = leader_id % 3 + 1, TopicPartition("orders", 0)
        await until(lambda: ends(cluster, "orders") == [10] * 3)
        await cluster.stop(absent)
        await cluster.until_everywhere(lambda image: is_whole(image, in_sync=2))
        assert await admin.topics.delete_records({partition: 7}) == {partition: 7}
        await until(lambda: starts(cluster, "orders") == [7] * 2)
        for _ in range(10):
            await produce(cluster, "orders")
        (leader_id,) = leaders_of(cluster)
        await until(lambda: replica(cluster, leader_id).quorum.log_start_offset > 18)
        await cluster.start(absent)
        await until(lambda: starts(cluster, "orders") == [7] * 3)


def starts(cluster: Nodes, topic: str) -> list[int]:
    """The beginning of the topic's log on each node that has it."""
    found = (node.broker.partitions.get(topic, 0) for node in cluster.running.values())
    return [partition.log.log_start_offset for partition in found if partition is not None]


async def test_a_group_whose_log_is_bad_stops_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with three(tmp_path) as cluster:
        for number in range(2):
            await create(cluster, f"topic-{number}", group=number)
        await cluster.until_everywhere(lambda image: is_whole(image, count=2))
        await cluster.stop(3)
        (snapshot,) = (tmp_path / "node-3" / "__storage_group-0").glob("*.checkpoint")
        snapshot.write_bytes(b"nothing of the kind")
        await cluster.start(3)
        await cluster.until_everywhere(lambda image: len(image.storage_groups[1].isr) == 3)
        assert 0 not in cluster.running[3].broker.storage_groups.by_number
        assert "takes no part in storage group 0" in caplog.text
        await produce(cluster, "topic-0")
