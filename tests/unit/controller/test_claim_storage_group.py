"""The leader of a storage group says that it leads; what becomes of that when brokers come and go."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from tests.unit.controller import storage_groups
from tests.unit.controller.cluster import (
    active_controller,
    assigned,
    carry_out,
    heartbeat,
    registration,
    successor,
    tick,
    track,
)
from tests.unit.controller.storage_groups import claim, cluster, created, directory, fence, group, led, topic

from penstock.controller.claim_storage_group import decide_claim_storage_group
from penstock.controller.controller import Controller
from penstock.leadership.balancer import BalanceSettings
from penstock.metadata.records import PartitionChangeRecord
from penstock.metadata.topics import NO_LEADER
from penstock.protocol.errors import ErrorCode
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.protocol.messages import alter_partition, assign_replicas_to_dirs
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest
from penstock.protocol.requests.own_apis import (
    BalanceAction,
    BalanceLeadersRequest,
    ClaimStorageGroupRequest,
    GroupVoter,
    HandOverLeaderRequest,
)

GROUP = (STORAGE_GROUPS, "orders", "trades")


@pytest.fixture(params=[False, True], ids=["", "eligible leaders are known"], autouse=True)
def tracks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the controller keeps track of eligible leaders makes no difference to groups."""
    if request.param:
        monkeypatch.setattr(
            storage_groups, "active_controller", lambda **settings: track(active_controller(**settings))
        )


def claimed(**settings: Any) -> Controller:
    """Broker 1 leads group 0, with all in sync: `orders` and `trades` are in it. `flights` is replicated by ISR."""
    controller = cluster(**settings)
    created(controller, topic("orders", [1, 2, 3], [1, 2, 3]), topic("trades", [2, 3, 1]))
    carry_out(controller, assigned("flights", [1, 2, 3]))
    assert claim(controller, 1, 5, 1, 2, 3) == ErrorCode.NONE
    assert led(controller, *GROUP) == {(1, (1, 2, 3)): 3, (1, (2, 3, 1)): 1}
    return controller


def leaders(controller: Controller) -> set[int]:
    """Who leads anything of the group."""
    return {leader for leader, _ in led(controller, *GROUP)}


def in_sync(controller: Controller) -> set[frozenset[int]]:
    """Who is in sync with anything of the group."""
    return {frozenset(isr) for _, isr in led(controller, *GROUP)}


def test_a_claim_names_the_leader_of_all_that_is_in_the_group_and_of_nothing_else() -> None:
    controller = claimed()
    created(controller, topic("others", [2, 3]))
    assert claim(controller, 2, 6, 2, 3) == ErrorCode.NONE
    assert led(controller, *GROUP) == {(2, (2, 3)): 4, (NO_LEADER, (2, 3)): 1}, "group 1 has its own leader"
    assert led(controller, "flights") == {(1, (1, 2, 3)): 1}
    assert led(controller, "others") == {(NO_LEADER, (2, 3)): 1}
    assert claim(controller, 3, 1, 2, 3, group=1) == ErrorCode.NONE
    assert led(controller, "others") == {(3, (2, 3)): 1}


def test_with_the_first_claim_the_group_comes_first_and_later_last() -> None:
    """Of two groups only the one that is claimed: nothing is led in a group that has not begun."""
    controller = cluster()
    created(controller, topic("orders", [1, 2, 3], [1, 2, 3]))
    created(controller, topic("trades", [1, 2], [2, 1], storage_group="1"))
    named: list[list[tuple[UUID, int]]] = []
    for epoch, broker_id in ((5, 1), (6, 2)):
        request = ClaimStorageGroupRequest(
            broker_id=broker_id,
            broker_epoch=controller.image.brokers[broker_id].epoch,
            group=1,
            group_epoch=epoch,
            caught_up=[1, 2],
        )
        records = decide_claim_storage_group(controller.state, request, 0).records
        changes = [record for record in records if isinstance(record, PartitionChangeRecord)]
        assert len(changes) == len(records)
        named.append([(record.topic_id, record.partition_id) for record in changes])
        assert claim(controller, broker_id, epoch, 1, 2, group=1) == ErrorCode.NONE
    groups, trades = (controller.image.topics[name].topic_id for name in (STORAGE_GROUPS, "trades"))
    assert named == [[(groups, 1), (trades, 0), (trades, 1)], [(trades, 0), (trades, 1), (groups, 1)]]
    assert group(controller, 0).leader == NO_LEADER


