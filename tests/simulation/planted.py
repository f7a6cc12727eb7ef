"""Bugs to plant, so that the simulation can show that it would find them. Each is one that a person might write."""

import pytest
from tests.simulation.node import Node
from tests.simulation.world import World

from penstock.raft import effects as do
from penstock.raft.campaign import Campaign, Candidate
from penstock.raft.effects import Token
from penstock.raft.fetching import Fetching
from penstock.raft.leader import Leader
from penstock.raft.ports import SnapshotId
from penstock.raft.progress import ReplicaTable
from penstock.raft.replica import Replica
from penstock.raft.requests import Fetch
from penstock.raft.voters import Quorum, ReplicaKey


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


def fetch_before_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    """The follower says that it has what its disk does not have yet."""
    monkeypatch.setattr(Fetching, "is_held_up", property(lambda fetching: False))
