"""The leader and those who vote: additions, removals, snapshots for those who come late."""

from uuid import UUID

import pytest
from tests.unit.raft.leading import commit_start, fetch, leader
from tests.unit.raft.replicas import add_voters, answered, elect, log_of, quorum, raft_of, sent, voter

from penstock.protocol.errors import ErrorCode
from penstock.raft.effects import Effect, ElectionState, Reply
from penstock.raft.follower import Observer
from penstock.raft.leader import Leader
from penstock.raft.machine import Raft
from penstock.raft.ports import SnapshotId
from penstock.raft.requests import (
    AddVoter,
    AskVersions,
    AskVersionsAnswer,
    BeginEpoch,
    EndEpoch,
    EpochAnswer,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    FetchSnapshotAnswer,
    RemoveVoter,
    Request,
    UpdateVoter,
    VoterChangeAnswer,
)
from penstock.raft.resigned import Resigned
from penstock.raft.voters import Endpoint, ReplicaKey, Voter


def ask_to_add(raft: Raft, node_id: int, now_ms: int, **more: bool) -> AskVersions:
    request = AddVoter(voter(node_id).key, (Endpoint("CONTROLLER", "host", 9093),), **more)
    ((to, question),) = sent(raft.received(request, "administrator", now_ms))
    assert isinstance(question, AskVersions)
    assert to == node_id
    return question


def said(effects: list[Effect]) -> VoterChangeAnswer | None:
    found = [effect.answer for effect in effects if isinstance(effect, Reply) and effect.token == "administrator"]
    assert all(isinstance(answer, VoterChangeAnswer) for answer in found)
    return found[0] if found else None  # type: ignore[return-value]


def error_of(effects: list[Effect]) -> ErrorCode:
    answer = said(effects)
    assert answer is not None
    return answer.error


def test_a_caught_up_observer_becomes_a_voter_when_that_is_committed() -> None:
    raft, now_ms = leader(1, 2, 3)
    commit_start(raft, now_ms)
    fetch(raft, 4, raft.replica.log.end_offset, now_ms)
    question = ask_to_add(raft, 4, now_ms)
    effects = raft.answered(4, question, AskVersionsAnswer(ErrorCode.NONE, 0, 1), now_ms)
    assert said(effects) is None
    assert raft.quorum.ids == [1, 2, 3, 4]
    raft.flushed(now_ms)
    end = raft.replica.log.end_offset
    assert said(fetch(raft, 2, end, now_ms)) is None, "two of four"
    assert error_of(fetch(raft, 3, end, now_ms)) is ErrorCode.NONE


def test_who_does_not_wait_for_the_commit_is_told_at_once() -> None:
    raft, now_ms = leader(1, 2, 3)
    commit_start(raft, now_ms)
    fetch(raft, 4, raft.replica.log.end_offset, now_ms)
    question = ask_to_add(raft, 4, now_ms, ack_when_committed=False)
    effects = raft.answered(4, question, AskVersionsAnswer(ErrorCode.NONE, 0, 1), now_ms)
    assert error_of(effects) is ErrorCode.NONE
    removal = raft.received(RemoveVoter(voter(3).key), "administrator", now_ms)
    assert error_of(removal) is ErrorCode.REQUEST_TIMED_OUT, "the change is still under way"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (AskVersionsAnswer(ErrorCode.NONE, 0, 0), ErrorCode.INVALID_REQUEST),
        (AskVersionsAnswer(ErrorCode.REQUEST_TIMED_OUT), ErrorCode.REQUEST_TIMED_OUT),
        (AskVersionsAnswer(ErrorCode.NONE, 0, 1), ErrorCode.REQUEST_TIMED_OUT),
    ],
    ids=["too old", "silent", "not caught up"],
)
def test_a_replica_that_cannot_follow_is_not_added(answer: AskVersionsAnswer, error: ErrorCode) -> None:
    raft, now_ms = leader(1, 2, 3)
    commit_start(raft, now_ms)
    question = ask_to_add(raft, 4, now_ms)
    assert error_of(raft.answered(4, question, answer, now_ms)) is error
    assert raft.quorum.ids == [1, 2, 3]


