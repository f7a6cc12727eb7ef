import json
from pathlib import Path
from uuid import UUID

import pytest

from penstock.log.disk import Disk
from penstock.node.quorum.state_file import QuorumStateError, StateFile
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.raft.effects import ElectionState
from penstock.raft.voters import Quorum, ReplicaKey, Voter

DIRECTORY = UUID("27c6803d-c7cb-42dd-9baa-cd494ffacc81")
STATIC = Quorum(tuple(Voter(ReplicaKey(node_id)) for node_id in (1, 2, 3)))
DYNAMIC = Quorum.of([Voter(ReplicaKey(1, DIRECTORY))])


@pytest.fixture
def file(tmp_path: Path) -> StateFile:
    return StateFile(Disk(), str(tmp_path))


def content(tmp_path: Path) -> object:
    return json.loads((tmp_path / "quorum-state").read_text())


def test_a_node_that_never_voted_knows_nobody(file: StateFile) -> None:
    assert file.read() == ElectionState(0, None, None)


def test_with_static_voters_it_is_version_0(file: StateFile, tmp_path: Path) -> None:
    state = ElectionState(7, 2, ReplicaKey(2))
    file.write(state, STATIC)
    assert file.read() == state
    assert content(tmp_path) == {
        "clusterId": "",
        "leaderId": 2,
        "leaderEpoch": 7,
        "votedId": 2,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": 1}, {"voterId": 2}, {"voterId": 3}],
        "data_version": 0,
    }


def test_with_dynamic_voters_it_is_version_1(file: StateFile, tmp_path: Path) -> None:
    state = ElectionState(2, None, ReplicaKey(1, DIRECTORY))
    file.write(state, DYNAMIC)
    assert file.read() == state
    assert content(tmp_path) == {
        "leaderId": -1,
        "leaderEpoch": 2,
        "votedId": 1,
        "votedDirectoryId": "J8aAPcfLQt2bqs1JT_rMgQ",
        "data_version": 1,
    }
    file.write(ElectionState(3, 1), DYNAMIC)
    assert file.read() == ElectionState(3, 1)
    assert content(tmp_path) == {
        "leaderId": 1,
        "leaderEpoch": 3,
        "votedId": -1,
        "votedDirectoryId": "AAAAAAAAAAAAAAAAAAAAAA",
        "data_version": 1,
    }


def test_what_version_0_cannot_say_of_a_vote_fits_any_disk(file: StateFile) -> None:
    file.write(ElectionState(2, None, ReplicaKey(1, DIRECTORY)), STATIC)
    voted = file.read().voted
    assert voted is not None
    assert voted.names(ReplicaKey(1, DIRECTORY))


def test_a_file_of_apache_kafka_is_understood(file: StateFile, tmp_path: Path) -> None:
    (tmp_path / "quorum-state").write_text(
        '{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,"currentVoters":[],"data_version":0}'
    )
    assert file.read() == ElectionState(2, 1)
    (tmp_path / "quorum-state").write_text(
        '{"leaderId":-1,"leaderEpoch":2,"votedId":1,"votedDirectoryId":"J8aAPcfLQt2bqs1JT_rMgQ","data_version":1}'
    )
    assert file.read() == ElectionState(2, None, ReplicaKey(1, DIRECTORY))


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}",
        "[]",
        '{"data_version":9}',
        '{"data_version":0,"leaderId":"x"}',
        '{"leaderId":-1,"leaderEpoch":2,"votedId":1,"data_version":1}',
        '{"leaderId":-1,"leaderEpoch":2,"votedId":1,"votedDirectoryId":"?","data_version":1}',
    ],
)
def test_a_file_of_something_else_is_refused_by_name(file: StateFile, tmp_path: Path, content: str) -> None:
    (tmp_path / "quorum-state").write_text(content)
    with pytest.raises(QuorumStateError, match=r"quorum-state.*backup"):
        file.read()


def test_a_disk_that_fails_is_told(tmp_path: Path) -> None:
    with pytest.raises(KafkaError) as refusal:
        StateFile(Disk(), str(tmp_path / "missing")).write(ElectionState(1), STATIC)
    assert refusal.value.code is ErrorCode.KAFKA_STORAGE_ERROR
