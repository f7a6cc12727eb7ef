"""When a driver ends, hands over, lets go of its log or says that it goes: each condition counts alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.unit.node.quorum.kit import VOTERS, Kit
from tests.unit.node.quorum.memory import batch_of

from penstock.node.quorum.driver import QuorumDriver
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.records import Record, encode_batch
from penstock.raft import requests as ask
from penstock.raft.machine import Raft
from penstock.raft.ports import SnapshotId

FULL = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full")
REFUSED = KafkaError(ErrorCode.INVALID_REQUEST, "no")


@pytest.fixture
async def kit() -> AsyncIterator[Kit]:
    kit = Kit()
    yield kit
    await kit.driver.stop()


@pytest.mark.parametrize(
    ("error", "has_written", "ends", "makes_way"),
    [
        (FULL, False, False, True),
        (REFUSED, False, False, False),
        (DecodeError("no batch"), False, False, False),
        (ValueError("unknown"), False, True, False),
        (FULL, True, True, False),
        (REFUSED, True, True, False),
        (DecodeError("no batch"), True, True, False),
        (ValueError("unknown"), True, True, False),
    ],
)
async def test_what_a_failed_append_comes_to(
    kit: Kit, error: Exception, *, has_written: bool, ends: bool, makes_way: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    epoch, told = await kit.lead(), list[Exception]()

    def append(*_: object) -> None:
        if has_written:
            end = kit.log.end_offset
            kit.log.append(
                encode_batch([Record(timestamp_ms=0, value=b"a")], base_offset=end, partition_leader_epoch=1)
            )
        raise error

    monkeypatch.setattr(Raft, "append", append)
    monkeypatch.setattr(QuorumDriver, "_make_way", lambda _, why: told.append(why))
    with pytest.raises(type(error)):
        kit.driver.append(batch_of(b"b"), epoch)
    assert (kit.failures, told) == ([error] * ends, [error] * makes_way)
    assert kit.driver.is_running is not ends


@pytest.mark.parametrize(("voters", "hands_over"), [(1, False), (2, True), (3, True)])
async def test_a_leader_whose_disk_is_full_hands_over_where_there_is_another_voter(
    voters: int, *, hands_over: bool
) -> None:
    kit = Kit(voters=voters)
    epoch = await (kit.lead() if voters == 1 else kit.be_elected())
    kit.log.write_error = FULL
    with pytest.raises(KafkaError, match="full"):
        kit.driver.append(batch_of(b"a"), epoch)
    await asyncio.sleep(0)
    assert kit.driver.is_leader(epoch) is not hands_over
    kit.log.write_error = None
    await kit.driver.stop(resign=False)


async def test_only_the_leader_of_the_epoch_has_a_barrier(kit: Kit) -> None:
    epoch = await kit.lead()
    for other in (epoch - 1, epoch + 1):
        with pytest.raises(KafkaError) as refused:
            kit.driver.barrier(other)
        assert refused.value.code is ErrorCode.NOT_CONTROLLER
    assert await kit.driver.barrier(epoch) == 0


async def test_an_upgrade_is_committed_as_what_is_appended(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    epoch, asked = await kit.lead(), list[object]()

    def upgrade(raft: Raft, level: int, epoch: int, now_ms: int, validate_only: bool) -> Any:
        asked.append((level, epoch, validate_only))
        return raft.append(batch_of(b"level"), epoch, now_ms)

    monkeypatch.setattr(Raft, "upgrade", upgrade)
    kit.driver.upgrade(1, epoch, validate_only=False)
    assert asked == [(1, epoch, False)]
    assert await kit.driver.barrier(epoch) == 1
    assert kit.application.values == [b"level"]


@pytest.mark.parametrize(("is_newest", "ends", "lets_go"), [(True, False, 1), (False, False, 0), (True, True, 0)])
async def test_the_log_behind_a_snapshot_goes_if_it_is_the_newest_and_the_driver_runs(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, *, is_newest: bool, ends: bool, lets_go: int
) -> None:
    epoch, gone = await kit.lead(), list[SnapshotId]()
    await kit.driver.append(batch_of(b"a"), epoch)
    monkeypatch.setattr(Raft, "forget_log_behind", lambda _, snapshot: gone.append(snapshot))
    write = kit.snapshots.write

    def writing(snapshot: SnapshotId, chunks: Any) -> None:
        write(snapshot, chunks)
        if not is_newest:
            write(SnapshotId(snapshot.end_offset + 1, snapshot.epoch), [b""])

    monkeypatch.setattr(kit.snapshots, "write", writing)
    chunks = kit.application.snapshot(kit.driver.quorum_at(2))
    writes = asyncio.ensure_future(kit.driver.snapshot(chunks, 2))
    await asyncio.sleep(0)
    if ends:
        kit.driver.fail(ValueError("ended"))
    snapshot = await writes
    assert gone == [snapshot] * lets_go


async def test_what_is_answered_or_given_up_is_not_kept() -> None:
    kit = Kit(voters=3)
    await kit.driver.start()
    await kit.driver.request(ask.Vote(7, VOTERS[1].key, VOTERS[0].key, 0, 0))
    assert kit.driver._asked == {}
    kit.state.goes_on.clear()
    waits = [kit.driver.request(ask.Vote(epoch, VOTERS[1].key, VOTERS[0].key, 0, 0)) for epoch in (8, 9)]
    assert list(kit.driver._asked) == waits
    waits[1].cancel()
    await asyncio.sleep(0)
    assert list(kit.driver._asked) == waits[:1]
    kit.state.goes_on.set()
    await waits[0]
    assert kit.driver._asked == {}
    await kit.driver.stop()


async def test_what_peers_answered_or_did_not_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    kit = Kit(voters=3)
    await kit.be_elected()
    told = list[Any]()

    def heard(_: Raft, *words: object) -> list[Any]:
        told.append(words[:-1])
        return []

    monkeypatch.setattr(Raft, "request_failed", heard)
    monkeypatch.setattr(Raft, "answered", heard)
    request: Any = object()
    answer: Any = object()
    kit.peers.failed(3, request)
    kit.peers.answered(2, request, answer)
    assert told == [(3, request), (2, request, answer)]
    await kit.driver.stop(resign=False)


@pytest.mark.parametrize("resign", [True, False])
async def test_a_leader_says_that_it_goes_if_it_is_to(*, resign: bool) -> None:
    kit = Kit(voters=3)
    epoch = await kit.be_elected()
    await kit.fetch(1, epoch)
    kit.taken()
    await kit.driver.stop(resign=resign)
    assert [to for to, request in kit.taken() if isinstance(request, ask.EndEpoch)] == [2, 3] * resign
    assert kit.peers.settled == [ask.EndEpoch] * resign
