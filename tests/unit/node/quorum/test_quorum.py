"""Several drivers that talk to each other over real sockets."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.unit.node.quorum.memory import HeldLog, MemoryState, WrittenSnapshots, batch_of
from tests.unit.node.quorum.replica import Replica, Replicas

from penstock.client.address import Address
from penstock.raft import requests as ask
from penstock.raft.voters import Quorum


@pytest.fixture
async def three() -> AsyncIterator[Replicas]:
    """Three voters that the configuration names."""
    replicas = Replicas([Replica(node_id) for node_id in (1, 2, 3)])
    for replica in replicas.all:
        await replica.listener.open()
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
    await first.listener.open()
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
    assert any("EndQuorumEpoch" in replica.listener.asked for replica in three.running)


async def test_all_are_killed_and_nothing_acknowledged_is_lost(three: Replicas) -> None:
    for number in range(10):
        await three.write(batch_of(b"%d" % number))
    for replica in three.all:
        await replica.kill()
    for replica in three.all:
        await replica.listener.open()
        await replica.start(static(three))
    await three.write(batch_of(b"last"))
    await three.all_have(*(b"%d" % number for number in range(10)), b"last")


async def test_an_empty_replica_catches_up_by_a_snapshot_in_pieces(three: Replicas) -> None:
    leader = await three.leader()
    empty = next(replica for replica in three.all if replica is not leader)
    await empty.kill()
    empty.log, empty.snapshots, empty.state = HeldLog(), WrittenSnapshots(), MemoryState()
    values = [b"%d" % number * 50 for number in range(100)]
    for value in values:
        await three.write(batch_of(value))
    for replica in three.running:
        await replica.has(tuple(values))
        end_offset = replica.driver.applied_offset
        chunks = replica.application.snapshot(replica.driver.quorum_at(end_offset))
        snapshot = await replica.driver.snapshot(chunks, end_offset)
        assert (replica.snapshots.size(snapshot) or 0) > 5000
    asked = [len(replica.listener.asked) for replica in three.all]
    await empty.listener.open()
    await empty.start(static(three))
    await three.all_have(*values)
    assert empty.application.loaded
    pieces = [a for replica, n in zip(three.all, asked, strict=True) for a in replica.listener.asked[n:]]
    assert pieces.count("FetchSnapshot") > 5
    await three.write(batch_of(b"after"))
    await three.all_have(*values, b"after")


async def test_a_peer_that_accepts_and_never_answers_stops_nobody(three: Replicas) -> None:
    leader = await three.leader()
    mute = next(replica for replica in three.all if replica is not leader)
    mute.listener.is_silent = True
    await leader.kill()
    mute.listener.is_silent = False
    await three.write(batch_of(b"a"))
    await three.all_have(b"a")


async def test_an_observer_finds_the_leader_by_any_server_and_becomes_a_voter() -> None:
    first, second = Replica(1, has_directory=True), Replica(2, has_directory=True)
    replicas = Replicas([first, second])
    for replica in replicas.all:
        await replica.listener.open()
    await first.start(Quorum.of([first.voter]))
    nobody = Quorum((), 1)
    elsewhere = Address("127.0.0.1", second.listener.port)
    await second.start(nobody, bootstrap=(elsewhere, Address("127.0.0.1", first.listener.port)))
    await replicas.write(batch_of(b"a"))
    await replicas.all_have(b"a")
    assert second.driver.role_name == "Observer"
    request = ask.AddVoter(second.key, second.voter.endpoints)
    answer = None
    while answer != ask.VoterChangeAnswer(ask.NO_ERROR):
        await asyncio.sleep(0)
        answer = await first.driver.request(request)
    assert second.driver.quorum.ids == [1, 2]
    assert second.driver.role_name == "Follower"
    await replicas.write(batch_of(b"b"))
    await replicas.all_have(b"a", b"b")
    await second.stop()
    await first.stop()
