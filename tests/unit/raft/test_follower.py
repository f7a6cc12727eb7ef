from uuid import UUID

import pytest
from tests.simulation.memory import Contents, MemoryLog
from tests.unit.raft.replicas import add_voters, answered, log_of, quorum, raft_of, sent, voter

from penstock.protocol.control.records import control_batch
from penstock.protocol.errors import ErrorCode
from penstock.raft.campaign import Prospective
from penstock.raft.control import snapshot_header_records
from penstock.raft.effects import (
    ANY_SERVER,
    Announce,
    Commit,
    Effect,
    ElectionState,
    Examine,
    Flush,
    LoadSnapshot,
    Reply,
)
from penstock.raft.follower import Follower, Observer
from penstock.raft.machine import Raft
from penstock.raft.ports import EpochEnd, SnapshotId
from penstock.raft.replica import InconsistentLogError
from penstock.raft.requests import (
    AddVoter,
    BeginEpoch,
    EndEpoch,
    EpochAnswer,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    FetchSnapshotAnswer,
    RemoveVoter,
    UpdateVoter,
    Vote,
    VoteAnswer,
    VoterChangeAnswer,
)
from penstock.raft.settings import RaftSettings
from penstock.raft.voters import DYNAMIC_VOTERS, STATIC_VOTERS, Endpoint, Quorum, ReplicaKey, Voter

EPOCH = 5


def follower(*epochs: int) -> tuple[Raft, Fetch]:
    """Node 1 follows node 2, and this is its first fetch."""
    raft = raft_of(1, quorum(1, 2, 3), log_of(*epochs))
    raft.start(0)
    if epochs:
        raft.flushed(0)
    return raft, fetched(raft.received(BeginEpoch(EPOCH, 2, voter(1).key), "token", 0))


def fetched(effects: list[Effect]) -> Fetch:
    ((_, request),) = sent(effects)
    assert isinstance(request, Fetch)
    return request


def records(log: MemoryLog, offset: int) -> bytes:
    return log.read(offset, 1 << 20)


def good(high_watermark: int = 0, records: bytes = b"", **more: object) -> FetchAnswer:
    return FetchAnswer(ErrorCode.NONE, 2, EPOCH, high_watermark, 0, records, **more)  # type: ignore[arg-type]


def test_who_leads_is_announced_as_the_disk_remembers_it() -> None:
    raft = raft_of(1, quorum(1, 2, 3), state=ElectionState(EPOCH, leader_id=2))
    assert Announce(2, EPOCH) in raft.start(0)
    raft = raft_of(1, quorum(1, 2, 3), state=ElectionState(EPOCH, leader_id=1))
    assert Announce(None, EPOCH) in raft.start(0), "it leads no longer"


def test_voters_do_not_lose_patience_at_the_same_moment() -> None:
    deadlines = []
    for node_id in range(2, 8):
        raft = raft_of(node_id, quorum(*range(1, 8)))
        raft.start(0)
        raft.received(BeginEpoch(EPOCH, 1, voter(node_id).key), "token", 0)
        assert isinstance(raft.role, Follower)
        deadlines.append(raft.role.fetching.deadline_ms)
    assert deadlines == [2100, 2200, 2300, 2400, 2500, 2500], "all long before a leader gives up"


def test_it_fetches_on_only_when_its_disk_has_what_it_fetched() -> None:
    raft, first = follower(1)
    effects = raft.answered(2, first, good(1, records(log_of(1, 2, 4), 1)), 10)
    assert Flush() in effects
    assert sent(effects) == []
    second = fetched(raft.flushed(20))
    assert (second.offset, second.last_epoch, second.high_watermark) == (3, 4, 1)


def test_the_high_watermark_does_not_pass_its_log() -> None:
    raft, first = follower(1)
    raft.answered(2, first, good(9, records(log_of(1, 2), 1)), 10)
    assert raft.high_watermark == 2


