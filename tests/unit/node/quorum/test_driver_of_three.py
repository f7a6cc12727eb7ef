"""The driver among three voters."""

import asyncio
from random import Random

import pytest
from tests.unit.node.metrics.told import told
from tests.unit.node.quorum.kit import SETTINGS, VOTERS, WALL_CLOCK_MS, Kit
from tests.unit.node.quorum.memory import HeldLog, Remembered, batch_of

from penstock.node.metrics.registry import Group
from penstock.node.quorum import applier
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.records import Record, encode_batch
from penstock.raft import requests as ask
from penstock.raft.ports import SnapshotId
from penstock.raft.voters import Quorum
from penstock.testing.simulator.loop import VirtualLoop


async def test_a_record_is_committed_when_a_majority_has_it() -> None:
    kit = Kit(voters=3)
    epoch = await kit.be_elected()
    appended = kit.driver.append(batch_of(b"a"), epoch)
    await kit.fetch(1, epoch)
    assert not appended.done()
    assert kit.application.values == []
    await kit.application.until(lambda: kit.application.leaders[-1] == (None, epoch))
    await kit.fetch(2, epoch)
    assert await appended == 1
    assert kit.application.values == [b"a"]
    assert kit.application.leaders[-1] == (1, epoch)
    await kit.driver.stop()


async def test_appends_of_a_lost_leadership_have_an_unknown_outcome() -> None:
    kit = Kit(voters=3)
    epoch = await kit.be_elected()
    kept = kit.driver.append(batch_of(b"a"), epoch)
    await kit.fetch(2, epoch)
    assert await kept == 1
    lost = kit.driver.append(batch_of(b"b"), epoch)
    answer = await kit.driver.request(ask.BeginEpoch(epoch + 1, 2, VOTERS[0].key))
    assert answer == ask.EpochAnswer(ErrorCode.NONE, 2, epoch + 1)
    with pytest.raises(KafkaError) as unknown:
        await lost
    assert unknown.value.code is ErrorCode.NOT_CONTROLLER
    assert kit.application.leaders[-1] == (2, epoch + 1)
    with pytest.raises(KafkaError) as refused:
        kit.driver.append(batch_of(b"c"), epoch)
    assert refused.value.code is ErrorCode.NOT_CONTROLLER
    await kit.driver.stop()


async def test_a_leader_whose_disk_takes_nothing_hands_over() -> None:
    kit = Kit(voters=3)
    epoch = await kit.be_elected()
    kept = kit.driver.append(batch_of(b"a"), epoch)
    await kit.fetch(2, epoch)
    assert await kept == 1
    kit.taken()
    kit.log.write_error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full")
    with pytest.raises(KafkaError, match="full"):
        kit.driver.append(batch_of(b"b"), epoch)
    await kit.application.until(lambda: kit.application.leaders[-1] == (None, epoch))
    assert {(to, type(sent)) for to, sent in kit.taken()} == {(2, ask.EndEpoch), (3, ask.EndEpoch)}
    assert kit.failures == []
    await kit.driver.stop()


@pytest.mark.parametrize("how", ["read", "flush"])
async def test_a_leader_whose_disk_fails_says_so_to_the_voters_before_it_ends(how: str) -> None:
    kit = Kit(voters=3)
    epoch = await kit.be_elected()
    await kit.fetch(1, epoch)
    kit.taken()
    error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "damaged")
    setattr(kit.log, f"{how}_error", error)
    kit.driver.append(batch_of(b"a"), epoch).add_done_callback(lambda done: done.exception())
    fetch = kit.driver.request(ask.Fetch(epoch, VOTERS[1].key, 1, epoch, 1, 60_000, 1 << 20))
    fetch.add_done_callback(lambda done: done.exception())
    while not kit.failures:
        await asyncio.sleep(0)
    assert {(to, type(sent)) for to, sent in kit.taken()} == {(2, ask.EndEpoch), (3, ask.EndEpoch)}
    assert len(kit.failures) == 1
    assert kit.state.state.epoch == epoch
    await kit.driver.stop()


