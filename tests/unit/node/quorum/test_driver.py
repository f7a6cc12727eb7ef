"""The driver: a quorum of one, failures, and the end."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator

import pytest
from tests.simulation.memory import Contents
from tests.unit.node.quorum.kit import VOTERS, Kit
from tests.unit.node.quorum.memory import HeldLog, batch_of

from penstock.node.quorum import applier
from penstock.node.quorum.driver import MOST_WAITING
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.raft import requests as ask
from penstock.raft.ports import SnapshotId
from penstock.raft.replica import InconsistentLogError


@pytest.fixture
async def kit() -> AsyncIterator[Kit]:
    kit = Kit()
    yield kit
    await kit.driver.stop()


async def test_the_only_voter_leads_when_its_epoch_has_begun_on_the_disk(kit: Kit) -> None:
    epoch = await kit.lead()
    assert epoch == 1
    assert kit.application.applied == kit.driver.high_watermark == kit.driver.log_end_offset == 1
    assert kit.application.leaders == [(None, 0), (None, 1), (1, 1)]
    assert kit.driver.leader_id == 1
    assert kit.driver.role_name == "Leader"
    assert await kit.driver.append(batch_of(b"a", b"b"), epoch) == 2
    assert kit.application.values == [b"a", b"b"]


async def test_an_idle_quorum_of_one_sets_no_timer(kit: Kit) -> None:
    epoch = await kit.lead()
    await kit.driver.append(batch_of(b"a"), epoch)
    assert not kit.driver._alarm.is_set


async def test_nothing_is_committed_before_it_is_on_the_disk_and_waiters_share_a_flush(kit: Kit) -> None:
    epoch = await kit.lead()
    kit.log.started.clear()
    kit.log.open.clear()
    first = kit.driver.append(batch_of(b"a"), epoch)
    await asyncio.to_thread(kit.log.started.wait, 30)
    later = [kit.driver.append(batch_of(value), epoch) for value in (b"b", b"c", b"d")]
    behind = kit.driver.barrier(epoch)
    assert kit.application.values == []
    assert not first.done()
    flushes = kit.log.flushes
    kit.log.open.set()
    await first
    assert kit.application.values == [b"a"]
    assert await asyncio.gather(*later, behind) == [2, 3, 4, 4]
    assert kit.application.values == [b"a", b"b", b"c", b"d"]
    assert kit.log.flushes == flushes + 2


async def test_what_is_appended_in_one_turn_shares_a_flush(kit: Kit) -> None:
    epoch = await kit.lead()
    flushes = kit.log.flushes
    await asyncio.gather(*(kit.driver.append(batch_of(b"%d" % i), epoch) for i in range(100)))
    assert kit.log.flushes == flushes + 1


async def test_a_barrier_needs_no_flush_of_its_own(kit: Kit) -> None:
    epoch = await kit.lead()
    flushes = kit.log.flushes
    assert kit.driver.barrier(epoch).done()
    assert kit.log.flushes == flushes


async def test_only_the_leader_of_the_epoch_appends(kit: Kit) -> None:
    epoch = await kit.lead()
    for other in (epoch - 1, epoch + 1):
        with pytest.raises(KafkaError) as refused:
            kit.driver.append(batch_of(b"a"), other)
        assert refused.value.code is ErrorCode.NOT_CONTROLLER
    assert kit.driver.log_end_offset == 1


async def test_an_application_may_append_when_it_is_told_that_it_leads(kit: Kit) -> None:
    appended: list[asyncio.Future[int]] = []

    def append(leader_id: int | None, epoch: int) -> None:
        if leader_id == 1:
            appended.append(kit.driver.append(batch_of(b"first"), epoch))
            appended.append(kit.driver.append(batch_of(b"second"), epoch))
            assert kit.driver.log_end_offset == 3

    kit.application.on_leader = append
    await kit.lead()
    assert await asyncio.gather(*appended) == [1, 2]
    assert kit.application.values == [b"first", b"second"]


async def test_a_restart_applies_everything_again_and_leads_the_next_epoch(kit: Kit) -> None:
    epoch = await kit.lead()
    await kit.driver.append(batch_of(b"a"), epoch)
    await kit.driver.append(batch_of(b"b", b"c"), epoch)
    await kit.driver.stop()
    again = kit.again()
    assert await again.lead() == epoch + 1
    assert again.application.values == [b"a", b"b", b"c"]
    await again.driver.stop()


async def test_the_epoch_grows_even_if_the_log_is_lost(kit: Kit) -> None:
    epoch = await kit.lead()
    await kit.driver.stop()
    kit.log = HeldLog()
    assert await kit.again().lead() == epoch + 1


async def test_a_snapshot_takes_the_place_of_the_log(kit: Kit) -> None:
    epoch = await kit.lead()
    await kit.driver.append(batch_of(b"a"), epoch)
    end_offset = kit.driver.applied_offset
    chunks = kit.application.snapshot(kit.driver.quorum_at(end_offset))
    snapshot = await kit.driver.snapshot(chunks, end_offset)
    assert (snapshot.end_offset, snapshot.epoch) == (2, epoch)
    assert kit.driver.log_start_offset == 2
    await kit.driver.append(batch_of(b"b"), epoch)
    await kit.driver.stop()
    again = kit.again()
    await again.lead()
    assert again.application.loaded == [snapshot]
    assert again.application.values == [b"a", b"b"]
    await again.driver.stop()


async def test_a_long_log_is_applied_in_slices_between_which_others_have_their_turn(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    epoch = await kit.lead()
    await asyncio.gather(*(kit.driver.append(batch_of(b"x" * 100), epoch) for _ in range(100)))
    monkeypatch.setattr(applier, "SLICE_BYTES", 1000)
    again = kit.again()
    turns = 0

    def turn() -> None:
        nonlocal turns
        turns += 1
        asyncio.get_running_loop().call_soon(turn)

    turn()
    turns_at: list[int] = []
    committed = again.application.committed

    def count(batches: bytes, base_offset: int, last_offset: int) -> None:
        turns_at.append(turns)
        committed(batches, base_offset, last_offset)

    again.application.committed = count  # type: ignore[method-assign]
    await again.lead()
    assert len(again.application.values) == 100
    assert len(set(turns_at)) > 10
    await again.driver.stop()


async def test_what_is_applied_in_steps_counts_when_all_are_done(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    epoch = await kit.lead()
    before, committed, applied_at = kit.driver.applied_offset, kit.application.committed, list[int]()

    def in_steps(batches: bytes, base_offset: int, last_offset: int) -> Iterator[None]:
        committed(batches, base_offset, last_offset)
        for _ in range(3):
            yield None
            applied_at.append(kit.driver.applied_offset)

    monkeypatch.setattr(kit.application, "committed", in_steps)
    await asyncio.gather(*(kit.driver.append(batch_of(value), epoch) for value in (b"a", b"b")))
    assert applied_at[:3] == [before] * 3
    assert kit.driver.applied_offset == before + 2
    assert kit.application.values == [b"a", b"b"]
    await kit.driver.stop()


# When things fail.


async def test_a_failed_write_leaves_the_log_as_it_was(kit: Kit) -> None:
    epoch = await kit.lead()
    kit.log.write_error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full")
    with pytest.raises(KafkaError, match="full"):
        kit.driver.append(batch_of(b"a"), epoch)
    kit.log.write_error = None
    await kit.driver.append(batch_of(b"b"), epoch)
    assert kit.application.values == [b"b"]
    assert kit.failures == []


async def test_after_a_failed_flush_the_driver_takes_part_no_longer(kit: Kit, caplog: pytest.LogCaptureFixture) -> None:
    epoch = await kit.lead()
    kit.log.flush_error = OSError(28, "No space left on device")
    appends = [kit.driver.append(batch_of(b"a"), epoch), kit.driver.append(batch_of(b"b"), epoch)]
    for result in await asyncio.gather(*appends, return_exceptions=True):
        assert isinstance(result, KafkaError)
        assert result.code is ErrorCode.KAFKA_STORAGE_ERROR
    kit.log.flush_error = None
    with pytest.raises(KafkaError, match="No space left"):
        kit.driver.append(batch_of(b"c"), epoch)
    with pytest.raises(KafkaError) as refused:
        await kit.driver.request(ask.Vote(9, VOTERS[1].key, VOTERS[0].key, 9, 9))
    assert refused.value.code is ErrorCode.BROKER_NOT_AVAILABLE
    assert kit.state.state.epoch == epoch, "it votes no longer"
    assert kit.application.values == []
    assert not kit.driver.is_leader(epoch)
    assert kit.failures == [kit.driver.failure]
    (line,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "No space left" in line.message
    assert "restart the node" in line.message
    assert line.exc_info is None


async def test_records_that_cannot_be_applied_end_the_driver(kit: Kit, caplog: pytest.LogCaptureFixture) -> None:
    epoch = await kit.lead()
    kit.application.error = ValueError("no such topic")
    appends = [kit.driver.append(batch_of(b"a"), epoch), kit.driver.append(batch_of(b"b"), epoch)]
    done, _ = await asyncio.wait(appends, timeout=30)
    assert len(done) == 2, "they must not wait for ever"
    for append in appends:
        with pytest.raises(KafkaError, match="no such topic"):
            await append
    (line,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert line.exc_info is not None


async def test_a_vote_is_cast_when_it_is_on_the_disk_and_what_comes_behind_it_waits() -> None:
    kit = Kit(voters=3)
    await kit.driver.start()
    kit.state.goes_on.clear()
    epoch = kit.driver.epoch + 5
    first, second = (
        kit.driver.request(ask.Vote(epoch, voter.key, VOTERS[0].key, last_epoch=1, end_offset=9))
        for voter in VOTERS[1:]
    )
    for _ in range(100):
        await asyncio.sleep(0)
    assert not first.done()
    assert not second.done(), "it might hear of a vote that a crash takes back"
    assert kit.driver._alarm.is_set is False, "it would come again and again, and nothing can be done"
    kit.state.goes_on.set()
    granted = [answer.granted for answer in await asyncio.gather(first, second) if isinstance(answer, ask.VoteAnswer)]
    assert granted == [True, False]
    assert (kit.state.state.epoch, kit.state.state.voted) == (epoch, VOTERS[1].key)
    await kit.driver.stop()


async def test_while_a_disk_hangs_peers_are_refused_before_too_many_wait() -> None:
    kit = Kit(voters=3)
    await kit.driver.start()
    kit.state.goes_on.clear()
    epoch = kit.driver.epoch + 5
    vote = ask.Vote(epoch, VOTERS[1].key, VOTERS[0].key, last_epoch=1, end_offset=9)
    asked = [kit.driver.request(vote) for _ in range(MOST_WAITING + 2)]
    with pytest.raises(KafkaError) as refused:
        await asked.pop()
    assert refused.value.code is ErrorCode.BROKER_NOT_AVAILABLE
    kit.state.goes_on.set()
    answers = await asyncio.gather(*asked)
    assert all(isinstance(answer, ask.VoteAnswer) and answer.granted for answer in answers)
    await kit.driver.request(vote)
    await kit.driver.stop()


async def test_a_stop_waits_for_the_vote_that_is_being_written() -> None:
    kit = Kit(voters=3)
    await kit.driver.start()
    kit.state.goes_on.clear()
    epoch = kit.driver.epoch + 5
    vote = kit.driver.request(ask.Vote(epoch, VOTERS[1].key, VOTERS[0].key, last_epoch=1, end_offset=9))
    stopping = asyncio.ensure_future(kit.driver.stop(resign=False))
    for _ in range(100):
        await asyncio.sleep(0)
    assert not stopping.done(), "its directory would be given away under a thread that writes"
    kit.state.goes_on.set()
    await stopping
    assert kit.state.state.epoch == epoch
    assert isinstance(await vote, ask.VoteAnswer)


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "read-only"), "KAFKA_STORAGE_ERROR: read-only"),
        (GeneratorExit(), "KAFKA_STORAGE_ERROR: the vote could not be written: GeneratorExit()"),
    ],
)
async def test_a_vote_that_cannot_be_written_is_not_cast(error: BaseException, failure: str) -> None:
    kit = Kit(voters=3)
    await kit.driver.start()
    kit.state.error = error
    with pytest.raises(KafkaError) as refused:
        await kit.driver.request(ask.Vote(7, VOTERS[1].key, VOTERS[0].key, 0, 0))
    assert refused.value.code is ErrorCode.BROKER_NOT_AVAILABLE
    assert str(kit.failures[0]) == failure
    await kit.driver.stop()


async def test_a_start_that_fails_raises_why() -> None:
    log = HeldLog(Contents(start=SnapshotId(5, 1)))
    kit = Kit(log=log)
    with pytest.raises(InconsistentLogError, match="no snapshot holds what was before"):
        await kit.driver.start()
    assert not kit.driver.is_running
    assert kit.peers.is_stopped
    assert kit.failures == []
    await kit.driver.stop()


# Stopping.


async def test_a_stop_waits_for_what_was_appended(kit: Kit) -> None:
    epoch = await kit.lead()
    appended = kit.driver.append(batch_of(b"a"), epoch)
    await kit.driver.stop()
    assert await appended == 1
    assert kit.application.leaders[-1] == (None, epoch)


async def test_nothing_runs_after_a_stop_whatever_still_comes() -> None:
    kit = Kit(voters=3)
    epoch = await kit.be_elected()
    late = [sent for sent in kit.taken() if isinstance(sent[1], ask.BeginEpoch)]
    assert late
    lost = kit.driver.append(batch_of(b"a"), epoch)
    stopping = asyncio.ensure_future(kit.driver.stop(resign=False))
    lost.cancel()  # nobody waits for it any longer
    await stopping
    kit.taken()
    for to, request in late:
        kit.peers.failed(to, request)
        kit.peers.answered(to, request, ask.EpochAnswer(ErrorCode.NONE, to, epoch + 5))
    assert kit.taken() == []
    assert kit.state.state.epoch == epoch
    with pytest.raises(KafkaError):
        await kit.driver.request(ask.BeginEpoch(epoch + 1, 2, VOTERS[0].key))


async def test_a_leader_that_stops_says_so() -> None:
    kit = Kit(voters=3)
    epoch = await kit.be_elected()
    await kit.fetch(1, epoch)
    kit.taken()
    await kit.driver.stop()
    assert [(to, request.successors[0].id) for to, request in kit.taken() if isinstance(request, ask.EndEpoch)] == [
        (2, 2),
        (3, 2),
    ]
    assert kit.peers.settled == [ask.EndEpoch]