def test_the_leader_epoch_grows_with_the_leader_and_not_with_the_isr() -> None:
    controller = claimed()
    before = controller.image.topics["orders"].partitions[0]
    claim(controller, 1, 5, 1, 2)
    now = controller.image.topics["orders"].partitions[0]
    assert (now.leader_epoch, now.isr) == (before.leader_epoch, (1, 2))
    claim(controller, 3, 9, 1, 2, 3)
    assert controller.image.topics["orders"].partitions[0].leader_epoch == before.leader_epoch + 1


def test_what_the_metadata_say_already_is_written_once() -> None:
    controller = claimed()
    offset = controller.state.next_offset
    assert claim(controller, 1, 6, 3, 2, 1) == ErrorCode.NONE
    assert controller.state.next_offset == offset


def test_who_may_not_claim_is_told_why() -> None:
    controller = claimed()
    created(controller, topic("others", [2, 3]))
    before = controller.image.copy()
    assert claim(controller, 2, 6, 2, broker_epoch=0) == ErrorCode.STALE_BROKER_EPOCH
    assert claim(controller, 9, 6, 2) == ErrorCode.STALE_BROKER_EPOCH
    assert claim(controller, 2, 6, 2, group=7) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert claim(controller, 2, 6, 2, group=-1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert claim(controller, 1, 6, 2, group=1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert claim(controller, 2, 4, 1, 2, 3) == ErrorCode.FENCED_LEADER_EPOCH, "broker 1 leads since epoch 5"
    assert claim(controller, 2, 5, 1, 2, 3) == ErrorCode.FENCED_LEADER_EPOCH, "an epoch has one leader"
    assert controller.image == before
    fence(controller, 2)
    assert claim(controller, 2, 6, 2) == ErrorCode.INELIGIBLE_REPLICA
    assert claim(controller, 3, 6, 1, 3) == ErrorCode.NONE


def test_a_new_controller_may_believe_a_late_claim_and_then_the_true_one() -> None:
    controller = successor(claimed())
    assert claim(controller, 2, 4, 2, 3) == ErrorCode.NONE
    assert claim(controller, 1, 5, 1, 2, 3) == ErrorCode.NONE
    assert claim(controller, 2, 4, 2, 3) == ErrorCode.FENCED_LEADER_EPOCH
    assert leaders(controller) == {1}


def test_a_claim_says_on_which_disks_the_voters_have_the_log() -> None:
    controller = claimed()
    replaced = registration(3, 1, [directory(3, 1)])
    replaced.incarnation_id = controller.image.brokers[3].incarnation_id
    carry_out(controller, replaced)
    assert claim(controller, 1, 5, 1, 2, 3) == ErrorCode.NONE
    assert group(controller).isr == (1, 2), "its directory is gone"
    voters = [GroupVoter(voter_id=one, directory_id=directory(one, one == 3)) for one in (1, 2, 3)]
    assert claim(controller, 1, 5, 1, 2, 3, voters=voters) == ErrorCode.NONE
    assert (group(controller).isr, group(controller).directory_of(3)) == ((1, 2, 3), directory(3, 1))
    assert in_sync(controller) == {frozenset({1, 2, 3})}
    offset = controller.state.next_offset
    assert claim(controller, 1, 5, 1, 2, 3, voters=voters[:2]) == ErrorCode.NONE
    assert controller.state.next_offset == offset, "who has no vote at the moment stays where it is"


def test_in_sync_are_replicas_that_are_active_and_the_leader() -> None:
    controller = claimed()
    fence(controller, 3)
    carry_out(controller, heartbeat(controller, 2, want_shut_down=True))
    claim(controller, 1, 6, 2, 3, 77)
    assert in_sync(controller) == {frozenset({1})}


def test_nobody_leads_in_the_place_of_a_leader_that_is_fenced() -> None:
    controller = claimed()
    epoch = group(controller).leader_epoch
    fence(controller, 1)
    assert (leaders(controller), in_sync(controller)) == ({NO_LEADER}, {frozenset({2, 3})})
    assert group(controller).leader_epoch == epoch + 1
    assert led(controller, "flights") == {(2, (2, 3)): 1}
    fence(controller, 3)
    fence(controller, 2)
    assert (leaders(controller), in_sync(controller)) == ({NO_LEADER}, {frozenset({2})}), "the last one stays in sync"


def test_a_follower_that_is_fenced_leaves_the_isr_and_nothing_else() -> None:
    controller = claimed()
    epoch = group(controller).leader_epoch
    fence(controller, 2)
    assert (leaders(controller), in_sync(controller)) == ({1}, {frozenset({1, 3})})
    assert group(controller).leader_epoch == epoch


def test_a_broker_that_comes_back_leads_nothing_before_it_claims() -> None:
    controller = claimed(unclean_election_interval_ms=1_000)
    for broker_id in (2, 3, 1):
        fence(controller, broker_id)
    for broker_id in (1, 2, 3):
        carry_out(controller, heartbeat(controller, broker_id))
    tick(controller, 5_000)
    assert (leaders(controller), in_sync(controller)) == ({NO_LEADER}, {frozenset({1})})
    assert led(controller, "flights").keys() == {(1, (1,))}
    claim(controller, 3, 6, 1, 2, 3)
    assert (leaders(controller), in_sync(controller)) == ({3}, {frozenset({1, 2, 3})})


@pytest.mark.parametrize("clean", [True, False])
def test_a_leader_that_starts_anew_leads_no_more(clean: bool) -> None:
    controller = claimed()
    epoch = controller.image.brokers[1].epoch
    again = registration(1, 99, [directory(1)], previous_epoch=epoch if clean else -1)
    carry_out(controller, again, 100)
    assert (leaders(controller), in_sync(controller)) == ({NO_LEADER}, {frozenset({2, 3})})


def test_a_leader_on_its_way_out_leads_until_another_one_claims_or_it_has_stopped() -> None:
    controller = claimed()
    stopping = heartbeat(controller, 1, want_shut_down=True)
    assert not carry_out(controller, stopping).should_shut_down
    assert (leaders(controller), led(controller, "flights")) == ({1}, {(2, (2, 3)): 1})
    assert claim(controller, 1, 5, 1, 2, 3) == ErrorCode.NONE, "it may say so until then"
    assert claim(controller, 2, 6, 2, 3) == ErrorCode.NONE
    for broker_id in (2, 3):
        carry_out(controller, heartbeat(controller, broker_id))
    assert carry_out(controller, heartbeat(controller, 1, want_shut_down=True)).should_shut_down
    assert (leaders(controller), in_sync(controller)) == ({2}, {frozenset({2, 3})})


def test_a_leader_that_has_stopped_leads_no_more() -> None:
    controller = claimed()
    carry_out(controller, heartbeat(controller, 1, want_shut_down=True))
    for broker_id in (2, 3):
        carry_out(controller, heartbeat(controller, broker_id))
    assert carry_out(controller, heartbeat(controller, 1, want_shut_down=True)).should_shut_down
    assert (leaders(controller), in_sync(controller)) == ({NO_LEADER}, {frozenset({2, 3})})


def test_who_loses_the_directory_or_is_unregistered_leads_no_more() -> None:
    controller = claimed()
    spare = UUID(int=77)
    registered = registration(1, 1, [directory(1), spare])
    registered.incarnation_id = controller.image.brokers[1].incarnation_id
    carry_out(controller, registered)
    carry_out(controller, heartbeat(controller, 1, offline_log_dirs=[directory(1)]))
    assert (leaders(controller), in_sync(controller)) == ({NO_LEADER}, {frozenset({2, 3})})
    claim(controller, 2, 6, 1, 2, 3)
    assert in_sync(controller) == {frozenset({2, 3})}, "its directory is away"
    carry_out(controller, UnregisterBrokerRequest(broker_id=2))
    assert (leaders(controller), in_sync(controller)) == ({NO_LEADER}, {frozenset({3})})


def test_a_group_of_very_many_partitions_is_led_in_parts_and_the_metadata_name_its_leader_last() -> None:
    controller = cluster(max_moves_per_decision=10)
    created(controller, topic("orders", partitions=25))
    replicas = group(controller).replicas
    assert claim(controller, 1, 5, 1, 2, 3) == ErrorCode.NONE, "nothing is led before the group has begun"
    assert led(controller, STORAGE_GROUPS, "orders") == {(1, replicas): 26}
    for count in (10, 20):
        assert claim(controller, 2, 6, 1, 2, 3) == ErrorCode.REQUEST_TIMED_OUT
        assert led(controller, "orders") == {(2, replicas): count, (1, replicas): 25 - count}
        assert group(controller).leader == 1
    assert claim(controller, 2, 6, 1, 2, 3) == ErrorCode.NONE
    assert led(controller, STORAGE_GROUPS, "orders") == {(2, replicas): 26}


# What asks for other leaders or replicas.


def refused_by_alter_partition(controller: Controller, name: str) -> int:
    partition = controller.image.topics[name].partitions[0]
    asked = alter_partition.AlterPartitionRequestPartitionData(
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        new_isr_with_epochs=[alter_partition.BrokerState(broker_id=1, broker_epoch=-1)],
    )
    topics = [
        alter_partition.AlterPartitionRequestTopicData(
            topic_id=controller.image.topics[name].topic_id, partitions=[asked]
        )
    ]
    epoch = controller.image.brokers[1].epoch
    reply = carry_out(controller, alter_partition.AlterPartitionRequest(broker_id=1, broker_epoch=epoch, topics=topics))
    code: int = reply.topics[0].partitions[0].error_code
    return code


def refused_by_reassignment(controller: Controller, name: str) -> int:
    move = ReassignableTopic(name=name, partitions=[ReassignablePartition(replicas=[2, 3])])
    reply = carry_out(controller, AlterPartitionReassignmentsRequest(topics=[move]))
    code: int = reply.responses[0].partitions[0].error_code
    return code


def refused_by_election(election_type: int) -> Callable[[Controller, str], int]:
    def refused(controller: Controller, name: str) -> int:
        asked = [TopicPartitions(topic=name, partitions=[0])]
        reply = carry_out(controller, ElectLeadersRequest(election_type=election_type, topic_partitions=asked))
        code: int = reply.replica_election_results[0].partition_result[0].error_code
        return code

    return refused


@pytest.mark.parametrize("name", GROUP)
@pytest.mark.parametrize(
    ("ask", "code"),
    [
        (refused_by_alter_partition, ErrorCode.INVALID_REQUEST),
        (refused_by_reassignment, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (refused_by_election(0), ErrorCode.INVALID_REQUEST),
        (refused_by_election(1), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_asks_for_other_leaders_or_replicas_is_refused(
    name: str, ask: Callable[[Controller, str], int], code: ErrorCode
) -> None:
    controller = claimed()
    before = controller.image.copy()
    if (name, ask) == (STORAGE_GROUPS, refused_by_reassignment):
        name = "orders"  # the group itself may move
    assert ask(controller, name) == code
    assert controller.image == before


@pytest.mark.parametrize("election_type", [0, 1])
def test_an_election_of_all_leaves_groups_out(election_type: int) -> None:
    controller = claimed()
    fence(controller, 1)
    carry_out(controller, heartbeat(controller, 1))
    reply = carry_out(controller, ElectLeadersRequest(election_type=election_type, topic_partitions=None))
    assert [result.topic for result in reply.replica_election_results] in (["flights"], [])
    assert leaders(controller) == {NO_LEADER}


def balancing() -> tuple[Controller, int]:
    """Another broker than should leads the group, which the balancer wants to change; and who should."""
    controller = claimed(leader_balance=BalanceSettings(timeout_ms=100))
    (taker, giver, _) = group(controller).replicas
    assert claim(controller, giver, 6, 1, 2, 3) == ErrorCode.NONE
    carry_out(controller, BalanceLeadersRequest(action=BalanceAction.BEGIN), 1)
    assert tick(controller, 2) == []
    return controller, taker


def told(controller: Controller, broker_id: int, **fields: Any) -> Any:
    """What the controller says to a broker about hand-overs."""
    epoch = controller.image.brokers[broker_id].epoch
    request = HandOverLeaderRequest(broker_id=broker_id, broker_epoch=epoch).replace(**fields)
    return carry_out(controller, request, 3)


def balance(controller: Controller, now_ms: int) -> Any:
    return carry_out(controller, BalanceLeadersRequest(action=BalanceAction.TELL), now_ms)


def test_a_group_is_handed_over_by_its_leader_and_moved_when_the_successor_claims() -> None:
    controller, taker = balancing()
    before = group(controller)
    offer = told(controller, before.leader)
    groups = controller.image.topics[STORAGE_GROUPS]
    assert (offer.topic_id, offer.partition, offer.successor) == (groups.topic_id, 0, taker)
    refused = told(
        controller,
        before.leader,
        topic_id=offer.topic_id,
        partition=0,
        leader_epoch=before.leader_epoch,
        partition_epoch=before.partition_epoch,
        successor=taker,
    )
    assert refused.error_code == ErrorCode.INVALID_REQUEST, "the voters decide"
    assert claim(controller, taker, 7, 1, 2, 3) == ErrorCode.NONE
    assert tick(controller, 4) == []
    now = balance(controller, 5)
    assert (now.topic, now.partition, now.giver, now.taker) == (STORAGE_GROUPS, 0, before.leader, taker)
    for broker_id in (1, 2, 3):
        carry_out(controller, heartbeat(controller, broker_id), 6)
    assert tick(controller, 7) == []
    now = balance(controller, 8)
    assert (now.is_balancing, now.moved) == (False, 1), "what is in the group is no move of its own"


def test_a_group_that_is_not_handed_over_in_time_stays_where_it_is() -> None:
    controller, _ = balancing()
    before = group(controller)
    assert controller.next_deadline_ms == 102
    assert tick(controller, 102) == []
    assert tick(controller, 103) == []
    assert told(controller, before.leader).successor == NO_LEADER
    assert (group(controller), balance(controller, 104).is_balancing) == (before, False)
    carry_out(controller, BalanceLeadersRequest(action=BalanceAction.BEGIN), 105)
    assert tick(controller, 106) == []
    assert told(controller, before.leader).successor == before.replicas[0], "somebody has asked again"


def assigned_to(controller: Controller, name: str, lies_in: UUID) -> int:
    place = assign_replicas_to_dirs.AssignReplicasToDirsRequestTopicData(
        topic_id=controller.image.topics[name].topic_id,
        partitions=[assign_replicas_to_dirs.AssignReplicasToDirsRequestPartitionData(partition_index=0)],
    )
    asked = assign_replicas_to_dirs.AssignReplicasToDirsRequestDirectoryData(id=lies_in, topics=[place])
    epoch = controller.image.brokers[1].epoch
    request = assign_replicas_to_dirs.AssignReplicasToDirsRequest(broker_id=1, broker_epoch=epoch, directories=[asked])
    code: int = carry_out(controller, request).directories[0].topics[0].partitions[0].error_code
    return code


def test_a_voter_never_changes_its_directory() -> None:
    controller, other = claimed(), UUID(int=77)
    assert assigned_to(controller, STORAGE_GROUPS, other) == ErrorCode.INVALID_REQUEST
    assert assigned_to(controller, STORAGE_GROUPS, directory(1)) == ErrorCode.NONE
    assert assigned_to(controller, "orders", other) == ErrorCode.NONE
    assert group(controller).directory_of(1) == directory(1)
    assert controller.image.topics["orders"].partitions[0].directory_of(1) == other
    assert leaders(controller) == {1}
