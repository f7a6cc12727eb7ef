"""A leader hands over the partition that the balancer offers it, and no other one."""

from typing import Any

import pytest
from tests.unit.controller.cluster import carry_out, heartbeat, partition, tick
from tests.unit.controller.test_leader_balance import SETTINGS, balance, beat, leaders, moved_away

from penstock.controller.controller import Controller
from penstock.metadata.records import PartitionChangeRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.requests.own_apis import BalanceAction, HandOverLeaderRequest

SETTINGS = SETTINGS.replace(handover_ms=200)


def offering() -> Controller:
    """Broker 2 is to hand over pairs-0 to broker 1 until 1200."""
    controller = moved_away(settings=SETTINGS)
    assert tick(controller, 1000) == []
    assert controller.next_deadline_ms == 1200
    return controller


def ask(controller: Controller, broker_id: int = 2, now_ms: int = 1001, **fields: Any) -> Any:
    epoch = controller.image.brokers[broker_id].epoch
    request = HandOverLeaderRequest(broker_id=broker_id, broker_epoch=epoch).replace(**fields)
    return carry_out(controller, request, now_ms)


def handed(controller: Controller, **fields: Any) -> Any:
    topic = controller.image.topics["pairs"]
    found = topic.partitions.get(fields.get("partition", 0), topic.partitions[0])
    asked: dict[str, Any] = {
        "topic_id": topic.topic_id,
        "partition": 0,
        "leader_epoch": found.leader_epoch,
        "partition_epoch": found.partition_epoch,
        "successor": 1,
    }
    return ask(controller, **asked | fields)


def test_who_leads_is_told_and_hands_over() -> None:
    controller = offering()
    told = ask(controller)
    assert (told.error_code, told.partition, told.successor) == (ErrorCode.NONE, 0, 1)
    assert told.leader_epoch == controller.image.topics["pairs"].partitions[0].leader_epoch
    assert ask(controller, 1).successor == -1, "it is for broker 2 to do"
    assert handed(controller).error_code == ErrorCode.NONE
    assert leaders(controller) == [1, 2, 2]
    assert balance(controller, BalanceAction.TELL, 1002).taker == 1, "it is a move as any other"
    assert ask(controller).successor == -1, "one at a time"
    beat(controller, 1, 2, now_ms=1003)
    tick(controller, 1003)
    assert leaders(controller) == [1, 2, 2]
    assert ask(controller, now_ms=1004).partition == 1


def test_it_is_moved_without_that_after_a_while() -> None:
    controller = offering()
    assert tick(controller, 1199) == []
    assert len(tick(controller, 1200)) == 1
    assert leaders(controller) == [1, 2, 2]
    assert handed(controller, now_ms=1201, leader_epoch=1).error_code == ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"partition_epoch": 0}, ErrorCode.INVALID_UPDATE_VERSION),
        ({"broker_epoch": -1}, ErrorCode.STALE_BROKER_EPOCH),
        ({"partition": 7}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"successor": 3}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_not_so_is_refused(fields: dict[str, Any], code: ErrorCode) -> None:
    controller = offering()
    assert handed(controller, **fields).error_code == code
    assert leaders(controller) == [2, 2, 2]


def test_nothing_is_handed_over_when_somebody_has_stopped_the_balance() -> None:
    controller = offering()
    balance(controller, BalanceAction.STOP, 1001)
    assert ask(controller).successor == -1
    assert handed(controller).error_code == ErrorCode.INVALID_REQUEST


def test_a_successor_that_is_gone_gets_nothing() -> None:
    controller = offering()
    carry_out(controller, heartbeat(controller, 1, want_fence=True), 1001)
    assert handed(controller, partition_epoch=1).error_code != ErrorCode.NONE
    assert controller.next_deadline_ms != 1200, "the offer does not hold any more"
    assert leaders(controller) == [2, 2, 2]


def test_nothing_is_handed_over_while_a_partition_lacks_a_replica() -> None:
    controller = offering()
    topic = controller.image.topics["pairs"]
    controller.apply([PartitionChangeRecord(partition_id=2, topic_id=topic.topic_id, isr=[2])])
    assert ask(controller).successor == -1
    assert handed(controller).error_code == ErrorCode.INVALID_REQUEST