def test_an_addition_may_take_as_long_as_was_asked() -> None:
    raft, now_ms = leader(1, 2, 3)
    commit_start(raft, now_ms)
    raft.received(AddVoter(voter(4).key, timeout_ms=2500), "administrator", now_ms)
    for later_ms in range(now_ms, now_ms + 2500, 500):
        fetch(raft, 2, 0, later_ms)
        assert said(raft.tick(later_ms)) is None
    assert said(raft.tick(now_ms + 2499)) is None
    assert error_of(raft.tick(now_ms + 2500)) is ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize(
    ("offset", "last_epoch", "is_before"),
    [
        (2, 1, False),  # where the log begins, and of the epoch of the snapshot
        (3, 1, False),
        (2, 0, True),
        (3, 0, True),
        (1, 1, True),
        (0, 0, True),
    ],
)
def test_who_lacks_what_the_log_begins_with_takes_the_snapshot(offset: int, last_epoch: int, is_before: bool) -> None:
    raft, now_ms = leader(1, 2, 3, epochs=(1, 1, 1))
    commit_start(raft, now_ms)
    snapshot = SnapshotId(2, 1)
    raft.replica.snapshots.store(snapshot, b"whole")  # type: ignore[attr-defined]
    raft.forget_log_behind(snapshot)
    request = Fetch(raft.epoch, voter(3).key, offset, last_epoch, -1, 0, 1 << 20)
    answer = answered(raft.received(request, "fetch", now_ms))
    assert isinstance(answer, FetchAnswer)
    assert answer.snapshot == (snapshot if is_before else None)
    assert bool(answer.records) is not is_before


def test_a_snapshot_is_served_piece_by_piece_and_only_if_it_is_there() -> None:
    raft, now_ms = leader(1, 2, 3)
    snapshot = SnapshotId(1, 1)
    raft.replica.snapshots.store(snapshot, b"whole")  # type: ignore[attr-defined]
    for asked, position, max_bytes, error, piece in (
        (snapshot, 0, 3, ErrorCode.NONE, b"who"),
        (snapshot, 3, 9, ErrorCode.NONE, b"le"),
        (snapshot, 3, 0, ErrorCode.NONE, b"l"),
        (snapshot, 5, 9, ErrorCode.POSITION_OUT_OF_RANGE, b""),
        (snapshot, -1, 9, ErrorCode.POSITION_OUT_OF_RANGE, b""),
        (SnapshotId(2, 1), 0, 9, ErrorCode.SNAPSHOT_NOT_FOUND, b""),
    ):
        request = FetchSnapshot(raft.epoch, voter(2).key, asked, position, max_bytes)
        size = 0 if error is ErrorCode.SNAPSHOT_NOT_FOUND else 5
        expected = FetchSnapshotAnswer(error, 1, raft.epoch, asked, size, position, piece)
        assert answered(raft.received(request, "token", now_ms)) == expected


def test_who_knows_that_an_epoch_is_over_is_not_told_again() -> None:
    raft, now_ms = leader(1, 2, 3)
    told = dict(sent(raft.resign(now_ms)))
    request = told[2]
    assert isinstance(request, EndEpoch)
    assert sorted(told) == [2, 3]
    raft.answered(2, request, EpochAnswer(ErrorCode.NONE, None, raft.epoch), now_ms)
    for late in (2, 3):
        raft.request_failed(late, request, now_ms)
    assert [to for to, _ in sent(raft.tick(raft.deadline_ms))] == [3]


def test_who_fetches_a_snapshot_is_heard() -> None:
    raft, now_ms = leader(1, 2, 3)
    for later_ms in range(now_ms, now_ms + 10_000, 1000):
        raft.received(FetchSnapshot(raft.epoch, voter(2).key, SnapshotId(1, 1), 0, 1), "token", later_ms)
        raft.tick(later_ms)
    assert isinstance(raft.role, Leader)


