"""Bugs to plant into the controller, so that its simulation can show that it would find them."""

from collections.abc import Iterable
from typing import Any

import pytest

from penstock.controller import (
    alter_partition,
    claim_storage_group,
    create_topics,
    eligible_leaders,
    moves,
    partition_change,
    producer_ids,
    reassignments,
    registrations,
    upkeep,
)
from penstock.controller.alter_partition import decide_alter_partition
from penstock.controller.claim_storage_group import decide_claim_storage_group
from penstock.controller.decision import ControllerState, Decision
from penstock.controller.group_leaders import left_in_group
from penstock.controller.heartbeats import Going, Heartbeats
from penstock.controller.partition_change import Electorate
from penstock.controller.placement import place
from penstock.controller.producer_ids import decide_allocate_producer_ids
from penstock.controller.upkeep import UNTIL_MOVED
from penstock.leadership import balancer
from penstock.leadership.balancer import Balancer, View, _Wait
from penstock.metadata.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from penstock.metadata.records import PartitionChangeRecord, ProducerIdsRecord
from penstock.metadata.resources import ResourceType
from penstock.metadata.topics import NO_LEADER, NO_LEADER_CHANGE
from penstock.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from penstock.protocol.messages.alter_partition import AlterPartitionRequest
from penstock.protocol.requests.own_apis import ClaimStorageGroupRequest, GroupVoter


def fenced_brokers_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    """An election takes whoever is registered."""

    def may_lead(electorate: Electorate, partition: PartitionImage, broker_id: int) -> bool:
        return broker_id in electorate.image.brokers and broker_id != electorate.going

    monkeypatch.setattr(Electorate, "may_lead", may_lead)


def cordoned_brokers_get_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    """New topics go to all brokers, whatever these have cordoned."""

    def place_anywhere(brokers: Iterable[BrokerImage], *others: Any) -> list[list[int]]:
        return place([broker.replace(cordoned_directories=None) for broker in brokers], *others)

    monkeypatch.setattr(create_topics, "place", place_anywhere)


def limits_end_before_the_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller takes limits away after a while, whatever is on the move."""

    def are_unused(image: ClusterImage) -> bool:
        return UNTIL_MOVED in image.config_of(ResourceType.BROKER, "")

    monkeypatch.setattr(upkeep, "_are_unused", are_unused)


def unclean_without_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    """An outdated replica leads though the topic forbids it."""
    monkeypatch.setattr(moves, "allows_unclean", lambda state, topic: True)


def earlier_lives_change_the_isr(monkeypatch: pytest.MonkeyPatch) -> None:
    """AlterPartition goes by the broker alone, whatever epoch it names."""

    def decide_for_anybody(state: ControllerState, request: AlterPartitionRequest, now_ms: int) -> Decision[Any]:
        known = state.image.brokers.get(request.broker_id)
        present = AlterPartitionRequest(
            broker_id=request.broker_id, broker_epoch=-1 if known is None else known.epoch, topics=request.topics
        )
        return decide_alter_partition(state, present, now_ms)

    monkeypatch.setattr(alter_partition, "decide_alter_partition", decide_for_anybody)


def anybody_comes_in_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fenced brokers, those on their way out and those of earlier lives as well."""
    monkeypatch.setattr(alter_partition, "_is_eligible", lambda image, replica: replica.broker_id in image.brokers)


def every_stop_was_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who crashed goes on being in sync and eligible."""
    left_by = moves.left_by

    def left_cleanly(state: ControllerState, broker_id: int, going: Going) -> list[Any]:
        return left_by(state, broker_id, Going.BACK if going is Going.BACK_AFTER_CRASH else going)

    monkeypatch.setattr(registrations, "left_by", left_cleanly)


def everybody_is_eligible_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who leaves the ISR is eligible although enough replicas are left, which go on committing."""
    monkeypatch.setattr(eligible_leaders, "_needed", lambda state, topic, partition: 99)


def producer_ids_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The block is a thousand ids long, the record says five hundred."""

    def decide_short(state: ControllerState, request: AllocateProducerIdsRequest, now_ms: int) -> Decision[Any]:
        decision = decide_allocate_producer_ids(state, request, now_ms)
        for record in decision.records:
            assert isinstance(record, ProducerIdsRecord)
            record.next_producer_id -= 500
        return decision

    monkeypatch.setattr(producer_ids, "decide_allocate_producer_ids", decide_short)


def moves_forgotten_at_a_takeover(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new controller does not look for what the one before it left undone."""
    begin = Heartbeats.begin

    def begin_carefree(heartbeats: Heartbeats, image: ClusterImage, now_ms: int) -> None:
        begin(heartbeats, image, now_ms)
        heartbeats._kept.unfinished.clear()

    monkeypatch.setattr(Heartbeats, "begin", begin_carefree)


