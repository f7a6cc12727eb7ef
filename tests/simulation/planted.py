"""Bugs to plant, so that the simulation can show that it would find them. Each is one that a person might write."""

from math import ceil
from typing import Any

import pytest
from tests.simulation.node import Clock, Node
from tests.simulation.world import World

from penstock.leadership.lease import MAX_DRIFT, Granter, Holder
from penstock.protocol.control.records import control_batch
from penstock.protocol.records import Record
from penstock.raft import effects as do
from penstock.raft import voter_changes
from penstock.raft.campaign import Campaign, Candidate
from penstock.raft.effects import Token
from penstock.raft.fetching import Fetching
from penstock.raft.follower import Follower
from penstock.raft.leader import Leader
from penstock.raft.ports import SnapshotId
from penstock.raft.progress import Progress, ReplicaTable
from penstock.raft.replica import Replica
from penstock.raft.requests import Fetch, Promise
from penstock.raft.voter_changes import VoterChanges
from penstock.raft.voters import Quorum, ReplicaKey, Voter


def vote_not_persisted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The epoch is on the disk, the vote is not: after a crash the node votes again."""

    def persist(world: World, node: Node, effect: do.Persist) -> None:
        node.disk.state = effect.state.replace(voted=None)

    monkeypatch.setattr(World, "persist", persist)


def high_watermark_of_older_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new leader commits what lies on a majority, though no record of its own epoch does."""

    def may_commit(leader: Leader, end_offset: int) -> bool:
        return end_offset > leader.replica.high_watermark

    monkeypatch.setattr(Leader, "_may_commit", may_commit)


def high_watermark_of_a_minority(monkeypatch: pytest.MonkeyPatch) -> None:
    """One voter too few is taken for a majority."""

    def end_offset(table: ReplicaTable, quorum: Quorum, me: ReplicaKey, my_end_offset: int) -> int:
        found = [table.find(voter.key) for voter in quorum.others(me)]
        ends = sorted([my_end_offset, *(-1 if p is None else p.end_offset for p in found)], reverse=True)
        return ends[max(quorum.majority - 2, 0)]

    monkeypatch.setattr(ReplicaTable, "majority_end_offset", end_offset)


def divergence_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader sends records without looking whether they fit."""
    redirect = Leader._redirect

    def redirect_to_snapshots(leader: Leader, request: Fetch, token: Token, now_ms: int) -> bool:
        if request.offset <= leader.replica.log.end_offset and not leader._is_before_log(request):
            return False
        return redirect(leader, request, token, now_ms)

    monkeypatch.setattr(Leader, "_redirect", redirect_to_snapshots)


def divergence_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """The follower hears where the logs part, and keeps its own."""

    def cut(replica: Replica, end_offset: int) -> None:
        pass

    monkeypatch.setattr(Replica, "cut", cut)


def removed_voters_never_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though one of them may have the only log that the others accept."""
    monkeypatch.setattr(Replica, "may_stand", Replica.is_voter)


def lone_voter_leads_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before its vote for itself is on the disk: after a crash it leads the same epoch again."""
    monkeypatch.setattr(Candidate, "enter", Campaign.enter)


def voters_of_snapshots_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot takes the place of the log, and the replica goes on with the voters that it knew."""
    read_voters = Replica._read_voters_of

    def keep_voters(replica: Replica, snapshot: SnapshotId) -> None:
        known = replica.quorum
        read_voters(replica, snapshot)
        replica.voters.start_at(snapshot.end_offset, known)

    monkeypatch.setattr(Replica, "_read_voters_of", keep_voters)