def test_changes_of_voters_are_refused_with_a_reason() -> None:
    raft, now_ms = leader(1, 2, 3)
    removal = RemoveVoter(voter(3).key)
    early = raft.received(removal, "administrator", now_ms)
    assert error_of(early) is ErrorCode.REQUEST_TIMED_OUT, "nothing is committed in this epoch"
    commit_start(raft, now_ms)
    twice = raft.received(AddVoter(voter(3).key), "administrator", now_ms)
    assert error_of(twice) is ErrorCode.DUPLICATE_VOTER
    unknown = raft.received(RemoveVoter(voter(7).key), "administrator", now_ms)
    assert error_of(unknown) is ErrorCode.VOTER_NOT_FOUND
    assert said(raft.received(removal, "administrator", now_ms)) is None
    assert raft.quorum.ids == [1, 2]


@pytest.mark.parametrize("directory", [UUID(int=0), UUID(int=77)], ids=["no directory", "an earlier directory"])
def test_a_voter_is_removed_by_its_exact_key_only(directory: UUID) -> None:
    raft, now_ms = leader(1, 2, 3)
    commit_start(raft, now_ms)
    effects = raft.received(RemoveVoter(ReplicaKey(3, directory)), "administrator", now_ms)
    assert error_of(effects) is ErrorCode.VOTER_NOT_FOUND
    assert raft.quorum.ids == [1, 2, 3]


def test_a_voter_that_does_not_say_its_directory_may_not_update_the_one_that_has_another() -> None:
    raft, now_ms = leader(1, 2, 3)
    commit_start(raft, now_ms)
    answer = answered(raft.received(UpdateVoter(raft.epoch, Voter(ReplicaKey(2))), "update", now_ms))
    assert isinstance(answer, EpochAnswer)
    assert answer.error is ErrorCode.VOTER_NOT_FOUND


def test_a_fetch_without_a_directory_is_not_that_of_a_voter_which_has_one() -> None:
    raft, now_ms = leader(1, 2, 3)
    end = raft.replica.log.end_offset
    asked = Fetch(raft.epoch, ReplicaKey(2), end, raft.epoch, 0, 0, 1 << 20)
    raft.received(asked, "an old disk", now_ms)
    assert raft.high_watermark == 0
    fetch(raft, 2, end, now_ms)
    assert raft.high_watermark == end


def test_voters_do_not_change_before_the_leader_has_committed_something_in_its_epoch() -> None:
    """Else two leaders, each with a change of its own over a majority that the other does not know, lose records."""
    log = log_of(1)
    add_voters(log, 1, 2, 3)
    raft = raft_of(1, quorum(1), log)
    raft.start(0)
    raft.flushed(0)
    ((_, fetched),) = sent(raft.received(BeginEpoch(1, 2, voter(1).key), "token", 0))
    raft.answered(2, fetched, FetchAnswer(ErrorCode.NONE, 2, 1, high_watermark=2), 0)
    assert raft.high_watermark == 2 > raft.replica.voters.latest_offset, "the voters are committed"
    now_ms = elect(raft)
    raft.flushed(now_ms)
    moved = voter(2).replace(endpoints=(Endpoint("CONTROLLER", "elsewhere", 1),))
    removal = RemoveVoter(voter(3).key)
    changes: list[Request] = [AddVoter(voter(4).key), removal, UpdateVoter(raft.epoch, moved)]
    for change in changes:
        answer = answered(raft.received(change, "administrator", now_ms))
        assert answer.error is ErrorCode.REQUEST_TIMED_OUT
    assert raft.quorum == quorum(1, 2, 3)
    commit_start(raft, now_ms)
    raft.received(removal, "administrator", now_ms)
    assert raft.quorum == quorum(1, 2)


def test_a_leader_that_was_voted_out_names_itself_no_longer() -> None:
    raft, now_ms = leader(1, 2, 3)
    commit_start(raft, now_ms)
    raft.received(RemoveVoter(voter(1).key), "administrator", now_ms)
    raft.flushed(now_ms)
    for node_id in (2, 3):
        fetch(raft, node_id, raft.replica.log.end_offset, now_ms)
    assert isinstance(raft.role, Resigned)
    assert raft.leader_id is None
    raft.tick(now_ms + 10_000)
    assert isinstance(raft.role, Observer)
    assert raft.leader_id is None, "who asks it would come back for ever"


