"""A storage group moves to other replicas, and all that is in it with it."""

from uuid import UUID

from tests.unit.controller.cluster import carry_out, join
from tests.unit.controller.storage_groups import claim, cluster, created, directory, group, topic

from penstock.controller.controller import Controller
from penstock.controller.reassignments import list_reassignments
from penstock.protocol.errors import ErrorCode
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from penstock.protocol.requests.own_apis import GroupVoter


def claimed(**settings: int) -> Controller:
    """Broker 1 leads a group of the brokers 1, 2 and 3; 4 and 5 are there."""
    controller = cluster(**settings)
    for broker_id in (4, 5):
        join(controller, broker_id, [directory(broker_id)])
    created(controller, topic("orders", [1, 2, 3], [1, 2, 3]), topic("trades", [2, 3, 1]))
    assert voted(controller, 1, 2, 3) == ErrorCode.NONE
    return controller


def voted(controller: Controller, *voters: int, leader: int = 1, partition_epoch: int | None = None) -> ErrorCode:
    """The leader claims the group with these voters, which have caught up; it knows all, or the group of that epoch."""
    told = [GroupVoter(voter_id=one, directory_id=directory(one)) for one in voters]
    known = group(controller).partition_epoch if partition_epoch is None else partition_epoch
    return claim(controller, leader, 4 + leader, *voters, voters=told, partition_epoch=known)  # type: ignore[no-any-return]


def move(controller: Controller, target: list[int] | None, name: str = STORAGE_GROUPS) -> tuple[int, str | None]:
    asked = ReassignableTopic(name=name, partitions=[ReassignablePartition(replicas=target)])
    reply = carry_out(controller, AlterPartitionReassignmentsRequest(topics=[asked]))
    answer = reply.responses[0].partitions[0]
    return answer.error_code, answer.error_message


def moving(controller: Controller) -> list[tuple[str, list[int], list[int]]]:
    """What is under way: the topic, who is added, who is removed."""
    told = list_reassignments(controller.image, ListPartitionReassignmentsRequest(topics=None))
    return [(it.name, one.adding_replicas, one.removing_replicas) for it in told.topics for one in it.partitions]


def replicas(controller: Controller) -> set[tuple[int, ...]]:
    """Those of the group and of all that is in it."""
    topics = (STORAGE_GROUPS, "orders", "trades")
    return {one.replicas for name in topics for one in controller.image.topics[name].partitions.values()}


def directories_fit(controller: Controller) -> bool:
    """Whether all that is in the group lies where its brokers keep their logs."""
    return all(
        one.directories == tuple(map(directory, one.replicas))
        for name in (STORAGE_GROUPS, "orders", "trades")
        for one in controller.image.topics[name].partitions.values()
    )


def test_a_group_is_under_way_until_a_claim_has_the_voters_of_the_target() -> None:
    controller = claimed()
    assert move(controller, [4, 2, 5]) == (ErrorCode.NONE, None)
    assert group(controller).replicas == (4, 2, 5, 1, 3)
    assert group(controller).directories == tuple(map(directory, (4, 2, 5, 1, 3)))
    assert moving(controller) == [(STORAGE_GROUPS, [4, 5], [1, 3])]
    for voters in ((1, 2, 3, 4), (1, 2, 3, 4, 5), (1, 2, 4, 5)):
        assert voted(controller, *voters) == ErrorCode.NONE
        assert moving(controller)
        assert set(group(controller).isr) == set(voters)
        assert {frozenset(one) for one in replicas(controller)} == {frozenset({1, 2, 3, 4, 5})}, "who votes may lead"
    assert voted(controller, 2, 4, 5, leader=4) == ErrorCode.NONE
    assert moving(controller) == []
    assert group(controller).replicas == (4, 2, 5)
    assert {tuple(one) for one in replicas(controller)} == {(4, 2, 5)}, "in the order that was asked for"
    assert {one.leader for one in controller.image.topics["orders"].partitions.values()} == {4}
    assert directories_fit(controller)
    offset = controller.state.next_offset
    assert voted(controller, 2, 4, 5, leader=4) == ErrorCode.NONE
    assert controller.state.next_offset == offset