async def fetch_snapshot(kit: Kit, content: bytes) -> SnapshotId:
    """The first of three voters follows the second, and is given a snapshot instead of records."""
    snapshot = SnapshotId(9, 1)
    await kit.driver.start()
    await kit.driver.request(ask.BeginEpoch(1, 2, VOTERS[0].key))
    ((to, fetch),) = [(to, sent) for to, sent in kit.taken() if isinstance(sent, ask.Fetch)]
    kit.peers.answered(to, fetch, ask.FetchAnswer(ErrorCode.NONE, 2, 1, snapshot=snapshot))
    ((to, more),) = kit.taken()
    kit.peers.answered(to, more, ask.FetchSnapshotAnswer(ErrorCode.NONE, 2, 1, snapshot, len(content), 0, content))
    return snapshot


async def test_a_fetched_snapshot_is_loaded() -> None:
    kit = Kit(voters=3)
    leader = Remembered()
    leader.values = [b"a", b"b"]
    content = b"".join(leader.snapshot(Quorum.of(VOTERS, 0)))
    snapshot = await fetch_snapshot(kit, content)
    assert kit.log.start_offset == 0, "it is not known to be readable yet"
    await kit.application.until(lambda: kit.application.loaded == [snapshot])
    assert (kit.log.start_offset, kit.driver.applied_offset, kit.application.values) == (9, 9, [b"a", b"b"])
    await kit.driver.stop()


async def test_a_fetched_snapshot_that_cannot_be_read_ends_the_node_and_replaces_nothing() -> None:
    kit = Kit(voters=3)
    await fetch_snapshot(kit, b"?" * 100)
    while not kit.failures:
        await asyncio.sleep(0)
    assert isinstance(kit.failures[0], DecodeError)
    assert (kit.log.start_offset, kit.snapshots.latest, kit.application.loaded) == (0, None, [])
    await kit.driver.stop()


async def test_another_record_in_the_place_of_a_lost_one_is_no_success() -> None:
    """The new leader has another record at the offset of one whose outcome is unknown, and commits it."""
    kit = Kit(voters=3)
    epoch = await kit.be_elected()
    await kit.fetch(1, epoch)
    lost = kit.driver.append(batch_of(b"mine"), epoch)
    lost.add_done_callback(lambda done: done.exception())
    await kit.driver.request(ask.BeginEpoch(epoch + 1, 2, VOTERS[0].key))
    kit.log.truncate(1)
    theirs = encode_batch([Record(timestamp_ms=0, value=b"theirs")], base_offset=1, partition_leader_epoch=epoch + 1)
    while not (fetches := [sent for sent in kit.taken() if isinstance(sent[1], ask.Fetch)]):
        await asyncio.sleep(0)
    answer = ask.FetchAnswer(ErrorCode.NONE, 2, epoch + 1, high_watermark=2, records=bytes(theirs))
    kit.peers.answered(*fetches[-1], answer)
    assert kit.application.values == [b"theirs"]
    with pytest.raises(KafkaError):
        await lost
    await kit.driver.stop()


async def test_who_leads_no_longer_when_all_is_applied_is_not_told_that_it_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(applier, "SLICE_BYTES", 1)
    batches = [
        encode_batch([Record(timestamp_ms=0, value=b"%d" % i)], base_offset=i, partition_leader_epoch=1)
        for i in range(10)
    ]
    log = HeldLog()
    for batch in batches:
        log.append(batch)
    kit = Kit(voters=3, log=log)
    epoch = await kit.be_elected()
    await kit.fetch(11, epoch, voter=2)
    await kit.fetch(11, epoch, voter=3)
    assert kit.driver.high_watermark == 11
    assert kit.application.applied < 11, "a slice at a time"
    await kit.driver.request(ask.BeginEpoch(epoch + 1, 2, VOTERS[0].key))
    await kit.application.until(lambda: kit.application.leaders[-1] == (2, epoch + 1))
    assert kit.application.applied == 11
    assert (1, epoch) not in kit.application.leaders
    await kit.driver.stop()


async def test_a_cancelled_request_is_answered_to_nobody() -> None:
    kit = Kit(voters=3)
    epoch = await kit.be_elected()
    await kit.fetch(1, epoch)
    waiting = kit.driver.request(ask.Fetch(epoch, VOTERS[1].key, 1, epoch, 1, 60_000, 1 << 20))
    waiting.cancel()
    await asyncio.sleep(0)
    kit.driver.append(batch_of(b"a"), epoch).cancel()
    assert kit.failures == []
    await kit.driver.stop(resign=False)


