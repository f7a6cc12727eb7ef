from uuid import UUID

from tests.unit.raft.replicas import YES, add_voters, answered, elect, log_of, quorum, raft_of, sent, voter

from penstock.protocol.errors import ErrorCode
from penstock.raft.campaign import Candidate, Prospective, Unattached, Voted
from penstock.raft.effects import ElectionState, Persist, Reply
from penstock.raft.follower import Follower
from penstock.raft.leader import Leader
from penstock.raft.machine import Raft
from penstock.raft.requests import BeginEpoch, PeerRequest, Vote, VoteAnswer
from penstock.raft.resigned import Resigned
from penstock.raft.voters import ReplicaKey

ASKED = Vote(epoch=5, candidate=voter(2).key, voter=voter(1).key, last_epoch=3, end_offset=3)


def started(*epochs: int) -> Raft:
    raft = raft_of(1, quorum(1, 2, 3), log_of(*epochs))
    raft.start(0)
    if epochs:
        raft.flushed(0)
    return raft


def vote(raft: Raft, request: Vote) -> VoteAnswer:
    answer = answered(raft.received(request, "token", 10))
    assert isinstance(answer, VoteAnswer)
    return answer


def test_a_vote_is_persisted_before_it_is_given() -> None:
    effects = started(1, 1, 3).received(ASKED, "token", 10)
    assert effects[0] == Persist(ElectionState(5, None, ASKED.candidate))
    assert effects[-1] == Reply("token", VoteAnswer(ErrorCode.NONE, None, 5, granted=True))
    assert sum(isinstance(effect, Persist) for effect in effects) == 1, "one write is enough"


def test_one_vote_in_an_epoch_given_again_to_the_same() -> None:
    raft = started(1, 1, 3)
    assert vote(raft, ASKED).granted
    assert vote(raft, ASKED).granted
    assert not vote(raft, ASKED.replace(candidate=voter(3).key)).granted
    assert isinstance(raft.role, Voted)


def test_a_vote_survives_a_restart() -> None:
    raft = raft_of(1, quorum(1, 2, 3), log_of(1), ElectionState(5, None, voter(3).key))
    raft.start(0)
    assert not vote(raft, ASKED).granted
    assert vote(raft, ASKED.replace(candidate=voter(3).key)).granted


def test_a_candidate_needs_a_log_that_is_as_good() -> None:
    assert not vote(started(1, 1, 3, 3), ASKED).granted, "longer"
    assert not vote(started(4), ASKED).granted, "of a later epoch"
    assert vote(started(1, 1, 1, 1), ASKED).granted, "of an older epoch, however long"


def test_a_vote_for_an_old_epoch_is_fenced() -> None:
    raft = started()
    raft.received(BeginEpoch(6, 3, voter(1).key), "token", 1)
    assert vote(raft, ASKED) == VoteAnswer(ErrorCode.FENCED_LEADER_EPOCH, 3, 6)


def test_a_vote_is_for_the_replica_that_has_the_directory() -> None:
    stranger = ReplicaKey(1, UUID(int=99))
    assert vote(started(), ASKED.replace(voter=stranger)).error is ErrorCode.INVALID_VOTER_KEY
    assert vote(started(), ASKED.replace(voter=ReplicaKey(1))).granted, "older candidates do not know the directory"


def test_a_vote_that_cannot_be_is_invalid() -> None:
    assert vote(started(), ASKED.replace(last_epoch=5)).error is ErrorCode.INVALID_REQUEST
    assert vote(started(), ASKED.replace(end_offset=-1)).error is ErrorCode.INVALID_REQUEST
    assert vote(started(), ASKED.replace(last_epoch=5, pre_vote=True)).granted


def test_a_pre_vote_binds_nobody() -> None:
    raft = started()
    effects = raft.received(ASKED.replace(epoch=0, last_epoch=0, pre_vote=True), "token", 10)
    assert effects == [Reply("token", VoteAnswer(ErrorCode.NONE, None, 0, granted=True))]
    assert isinstance(raft.role, Unattached)


def test_an_observer_votes_when_it_is_asked_as_a_voter() -> None:
    raft = raft_of(1, quorum(2, 3))
    raft.start(0)
    assert vote(raft, ASKED).granted


def test_answers_to_another_question_do_not_count() -> None:
    raft = started()
    now_ms = raft.deadline_ms
    (_, pre_vote), _ = sent(raft.tick(now_ms))
    assert isinstance(pre_vote, Vote)
    yes = VoteAnswer(ErrorCode.NONE, None, 0, granted=True)
    raft.answered(2, pre_vote, yes, now_ms)
    assert isinstance(raft.role, Candidate)
    raft.answered(3, pre_vote, yes, now_ms)
    assert isinstance(raft.role, Candidate), "a pre-vote is no vote"


