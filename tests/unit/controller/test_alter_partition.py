"""AlterPartition and AssignReplicasToDirs: what a broker says about its replicas."""

from typing import Any
from uuid import UUID

import pytest
from tests.unit.controller.cluster import active_controller, assigned, carry_out, heartbeat, in_sync, join, partition

from penstock.controller.controller import Controller
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_partition import AlterPartitionRequest
from penstock.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)

DISK_1, DISK_2 = UUID(int=1001), UUID(int=1002)


def answer(controller: Controller, request: AlterPartitionRequest) -> Any:
    return carry_out(controller, request).topics[0].partitions[0]


def three_replicas(**configs: str) -> Controller:
    controller = active_controller(1, 2, 3)
    carry_out(controller, assigned("flights", [1, 2, 3], **configs))
    return controller


def test_the_leader_lets_replicas_go_and_takes_them_back() -> None:
    controller = three_replicas()
    told = answer(controller, in_sync(controller, 1, [1, 3]))
    assert (told.error_code, told.leader_id, told.isr) == (ErrorCode.NONE, 1, [1, 3])
    assert (told.leader_epoch, told.partition_epoch) == (0, 1), "a change of this kind begins no leader epoch"
    epochs = [(broker, controller.image.brokers[broker].epoch) for broker in (1, 2, 3)]
    answer(controller, in_sync(controller, 1, epochs))
    assert partition(controller, "flights") == (1, (1, 2, 3))


def test_nothing_new_is_no_record() -> None:
    controller = three_replicas()
    decision = controller.decide(in_sync(controller, 1, [1, 2, 3]), 0)
    assert decision.records == []
    assert decision.reply.topics[0].partitions[0].partition_epoch == 0