def lease_counted_from_the_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader counts from when it hears of the promise, which was made before."""

    def promised(progress: Progress, promise: Promise, max_drift: float) -> None:
        progress.lease = Holder(promise.length_ms, max_drift)
        progress.lease.renewed(progress.heard_ms)

    monkeypatch.setattr(Progress, "promised", promised)


def promise_of_any_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fetch is taken for a proof that the answer before it has come; it may be a copy of an older one."""
    promised = Progress.promised

    def promised_all(progress: Progress, promise: Promise, max_drift: float) -> None:
        promised(progress, promise.replace(answer=progress._answer[0]), max_drift)

    monkeypatch.setattr(Progress, "promised", promised_all)


def promise_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A voter says that it has promised, and votes all the same."""
    monkeypatch.setattr(Granter, "is_over", lambda granter, now: True)


def promise_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A voter votes right after a restart, whatever it has promised before."""
    monkeypatch.setattr(Replica, "recover_promise", lambda replica, now_ms: None)


def leader_acts_before_it_has_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The voters have promised; but what the leader before has committed, this one does not know yet."""

    def holds_lease(leader: Leader, now_ms: int) -> bool:
        return now_ms < leader.replicas.majority_promised_until(leader.replica.quorum, leader.replica.me)

    monkeypatch.setattr(Leader, "holds_lease", holds_lease)


def clocks_that_drift_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """They go wrong by 20 %, and the voters believe that it is 3 % at most."""
    monkeypatch.setattr(Clock, "at", lambda clock, true_ms: clock.began_ms + int(true_ms * _worse(clock.rate)))
    monkeypatch.setattr(Clock, "true_ms", lambda clock, ms: ceil((ms - clock.began_ms) / _worse(clock.rate)))


def _worse(rate: float) -> float:
    return 1 + (rate - 1) / MAX_DRIFT * 0.2


def fetch_before_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    """The follower says that it has what its disk does not have yet."""
    monkeypatch.setattr(Fetching, "is_held_up", property(lambda fetching: False))


def voters_stay_where_a_snapshot_names_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log that it replaces may have named some, and was never committed."""
    read_voters = Replica._read_voters_of

    def keep_voters(replica: Replica, snapshot: SnapshotId) -> None:
        replica.voters.configured = replica.quorum
        read_voters(replica, snapshot)

    monkeypatch.setattr(Replica, "_read_voters_of", keep_voters)


def upgrade_in_two_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """First the level, then the voters: a leader may go in between."""

    def batches_of(records: list[Record], *, base_offset: int, epoch: int) -> bytearray:
        batches = (
            control_batch([one], base_offset=base_offset + place, epoch=epoch) for place, one in enumerate(records)
        )
        return bytearray().join(batches)

    monkeypatch.setattr(voter_changes, "control_batch", batches_of)


def upgrade_without_silent_voters(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader names those that it has not heard of as the configuration does, without their disks."""
    init = VoterChanges.__init__

    def begin(changes: VoterChanges, replica: Replica, *more: Any) -> None:
        init(changes, replica, *more)
        changes._told = {voter.key.id: voter for voter in replica.quorum.voters} | changes._told

    monkeypatch.setattr(VoterChanges, "__init__", begin)
    monkeypatch.setattr(Voter, "can_be_named", True)


def leader_keeps_what_the_log_says_of_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who follows says that it listens elsewhere, and who leads does not."""
    enter = Leader.enter

    def keep(leader: Leader, now_ms: int) -> None:
        replica = leader.replica
        local, said = replica.local, replica.quorum.voter(replica.me.id)
        replica.local = local if said is None or said.key != local.key else said
        enter(leader, now_ms)
        replica.local = local

    monkeypatch.setattr(Leader, "enter", keep)


def voters_tell_one_leader_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next leader does not know them, and there is no upgrade any more."""
    told: set[ReplicaKey] = set()
    is_to_tell = Follower.__dict__["_is_to_tell"].fget

    def once(follower: Follower) -> bool:
        me = follower.replica.me
        is_first = me not in told and bool(is_to_tell(follower))
        told.update([me] if is_first else [])
        return is_first

    monkeypatch.setattr(Follower, "_is_to_tell", property(once))
