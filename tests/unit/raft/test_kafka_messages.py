"""What is written and read again is the same, through the bytes of the newest version of each message."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from tests.unit.raft.replicas import quorum

from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.begin_quorum_epoch import BeginQuorumEpochResponse
from penstock.protocol.messages.end_quorum_epoch import EndQuorumEpochResponse
from penstock.protocol.messages.fetch import FetchResponse
from penstock.protocol.messages.fetch_snapshot import FetchSnapshotResponse
from penstock.protocol.messages.vote import VoteRequest, VoteResponse
from penstock.protocol.schema import Message
from penstock.raft import kafka_answers as answers
from penstock.raft import kafka_requests as requests
from penstock.raft.describe import QuorumDescription, ReplicaDescription
from penstock.raft.log_name import METADATA_LOG, LogName
from penstock.raft.ports import EpochEnd, SnapshotId
from penstock.raft.requests import (
    AddVoter,
    BeginEpoch,
    EndEpoch,
    EpochAnswer,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    FetchSnapshotAnswer,
    Promise,
    RemoveVoter,
    UpdateVoter,
    Vote,
    VoteAnswer,
    VoterChangeAnswer,
)
from penstock.raft.voters import Endpoint, ReplicaKey, Voter

CLUSTER = "cluster"
ONE, TWO = ReplicaKey(1, UUID(int=11)), ReplicaKey(2, UUID(int=22))
HERE = (Endpoint("CONTROLLER", "host", 9093),)
FENCED = ErrorCode.FENCED_LEADER_EPOCH


def through_bytes(message: Message, version: int) -> Any:
    return decode(type(message), version, encode(message, version))[0]


REQUESTS: list[tuple[Any, Callable[[Any], Message], Callable[[Any], Any], int]] = [
    (Vote(7, ONE, TWO, 5, 99, True), lambda r: requests.write_vote(r, CLUSTER),
     lambda m: requests.read_vote(m, CLUSTER, TWO), 2),
    (BeginEpoch(7, 1, TWO), lambda r: requests.write_begin_epoch(r, CLUSTER, HERE),
     lambda m: requests.read_begin_epoch(m, CLUSTER, TWO), 1),
    (EndEpoch(7, 1, (TWO, ONE)), lambda r: requests.write_end_epoch(r, CLUSTER, HERE),
     lambda m: requests.read_end_epoch(m, CLUSTER), 1),
    (Fetch(7, TWO, 99, 5, 90, 500, 1000), lambda r: requests.write_fetch(r, CLUSTER),
     lambda m: requests.read_fetch(m, CLUSTER), 18),
    (Fetch(7, TWO, 99, 5, 90, 500, 1000, Promise(3, 1999)), lambda r: requests.write_fetch(r, CLUSTER),
     lambda m: requests.read_fetch(m, CLUSTER), 18),
    (FetchSnapshot(7, TWO, SnapshotId(50, 4), 3, 1000), lambda r: requests.write_fetch_snapshot(r, CLUSTER),
     lambda m: requests.read_fetch_snapshot(m, CLUSTER), 1),
    (AddVoter(TWO, HERE, False, 1234), lambda r: requests.write_add_voter(r, CLUSTER),
     lambda m: requests.read_add_voter(m, CLUSTER), 1),
    (RemoveVoter(TWO), lambda r: requests.write_remove_voter(r, CLUSTER),
     lambda m: requests.read_remove_voter(m, CLUSTER), 0),
    (UpdateVoter(7, Voter(TWO, HERE, 0, 1)), lambda r: requests.write_update_voter(r, CLUSTER),
     lambda m: requests.read_update_voter(m, CLUSTER), 0),
]  # fmt: skip

ANSWERS: list[tuple[Any, Callable[[Any], Message], Callable[[Any], Any], int]] = [
    (VoteAnswer(ErrorCode.NONE, None, 7, True), answers.write_vote_answer, answers.read_vote_answer, 2),
    (VoteAnswer(FENCED, 0, 7), answers.write_vote_answer, answers.read_vote_answer, 2),
    (EpochAnswer(FENCED, 2, 7), answers.write_begin_epoch_answer, answers.read_epoch_answer, 1),
    (EpochAnswer(FENCED, None, 7), answers.write_end_epoch_answer, answers.read_epoch_answer, 1),
    (FetchAnswer(ErrorCode.NONE, 1, 7, 90, 10, b"records", number=5), answers.write_fetch_answer,
     answers.read_fetch_answer, 18),
    (FetchAnswer(ErrorCode.NONE, 1, 7, 90, 10, diverging=EpochEnd(0, 4)), answers.write_fetch_answer,
     answers.read_fetch_answer, 18),
    (FetchAnswer(ErrorCode.NONE, 1, 7, 90, 10, snapshot=SnapshotId(4, 2)), answers.write_fetch_answer,
     answers.read_fetch_answer, 18),
    (FetchSnapshotAnswer(ErrorCode.NONE, 1, 7, SnapshotId(4, 2), 1000, 30, b"piece"),
     answers.write_fetch_snapshot_answer, answers.read_fetch_snapshot_answer, 1),
    (VoterChangeAnswer(FENCED, "why"), answers.write_add_voter_answer, answers.read_voter_change_answer, 1),
    (VoterChangeAnswer(ErrorCode.NONE), answers.write_remove_voter_answer, answers.read_voter_change_answer, 0),
    (EpochAnswer(FENCED, 2, 7), answers.write_update_voter_answer, answers.read_update_voter_answer, 0),
]  # fmt: skip


@pytest.mark.parametrize(("item", "write", "read", "version"), [*REQUESTS, *ANSWERS], ids=lambda value: None)
def test_round_trip(item: Any, write: Callable[[Any], Message], read: Callable[[Any], Any], version: int) -> None:
    assert read(through_bytes(write(item), version)) == item


def test_old_versions_of_vote() -> None:
    message = requests.write_vote(Vote(7, ONE, TWO, 5, 99, True), CLUSTER)
    assert requests.read_vote(through_bytes(message, 1), CLUSTER, TWO) == Vote(7, ONE, TWO, 5, 99, False)
    nameless = Vote(7, ReplicaKey(1), ReplicaKey(2), 5, 99)
    assert requests.read_vote(through_bytes(message, 0), CLUSTER, TWO) == nameless


def test_old_version_of_end_quorum_epoch() -> None:
    message = through_bytes(requests.write_end_epoch(EndEpoch(7, 1, (TWO, ONE)), CLUSTER, HERE), 0)
    assert requests.read_end_epoch(message, CLUSTER) == EndEpoch(7, 1, (ReplicaKey(2), ReplicaKey(1)))


def test_old_version_of_fetch_names_the_topic_and_wants_no_high_watermark() -> None:
    message = through_bytes(requests.write_fetch(Fetch(7, TWO, 99, 5, 90, 500, 1000), CLUSTER), 12)
    read = requests.read_fetch(message, CLUSTER)
    assert (read.replica, read.offset, read.high_watermark) == (ReplicaKey(2), 99, (1 << 63) - 1)


@pytest.mark.parametrize(
    ("read", "response"),
    [
        (answers.read_vote_answer, VoteResponse),
        (answers.read_epoch_answer, BeginQuorumEpochResponse),
        (answers.read_epoch_answer, EndQuorumEpochResponse),
        (answers.read_fetch_answer, FetchResponse),
        (answers.read_fetch_snapshot_answer, FetchSnapshotResponse),
    ],
    ids=lambda what: what.__name__,
)
def test_an_error_of_the_whole_request_is_raised(read: Callable[[Any], object], response: type[Any]) -> None:
    with pytest.raises(KafkaError) as refused:
        read(response(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
    assert refused.value.code is ErrorCode.INCONSISTENT_CLUSTER_ID


@pytest.mark.parametrize(("of_all", "of_the_partition"), [(1000, 50), (50, 1000)])
def test_a_fetch_wants_no_more_than_the_smaller_of_its_limits(of_all: int, of_the_partition: int) -> None:
    message = requests.write_fetch(Fetch(7, TWO, 99, 5, 90, 500, 1000), CLUSTER)
    message.max_bytes = of_all
    message.topics[0].partitions[0].partition_max_bytes = of_the_partition
    assert requests.read_fetch(message, CLUSTER).max_bytes == 50


def test_another_cluster_and_another_partition_are_refused() -> None:
    message = requests.write_vote(Vote(7, ONE, TWO, 5, 99), CLUSTER)
    with pytest.raises(KafkaError) as refused:
        requests.read_vote(message, "other", TWO)
    assert refused.value.code is ErrorCode.INCONSISTENT_CLUSTER_ID
    message.topics[0].topic_name = "flights"
    with pytest.raises(KafkaError) as refused:
        requests.read_vote(message, CLUSTER, TWO)
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(KafkaError) as refused:
        requests.read_vote(VoteRequest(), CLUSTER, TWO)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_an_error_that_nobody_knows_is_an_unknown_one() -> None:
    message = answers.write_vote_answer(VoteAnswer(ErrorCode.NONE, None, 7, True))
    message.topics[0].partitions[0].error_code = 9999
    assert answers.read_vote_answer(message).error is ErrorCode.UNKNOWN_SERVER_ERROR


def test_voter_changes_and_descriptions_are_told() -> None:
    refused = VoterChangeAnswer(ErrorCode.DUPLICATE_VOTER, "why")
    for message in (answers.write_add_voter_answer(refused), answers.write_remove_voter_answer(refused)):
        read = through_bytes(message, 0)
        assert (read.error_code, read.error_message) == (ErrorCode.DUPLICATE_VOTER, "why")
    voters = tuple(ReplicaDescription(voter.key, 5, 100, 90) for voter in quorum(1, 2).voters)
    seen = ReplicaDescription(ReplicaKey(9), 3, 80, -1)
    written = answers.write_description(QuorumDescription(1, 7, 5, voters, (seen,), quorum(1, 2)))
    partition = through_bytes(written, 2).topics[0].partitions[0]
    assert [state.replica_id for state in partition.current_voters] == [1, 2]
    assert [(state.replica_id, state.last_caught_up_timestamp) for state in partition.observers] == [(9, -1)]
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (1, 7, 5)


@pytest.mark.parametrize("version", [12, 18])
def test_a_fetch_of_another_topic_is_refused(version: int) -> None:
    message = requests.write_fetch(Fetch(7, TWO, 99, 5, 90, 500, 1000), CLUSTER)
    message.topics[0].topic, message.topics[0].topic_id = "flights", UUID(int=99)
    with pytest.raises(KafkaError) as refused:
        requests.read_fetch(through_bytes(message, version), CLUSTER)
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


GROUP = LogName("__storage_group", UUID(int=77), 3)


@pytest.mark.parametrize(
    ("request_", "write", "read", "version"),
    [
        (Vote(7, ONE, TWO, 5, 99), requests.write_vote, lambda m, log: requests.read_vote(m, CLUSTER, TWO, log), 2),
        (BeginEpoch(7, 1, TWO), lambda r, c, log: requests.write_begin_epoch(r, c, (), log),
         lambda m, log: requests.read_begin_epoch(m, CLUSTER, TWO, log), 1),
        (EndEpoch(7, 1, (TWO,)), lambda r, c, log: requests.write_end_epoch(r, c, (), log),
         lambda m, log: requests.read_end_epoch(m, CLUSTER, log), 1),
        (Fetch(7, TWO, 99, 5, 90, 500, 1000), requests.write_fetch,
         lambda m, log: requests.read_fetch(m, CLUSTER, log), 18),
        (Fetch(7, TWO, 99, 5, (1 << 63) - 1, 500, 1000), requests.write_fetch,
         lambda m, log: requests.read_fetch(m, CLUSTER, log).replace(replica=TWO), 12),
        (FetchSnapshot(7, TWO, SnapshotId(50, 4), 3, 1000), requests.write_fetch_snapshot,
         lambda m, log: requests.read_fetch_snapshot(m, CLUSTER, log), 1),
    ],
    ids=lambda value: None,
)  # fmt: skip
def test_a_request_is_about_the_log_that_it_names(
    request_: Any, write: Callable[..., Message], read: Callable[..., Any], version: int
) -> None:
    message = through_bytes(write(request_, CLUSTER, log=GROUP), version)
    assert read(message, GROUP) == request_
    for other in (METADATA_LOG, GROUP.replace(partition=2), GROUP.replace(topic="orders", topic_id=UUID(int=78))):
        with pytest.raises(KafkaError) as refused:
            read(message, other)
        assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("answer", "write"),
    [
        (VoteAnswer(FENCED, None, 7), answers.write_vote_answer),
        (EpochAnswer(FENCED, 2, 7), answers.write_begin_epoch_answer),
        (EpochAnswer(FENCED, None, 7), answers.write_end_epoch_answer),
        (FetchAnswer(ErrorCode.NONE, 1, 7), answers.write_fetch_answer),
        (FetchSnapshotAnswer(ErrorCode.NONE, 1, 7, SnapshotId(4, 2)), answers.write_fetch_snapshot_answer),
    ],
    ids=lambda value: None,
)
def test_an_answer_names_the_log(answer: Any, write: Callable[..., Message]) -> None:
    text = repr(write(answer, GROUP))
    assert "__storage_group" in text
    assert "index=3" in text or "partition=3" in text
