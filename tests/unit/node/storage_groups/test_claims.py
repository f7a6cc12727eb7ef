"""What a leader claims at the controller, and when there is nothing to claim."""

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from penstock.metadata.image import ClusterImage
from penstock.metadata.records import PartitionRecord, RegisterBrokerRecord, TopicRecord
from penstock.node.storage_groups.replica import GroupReplica
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.protocol.requests.own_apis import ClaimStorageGroupRequest
from penstock.raft.voters import ReplicaKey

ME, OTHER, THIRD = 1, 2, 3
GROUPS_ID = UUID(int=1)
GROUP = 0
D1, D2, D3, ANEW = (UUID(int=number) for number in (11, 12, 13, 99))


def claim(
    *,
    voters: tuple[ReplicaKey, ...] = (ReplicaKey(ME, D1), ReplicaKey(OTHER, D2)),
    caught_up: tuple[int, ...] = (ME, OTHER),
    is_changing: bool = False,
    is_fenced: bool = False,
    **image: Any,
) -> ClaimStorageGroupRequest | None:
    """Of node 1, which leads; the metadata say as much, unless a test says that they do not."""
    cluster = ClusterImage("test")
    cluster.apply(RegisterBrokerRecord(broker_id=ME, broker_epoch=1, fenced=is_fenced, log_dirs=[D1]))
    for number, directory in ((OTHER, D2), (THIRD, D3)):
        cluster.apply(RegisterBrokerRecord(broker_id=number, broker_epoch=1, fenced=False, log_dirs=[directory]))
    cluster.apply(TopicRecord(name=STORAGE_GROUPS, topic_id=GROUPS_ID))
    said: dict[str, Any] = {
        "replicas": [ME, OTHER], "directories": [D1, D2], "isr": [ME, OTHER], "leader": ME, "leader_epoch": 4,
        "partition_epoch": 3,
    }  # fmt: skip
    cluster.apply(PartitionRecord(partition_id=GROUP, topic_id=GROUPS_ID, **(said | image)))
    replica = SimpleNamespace(
        number=GROUP,
        voters=voters,
        is_changing_voters=is_changing,
        caught_up=lambda within_ms, live, before: [node for node in caught_up if node in live],
        group=SimpleNamespace(proposer=SimpleNamespace(epoch=5)),
    )
    return GroupReplica.claim(cast("GroupReplica", replica), cluster, ME, 1_000)


def said_in(request: ClaimStorageGroupRequest | None) -> dict[int, UUID]:
    assert request is not None
    return {voter.voter_id: voter.directory_id for voter in request.voters}


def test_what_the_metadata_say_is_not_claimed() -> None:
    assert claim() is None
    assert claim(caught_up=(OTHER, ME)) is None, "in whatever order"


@pytest.mark.parametrize(
    ("leader", "isr", "directories"),
    [(OTHER, [ME, OTHER], [D1, D2]), (ME, [ME], [D1, D2]), (ME, [ME, OTHER], [D1, D3]), (ME, [ME, OTHER], [D3, D2])],
)
def test_what_they_do_not_say_is(leader: int, isr: list[int], directories: list[UUID]) -> None:
    request = claim(leader=leader, isr=isr, directories=directories)
    assert said_in(request) == {ME: D1, OTHER: D2}
    assert request is not None
    assert (request.group, request.group_epoch, request.caught_up, request.partition_epoch) == (
        GROUP,
        5,
        [ME, OTHER],
        3,
    )


def test_a_fenced_broker_claims_nothing() -> None:
    assert claim(leader=OTHER, is_fenced=True) is None


def test_who_began_anew_is_in_the_directory_of_which_the_metadata_know() -> None:
    assert claim(voters=(ReplicaKey(ME, D1), ReplicaKey(OTHER, ANEW))) is None
    assert said_in(claim(voters=(ReplicaKey(ME, D1), ReplicaKey(OTHER, ANEW)), leader=OTHER)) == {ME: D1, OTHER: D2}


MOVE: dict[str, Any] = {"replicas": [ME, OTHER, THIRD], "directories": [D1, D2, D3]}


@pytest.mark.parametrize(
    ("moves", "voters", "is_claimed"),
    [
        ({"adding_replicas": [THIRD]}, {ME: D1, OTHER: D2}, False),
        ({"adding_replicas": [THIRD]}, {ME: D1, OTHER: D2, THIRD: D3}, True),
        ({"removing_replicas": [THIRD]}, {ME: D1, OTHER: D2, THIRD: D3}, False),
        ({"removing_replicas": [THIRD]}, {ME: D1, OTHER: D2}, True),
        ({}, {ME: D1, OTHER: D2}, False),
    ],
)
@pytest.mark.parametrize("is_changing", [False, True])
def test_the_end_of_a_move_is_claimed_when_its_voters_vote(
    moves: dict[str, Any], voters: dict[int, UUID], is_claimed: bool, is_changing: bool
) -> None:
    keys = tuple(ReplicaKey(node, directory) for node, directory in voters.items())
    request = claim(voters=keys, is_changing=is_changing, **MOVE, **moves)
    assert (request is not None) is (is_claimed and not is_changing)


def test_a_voter_whose_broker_is_not_known_is_where_the_metadata_have_it() -> None:
    voters = ReplicaKey(ME, D1), ReplicaKey(9, D2)
    assert claim(voters=voters, caught_up=(ME,), replicas=[ME, 9], directories=[D1, D3], isr=[ME]) is None
