"""Brokers that want no new replicas get none, whoever asks, and keep what they have (KIP-1066)."""

from random import Random
from uuid import UUID

import pytest
from tests.unit.controller.cluster import (
    active_controller,
    assigned,
    carry_out,
    create,
    heartbeat,
    join,
    registration,
)
from tests.unit.controller.test_reassignments import flights, move

from penstock.controller.controller import Controller
from penstock.controller.placement import place
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import FeatureLevelRecord
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from penstock.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

FIRST, SECOND = UUID(int=501), UUID(int=502)
CLOSED = 4


@pytest.fixture
def controller() -> Controller:
    """Broker 4 has two directories, both cordoned."""
    controller = active_controller(1, 2, 3)
    join(controller, CLOSED, [FIRST, SECOND])
    cordon(controller, FIRST, SECOND)
    return controller


def cordon(controller: Controller, *directories: UUID) -> None:
    carry_out(controller, heartbeat(controller, CLOSED, cordoned_log_dirs=list(directories)))


def replicas(image: ClusterImage) -> set[int]:
    return {it for topic in image.topics.values() for row in topic.partitions.values() for it in row.replicas}


def test_new_topics_and_partitions_go_elsewhere(controller: Controller) -> None:
    carry_out(controller, create("trains", 12))
    carry_out(controller, CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="trains", count=24)]))
    assert replicas(controller.image) == {1, 2, 3}


def test_one_directory_that_is_open_is_enough(controller: Controller) -> None:
    cordon(controller, FIRST)
    carry_out(controller, create("trains", 12))
    assert replicas(controller.image) == {1, 2, 3, CLOSED}


def test_too_few_brokers_are_told_with_the_reason(controller: Controller) -> None:
    with pytest.raises(KafkaError, match=r"but there are 3, as 1 take no new replicas \(cordoned\.log\.dirs\)"):
        place(controller.image.brokers.values(), 1, 4, Random(1))


def test_who_names_the_broker_is_refused(controller: Controller) -> None:
    (refused,) = carry_out(controller, assigned("flights", [1, CLOSED])).topics
    assert refused.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "broker 4 takes no new replicas: all its directories are cordoned" in refused.error_message
    carry_out(controller, assigned("flights", [1]))
    more = CreatePartitionsTopic(name="flights", count=2, assignments=[CreatePartitionsAssignment(broker_ids=[CLOSED])])
    (refused,) = carry_out(controller, CreatePartitionsRequest(topics=[more])).results
    assert refused.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert move(controller, [2, CLOSED]) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_what_the_broker_has_stays_and_may_come_back_to_it(controller: Controller) -> None:
    cordon(controller)
    carry_out(controller, assigned("flights", [1, CLOSED]))
    cordon(controller, FIRST, SECOND)
    assert move(controller, [2, CLOSED]) is ErrorCode.NONE, "the other replica moves"
    assert move(controller, [2, 3]) is ErrorCode.NONE
    assert move(controller, None) is ErrorCode.NONE
    assert CLOSED in flights(controller).replicas


def test_a_broker_that_registers_again_is_still_cordoned(controller: Controller) -> None:
    again = registration(CLOSED, 2, [FIRST, SECOND])
    again.previous_broker_epoch = controller.image.brokers[CLOSED].epoch
    carry_out(controller, again, 1_000_000)
    assert controller.image.brokers[CLOSED].cordoned_directories == (FIRST, SECOND)


def test_it_takes_a_level_of_the_metadata(controller: Controller) -> None:
    config = AlterableConfig(name="cordoned.log.dirs", config_operation=0, value="*")
    resource = AlterConfigsResource(resource_type=4, resource_name=str(CLOSED), configs=[config])
    request = IncrementalAlterConfigsRequest(resources=[resource])
    assert carry_out(controller, request).responses[0].error_code == ErrorCode.NONE
    controller.apply([FeatureLevelRecord(name="metadata.version", feature_level=29)])
    config.value = "/d"
    (refused,) = carry_out(controller, request).responses
    assert refused.error_code == ErrorCode.INVALID_CONFIG
    assert "from level 30 of metadata.version on" in refused.error_message
