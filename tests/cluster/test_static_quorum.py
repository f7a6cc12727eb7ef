"""Three controllers that the configuration names become voters that may change, and start again with it or without."""

import asyncio
from pathlib import Path

import pytest
from tests.cluster.nodes_in_a_loop import BOTH, Nodes, nodes

from penstock.client.admin import Admin
from penstock.client.admin.features import UpgradeType
from penstock.client.admin.quorum import QuorumEndpoint
from penstock.node.assembly.start import start_node
from penstock.protocol.errors import KafkaError

LEVEL = {"kraft.version": 1}
PATIENCE_S = 30


async def level(admin: Admin) -> int:
    features, _ = await admin.features.describe()
    return {feature.name: feature.level for feature in features}["kraft.version"]


async def voters(cluster: Nodes, admin: Admin) -> list[int]:
    """Each is named with the directory that it has."""
    info = await admin.quorum.describe()
    for voter in info.voters:
        assert voter.directory_id == cluster.running[voter.node_id].parts.quorum.local_key.directory_id
    return [voter.node_id for voter in info.voters]


async def upgrade(admin: Admin) -> None:
    """It may be asked a moment before the last voter has told the leader what it needs."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await admin.features.update(LEVEL, UpgradeType.UPGRADE, validate_only=True)
            except KafkaError as error:
                if "the leader does not know" not in str(error):
                    raise
            else:
                break
    assert await level(admin) == 0
    await admin.features.update(LEVEL, UpgradeType.UPGRADE)
    assert await level(admin) == 1


async def test_voters_of_the_configuration_may_change_after_an_upgrade(tmp_path: Path) -> None:
    roles = {1: BOTH, 2: "controller", 3: "controller"}
    # A voter tells its leader again after this time, and one that has missed that the leader went stands after it.
    async with nodes(tmp_path, roles, controller_quorum_fetch_timeout_ms="2000") as cluster, cluster.admin() as admin:
        await upgrade(admin)
        assert await voters(cluster, admin) == [1, 2, 3]
        with pytest.raises(KafkaError, match="cannot be taken back"):
            await admin.features.update({"kraft.version": 0}, UpgradeType.SAFE_DOWNGRADE)
        local = cluster.running[3].parts.quorum.member.local
        await admin.quorum.remove_voter(3, local.key.directory_id)
        assert await voters(cluster, admin) == [1, 2]
        endpoints = [QuorumEndpoint(one.name, one.host, one.port) for one in local.endpoints]
        await admin.quorum.add_voter(3, local.key.directory_id, endpoints)
        await admin.quorum.remove_voter(2, cluster.running[2].parts.quorum.local_key.directory_id)
        (first,) = cluster.running[1].parts.quorum.member.local.endpoints
        elsewhere = {"controller_quorum_bootstrap_servers": f"{first.host}:{first.port}"}
        await cluster.stop()
        _, cluster.running[3] = await asyncio.gather(
            cluster.start(1, 2), start_node(cluster.config(3, controller_quorum_voters="", **elsewhere))
        )
        assert await level(admin) == 1
        assert await voters(cluster, admin) == [1, 3], "the log counts, and not the configuration"
        metrics = await admin.quorum.metrics_of(1)
        assert [metric.value for metric in metrics if metric.name == "ignored-static-voters"] == ["1"]
        assert cluster.running[3].parts.quorum.quorum.ids == [1, 3]