def test_a_late_answer_is_ignored() -> None:
    raft, first = follower(1)
    assert raft.request_failed(2, first, 5) == []
    assert raft.answered(2, first, good(1, records(log_of(1, 2), 1)), 10) == []
    assert raft.replica.log.end_offset == 1
    assert fetched(raft.tick(25)) == first


def test_damaged_records_are_fetched_again() -> None:
    raft, first = follower(1)
    for damaged in (records(log_of(1, 2, 2), 2), records(log_of(1, 9), 1), records(log_of(0, 0), 1), b"\xff" * 100):
        raft.answered(2, first, good(1, damaged), 10)
        assert raft.replica.log.end_offset == 1
        first = fetched(raft.tick(raft.deadline_ms))


def test_it_cuts_where_the_logs_part() -> None:
    raft, first = follower(1, 1, 2, 2, 4)
    second = fetched(raft.answered(2, first, good(diverging=EpochEnd(3, 4)), 10))
    assert (second.offset, second.last_epoch) == (4, 2)
    third = fetched(raft.answered(2, second, good(diverging=EpochEnd(1, 1)), 10))
    assert (third.offset, third.last_epoch) == (1, 1)


def test_it_stops_rather_than_forget_what_is_committed() -> None:
    raft, first = follower(1, 1, 2)
    second = fetched(raft.answered(2, first, good(3), 10))
    with pytest.raises(InconsistentLogError):
        raft.answered(2, second, good(diverging=EpochEnd(1, 1)), 20)


def test_a_silent_leader_loses_its_follower() -> None:
    raft, first = follower(1)
    raft.request_failed(2, first, 0)
    raft.tick(1999)
    assert isinstance(raft.role, Follower)
    raft.tick(2000)
    assert isinstance(raft.role, Prospective)


@pytest.mark.parametrize(
    ("successors", "patience_ms"), [((1, 3), 0), ((3, 1), 500), ((3, 4, 5, 1), 500), ((3, 4, 1, 5), 250)]
)
def test_successors_stand_in_their_order(successors: tuple[int, ...], patience_ms: int) -> None:
    raft, _ = follower(1)
    raft.received(EndEpoch(EPOCH, 2, tuple(voter(node).key for node in successors)), "token", 100)
    assert isinstance(raft.role, Prospective) == (patience_ms == 0)
    raft.tick(100 + patience_ms)
    assert isinstance(raft.role, Prospective)


def test_a_voter_that_the_log_describes_wrongly_says_so() -> None:
    raft, first = follower(1)
    raft.replica.local = raft.replica.local.replace(endpoints=(Endpoint("CONTROLLER", "elsewhere", 1),))
    requests = [request for _, request in sent(raft.answered(2, first, good(), 10))]
    assert requests[1:] == [UpdateVoter(EPOCH, raft.replica.local)]
    second = requests[0]
    assert isinstance(second, Fetch)
    assert len(sent(raft.answered(2, second, good(), 20))) == 1, "once is enough for a while"


JOINING = RaftSettings(auto_join=True)


def joining(quorum: Quorum, settings: RaftSettings = JOINING) -> tuple[Raft, Fetch]:
    """Node 9 observes node 2, and this is its first fetch."""
    raft = raft_of(9, quorum, log_of(1, 1), settings=settings)
    raft.start(0)
    raft.flushed(0)
    first = fetched(raft.received(BeginEpoch(EPOCH, 2, voter(9).key), "token", 0))
    assert isinstance(raft.role, Observer)
    return raft, first


def asked(effects: list[Effect]) -> list[object]:
    """What it asks for beside its next fetch."""
    return [request for to, request in sent(effects) if not isinstance(request, Fetch)]


