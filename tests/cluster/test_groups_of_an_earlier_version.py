"""Three nodes on data whose groups lie where an earlier version put them: each group finds its offsets."""

import asyncio
from pathlib import Path

import pytest

from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.client.values import OffsetAndMetadata, TopicPartition
from penstock.node.coordinators import host, misplaced_groups
from penstock.node.coordinators.misplaced_groups import former_partition
from penstock.testing import Cluster

GROUPS = {f"{chr(97 + number % 26) * (number + 3)}-{number}": number for number in range(24)}
PLACE = TopicPartition("flights", 0)


async def test_groups_move_between_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # With one replica each partition keeps its leader, so that groups have to move to other nodes.
    config = {"offsets.topic.num.partitions": "6", "offsets.topic.replication.factor": "1"}
    cluster = Cluster(nodes=3, directory=tmp_path, config=config)
    with monkeypatch.context() as former:
        former.setattr(host, "coordinator_partition", former_partition)
        former.setattr(misplaced_groups, "coordinator_partition", former_partition)
        async with cluster, Admin(cluster.bootstrap_servers) as admin:
            await admin.topics.create(NewTopic(name="flights", partitions=1))
            await admin.topics.wait_until_led("flights")
            for group, offset in GROUPS.items():
                await admin.groups.set_offsets(group, {PLACE: OffsetAndMetadata(offset)})
    async with cluster, Admin(cluster.bootstrap_servers) as admin:
        async with asyncio.timeout(60):
            left = dict(GROUPS)
            while left:
                for group, offset in list(left.items()):
                    found = await admin.groups.offsets(group)
                    if found:
                        assert found[PLACE].offset == left.pop(group) == offset
                await asyncio.sleep(0)
        while len(await admin.groups.listings()) != len(GROUPS):  # each is taken away where it was
            await asyncio.sleep(0)
    assert "to its coordinator on another node" in caplog.text
