from uuid import UUID

import pytest
from tests.unit.raft.replicas import quorum, raft_of, voter

from penstock.protocol.codec import decode
from penstock.protocol.control.records import ControlType, control_batch
from penstock.protocol.errors import DecodeError
from penstock.protocol.messages.leader_change_message import LeaderChangeMessage
from penstock.protocol.records import Record, decode_batch, iterate_batches
from penstock.raft.control import (
    control_type,
    kraft_version_record,
    leader_change_record,
    quorums_in,
    snapshot_header_records,
    voters_record_of,
)
from penstock.raft.leader import Leader
from penstock.raft.machine import Raft
from penstock.raft.ports import SnapshotId
from penstock.raft.voters import CONFIGURED, STATIC_VOTERS, Endpoint, Quorum, ReplicaKey, Voter, VoterHistory


def test_the_quorum_follows_the_log() -> None:
    history = VoterHistory(quorum(1))
    history.add(5, quorum(1, 2))
    history.add(9, quorum(1, 2, 3))
    assert [history.at(end).ids for end in (0, 5, 6, 9, 10)] == [[1], [1], [1, 2], [1, 2], [1, 2, 3]]
    assert [[quorum.ids for quorum in history.since(end)] for end in (0, 6, 10)] == [
        [[1], [1, 2], [1, 2, 3]],
        [[1, 2], [1, 2, 3]],
        [[1, 2, 3]],
    ]
    history.cut(9)
    assert (history.latest.ids, history.latest_offset) == ([1, 2], 5)
    history.cut(0)
    assert (history.latest.ids, history.latest_offset) == ([1], CONFIGURED)


def test_what_a_snapshot_holds_can_be_forgotten() -> None:
    history = VoterHistory(quorum(1))
    history.add(5, quorum(1, 2))
    history.add(9, quorum(1, 2, 3))
    history.forget_before(6)
    assert history.at(6).ids == [1, 2]
    history.start_at(20, quorum(7))
    assert (history.latest.ids, history.latest_offset) == ([7], 19)


def test_a_voter_without_a_directory_is_any_disk_of_that_node() -> None:
    named = ReplicaKey(1, UUID(int=1))
    assert Quorum.of([Voter(ReplicaKey(1))]).has(named)
    assert not Quorum.of([Voter(named)]).has(ReplicaKey(1)), "who does not say its directory may be another disk"
    assert not Quorum.of([Voter(named)]).has(ReplicaKey(1, UUID(int=2)))
    assert not Quorum.of([Voter(named)]).has(ReplicaKey(2))


@pytest.mark.parametrize(("size", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_majority(size: int, majority: int) -> None:
    assert quorum(*range(size)).majority == majority


def test_control_records_are_read_as_they_were_written() -> None:
    endpoints = (Endpoint("CONTROLLER", "host", 9093), Endpoint("OTHER", "::1", 1))
    named = Quorum.of([Voter(voter(2).key, endpoints, 0, 1), voter(1)])
    records = [
        leader_change_record(2, named, [voter(1).key], 5),
        kraft_version_record(1, 5),
        voters_record_of(named, 5),
    ]
    batch = control_batch(records, base_offset=10, epoch=3)
    assert list(quorums_in(batch, Quorum())) == [(11, Quorum((), 1)), (12, named)]
    change = decode_batch(batch)[0]
    assert control_type(change) == ControlType.LEADER_CHANGE
    message = decode(LeaderChangeMessage, 0, change.value or b"")[0]
    assert (message.version, message.leader_id, [v.voter_id for v in message.voters]) == (0, 2, [1, 2])
    assert [v.voter_id for v in message.granting_voters] == [1]


def test_half_a_batch_at_the_end_is_left_out_and_a_strange_key_is_refused() -> None:
    batch = control_batch([kraft_version_record(1, 5)], base_offset=0, epoch=1)
    assert len(list(iterate_batches(bytes(batch) + bytes(batch)[:-1]))) == 1
    with pytest.raises(DecodeError):
        control_type(Record(key=b"abc"))


def booted_from(named: Quorum) -> Raft:
    """Node 1, formatted with a bootstrap snapshot that names these voters, as `--initial-controllers` writes it."""
    raft = raft_of(1, Quorum())
    header = control_batch(snapshot_header_records(named, 0, 0), base_offset=0, epoch=0)
    raft.replica.snapshots.store(SnapshotId(0, 0), bytes(header))  # type: ignore[attr-defined]
    raft.start(0)
    return raft


def test_a_bootstrap_snapshot_names_the_first_voters_and_the_first_leader_puts_them_into_the_log() -> None:
    assert booted_from(quorum(1, 2, 3)).quorum == quorum(1, 2, 3)
    raft = booted_from(quorum(1))
    raft.tick(raft.deadline_ms)
    assert isinstance(raft.role, Leader)
    assert [named for _, named in quorums_in(raft.replica.log.read(0, 1 << 20), Quorum())][-1] == quorum(1)
    assert raft.replica.voters.latest_offset == 2


def test_fixed_voters_stay_out_of_the_log() -> None:
    raft = raft_of(1, Quorum.of([Voter(ReplicaKey(1))], STATIC_VOTERS))
    raft.start(0)
    raft.tick(raft.deadline_ms)
    assert isinstance(raft.role, Leader)
    assert list(quorums_in(raft.replica.log.read(0, 1 << 20), Quorum())) == []
