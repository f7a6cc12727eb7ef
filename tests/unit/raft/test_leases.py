"""Leases of leaders: what voters promise, and what a leader makes of it. The rest is proved in simulation."""

import pytest
from tests.unit.raft.replicas import YES, answered, elect, log_of, quorum, raft_of, sent, voter

from penstock.leadership.lease import HELD
from penstock.protocol.errors import ErrorCode
from penstock.raft.effects import ElectionState
from penstock.raft.follower import Follower
from penstock.raft.leader import Leader
from penstock.raft.machine import Raft
from penstock.raft.requests import (
    EndEpoch,
    Fetch,
    FetchAnswer,
    Promise,
    RemoveVoter,
    Vote,
    VoteAnswer,
    VoterChangeAnswer,
)
from penstock.raft.settings import RaftSettings
from penstock.raft.voters import Quorum

LEASES = RaftSettings(leases=True)
LENGTH = LEASES.lease_ms


def follower(now_ms: int = 0, settings: RaftSettings = LEASES) -> tuple[Raft, Fetch]:
    """Node 1 follows node 2 in epoch 3, and what it asks it. It has waited since a restart."""
    raft = raft_of(1, quorum(1, 2, 3), state=ElectionState(3, 2), settings=settings)
    ((to, request),) = sent(raft.start(now_ms - 2 * LENGTH))
    assert to == 2
    assert isinstance(request, Fetch)
    return raft, request


def hear(raft: Raft, request: Fetch, now_ms: int, number: int = 7) -> Fetch:
    """The leader answers; returns the next fetch."""
    answer = FetchAnswer(YES, 2, 3, high_watermark=0, number=number)
    ((_, following),) = sent(raft.answered(2, request, answer, now_ms))
    assert isinstance(following, Fetch)
    return following


def asks_for_vote(raft: Raft, now_ms: int, *, pre_vote: bool = False) -> bool:
    question = Vote(raft.epoch + 1, voter(3).key, voter(1).key, last_epoch=0, end_offset=0, pre_vote=pre_vote)
    answer = answered(raft.received(question, "token", now_ms))
    assert isinstance(answer, VoteAnswer)
    return answer.granted


@pytest.mark.parametrize("pre_vote", [False, True])
def test_a_voter_that_has_heard_the_leader_votes_for_nobody_for_a_while(pre_vote: bool) -> None:
    raft, request = follower()
    assert hear(raft, request, 100).promise == Promise(7, LENGTH)
    assert not asks_for_vote(raft, 100 + LENGTH, pre_vote=pre_vote)
    assert (raft.epoch, raft.leader_id) == (3, 2), "it goes on fetching, whatever epoch others are in"
    assert asks_for_vote(raft, 101 + LENGTH, pre_vote=pre_vote)


def test_without_leases_nothing_is_promised() -> None:
    raft, request = follower(settings=RaftSettings())
    assert hear(raft, request, 100).promise is None
    assert asks_for_vote(raft, 101)


def test_a_leader_that_numbers_nothing_is_promised_nothing() -> None:
    raft, request = follower()
    assert hear(raft, request, 100, number=0).promise is None
    assert asks_for_vote(raft, 101)


def test_what_was_promised_ends_with_the_leader_that_says_so() -> None:
    raft, request = follower()
    hear(raft, request, 100)
    raft.received(EndEpoch(3, 2, (voter(3).key, voter(1).key)), "token", 200)
    assert isinstance(raft.role, Follower)
    assert asks_for_vote(raft, 201)


def test_what_was_promised_outlives_the_knowledge_of_the_leader() -> None:
    """The end of an older epoch is no end of this one, and a newer epoch is no leader."""
    raft, request = follower()
    hear(raft, request, 100)
    raft.received(EndEpoch(2, 3, ()), "token", 200)
    assert not asks_for_vote(raft, 201)
    raft.answered(2, request, FetchAnswer(YES, None, 9), 300)
    assert (raft.epoch, raft.leader_id) == (9, None)
    assert not asks_for_vote(raft, 301)
    assert raft.deadline_ms > 100 + LENGTH, "nor does it stand"