def test_a_voter_too_old_for_pre_votes_does_not_stop_an_election() -> None:
    raft = started()
    now_ms = raft.deadline_ms
    (_, pre_vote), _ = sent(raft.tick(now_ms))
    assert isinstance(pre_vote, Vote)
    raft.answered(2, pre_vote, VoteAnswer(ErrorCode.UNSUPPORTED_VERSION, None, 0), now_ms)
    assert isinstance(raft.role, Candidate)


def test_a_candidate_that_is_refused_stands_back_before_it_asks_again() -> None:
    raft = started()
    now_ms = raft.deadline_ms
    (_, pre_vote), _ = sent(raft.tick(now_ms))
    assert isinstance(pre_vote, Vote)
    votes = sent(raft.answered(2, pre_vote, VoteAnswer(ErrorCode.NONE, None, 0, True), now_ms))
    for to, request in votes:
        assert isinstance(request, Vote)
        raft.answered(to, request, VoteAnswer(ErrorCode.NONE, None, 1), now_ms)
    assert isinstance(raft.role, Candidate)
    assert now_ms < raft.deadline_ms <= now_ms + 1000
    assert raft.tick(raft.deadline_ms - 1) == []
    raft.tick(raft.deadline_ms)
    assert isinstance(raft.role, Prospective)


def test_a_split_vote_is_not_decided_by_who_is_silent() -> None:
    """Two are left of three, and each voted for itself: the next try must not wait long for the one that hangs."""
    raft = started(1)
    asked = sent(raft.tick(raft.deadline_ms))
    now_ms = 5_000
    candidacy = sent(raft.answered(2, pre_vote_of(asked, 2), VoteAnswer(YES, None, 1, True), now_ms))
    raft.answered(2, real_vote_of(candidacy, 2), VoteAnswer(YES, None, 2, False), now_ms)
    assert isinstance(raft.role, Candidate), "the third may still decide it"
    stagger_ms, settings = raft.replica.stagger_ms, raft.replica.settings
    assert now_ms + stagger_ms < raft.deadline_ms <= now_ms + stagger_ms + settings.election_backoff_max_ms
    raft.tick(raft.deadline_ms)
    assert isinstance(raft.role, Prospective)


def test_who_still_hears_the_leader_is_asked_again() -> None:
    """Two are left of three. The one with the better log gives the leader up first, and is refused for that."""
    raft = raft_of(1, quorum(1, 2, 3), log_of(1), ElectionState(1, leader_id=3))
    raft.start(0)
    raft.flushed(0)
    now_ms = 2_000
    asked = sent(raft.tick(now_ms))
    raft.request_failed(3, pre_vote_of(asked, 3), now_ms)
    raft.answered(2, pre_vote_of(asked, 2), VoteAnswer(YES, 3, 1), now_ms)
    assert isinstance(raft.role, Prospective)
    assert sent(raft.tick(now_ms + raft.replica.stagger_ms)) == [(3, pre_vote_of(asked, 3))], "not yet"
    again = sent(raft.tick(now_ms + 2 * raft.replica.stagger_ms))
    raft.answered(2, pre_vote_of(again, 2), VoteAnswer(YES, 3, 1, True), now_ms)
    assert isinstance(raft.role, Candidate)


def test_a_candidate_that_reaches_nobody_goes_on_asking() -> None:
    raft = started(1)
    asked = sent(raft.tick(raft.deadline_ms))
    now_ms = 5_000
    candidacy = sent(raft.answered(2, pre_vote_of(asked, 2), VoteAnswer(YES, None, 1, True), now_ms))
    for to in (2, 3):
        raft.request_failed(to, real_vote_of(candidacy, to), now_ms)
    again = sent(raft.tick(raft.deadline_ms))
    assert [to for to, _ in again] == [2, 3]
    raft.answered(3, real_vote_of(again, 3), VoteAnswer(YES, None, 2, True), now_ms)
    assert isinstance(raft.role, Leader)


