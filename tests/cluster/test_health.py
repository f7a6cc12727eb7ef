"""`penstock cluster health` of a cluster that loses a broker, and then its controllers."""

import asyncio
from pathlib import Path

from tests.cluster.nodes_in_a_loop import BOTH, nodes

from penstock.cli.cluster.health import Problems, problems_of
from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.client.settings import ClientSettings

PATIENCE_S = 30


async def until(admin: Admin, expected: Problems, only: int | None = None) -> None:
    """Asks until that is what is wrong."""
    found: Problems = {}
    try:
        async with asyncio.timeout(PATIENCE_S):
            while (found := await problems_of(admin, only)) != expected:
                pass
    except TimeoutError:
        assert found == expected


async def test_what_is_wrong_is_said_as_it_comes(tmp_path: Path) -> None:
    roles = {1: BOTH, 2: BOTH, 3: "controller"}
    quick = ClientSettings(retry_backoff_ms=20, request_timeout_ms=1000)
    async with (
        nodes(tmp_path, roles, controller_quorum_fetch_timeout_ms="600") as cluster,
        Admin(cluster.address(1), quick) as admin,
    ):
        await admin.topics.create(
            NewTopic(name="t", partitions=2, replication_factor=2, configs={"min.insync.replicas": "2"})
        )
        await admin.topics.create(NewTopic(name="of-1", assignments={0: [1]}))
        await admin.topics.create(NewTopic(name="of-2", assignments={0: [2]}))
        await until(admin, {})
        await cluster.stop(2)
        lost = {
            "fenced": ["2"],
            "offline": ["of-2-0"],
            "under-replicated": ["t-0", "t-1"],
            "under min.insync.replicas": ["t-0", "t-1"],
        }
        await until(admin, lost)
        await until(admin, {}, only=1)
        await until(admin, {"not in service": ["2"]}, only=2)
        await cluster.stop(3)
        await until(admin, {"hears no active controller": ["1"]}, only=1)
        await until(admin, {"hears no active controller": ["1"]} | lost)