@pytest.mark.parametrize("predecessor", [None, ReplicaKey(9, UUID(int=99))])
def test_an_observer_that_joins_by_itself_asks_when_it_has_caught_up(predecessor: ReplicaKey | None) -> None:
    """Its former life, which had another disk, has to go first."""
    voters = quorum(1, 2, 3) if predecessor is None else quorum(1, 2, 3).with_voter(Voter(predecessor))
    raft, request = joining(voters)
    wanted = RemoveVoter(predecessor) if predecessor else AddVoter(voter(9).key, (), False, JOINING.request_timeout_ms)
    behind = raft.answered(2, request, good(3), 10)
    assert asked(behind) == []
    caught_up = raft.answered(2, fetched(behind), good(2), 20)
    assert asked(caught_up) == [wanted]
    (request,) = (one for _, one in sent(caught_up) if isinstance(one, Fetch))
    effects = raft.answered(2, request, good(2), 30)
    assert asked(effects) == [], "that is enough for a while"
    assert asked(raft.answered(2, fetched(effects), good(2), 20 + JOINING.fetch_timeout_ms)) == [wanted]


@pytest.mark.parametrize(
    ("voters", "settings"),
    [
        (quorum(1, 2, 3), RaftSettings()),
        (quorum(1, 2, 3).replace(kraft_version=STATIC_VOTERS), JOINING),
    ],
)
def test_other_observers_do_not_join(voters: Quorum, settings: RaftSettings) -> None:
    raft, request = joining(voters, settings)
    assert asked(raft.answered(2, request, good(2), 10)) == []


def test_a_log_whose_beginning_is_lost_does_not_start() -> None:
    raft = raft_of(1, quorum(1, 2, 3), MemoryLog(Contents(SnapshotId(9, 3))))
    with pytest.raises(InconsistentLogError):
        raft.start(0)


@pytest.mark.parametrize(
    ("epochs", "is_kept"),
    [((1, 2, 2), True), ((1, 2), True), ((1,), False), ((1, 1), False), ((1, 1, 1), False), ((1, 1, 2), False)],
)
def test_a_log_that_does_not_agree_with_the_snapshot_is_not_believed(epochs: tuple[int, ...], is_kept: bool) -> None:
    raft = raft_of(1, quorum(1, 2, 3), log_of(*epochs))
    snapshot = SnapshotId(2, 2)
    raft.replica.snapshots.store(snapshot, b"")  # type: ignore[attr-defined]
    raft.start(0)
    log = raft.replica.log
    assert (log.start_offset, log.end_offset) == ((0, len(epochs)) if is_kept else (2, 2))
    assert log.epoch_at(1) == 2


def test_a_snapshot_that_is_gone_is_asked_for_no_more() -> None:
    raft, first = follower()
    ((_, request),) = sent(raft.answered(2, first, good(snapshot=SnapshotId(9, 3)), 10))
    assert isinstance(request, FetchSnapshot)
    gone = FetchSnapshotAnswer(ErrorCode.SNAPSHOT_NOT_FOUND, 2, EPOCH, request.snapshot)
    assert fetched(raft.answered(2, request, gone, 20)).offset == 0