def test_in_a_new_quorum_one_may_stand_at_once_and_waits_for_those_that_come() -> None:
    raft = started()
    asked = sent(raft.stand_first(5))
    for to in (2, 3):
        raft.answered(to, pre_vote_of(asked, to), VoteAnswer(ErrorCode.BROKER_NOT_AVAILABLE, None, 0), 6)
    now_ms = 6 + raft.replica.settings.retry_backoff_ms
    assert (type(raft.role), raft.deadline_ms) == (Prospective, now_ms)
    again = sent(raft.tick(now_ms))
    candidacy = sent(raft.answered(3, pre_vote_of(again, 3), VoteAnswer(YES, None, 0, True), now_ms))
    raft.answered(2, real_vote_of(candidacy, 2), VoteAnswer(ErrorCode.BROKER_NOT_AVAILABLE, None, 0), now_ms)
    raft.answered(3, real_vote_of(candidacy, 3), VoteAnswer(YES, None, 1, True), now_ms)
    assert isinstance(raft.role, Leader)


def test_nobody_stands_at_once_when_there_was_an_epoch() -> None:
    raft = raft_of(1, quorum(1, 2, 3), log_of(1), ElectionState(1, leader_id=3))
    raft.start(0)
    assert raft.stand_first(5) == []


def test_who_comes_back_and_does_not_know_who_won_asks() -> None:
    raft = raft_of(1, quorum(1, 2, 3), log_of(1), ElectionState(5, None, voter(3).key))
    raft.start(0)
    asked = sent(raft.look_around())
    raft.answered(2, pre_vote_of(asked, 2), VoteAnswer(YES, None, 5, granted=True), 1)
    assert (type(raft.role), raft.epoch) == (Voted, 5), "it has asked, and does not stand"
    raft.answered(3, pre_vote_of(asked, 3), VoteAnswer(YES, 3, 5), 1)
    assert (type(raft.role), raft.leader_id) == (Follower, 3)
    assert raft.look_around() == []
    assert started().look_around() == [], "there was no epoch"


def pre_vote_of(requests: list[tuple[int, PeerRequest]], to: int) -> Vote:
    (found,) = [r for node_id, r in requests if node_id == to and isinstance(r, Vote) and r.pre_vote]
    return found


def real_vote_of(requests: list[tuple[int, PeerRequest]], to: int) -> Vote:
    (found,) = [r for node_id, r in requests if node_id == to and isinstance(r, Vote) and not r.pre_vote]
    return found


def test_who_voted_for_itself_before_a_restart_does_not_go_on_as_a_candidate() -> None:
    raft = raft_of(1, quorum(1, 2, 3), log_of(1), ElectionState(5, None, voter(1).key))
    raft.start(0)
    assert isinstance(raft.role, Voted)


def test_a_leader_comes_back_resigned() -> None:
    raft = raft_of(1, quorum(1, 2, 3), log_of(5), ElectionState(5, 1, voter(1).key))
    raft.start(0)
    assert isinstance(raft.role, Resigned)
    assert raft.leader_id is None
    raft.tick(raft.deadline_ms)
    while isinstance(raft.role, Resigned):
        raft.tick(raft.deadline_ms)
    assert (type(raft.role), raft.epoch) == (Unattached, 6)


def test_the_only_voter_has_its_vote_on_the_disk_before_it_leads() -> None:
    raft = raft_of(1, quorum(1))
    effects = raft.start(0)
    assert Persist(ElectionState(1, None, voter(1).key)) in effects
    assert raft.replica.log.end_offset == 0
    raft.tick(raft.deadline_ms)
    assert isinstance(raft.role, Leader)


def test_a_voter_whose_removal_is_not_known_to_be_committed_stands_but_does_not_count_itself() -> None:
    log = log_of(1, 1)
    add_voters(log, 2, 3)
    raft = raft_of(1, quorum(1, 2, 3), log)
    raft.start(0)
    requests = sent(raft.tick(raft.deadline_ms))
    assert [to for to, _ in requests] == [2, 3]
    (_, request), _ = requests
    assert isinstance(request, Vote)
    raft.answered(2, request, VoteAnswer(ErrorCode.NONE, None, 1, True), raft.deadline_ms)
    assert isinstance(raft.role, Prospective), "one of two is no majority"


def test_elections_are_drawn_from_one_to_two_time_outs() -> None:
    drawn = []
    for _ in range(200):
        raft = started()
        for _ in range(3):
            raft.received(ASKED.replace(epoch=raft.epoch + 5), "token", 0)
            drawn.append(raft.deadline_ms)
    assert min(drawn) >= 1000
    assert max(drawn) < 2000


def test_a_newly_elected_leader_says_so_in_its_log() -> None:
    raft = started(1, 1)
    elect(raft)
    assert isinstance(raft.role, Leader)
    assert raft.replica.log.last_epoch == raft.epoch == 2