async def test_timestamps_are_those_of_the_wall_clock() -> None:
    kit = Kit(voters=3)
    epoch = await kit.be_elected()
    await kit.fetch(1, epoch)
    description = kit.driver.describe()
    assert 0 <= description.voters[1].last_fetch_ms - WALL_CLOCK_MS < 600_000
    await kit.driver.stop()
    with pytest.raises(KafkaError) as refused:
        kit.driver.describe()
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_timers_come_when_they_are_due() -> None:
    """On virtual time nothing hides a timer that fires a hair too early: it would be set again for the same moment."""
    loop = VirtualLoop(Random(1))

    async def run() -> int:
        kit = Kit(voters=3)
        await kit.driver.start()
        await asyncio.sleep(60)
        await kit.driver.stop()
        return len(kit.taken())

    assert loop.run_until_complete(run()) > 100, "it asked for votes all the time"
    loop.close()


async def test_who_resigns_may_name_a_successor() -> None:
    kit = Kit(voters=3)
    epoch = await kit.be_elected()
    await kit.fetch(1, epoch)
    kit.taken()
    kit.driver.resign(3)
    ends = [request for _, request in kit.taken() if isinstance(request, ask.EndEpoch)]
    assert [key.id for key in ends[0].successors] == [3, 2]
    assert kit.application.leaders[-1] == (None, epoch)
    await kit.driver.stop()


async def test_no_request_asks_for_more_or_less_than_there_is() -> None:
    kit = Kit(voters=3)
    epoch = await kit.be_elected()
    await kit.fetch(1, epoch)
    kept = [kit.driver.append(batch_of(b"x" * 100), epoch) for _ in range(50)]
    await kit.fetch(51, epoch)
    await asyncio.gather(*kept)
    snapshot = await kit.driver.snapshot(kit.application.snapshot(kit.driver.quorum_at(51)), 51)
    for max_bytes in (-5, 0, 1, (1 << 31) - 1):
        asked = ask.FetchSnapshot(epoch, VOTERS[1].key, snapshot, 10, max_bytes)
        piece = await kit.driver.request(asked)
        assert isinstance(piece, ask.FetchSnapshotAnswer)
        assert 1 <= len(piece.piece) <= SETTINGS.fetch_snapshot_max_bytes
    lost = [kit.driver.append(batch_of(b"x" * 100), epoch) for _ in range(50)]
    fetched = await kit.driver.request(ask.Fetch(epoch, VOTERS[1].key, 51, epoch, -1, 0, (1 << 31) - 1))
    assert isinstance(fetched, ask.FetchAnswer)
    assert 0 < len(fetched.records) <= SETTINGS.fetch_max_bytes
    for append in lost:
        append.cancel()
    await kit.driver.stop()


async def test_metrics_have_kafkas_names() -> None:
    kit = Kit(voters=3)
    epoch = await kit.be_elected()
    appended = kit.driver.append(batch_of(b"a"), epoch)
    before = told(kit.metrics, Group.QUORUM)
    assert (before["current-state"], before["current-leader"], before["current-vote"]) == ("leader", 1, 1)
    assert (before["high-watermark"], before["log-end-offset"], before["current-epoch"]) == (0, 2, epoch)
    assert before["commit-latency"].max == 0
    assert before["election-latency"].mean == before["election-latency"].max != 0
    await kit.fetch(2, epoch)
    await appended
    after = told(kit.metrics, Group.QUORUM)
    assert after["high-watermark"] == 2
    assert after["commit-latency"].mean == after["commit-latency"].max != 0
    await kit.driver.request(ask.EndEpoch(epoch + 1, 2))
    await kit.driver.request(ask.Vote(epoch + 2, VOTERS[2].key, VOTERS[0].key, epoch + 1, 5))
    voted = told(kit.metrics, Group.QUORUM)
    assert (voted["current-state"], voted["current-leader"], voted["current-vote"]) == ("unattached-voted", -1, 3)
    await kit.driver.stop()