def test_a_move_of_very_many_partitions_is_over_when_all_have_moved() -> None:
    controller = claimed(max_moves_per_decision=2)
    move(controller, [4, 2, 1])
    assert voted(controller, 1, 2, 4) == ErrorCode.REQUEST_TIMED_OUT
    assert moving(controller)
    while voted(controller, 1, 2, 4) != ErrorCode.NONE:
        assert moving(controller)
    assert moving(controller) == []
    assert {frozenset(one) for one in replicas(controller)} == {frozenset({1, 2, 4})}


def test_a_cancelled_move_goes_back_until_who_was_added_votes_no_more() -> None:
    controller = claimed()
    move(controller, [4, 2, 3])
    assert voted(controller, 1, 2, 3, 4) == ErrorCode.NONE
    for _ in range(2):  # to cancel it again changes nothing
        assert move(controller, None) == (ErrorCode.NONE, None)
        assert moving(controller) == [(STORAGE_GROUPS, [4], [4])]
    assert voted(controller, 1, 2, 3) == ErrorCode.NONE
    assert moving(controller) == []
    assert {frozenset(one) for one in replicas(controller)} == {frozenset({1, 2, 3})}
    assert move(controller, None)[0] == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_group_gets_smaller_and_larger() -> None:
    controller = claimed()
    move(controller, [1, 2])
    assert moving(controller) == [(STORAGE_GROUPS, [], [3])]
    voted(controller, 1, 2)
    assert (group(controller).replicas, moving(controller)) == ((1, 2), [])
    move(controller, [1, 2, 5])
    voted(controller, 1, 2, 5)
    assert (group(controller).replicas, moving(controller)) == ((1, 2, 5), [])
    assert directories_fit(controller)


def test_a_claim_that_does_not_say_who_votes_ends_no_move() -> None:
    controller = claimed()
    move(controller, [1, 2])
    assert claim(controller, 1, 5, 1, 2) == ErrorCode.NONE
    assert moving(controller)


def test_a_leader_that_does_not_know_of_a_move_ends_none() -> None:
    """It may be giving a vote to one of those who were wanted before."""
    controller = claimed()
    move(controller, [4, 2, 3])
    known = group(controller).partition_epoch
    move(controller, None)
    assert voted(controller, 1, 2, 3, partition_epoch=known) == ErrorCode.NONE
    assert moving(controller) == [(STORAGE_GROUPS, [4], [4])]
    assert voted(controller, 1, 2, 3, 4) == ErrorCode.NONE
    assert voted(controller, 1, 2, 3) == ErrorCode.NONE
    assert moving(controller) == []


def test_what_cannot_move_is_refused_in_plain_words() -> None:
    controller = claimed()
    before = controller.image.copy()
    code, message = move(controller, [2, 3, 4], "orders")
    assert (code, "move __storage_group-0" in (message or "")) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, True)
    assert move(controller, None, "orders")[0] == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert move(controller, [1, 2, 9])[0] == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert controller.image == before
    fresh = cluster()
    created(fresh, topic("orders", [1, 2, 3]))
    code, message = move(fresh, [1, 2])
    assert (code, "never had a leader" in (message or "")) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, True)


def test_a_topic_joins_a_group_that_is_under_way_as_it_is() -> None:
    controller = claimed()
    move(controller, [4, 2, 3])
    assert created(controller, topic("flights", partitions=1))[0][0] == ErrorCode.NONE
    (flight,) = controller.image.topics["flights"].partitions.values()
    assert controller.image.topics["flights"].storage_group == 0
    assert set(flight.replicas) == {1, 2, 3, 4}
    assert flight.directory_of(4) == directory(4) != UUID(int=0)
    voted(controller, 2, 3, 4, leader=4)
    assert set(controller.image.topics["flights"].partitions[0].replicas) == {2, 3, 4}
