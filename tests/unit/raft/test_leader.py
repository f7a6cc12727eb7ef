from typing import Any

import pytest
from tests.unit.raft.leading import commit_start, fetch, leader
from tests.unit.raft.replicas import answered, sent, voter

from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.records import Record, encode_batch
from penstock.raft.effects import Commit, Flush, Reply
from penstock.raft.leader import Leader
from penstock.raft.ports import EpochEnd
from penstock.raft.requests import (
    BeginEpoch,
    EndEpoch,
    FetchAnswer,
)
from penstock.raft.resigned import Resigned


def batch(text: str = "x") -> bytearray:
    return encode_batch([Record(timestamp_ms=0, value=text.encode())])


def test_a_majority_commits_and_the_leader_counts_only_with_its_disk() -> None:
    raft, now_ms = leader(1, 2, 3)
    commit_start(raft, now_ms)
    assert Flush() in raft.append(batch(), raft.epoch, now_ms)
    end = raft.replica.log.end_offset
    assert Commit(end) not in fetch(raft, 2, end, now_ms)
    assert Commit(end) in raft.flushed(now_ms)


def test_one_flush_runs_at_a_time() -> None:
    raft, now_ms = leader(1, 2, 3)
    assert Flush() in raft.append(batch(), raft.epoch, now_ms)
    assert Flush() not in raft.append(batch(), raft.epoch, now_ms)
    assert Flush() in raft.flushed(now_ms)
    assert Flush() not in raft.flushed(now_ms)


def test_a_flush_covers_what_is_appended_before_it_begins() -> None:
    raft, now_ms = leader(1, 2, 3)
    assert Flush() in raft.append(batch(), raft.epoch, now_ms)
    raft.append(batch(), raft.epoch, now_ms)
    raft.flush_begins()
    covered = raft.replica.log.end_offset
    raft.append(batch(), raft.epoch, now_ms)
    assert Flush() in raft.flushed(now_ms), "one more for what came after it began"
    assert raft.replica.flushed_offset == covered


def test_records_of_older_epochs_are_committed_by_one_of_its_own_only() -> None:
    raft, now_ms = leader(1, 2, 3, epochs=(1, 1, 1))
    fetch(raft, 2, 3, now_ms)
    assert raft.high_watermark == 0
    fetch(raft, 2, raft.replica.log.end_offset, now_ms)
    assert raft.high_watermark == raft.replica.log.end_offset


def test_a_fetch_waits_for_records_and_no_longer_than_it_wants() -> None:
    raft, now_ms = leader(1, 2, 3)
    commit_start(raft, now_ms)
    for node_id in (2, 3):
        assert fetch(raft, node_id, raft.replica.log.end_offset, now_ms) == []
    found = [effect for effect in raft.append(batch(), raft.epoch, now_ms) if isinstance(effect, Reply)]
    assert {effect.token for effect in found} == {"fetch of 2", "fetch of 3"}
    end = raft.replica.log.end_offset
    assert fetch(raft, 3, end, now_ms, high_watermark=end) == []
    assert not [effect for effect in raft.tick(now_ms + 499) if isinstance(effect, Reply)]
    (late,) = (effect for effect in raft.tick(now_ms + 500) if isinstance(effect, Reply))
    assert isinstance(late.answer, FetchAnswer)
    assert (late.answer.error, late.answer.records) == (ErrorCode.NONE, b"")


def test_only_the_last_fetch_of_a_replica_waits() -> None:
    raft, now_ms = leader(1, 2, 3)
    commit_start(raft, now_ms)
    end = raft.replica.log.end_offset
    assert len(fetch(raft, 3, end, now_ms)) == 0
    assert len(fetch(raft, 3, end, now_ms)) == 1


def test_where_logs_part_is_told_by_the_epoch() -> None:
    raft, now_ms = leader(1, 2, 3, epochs=(1, 1, 4, 4, 6))
    answer = answered(fetch(raft, 2, 4, now_ms, last_epoch=5))
    assert isinstance(answer, FetchAnswer)
    assert answer.diverging == EpochEnd(4, 4)
    answer = answered(fetch(raft, 2, 9, now_ms, last_epoch=6))
    assert isinstance(answer, FetchAnswer)
    assert answer.diverging == EpochEnd(6, 5)


@pytest.mark.parametrize(
    ("epochs_later", "error"), [(-1, ErrorCode.FENCED_LEADER_EPOCH), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_a_fetch_of_another_epoch_is_refused(epochs_later: int, error: ErrorCode) -> None:
    raft, now_ms = leader(1, 2, 3)
    answer = answered(fetch(raft, 2, 0, now_ms, epoch=raft.epoch + epochs_later))
    assert isinstance(answer, FetchAnswer)
    assert (answer.error, answer.leader_id, answer.epoch) == (error, 1, raft.epoch)


@pytest.mark.parametrize("wrong", [{"offset": -1}, {"last_epoch": -1}])
def test_a_fetch_that_cannot_be_is_invalid(wrong: dict[str, Any]) -> None:
    raft, now_ms = leader(1, 2, 3)
    answer = answered(fetch(raft, 2, 0, now_ms, **wrong))
    assert isinstance(answer, FetchAnswer)
    assert answer.error is ErrorCode.INVALID_REQUEST


def test_a_leader_that_hears_no_majority_resigns() -> None:
    raft, now_ms = leader(1, 2, 3, 4, 5)
    fetch(raft, 2, 0, now_ms + 2000)
    raft.tick(now_ms + 2999)
    assert isinstance(raft.role, Leader)
    effects = raft.tick(now_ms + 3000)
    assert isinstance(raft.role, Resigned), "two of five are not enough"
    ends = [request for _, request in sent(effects)]
    assert ends == [EndEpoch(raft.epoch, 1, tuple(voter(node).key for node in (2, 3, 4, 5)))] * 4


def test_those_who_wait_are_told_when_the_leader_goes() -> None:
    raft, now_ms = leader(1, 2, 3)
    commit_start(raft, now_ms)
    for node_id in (2, 3):
        fetch(raft, node_id, raft.replica.log.end_offset, now_ms)
    effects = raft.received(BeginEpoch(9, 2, voter(1).key), "token", now_ms)
    refused = [e.answer for e in effects if isinstance(e, Reply) and isinstance(e.answer, FetchAnswer)]
    assert [(answer.error, answer.leader_id, answer.epoch) for answer in refused] == [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2, 9)
    ] * 2


def test_an_append_needs_the_leader_of_the_epoch_and_whole_batches() -> None:
    raft, now_ms = leader(1, 2, 3)
    with pytest.raises(KafkaError) as refused:
        raft.append(batch(), raft.epoch - 1, now_ms)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    end = raft.replica.log.end_offset
    for broken in (batch()[:-1], bytearray()):
        with pytest.raises(DecodeError):
            raft.append(broken, raft.epoch, now_ms)
    assert raft.replica.log.end_offset == end


def test_silent_voters_are_reminded() -> None:
    raft, now_ms = leader(1, 2, 3)
    fetch(raft, 2, 0, now_ms)
    reminded = sent(raft.tick(now_ms + 1000))
    assert reminded == [(2, BeginEpoch(raft.epoch, 1, voter(2).key)), (3, BeginEpoch(raft.epoch, 1, voter(3).key))]
    fetch(raft, 2, 0, now_ms + 1500)
    assert [to for to, _ in sent(raft.tick(now_ms + 2000))] == [3]
