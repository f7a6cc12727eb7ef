"""What commands answer, and where they stop: small things that no other test would miss."""

from uuid import UUID

import pytest
from tests.unit.controller.cluster import active_controller, assigned, carry_out, heartbeat, in_sync, join

from penstock.controller import reassignments
from penstock.metadata.image import ResourceType
from penstock.metadata.records import FeatureLevelRecord, PartitionChangeRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import alter_configs, incremental_alter_configs
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)
from penstock.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from penstock.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

DISK_1, DISK_2 = UUID(int=1001), UUID(int=1002)
RECOVERING = 1


def test_a_leader_is_told_whether_it_has_to_recover_still() -> None:
    controller = active_controller(1, 2)
    carry_out(controller, assigned("flights", [1, 2]))
    topic_id = controller.image.topics["flights"].topic_id
    controller.apply([PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=[1], leader_recovery_state=1)])
    for asked in (RECOVERING, 0):
        reply = carry_out(controller, in_sync(controller, 1, [1], leader_recovery_state=asked))
        assert reply.topics[0].partitions[0].leader_recovery_state == asked


def test_a_broker_that_lost_one_of_its_directories_is_not_fenced() -> None:
    controller = active_controller(2)
    join(controller, 1, [DISK_1, DISK_2])
    reply = carry_out(controller, heartbeat(controller, 1, offline_log_dirs=[DISK_1]))
    assert (reply.is_fenced, controller.image.brokers[1].directories) == (False, (DISK_2,))


def test_a_broker_on_its_way_out_waits_until_all_others_know() -> None:
    controller = active_controller(1, 2, 3)
    carry_out(controller, assigned("flights", [1, 2]))
    assert not carry_out(controller, heartbeat(controller, 1, want_shut_down=True)).should_shut_down
    assert controller.image.brokers[1].in_controlled_shutdown
    for broker_id, may_go in ((2, False), (3, True)):
        carry_out(controller, heartbeat(controller, broker_id))
        assert carry_out(controller, heartbeat(controller, 1, want_shut_down=True)).should_shut_down == may_go


@pytest.mark.parametrize(("level", "is_noted"), [(29, False), (30, True)])
def test_cordoned_directories_are_noted_from_their_level_on(level: int, is_noted: bool) -> None:
    controller = active_controller(1)
    controller.apply([FeatureLevelRecord(name="metadata.version", feature_level=level)])
    carry_out(controller, heartbeat(controller, 1, cordoned_log_dirs=[DISK_1]))
    assert (controller.image.brokers[1].cordoned_directories == (DISK_1,)) == is_noted


def test_a_resource_that_a_request_names_twice_is_refused_both_times() -> None:
    controller = active_controller(1)
    carry_out(controller, assigned("flights", [1]))
    new = incremental_alter_configs.AlterConfigsResource(resource_type=ResourceType.TOPIC, resource_name="flights")
    old = alter_configs.AlterConfigsResource(resource_type=ResourceType.TOPIC, resource_name="flights")
    for reply in (
        carry_out(controller, incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[new, new])),
        carry_out(controller, alter_configs.AlterConfigsRequest(resources=[old, old])),
    ):
        assert [answer.error_code for answer in reply.responses] == [ErrorCode.INVALID_REQUEST] * 2


def test_one_request_names_no_more_resources_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group needs not be there, and what is refused counts as well: a typing error is held against all keys."""
    monkeypatch.setattr("penstock.controller.alter_configs.MAX_RECORDS_PER_DECISION", 5)
    changes = [incremental_alter_configs.AlterableConfig(name="consumer.session.timeout", value="1")]
    resources = [
        incremental_alter_configs.AlterConfigsResource(
            resource_type=ResourceType.GROUP, resource_name=f"group-{number}", configs=changes
        )
        for number in range(4)
    ]
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=resources)
    codes = [answer.error_code for answer in active_controller(1).decide(request, 0).reply.responses]
    assert codes == [ErrorCode.INVALID_CONFIG] * 2 + [ErrorCode.POLICY_VIOLATION] * 2


def test_topics_that_are_refused_for_their_configs_use_up_the_room_of_their_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.controller.create_topics.MAX_RECORDS_PER_DECISION", 5)
    configs = [CreatableTopicConfig(name="retention.mss", value="1")]
    topics = [CreatableTopic(name=f"t{it}", num_partitions=1, replication_factor=1, configs=configs) for it in range(4)]
    reply = active_controller(1).decide(CreateTopicsRequest(topics=topics), 0).reply
    codes = [topic.error_code for topic in reply.topics]
    assert codes == [ErrorCode.INVALID_CONFIG] * 2 + [ErrorCode.POLICY_VIOLATION] * 2


def move(*targets: list[int]) -> AlterPartitionReassignmentsRequest:
    partitions = [ReassignablePartition(partition_index=i, replicas=replicas) for i, replicas in enumerate(targets)]
    return AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="flights", partitions=partitions)])


def test_a_move_that_only_takes_a_replica_away_is_listed_while_it_lasts() -> None:
    controller = active_controller(1, 2, 3)
    carry_out(controller, assigned("flights", [1, 2, 3]))
    carry_out(controller, in_sync(controller, 1, [1, 3]))
    carry_out(controller, move([1, 2]))
    asked = ListPartitionReassignmentsRequest(
        topics=[ListPartitionReassignmentsTopics(name="flights", partition_indexes=[0])]
    )
    (topic,) = reassignments.list_reassignments(controller.image, asked).topics
    assert (topic.partitions[0].adding_replicas, topic.partitions[0].removing_replicas) == ([], [3])


def test_one_request_moves_no_more_partitions_than_fit_into_a_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reassignments, "MAX_RECORDS_PER_DECISION", 2)
    controller = active_controller(1, 2)
    carry_out(controller, assigned("flights", [1], [1], [1]))
    answers = carry_out(controller, move([2], [2], [2])).responses[0].partitions
    assert [bool(answer.error_code) for answer in answers] == [False, False, True]


def test_a_replica_that_a_request_puts_into_two_directories_is_refused_the_second_time() -> None:
    controller = active_controller(2)
    epoch = join(controller, 1, [DISK_1, DISK_2])
    carry_out(controller, assigned("flights", [1, 2]))
    topic = AssignReplicasToDirsRequestTopicData(
        topic_id=controller.image.topics["flights"].topic_id,
        partitions=[AssignReplicasToDirsRequestPartitionData(partition_index=0)],
    )
    directories = [AssignReplicasToDirsRequestDirectoryData(id=disk, topics=[topic]) for disk in (DISK_1, DISK_2)]
    reply = carry_out(controller, AssignReplicasToDirsRequest(broker_id=1, broker_epoch=epoch, directories=directories))
    codes = [answer.topics[0].partitions[0].error_code for answer in reply.directories]
    assert codes == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    partition = controller.image.topics["flights"].partitions[0]
    assert (partition.directory_of(1), len(partition.directories)) == (DISK_1, 2)
