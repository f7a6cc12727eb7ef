"""Voters that the configuration fixes are named in the log, and may change from then on (KIP-853)."""

from uuid import UUID

import pytest
from tests.unit.raft.leading import commit_start
from tests.unit.raft.replicas import answered, elect, log_of, raft_of, sent, voter

from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.records import iterate_batches
from penstock.raft.effects import ElectionState
from penstock.raft.machine import Raft
from penstock.raft.requests import EpochAnswer, Fetch, FetchAnswer, RemoveVoter, UpdateVoter
from penstock.raft.voters import DYNAMIC_VOTERS, STATIC_VOTERS, Endpoint, Quorum, ReplicaKey, Voter

EPOCH = 7
FIXED = Quorum.of([Voter(ReplicaKey(node_id)) for node_id in (1, 2, 3)], STATIC_VOTERS)


def whole(node_id: int) -> Voter:
    """As a voter tells of itself."""
    return voter(node_id).replace(endpoints=(Endpoint("CONTROLLER", f"n{node_id}", 9093),))


def leader(*, has_listener: bool = True) -> tuple[Raft, int]:
    raft = raft_of(1, FIXED)
    if has_listener:
        raft.replica.local = whole(1)
    raft.start(0)
    now_ms = elect(raft)
    raft.flushed(now_ms)
    return raft, now_ms


def told(raft: Raft, one: Voter, now_ms: int) -> ErrorCode:
    answer = answered(raft.received(UpdateVoter(raft.epoch, one), "update", now_ms))
    assert isinstance(answer, EpochAnswer)
    return answer.error


def refusal(raft: Raft, now_ms: int, level: int = DYNAMIC_VOTERS) -> str:
    with pytest.raises(KafkaError) as error:
        raft.upgrade(level, raft.epoch, now_ms)
    assert error.value.code == ErrorCode.INVALID_UPDATE_VERSION
    return str(error.value.message)


def test_a_leader_names_voters_that_have_all_told_it() -> None:
    raft, now_ms = leader()
    commit_start(raft, now_ms)
    assert "of the voters [2, 3]: they tell it soon" in refusal(raft, now_ms)
    assert [told(raft, whole(node_id), now_ms) for node_id in (2, 3)] == [ErrorCode.NONE] * 2
    end = raft.replica.log.end_offset
    raft.upgrade(DYNAMIC_VOTERS, raft.epoch, now_ms, validate_only=True)
    assert (raft.replica.log.end_offset, raft.quorum) == (end, FIXED)
    raft.upgrade(DYNAMIC_VOTERS, raft.epoch, now_ms)
    assert raft.quorum == Quorum.of(map(whole, (1, 2, 3)), DYNAMIC_VOTERS)
    assert len(list(iterate_batches(raft.replica.log.read(end, 1 << 20)))) == 1
    removal = answered(raft.received(RemoveVoter(voter(3).key), "administrator", now_ms))
    assert removal.error is ErrorCode.REQUEST_TIMED_OUT, "the voters are not committed yet"
    end = raft.replica.log.end_offset
    raft.upgrade(DYNAMIC_VOTERS, raft.epoch, now_ms)
    assert raft.replica.log.end_offset == end, "that is the level already"
    assert "cannot be taken back" in refusal(raft, now_ms, STATIC_VOTERS)
    assert raft.upgrade(DYNAMIC_VOTERS, raft.epoch, now_ms) == []


def test_what_a_leader_must_know_beforehand() -> None:
    raft, now_ms = leader()
    assert "committed nothing" in refusal(raft, now_ms)
    commit_start(raft, now_ms)
    told(raft, whole(2), now_ms)
    assert told(raft, whole(4), now_ms) is ErrorCode.VOTER_NOT_FOUND
    assert told(raft, Voter(ReplicaKey(3), whole(3).endpoints), now_ms) is ErrorCode.INVALID_REQUEST
    assert told(raft, voter(3), now_ms) is ErrorCode.INVALID_REQUEST, "it does not say where it listens"
    assert "of the voters [3]: " in refusal(raft, now_ms)
    assert told(raft, whole(3).replace(max_kraft_version=STATIC_VOTERS), now_ms) is ErrorCode.NONE
    assert "the voters [3] do not support it" in refusal(raft, now_ms)
    told(raft, whole(3), now_ms)
    assert "the voters [1, 2, 3] do not support it" in refusal(raft, now_ms, level=2)
    another_disk = whole(3).replace(key=ReplicaKey(3, UUID(int=33)))
    told(raft, another_disk, now_ms)
    raft.upgrade(DYNAMIC_VOTERS, raft.epoch, now_ms)
    assert raft.quorum.voter(3) == another_disk, "the last word counts"


def test_a_leader_that_nobody_can_reach_cannot_be_named() -> None:
    raft, now_ms = leader(has_listener=False)
    commit_start(raft, now_ms)
    for node_id in (2, 3):
        told(raft, whole(node_id), now_ms)
    assert "of the voters [1]: " in refusal(raft, now_ms)


def follower() -> tuple[Raft, Fetch]:
    """It is to follow node 2, and its first fetch."""
    raft = raft_of(1, FIXED, log_of(1), ElectionState(EPOCH, 2))
    raft.replica.local = whole(1)
    raft.start(0)
    ((_, fetch),) = sent(raft.flushed(0))
    assert isinstance(fetch, Fetch)
    return raft, fetch


@pytest.mark.parametrize(
    ("error", "goes_on"),
    [
        (ErrorCode.NONE, False),
        (ErrorCode.UNSUPPORTED_VERSION, False),
        (ErrorCode.REQUEST_TIMED_OUT, True),
    ],
)
def test_a_voter_tells_each_leader_once(error: ErrorCode, *, goes_on: bool) -> None:
    raft, fetch = follower()
    patience_ms = raft.replica.settings.fetch_timeout_ms
    for now_ms, is_told in ((10, True), (20, False), (10 + patience_ms, goes_on)):
        more, *tells = [
            request for _, request in sent(raft.answered(2, fetch, FetchAnswer(ErrorCode.NONE, 2, EPOCH), now_ms))
        ]
        assert tells == ([UpdateVoter(EPOCH, whole(1))] if is_told else [])
        for tell in tells:
            raft.answered(2, tell, EpochAnswer(error, 2, EPOCH), now_ms)
        assert isinstance(more, Fetch)
        fetch = more


def test_a_voter_tells_no_leader_that_it_has_not_heard() -> None:
    raft, fetch = follower()
    refused = sent(raft.answered(2, fetch, FetchAnswer(ErrorCode.UNKNOWN_SERVER_ERROR, 2, EPOCH), 10))
    assert not any(isinstance(request, UpdateVoter) for _, request in refused)
    ((_, again),) = refused or sent(raft.tick(10 + raft.replica.settings.fetch_timeout_ms // 2))
    assert isinstance(again, Fetch)
    heard = sent(raft.answered(2, again, FetchAnswer(ErrorCode.NONE, 2, EPOCH), 20))
    assert any(isinstance(request, UpdateVoter) for _, request in heard)