@pytest.mark.parametrize(
    ("state", "waits"),
    [
        (ElectionState(), False),
        (ElectionState(3, 2), True),
        (ElectionState(3, None), True),
        (ElectionState(3, 1), False),
    ],
)
def test_a_voter_that_starts_waits_for_what_it_may_have_promised(state: ElectionState, waits: bool) -> None:
    raft = raft_of(1, quorum(1, 2, 3), state=state, settings=LEASES)
    raft.start(1000)
    assert asks_for_vote(raft, 1000 + LENGTH) is not waits
    assert asks_for_vote(raft, 1001 + LENGTH)


def test_the_only_voter_waits_for_a_leader_that_was_removed() -> None:
    raft = raft_of(1, quorum(1), log_of(3), ElectionState(3, 2), LEASES)
    raft.start(0)
    raft.flushed(0)
    raft.tick(LENGTH)
    assert isinstance(raft.role, Follower)
    while not isinstance(raft.role, Leader):
        now_ms = raft.deadline_ms
        raft.tick(now_ms)
    assert now_ms > LENGTH


# The leader.


def leader(configured: Quorum, settings: RaftSettings = LEASES) -> tuple[Raft, int]:
    """Node 1 leads, and its own disk is up to date; and the time."""
    raft = raft_of(1, configured, settings=settings)
    raft.start(0)
    now_ms = elect(raft)
    if not isinstance(raft.role, Leader):
        raft.tick(raft.deadline_ms)
    raft.flushed(now_ms)
    return raft, now_ms


def fetch(raft: Raft, node_id: int, now_ms: int, promise: Promise | None = None, *, end: int | None = None) -> int:
    """The number of the answer to a fetch that does not wait."""
    end = raft.replica.log.end_offset if end is None else end
    last_epoch = raft.epoch if end else 0
    request = Fetch(raft.epoch, voter(node_id).key, end, last_epoch, raft.high_watermark, 0, 1 << 20, promise)
    answer = answered(raft.received(request, "token", now_ms))
    assert isinstance(answer, FetchAnswer)
    return answer.number


def test_a_lease_counts_from_when_the_answer_was_sent_that_was_promised_for() -> None:
    raft, now_ms = leader(quorum(1, 2, 3))
    number = fetch(raft, 2, now_ms)
    assert not raft.holds_lease(now_ms), "nothing is promised yet"
    fetch(raft, 2, now_ms + 500, Promise(number, 1000))
    last_ms = now_ms + int(1000 * HELD)
    assert raft.holds_lease(last_ms - 1)
    assert not raft.holds_lease(last_ms), "this millisecond is not over when the count is"


def test_a_fetch_that_was_sent_before_the_last_answer_proves_nothing() -> None:
    raft, now_ms = leader(quorum(1, 2, 3))
    number = fetch(raft, 2, now_ms)
    fetch(raft, 2, now_ms + 900, Promise(number, 1000))
    fetch(raft, 2, now_ms + 901, Promise(number, 1000))
    assert not raft.holds_lease(now_ms + 1000)


def test_a_majority_must_promise() -> None:
    raft, now_ms = leader(quorum(1, 2, 3, 4, 5))
    for node_id in (2, 3):
        number = fetch(raft, node_id, now_ms)
        assert not raft.holds_lease(now_ms)
        fetch(raft, node_id, now_ms, Promise(number, 1000))
    assert raft.holds_lease(now_ms)


def test_a_leader_must_have_committed_a_record_of_its_epoch() -> None:
    raft, now_ms = leader(quorum(1, 2, 3))
    fetch(raft, 2, now_ms, Promise(fetch(raft, 2, now_ms, end=0), 1000), end=0)
    assert not raft.holds_lease(now_ms)
    fetch(raft, 2, now_ms)
    assert raft.holds_lease(now_ms)


