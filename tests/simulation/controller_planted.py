"""Bugs to plant into the controller, so that its simulation can show that it would find them."""

from typing import Any

import pytest

from penstock.controller import moves, partition_change, producer_ids, registrations
from penstock.controller.decision import ControllerState, Decision
from penstock.controller.heartbeats import Heartbeats
from penstock.controller.partition_change import Electorate
from penstock.controller.producer_ids import decide_allocate_producer_ids
from penstock.metadata.image import ClusterImage, PartitionImage
from penstock.metadata.records import PartitionChangeRecord, ProducerIdsRecord
from penstock.metadata.topics import NO_LEADER_CHANGE
from penstock.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest


def fenced_brokers_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    """An election takes whoever is registered."""

    def may_lead(electorate: Electorate, partition: PartitionImage, broker_id: int) -> bool:
        return broker_id in electorate.image.brokers and broker_id != electorate.going

    monkeypatch.setattr(Electorate, "may_lead", may_lead)


def unclean_without_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    """An outdated replica leads though the topic forbids it."""
    monkeypatch.setattr(moves, "allows_unclean", lambda state, topic: True)


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


def replica_removed_without_a_new_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader stays, and so does its epoch, though a replica was taken away."""
    difference = partition_change._difference

    def same_epoch(
        topic_id: object, index: int, before: PartitionImage, after: PartitionImage
    ) -> PartitionChangeRecord:
        record = difference(topic_id, index, before, after)  # type: ignore[arg-type]
        if after.leader == before.leader:
            record.leader = NO_LEADER_CHANGE
        return record

    monkeypatch.setattr(partition_change, "_difference", same_epoch)