def stopping(**settings: Any) -> Controller:
    """Broker 2 leads all, is in sync with broker 1 and says that it is stopping."""
    controller = moved_away(settings=SETTINGS, **settings)
    assert ask(controller, is_stopping=True).error_code == ErrorCode.NONE
    return controller


def test_a_broker_that_stops_hands_over_what_it_leads_to_whom_it_names() -> None:
    controller = stopping()
    assert controller.image.brokers[2].in_controlled_shutdown
    assert leaders(controller) == [2, 2, 2], "nothing is taken from it"
    assert not carry_out(controller, heartbeat(controller, 2), 1001).is_fenced
    assert handed(controller).error_code == ErrorCode.NONE
    assert handed(controller, partition=2).error_code == ErrorCode.NONE, "nobody waits for the one before"
    assert [partition(controller, "pairs", index) for index in range(3)] == [(1, (1,)), (2, (1, 2)), (1, (1,))]
    assert handed(controller, leader_epoch=1).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert not carry_out(controller, heartbeat(controller, 2, want_shut_down=True), 1002).should_shut_down
    assert leaders(controller) == [1, 1, 1], "what is left goes by an election"
    beat(controller, 1, now_ms=1003)
    assert carry_out(controller, heartbeat(controller, 2, want_shut_down=True), 1003).should_shut_down


def test_a_broker_goes_when_others_know_what_it_has_handed_over() -> None:
    controller = stopping(partitions=1)
    assert handed(controller).error_code == ErrorCode.NONE
    assert not carry_out(controller, heartbeat(controller, 2, want_shut_down=True), 1002).should_shut_down
    beat(controller, 1, now_ms=1003)
    assert carry_out(controller, heartbeat(controller, 2, want_shut_down=True), 1003).should_shut_down


def test_who_stops_as_well_gets_nothing() -> None:
    controller = stopping()
    assert ask(controller, 1, is_stopping=True).error_code == ErrorCode.NONE
    assert handed(controller).error_code == ErrorCode.INVALID_REQUEST
    assert leaders(controller) == [2, 2, 2]


def test_nothing_comes_back_to_a_broker_that_stops() -> None:
    controller = moved_away(settings=SETTINGS)
    assert ask(controller, 1, is_stopping=True).error_code == ErrorCode.NONE
    tick(controller, 1000)
    assert tick(controller, 2000) == []
    assert leaders(controller) == [2, 2, 2]


def test_a_broker_that_is_fenced_stops_nothing() -> None:
    controller = moved_away(settings=SETTINGS)
    carry_out(controller, heartbeat(controller, 2, want_fence=True), 1001)
    assert ask(controller, is_stopping=True).error_code == ErrorCode.NONE
    assert not controller.image.brokers[2].in_controlled_shutdown


def test_who_has_no_room_hands_over_whatever_the_balancer_does_and_is_not_in_sync() -> None:
    controller = moved_away(settings=SETTINGS)
    assert handed(controller).error_code == ErrorCode.INVALID_REQUEST
    assert handed(controller, has_no_room=True).error_code == ErrorCode.NONE
    assert [partition(controller, "pairs", index) for index in range(2)] == [(1, (1,)), (2, (1, 2))]
    assert not controller.image.brokers[2].in_controlled_shutdown


def test_who_has_no_room_and_names_a_successor_that_cannot_lead_is_refused() -> None:
    controller = moved_away(settings=SETTINGS)
    carry_out(controller, heartbeat(controller, 1, want_fence=True), 1001)
    assert handed(controller, has_no_room=True).error_code == ErrorCode.INVALID_REQUEST
    assert leaders(controller) == [2, 2, 2]


def test_who_has_no_room_gives_nothing_to_an_eligible_leader_that_is_not_in_sync() -> None:
    """It has what is committed, and the leader may have acknowledged more."""
    controller = moved_away(settings=SETTINGS)
    topic_id = controller.image.topics["pairs"].topic_id
    controller.image.apply(
        PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=[2], eligible_leader_replicas=[1])
    )
    assert handed(controller, has_no_room=True).error_code == ErrorCode.INVALID_REQUEST
    assert partition(controller, "pairs", 0) == (2, (2,))