def test_a_leader_that_is_no_voter_any_more_needs_a_majority_of_the_others() -> None:
    raft, now_ms = leader(quorum(1, 2, 3))
    fetch(raft, 2, now_ms, Promise(fetch(raft, 2, now_ms), 1000))
    assert raft.holds_lease(now_ms)
    raft.received(RemoveVoter(voter(1).key), "administrator", now_ms)
    assert not raft.holds_lease(now_ms)
    fetch(raft, 3, now_ms, Promise(fetch(raft, 3, now_ms, end=0), 1000), end=0)
    assert raft.holds_lease(now_ms)


def test_the_only_voter_needs_nobody() -> None:
    raft, now_ms = leader(quorum(1))
    assert raft.holds_lease(now_ms + 10**9)


def test_a_leader_without_leases_numbers_nothing_and_holds_none() -> None:
    raft, now_ms = leader(quorum(1, 2, 3), RaftSettings())
    assert fetch(raft, 2, now_ms, Promise(1, 1000)) == 0
    assert fetch(raft, 2, now_ms, Promise(1, 1000)) == 0
    assert not raft.holds_lease(now_ms)
    assert not leader(quorum(1), RaftSettings())[0].holds_lease(now_ms)


def test_who_does_not_lead_holds_no_lease() -> None:
    raft, now_ms = leader(quorum(1, 2, 3))
    fetch(raft, 2, now_ms, Promise(fetch(raft, 2, now_ms), 1000))
    raft.resign(now_ms)
    assert not raft.holds_lease(now_ms)


# The leader gives up its lease before its time.


def test_a_leader_that_lays_down_its_lease_asks_for_no_promise_and_changes_no_voters() -> None:
    raft, now_ms = leader(quorum(1, 2, 3))
    fetch(raft, 2, now_ms, Promise(fetch(raft, 2, now_ms), 1000))
    raft.lay_down(raft.epoch, 100, now_ms)
    assert raft.holds_lease(now_ms + int(99 * HELD) - 2)
    assert not raft.holds_lease(now_ms + 99)
    assert fetch(raft, 2, now_ms) == 0
    refused = answered(raft.received(RemoveVoter(voter(3).key), "administrator", now_ms))
    assert isinstance(refused, VoterChangeAnswer)
    assert refused.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_lease_that_ends_at_once_is_over() -> None:
    raft, now_ms = leader(quorum(1, 2, 3))
    fetch(raft, 2, now_ms, Promise(fetch(raft, 2, now_ms), 1000))
    raft.lay_down(raft.epoch - 1, 0, now_ms)
    assert raft.holds_lease(now_ms), "that was about another epoch"
    raft.lay_down(raft.epoch, 0, now_ms)
    assert not raft.holds_lease(now_ms)


def test_a_record_of_another_epoch_ends_no_promise() -> None:
    raft, request = follower()
    hear(raft, request, 100)
    raft.handed_over(2, 1, 0, 200)
    assert not asks_for_vote(raft, 201)
    raft.handed_over(3, 3, 0, 300)
    assert isinstance(raft.role, Follower), "it is not the one that comes next"
    assert asks_for_vote(raft, 301)


def test_a_voter_that_has_promised_something_is_asked_again() -> None:
    raft, request = follower()
    hear(raft, request, 100)
    votes = {to: vote for to, vote in sent(raft.handed_over(3, 1, 0, 200)) if isinstance(vote, Vote)}
    assert sorted(votes) == [2, 3]
    raft.answered(2, votes[2], VoteAnswer(YES, 2, 3), 210)
    raft.answered(3, votes[3], VoteAnswer(YES, 2, 3), 210)
    again = {to: vote for to, vote in sent(raft.tick(raft.deadline_ms)) if isinstance(vote, Vote)}
    assert sorted(again) == [2, 3]
    raft.answered(3, again[3], VoteAnswer(YES, None, 4, granted=True), 240)
    assert isinstance(raft.role, Leader)
