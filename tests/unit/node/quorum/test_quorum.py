"""Several drivers that talk to each other over real sockets, with their logs on a real disk."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.node.quorum.memory import batch_of
from tests.unit.node.quorum.replica import Replica, Replicas

from penstock.node.quorum.stored_log import StoredLog
from penstock.protocol.errors import ErrorCode
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.varint import Buffer
from penstock.raft import requests as ask
from penstock.raft.voters import Quorum


@pytest.fixture
async def three(tmp_path: Path) -> AsyncIterator[Replicas]:
    """Three voters that the configuration names."""
    replicas = Replicas([Replica(node_id, tmp_path) for node_id in (1, 2, 3)])
    for replica in replicas.all:
        await replica.start(static(replicas))
    yield replicas
    for replica in replicas.running:
        await replica.stop()


def static(replicas: Replicas) -> Quorum:
    return Quorum.of([replica.voter for replica in replicas.all], 0)


async def test_three_elect_one_and_all_apply_the_same(three: Replicas) -> None:
    for number in range(20):
        await three.write(batch_of(b"%d" % number))
    await three.all_have(*(b"%d" % number for number in range(20)))
    leader = await three.leader()
    for replica in three.all:
        await replica.knows_leader(leader.key.id)
        assert replica.driver.leader_id == leader.key.id
    assert {replica.driver.role_name for replica in three.all} == {"Leader", "Follower"}


async def test_another_takes_over_when_the_leader_dies(three: Replicas) -> None:
    await three.write(batch_of(b"before"))
    first = await three.leader()
    await first.kill()
    await three.write(batch_of(b"after"))
    second = await three.leader()
    assert second is not first
    await three.all_have(b"before", b"after")
    await first.start(static(three))
    await three.all_have(b"before", b"after")
    await three.write(batch_of(b"with all"))
    await three.all_have(b"before", b"after", b"with all")


async def test_a_leader_that_stops_hands_over_at_once(three: Replicas) -> None:
    await three.write(batch_of(b"before"))
    first = await three.leader()
    epoch = first.driver.epoch
    await first.stop()
    second = await three.leader()
    await three.write(batch_of(b"after"))
    await three.all_have(b"before", b"after")
    assert second.driver.epoch == epoch + 1, "one election was enough"
    assert any(ApiKey.END_QUORUM_EPOCH in replica.listener.dispatcher.asked for replica in three.running)


async def test_a_record_that_is_damaged_on_the_leaders_disk_before_anybody_has_it_costs_it_the_lead(
    three: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    await three.write(batch_of(b"before"))
    first = await three.leader()
    append = StoredLog.append

    def append_and_spoil(log: StoredLog, batches: Buffer) -> None:
        append(log, batches)
        if log is first.store.log:
            path = max(Path(log.directory).glob("*.log"))
            path.write_bytes(path.read_bytes()[:-1] + b"?")

    with monkeypatch.context() as patch:
        patch.setattr(StoredLog, "append", append_and_spoil)
        await three.write(batch_of(b"after"))
    assert not first.driver.is_running
    assert "damaged" in str(first.driver.failure)
    await three.all_have(b"before", b"after")
    await first.stop()
    await first.start(static(three))
    await three.all_have(b"before", b"after")


async def test_all_are_killed_and_nothing_acknowledged_is_lost(three: Replicas) -> None:
    for number in range(10):
        await three.write(batch_of(b"%d" % number))
    for replica in three.all:
        await replica.kill()
    for replica in three.all:
        await replica.start(static(three))
    await three.write(batch_of(b"last"))
    await three.all_have(*(b"%d" % number for number in range(10)), b"last")


async def test_all_start_again_from_snapshots_and_logs(three: Replicas) -> None:
    values = [b"%d" % number * 20 for number in range(50)]
    await three.write(batch_of(*values))
    await three.all_have(*values)
    for replica in three.all:
        await replica.write_snapshot()
        assert replica.driver.log_start_offset == replica.driver.applied_offset
    await three.write(batch_of(b"after"))
    await three.all_have(b"after")
    for replica in three.all:
        await replica.stop()
    for replica in three.all:
        await replica.start(static(three))
    await three.write(batch_of(b"last"))
    await three.all_have(*values, b"after", b"last")
    assert [len(replica.application.loaded) for replica in three.all] == [1, 1, 1]


async def test_an_empty_replica_catches_up_by_a_snapshot_in_pieces(three: Replicas) -> None:
    leader = await three.leader()
    empty = next(replica for replica in three.all if replica is not leader)
    await empty.kill()
    empty.lose_disk()
    values = tuple(b"%d" % number * 50 for number in range(100))
    for value in values:
        await three.write(batch_of(value))
    for replica in three.running:
        await replica.has(values)
        assert await replica.write_snapshot() > 5000
        replica.listener.dispatcher.asked.clear()
    await empty.start(static(three))
    await three.all_have(*values)
    assert empty.application.loaded
    asked = [key for replica in three.all for key in replica.listener.dispatcher.asked]
    assert asked.count(ApiKey.FETCH_SNAPSHOT) > 5
    await three.write(batch_of(b"after"))
    await three.all_have(*values, b"after")


async def test_a_peer_that_accepts_and_never_answers_stops_nobody(three: Replicas) -> None:
    leader = await three.leader()
    mute = next(replica for replica in three.all if replica is not leader)
    mute.listener.dispatcher.is_silent = True
    await three.write(batch_of(b"without it"))
    mute.listener.dispatcher.is_silent = False
    await leader.kill()
    await three.write(batch_of(b"with it"))
    await three.all_have(b"without it", b"with it")


async def test_an_observer_finds_the_leader_by_any_server_and_becomes_a_voter(tmp_path: Path) -> None:
    first, second = (Replica(node_id, tmp_path, has_directory_id=True) for node_id in (1, 2))
    replicas = Replicas([first, second])
    await first.start(Quorum.of([first.voter]))
    await second.start(Quorum(), second.address, first.address)
    await replicas.write(batch_of(b"a"))
    await replicas.all_have(b"a")
    assert second.driver.role_name == "Observer"
    answer = None
    while answer != ask.VoterChangeAnswer(ErrorCode.NONE):
        await asyncio.sleep(0)
        answer = await first.driver.request(ask.AddVoter(second.key, second.voter.endpoints))
    await replicas.write(batch_of(b"b"))
    await replicas.all_have(b"a", b"b")
    assert second.driver.quorum.ids == [1, 2]
    assert second.driver.role_name == "Follower"
    await second.stop()
    await first.stop()