def test_what_only_a_leader_can_do_is_refused_in_the_words_of_the_request() -> None:
    raft, _ = follower()
    snapshot = SnapshotId(9, 3)
    for epoch, error in (
        (EPOCH - 1, ErrorCode.FENCED_LEADER_EPOCH),
        (EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (EPOCH + 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ):
        for request, answer in (
            (Fetch(epoch, voter(3).key, 0, 0, -1, 0, 1), FetchAnswer(error, 2, EPOCH)),
            (FetchSnapshot(epoch, voter(3).key, snapshot, 0, 1), FetchSnapshotAnswer(error, 2, EPOCH, snapshot)),
            (UpdateVoter(epoch, voter(3)), EpochAnswer(error, 2, EPOCH)),
        ):
            assert raft.received(request, "token", 10) == [Reply("token", answer)]
    refused = VoterChangeAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, "node 2 leads the quorum")
    for change in (AddVoter(voter(4).key), RemoveVoter(voter(3).key)):
        assert raft.received(change, "token", 10) == [Reply("token", refused)]


def test_a_log_that_begins_behind_a_snapshot_has_nothing_to_flush() -> None:
    snapshot = SnapshotId(2, 2)
    raft = raft_of(1, quorum(1, 2, 3), MemoryLog(Contents(snapshot)))
    raft.replica.snapshots.store(snapshot, b"")  # type: ignore[attr-defined]
    assert Flush() not in raft.start(0)


def examining() -> tuple[Raft, SnapshotId]:
    """A follower that has fetched a snapshot whole, at 20."""
    raft, first = follower(1)
    snapshot = SnapshotId(9, 3)
    ((_, request),) = sent(raft.answered(2, first, good(snapshot=snapshot), 10))
    piece = bytes(control_batch(snapshot_header_records(quorum(1, 2, 3, 4), 0, 0), base_offset=0, epoch=3))
    answer = FetchSnapshotAnswer(ErrorCode.NONE, 2, EPOCH, snapshot, len(piece), 0, piece)
    assert raft.answered(2, request, answer, 20) == [Examine(snapshot)]
    return raft, snapshot


def test_a_snapshot_replaces_nothing_before_it_is_known_to_be_readable() -> None:
    raft, snapshot = examining()
    assert (raft.replica.log.end_offset, raft.replica.snapshots.latest, raft.examining) == (1, None, snapshot)
    effects = raft.examined(snapshot, 30)
    assert effects[:2] == [LoadSnapshot(snapshot), Commit(9)]
    assert fetched(effects).offset == 9
    assert (raft.replica.log.start_offset, raft.replica.snapshots.latest, raft.examining) == (9, snapshot, None)


def test_the_voters_of_a_snapshot_hold_when_it_is_in_place() -> None:
    raft, snapshot = examining()
    assert raft.quorum == quorum(1, 2, 3)
    raft.examined(snapshot, 30)
    assert raft.quorum == quorum(1, 2, 3, 4)


def test_leader_and_follower_hear_of_each_other_while_a_snapshot_is_examined() -> None:
    raft, snapshot = examining()
    for now_ms in range(1000, 20_000, 1000):
        beat = fetched(raft.tick(now_ms))
        assert beat.offset == 1
        assert raft.answered(2, beat, good(snapshot=SnapshotId(12, 4)), now_ms) == [], "one at a time"
        assert raft.deadline_ms > now_ms
    late = fetched(raft.tick(20_000))
    after = fetched(raft.examined(snapshot, 20_001))
    assert raft.answered(2, late, good(snapshot=SnapshotId(12, 4)), 20_002) == [], "an answer to the old log"
    assert after.offset == 9


def test_a_snapshot_of_a_leader_that_is_gone_is_not_put_in_place() -> None:
    raft, snapshot = examining()
    raft.received(BeginEpoch(EPOCH + 1, 3, voter(1).key), "token", 30)
    assert raft.examining is None
    assert raft.examined(snapshot, 40) == []
    assert raft.replica.log.end_offset == 1


def test_an_observer_without_voters_asks_a_bootstrap_server() -> None:
    raft = raft_of(9, Quorum((), DYNAMIC_VOTERS))
    ((to, _),) = sent(raft.start(0))
    assert to == ANY_SERVER
    assert isinstance(raft.role, Observer)


def observer(leader_id: int = 2, *voters: int) -> tuple[Raft, Fetch]:
    """Node 9 is no voter, and asks the leader for the first time."""
    raft = raft_of(9, quorum(*(voters or (1, 2, 3))))
    raft.start(0)
    return raft, fetched(raft.received(BeginEpoch(EPOCH, leader_id, voter(9).key), "token", 0))


def test_an_observer_asks_another_voter_as_soon_as_the_leader_fails() -> None:
    raft, request = observer()
    ((other, question),) = sent(raft.request_failed(2, request, 0))
    assert other in (1, 3)
    assert not sent(raft.answered(other, question, FetchAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, 2, EPOCH), 5))
    ((to, question),) = sent(raft.tick(raft.deadline_ms))
    assert to == 2, "it may have been for a moment"
    ((other, question),) = sent(
        raft.answered(2, question, FetchAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, None, EPOCH), 30)
    )
    assert other in (1, 3), "a leader that has resigned knows no other one yet"
    assert sent(raft.answered(other, question, FetchAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, 3, EPOCH + 1), 35))
    assert raft.leader_id == 3