def test_the_last_voter_stays() -> None:
    raft = raft_of(1, quorum(1))
    raft.start(0)
    raft.tick(0)
    raft.flushed(0)
    removal = raft.received(RemoveVoter(voter(1).key), "administrator", 0)
    assert error_of(removal) is ErrorCode.INVALID_REQUEST


def test_who_waits_for_a_change_is_told_when_it_takes_too_long_and_when_the_leader_goes() -> None:
    raft, now_ms = leader(1, 2, 3)
    commit_start(raft, now_ms)
    raft.received(RemoveVoter(voter(3).key), "administrator", now_ms)
    effects = raft.received(BeginEpoch(9, 2, voter(1).key), "token", now_ms)
    assert error_of(effects) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    raft, now_ms = leader(1, 2, 3)
    commit_start(raft, now_ms)
    raft.received(RemoveVoter(voter(3).key), "administrator", now_ms)
    for later_ms in range(now_ms, now_ms + 30_000, 1000):
        fetch(raft, 2, 0, later_ms)
    assert error_of(raft.tick(now_ms + 30_000)) is ErrorCode.REQUEST_TIMED_OUT


def test_a_voter_corrects_what_the_log_says_about_it() -> None:
    raft, now_ms = leader(1, 2, 3)
    commit_start(raft, now_ms)
    moved = Voter(voter(2).key, (Endpoint("CONTROLLER", "elsewhere", 1),))
    assert sent(raft.received(UpdateVoter(raft.epoch, moved), "update", now_ms)) == []
    assert raft.quorum.voter(2) == moved
    raft.flushed(now_ms)
    effects = fetch(raft, 2, raft.replica.log.end_offset, now_ms)
    assert Reply("update", EpochAnswer(ErrorCode.NONE, 1, raft.epoch)) in effects
    stranger = moved.replace(key=moved.key.replace(directory_id=UUID(int=77)))
    answer = answered(raft.received(UpdateVoter(raft.epoch, stranger), "update", now_ms))
    assert isinstance(answer, EpochAnswer)
    assert answer.error is ErrorCode.VOTER_NOT_FOUND


def test_who_has_no_id_reads_and_is_not_noted() -> None:
    raft, now_ms = leader(1, 2, 3)
    commit_start(raft, now_ms)
    asked = Fetch(raft.epoch, ReplicaKey(-1), 0, 0, 0, 0, 1 << 20)
    answer = answered(raft.received(asked, "a reader", now_ms))
    assert isinstance(answer, FetchAnswer)
    assert answer.error is ErrorCode.NONE
    assert answer.records
    assert not raft.describe(now_ms).observers


def test_a_wished_successor_is_named_first() -> None:
    raft, now_ms = leader(1, 2, 3, 4)
    fetch(raft, 3, raft.replica.log.end_offset, now_ms)
    ends = [request for _, request in sent(raft.resign(now_ms, 4)) if isinstance(request, EndEpoch)]
    assert [key.id for key in ends[0].successors] == [4, 3, 2]


def test_a_leader_that_listens_elsewhere_says_so_as_its_epoch_begins() -> None:
    """Who follows says it to the leader, which has nobody to tell."""
    log = log_of(1)
    add_voters(log, 1, 2)
    told: list[int] = []
    for host in ("here", "there", "there"):
        raft = raft_of(1, quorum(1, 2), log, ElectionState(log.last_epoch))
        raft.replica.local = voter(1).replace(endpoints=(Endpoint("CONTROLLER", host, 9093),))
        raft.start(0)
        end = log.end_offset
        elect(raft)
        raft.flushed(raft.deadline_ms)
        assert raft.quorum == quorum(1, 2).with_voter(raft.replica.local)
        told.append(log.end_offset - end)
        log.flush()
    assert told == [3, 3, 1], "with the leader alone, where the log is right"