def sessions_forgotten_at_a_takeover(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new controller waits for brokers that went with the old one."""

    def begin_deaf(heartbeats: Heartbeats, image: ClusterImage, now_ms: int) -> None:
        heartbeats._kept.unfinished = dict.fromkeys([*image.brokers, *image.index.brokers_in_sync()], False)

    monkeypatch.setattr(Heartbeats, "begin", begin_deaf)


def second_incarnation_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes with the id of a living broker gets it."""
    monkeypatch.setattr(registrations, "_is_held", lambda state, broker, now_ms: False)


def two_move_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The balancer waits for nobody: its next move begins while one is under way."""
    monkeypatch.setattr(_Wait, "is_over", lambda wait, view: True)


def a_move_of_the_controller_before_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who takes over as the controller balances at once."""
    begin = Balancer.begin

    def begin_carefree(balancer: Balancer, view: View, offset: int, now_ms: int) -> None:
        begin(balancer, view, offset, now_ms)
        balancer._wait = None

    monkeypatch.setattr(Balancer, "begin", begin_carefree)


def moves_whatever_is_in_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """The balancer does not wait for replicas that catch up."""
    monkeypatch.setattr(balancer, "waits_for_replicas", lambda image: False)


def moves_that_are_never_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The balancer has no deadline, and rests after its first move."""
    monkeypatch.setattr(Balancer, "deadline_ms", lambda balancer, view: None)


def groups_that_the_controller_elects(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the leader of a storage group goes, the first one in sync leads."""

    def elected(topic: TopicImage, index: int, broker_id: int, going: Going) -> PartitionChangeRecord | None:
        record = left_in_group(topic, index, broker_id, going)
        if record is not None and record.leader == NO_LEADER and record.isr:
            record.leader = record.isr[0]
        return record

    monkeypatch.setattr(moves, "left_in_group", elected)


def late_claims_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller forgets at once which leader of a storage group it has heard of."""

    def decide_forgetful(state: ControllerState, request: ClaimStorageGroupRequest, now_ms: int) -> Decision[Any]:
        state.group_claims.clear()
        return decide_claim_storage_group(state, request, now_ms)

    monkeypatch.setattr(claim_storage_group, "decide_claim_storage_group", decide_forgetful)


def groups_that_arrive_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The move of a storage group is over with the next claim, whoever votes."""
    voted = claim_storage_group._voted

    def arrived(image: ClusterImage, request: ClaimStorageGroupRequest, group: PartitionImage) -> PartitionImage:
        target = [replica for replica in group.replicas if replica not in group.removing_replicas]
        voters = [GroupVoter(voter_id=replica, directory_id=group.directory_of(replica)) for replica in target]
        return voted(image, request.replace(voters=voters, partition_epoch=group.partition_epoch), group)

    monkeypatch.setattr(claim_storage_group, "_voted", arrived)


def moves_ended_by_who_does_not_know_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim with the right voters ends the move of a storage group, even if its leader had not heard of it."""
    voted = claim_storage_group._voted

    def believed(image: ClusterImage, request: ClaimStorageGroupRequest, group: PartitionImage) -> PartitionImage:
        return voted(image, request.replace(partition_epoch=group.partition_epoch), group)

    monkeypatch.setattr(claim_storage_group, "_voted", believed)


def replica_removed_without_a_new_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader stays, and so does its epoch, though a replica was taken away."""
    difference = partition_change.difference

    def same_epoch(
        topic_id: object, index: int, before: PartitionImage, after: PartitionImage
    ) -> PartitionChangeRecord:
        record = difference(topic_id, index, before, after)  # type: ignore[arg-type]
        if after.leader == before.leader:
            record.leader = NO_LEADER_CHANGE
        return record

    monkeypatch.setattr(partition_change, "difference", same_epoch)


def moves_that_forget_where_they_began(monkeypatch: pytest.MonkeyPatch) -> None:
    """What another course of a move does not want counts as there before, although the move had added it."""
    on_the_way = reassignments._on_the_way

    def forgetful(partition: PartitionImage, target: list[int]) -> PartitionImage:
        way = on_the_way(partition, target)
        return way._replace(adding_replicas=tuple(it for it in way.adding_replicas if it in target))

    monkeypatch.setattr(reassignments, "_on_the_way", forgetful)