def test_an_observer_that_has_a_vote_by_now_does_not_keep_others_from_an_election() -> None:
    """The record that makes it a voter has not reached it, and the leader has died: it may be the one that counts."""
    raft, request = observer()
    raft.answered(2, request, good(), 10)
    silent_ms = raft.replica.settings.fetch_timeout_ms
    asked = Vote(EPOCH, ReplicaKey(3, UUID(int=3)), voter(9).key, 0, 0, pre_vote=True)
    answers = [answered(raft.received(asked, "token", now_ms)) for now_ms in (9 + silent_ms, 10 + silent_ms)]
    assert answers == [VoteAnswer(ErrorCode.NONE, 2, EPOCH, granted) for granted in (False, True)]
    assert isinstance(raft.role, Observer)


def test_an_observer_of_a_leader_that_hangs_asks_others_for_as_long_as_it_was_held_up() -> None:
    raft, _ = observer()
    asked: list[tuple[int, int]] = []
    while raft.deadline_ms < 10_000:
        now_ms = raft.deadline_ms
        ((to, request),) = sent(raft.tick(now_ms))
        asked.append((now_ms, to))
        if to != 2:
            raft.answered(to, request, FetchAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, 2, EPOCH), now_ms)
    assert asked[0] == (2000, asked[0][1])
    assert [time_ms for time_ms, to in asked if to == 2] == [3500, 7000]
    assert {to for _, to in asked} == {1, 2, 3}


def test_an_observer_comes_back_to_a_leader_that_an_old_log_does_not_name() -> None:
    raft, first = observer(7)
    asked, request = [], first
    for _ in range(6):
        effects = raft.request_failed(7, request, raft.deadline_ms)
        ((to, question),) = sent(effects) or sent(raft.tick(raft.deadline_ms))
        assert isinstance(question, Fetch)
        asked.append(to)
        request = question
    assert asked.count(7) == 3


def test_the_only_voter_of_an_observer_is_asked_again_after_a_pause() -> None:
    raft, request = observer(2, 2)
    assert not sent(raft.request_failed(2, request, 100))
    assert raft.deadline_ms == 120
    assert [to for to, _ in sent(raft.tick(120))] == [2]
    assert [to for to, _ in sent(raft.tick(raft.deadline_ms))] == [2], "and when it does not answer"


def test_voters_that_are_cut_from_the_log_never_were_any() -> None:
    log = log_of(1, 1)
    add_voters(log, 1, 2, 3, 4)
    raft = raft_of(4, quorum(1, 2, 3), log)
    raft.start(0)
    raft.flushed(0)
    first = fetched(raft.received(BeginEpoch(EPOCH, 2, voter(4).key), "token", 0))
    assert isinstance(raft.role, Follower)
    raft.answered(2, first, good(diverging=EpochEnd(1, 2)), 10)
    assert isinstance(raft.role, Observer)
    assert raft.quorum.ids == [1, 2, 3]


@pytest.mark.parametrize(("behind", "kept"), [(1, 2), (2, 4), (3, 4)])
def test_what_follows_a_snapshot_is_not_older_than_it(behind: int, kept: int) -> None:
    """The disk had other records there before, and has them again: what took their place was not flushed."""
    log = log_of(1, 1, behind, behind)
    snapshot = SnapshotId(end_offset=2, epoch=2)
    log.start_behind(snapshot)
    raft = raft_of(1, quorum(1, 2, 3), log)
    raft.replica.snapshots.store(  # type: ignore[attr-defined]
        snapshot, bytes(control_batch(snapshot_header_records(quorum(1, 2, 3), 0, 0), base_offset=0, epoch=2))
    )
    raft.start(0)
    assert (log.start_offset, log.end_offset) == (2, kept)


def test_what_a_leader_said_is_known_although_the_log_does_not_reach_so_far() -> None:
    raft, fetch = follower(EPOCH)
    assert raft.replica.told_high_watermark == 0, "no leader has said anything yet"
    raft.answered(2, fetch, good(7), 10)
    assert raft.replica.told_high_watermark == 7
    assert raft.replica.high_watermark == 1