@pytest.mark.parametrize(
    ("broker_id", "isr", "fields", "code"),
    [
        (1, [1], {"leader_epoch": 9}, ErrorCode.NOT_CONTROLLER),
        (1, [1], {"partition_epoch": 9}, ErrorCode.NOT_CONTROLLER),
        (1, [1], {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        (1, [1], {"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
        (2, [2], {}, ErrorCode.INVALID_REQUEST),
        (1, [2, 3], {}, ErrorCode.INVALID_REQUEST),
        (1, [1, 4], {}, ErrorCode.INVALID_REQUEST),
        (1, [1, 1], {}, ErrorCode.INVALID_REQUEST),
        (1, [], {}, ErrorCode.INVALID_REQUEST),
        (1, [1], {"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        (1, [1], {"leader_recovery_state": 7}, ErrorCode.INVALID_REQUEST),
        (1, [1, (2, 99)], {}, ErrorCode.INELIGIBLE_REPLICA),
        (1, [1], {"partition_index": 5}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_what_is_refused(broker_id: int, isr: list[Any], fields: dict[str, int], code: ErrorCode) -> None:
    controller = three_replicas()
    decision = controller.decide(in_sync(controller, broker_id, isr, **fields), 0)
    assert decision.reply.topics[0].partitions[0].error_code == code
    assert decision.records == []


def test_who_is_fenced_or_stopping_does_not_come_in() -> None:
    controller = three_replicas()
    carry_out(controller, heartbeat(controller, 2, want_fence=True))
    assert answer(controller, in_sync(controller, 1, [1, 2, 3])).error_code == ErrorCode.INELIGIBLE_REPLICA
    carry_out(controller, heartbeat(controller, 2))
    assert answer(controller, in_sync(controller, 1, [1, 2, 3])).error_code == ErrorCode.NONE
    carry_out(controller, heartbeat(controller, 3, want_shut_down=True))
    assert answer(controller, in_sync(controller, 1, [1, 2, 3])).error_code == ErrorCode.INELIGIBLE_REPLICA


def test_a_stale_broker_and_an_unknown_topic() -> None:
    controller = three_replicas()
    request = in_sync(controller, 1, [1])
    request.topics[0].topic_id = UUID(int=77)
    assert answer(controller, request).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    request.broker_epoch += 1
    assert carry_out(controller, request).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_a_partition_is_changed_once_in_a_request() -> None:
    controller = three_replicas()
    request = in_sync(controller, 1, [1, 2])
    request.topics[0].partitions *= 2
    codes = [item.error_code for item in carry_out(controller, request).topics[0].partitions]
    assert codes == [ErrorCode.NONE, ErrorCode.INVALID_UPDATE_VERSION]


def test_a_leader_that_was_elected_uncleanly_recovers_before_others_come_in() -> None:
    controller = three_replicas(unclean_leader_election_enable="true")
    for broker_id in (2, 3):
        carry_out(controller, heartbeat(controller, broker_id, want_fence=True))
    carry_out(controller, heartbeat(controller, 3))
    carry_out(controller, heartbeat(controller, 1, want_fence=True))
    assert partition(controller, "flights") == (3, (3,))
    carry_out(controller, heartbeat(controller, 2))
    recovering = in_sync(controller, 3, [3, 2], leader_recovery_state=1)
    assert answer(controller, recovering).error_code == ErrorCode.INVALID_REQUEST
    assert answer(controller, in_sync(controller, 3, [3])).leader_recovery_state == 0
    assert answer(controller, in_sync(controller, 3, [3, 2])).isr == [3, 2]


def assign(controller: Controller, broker_id: int, directory: UUID, index: int = 0, topic: str = "flights") -> Any:
    asked = AssignReplicasToDirsRequestTopicData(
        topic_id=controller.image.topics[topic].topic_id if topic else UUID(int=77),
        partitions=[AssignReplicasToDirsRequestPartitionData(partition_index=index)],
    )
    directories = [AssignReplicasToDirsRequestDirectoryData(id=directory, topics=[asked])]
    epoch = controller.image.brokers[broker_id].epoch
    request = AssignReplicasToDirsRequest(broker_id=broker_id, broker_epoch=epoch, directories=directories)
    return carry_out(controller, request).directories[0].topics[0].partitions[0].error_code


def two_disks() -> Controller:
    controller = active_controller()
    join(controller, 2, [DISK_1, DISK_2])
    carry_out(controller, assigned("flights", [2, 1], [2, 1]))
    carry_out(controller, assigned("single", [2]))
    return controller


def test_replicas_in_a_directory_that_goes_offline_get_other_leaders() -> None:
    controller = two_disks()
    for topic, index, disk in (("flights", 0, DISK_1), ("flights", 1, DISK_2), ("single", 0, DISK_1)):
        assert assign(controller, 2, disk, index, topic) == ErrorCode.NONE
    assert controller.image.topics["flights"].partitions[0].leader_epoch == 0
    carry_out(controller, heartbeat(controller, 2, offline_log_dirs=[DISK_1]))
    leaders = [partition(controller, "flights", index) for index in range(2)]
    assert leaders == [(1, (1,)), (2, (2, 1))]
    assert partition(controller, "single") == (-1, (2,))
    assert controller.image.brokers[2].directories == (DISK_2,)
    assert not controller.image.brokers[2].fenced


def test_a_replica_that_is_put_into_an_offline_directory_does_not_lead() -> None:
    controller = two_disks()
    carry_out(controller, heartbeat(controller, 2, offline_log_dirs=[DISK_1]))
    assert assign(controller, 2, DISK_1) == ErrorCode.NONE
    assert partition(controller, "flights") == (1, (1,))
    assert assign(controller, 2, DISK_1, topic="single") == ErrorCode.NONE
    assert partition(controller, "single") == (-1, (2,))


def test_what_a_broker_cannot_say_of_replicas() -> None:
    controller = two_disks()
    assert assign(controller, 2, DISK_1, topic="") == ErrorCode.UNKNOWN_TOPIC_ID
    assert assign(controller, 2, DISK_1, 9) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert assign(controller, 1, DISK_1, topic="single") == ErrorCode.NOT_LEADER_OR_FOLLOWER
    stale = AssignReplicasToDirsRequest(broker_id=2, broker_epoch=99)
    assert carry_out(controller, stale).error_code == ErrorCode.STALE_BROKER_EPOCH
