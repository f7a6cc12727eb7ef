from pathlib import Path

import pytest
from examples.raft_kv.client import KvClient
from tests.unit.raft_kv.conftest import NewAddress
from tests.unit.raft_kv.running import running

from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.replicated import admin
from penstock.replicated.options import NodeOptions

IMPATIENT = admin.SETTINGS.replace(default_api_timeout_ms=300)


async def test_servers_are_added_and_removed(tmp_path: Path, new_address: NewAddress) -> None:
    one, two = new_address(1), new_address(2)
    first = NodeOptions(servers=(one,), me=one, directory=str(tmp_path / "1"))
    second = NodeOptions(servers=(one,), me=two, directory=str(tmp_path / "2"))
    where = [one.address]
    async with running(first) as old:
        with pytest.raises(KafkaError, match=f"server {two} does not follow the leader: start it first"):
            await admin.add_peers(where, [two], IMPATIENT)
        async with KvClient(where) as client:
            await client.set(b"a", b"1")
        async with running(second) as new:
            await admin.add_peers(where, [two])
            info = await admin.describe(where)
            assert [voter.node_id for voter in info.voters] == [1, 2]
            assert {number: [row.port for row in rows] for number, rows in info.endpoints.items()} == {
                1: [one.port],
                2: [two.port],
            }
            with pytest.raises(KafkaError) as caught:
                await admin.add_peers(where, [two])
            assert caught.value.code is ErrorCode.DUPLICATE_VOTER
            with pytest.raises(KafkaError, match="server 3 is not a voter"):
                await admin.remove_peers(where, [3])
            await admin.remove_peers([one.address, two.address], [1])
            info = await admin.describe([one.address, two.address])
            assert (info.leader_id, [voter.node_id for voter in info.voters]) == (2, [2])
            async with KvClient(where) as client:
                assert (await client.get(b"a")).value == b"1"
                await client.set(b"a", b"2")
            assert new.machine.get(b"a") == b"2"
            assert not old.quorum.is_leader(old.quorum.epoch)


async def test_a_newcomer_that_became_a_voter_is_one_after_a_restart(tmp_path: Path, new_address: NewAddress) -> None:
    """Its directory says so, whatever the list says."""
    one, two = new_address(1), new_address(2)
    first = NodeOptions(servers=(one,), me=one, directory=str(tmp_path / "1"))
    second = NodeOptions(servers=(one,), me=two, directory=str(tmp_path / "2"))
    async with running(first):
        async with running(second):
            await admin.add_peers([one.address], [two])
        async with running(second), KvClient([two.address]) as client:
            await client.set(b"a", b"1")
            assert (await client.get(b"a")).value == b"1"
            assert [voter.node_id for voter in (await admin.describe([two.address])).voters] == [1, 2]
