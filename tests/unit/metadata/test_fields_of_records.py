"""Each field of a record about a broker, controller or partition comes into the image, changes alone, and goes out."""

from typing import Any
from uuid import UUID

import pytest

from penstock.metadata.brokers import (
    FENCE,
    UNFENCE,
    broker_changed,
    broker_from,
    broker_record,
    controller_from,
    controller_record,
)
from penstock.metadata.records import (
    BrokerRegistrationChangeRecord,
    NodeEndpoint,
    NodeFeature,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)
from penstock.metadata.topics import (
    LOST_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    PartitionImage,
    Sharing,
    is_online,
    is_reserved,
    partition_changed,
    partition_from,
    partition_record,
)

A, B, C = (UUID(int=1000 + number) for number in range(3))
BROKER = RegisterBrokerRecord(
    broker_id=3,
    incarnation_id=UUID(int=7),
    broker_epoch=12,
    end_points=[NodeEndpoint(name="IN", host="h", port=9, security_protocol=1), NodeEndpoint(name="OUT", host="i")],
    features=[NodeFeature(name="metadata.version", min_supported_version=7, max_supported_version=33)],
    rack="r",
    fenced=False,
    in_controlled_shutdown=True,
    log_dirs=[A, B],
    cordoned_log_dirs=[B],
)
CONTROLLER = RegisterControllerRecord(
    controller_id=5,
    incarnation_id=UUID(int=8),
    zk_migration_ready=True,
    end_points=BROKER.end_points,
    features=BROKER.features,
)
PARTITION = PartitionRecord(
    partition_id=4,
    topic_id=UUID(int=9),
    replicas=[1, 2, 3],
    isr=[1, 2],
    removing_replicas=[2],
    adding_replicas=[3],
    leader=2,
    leader_recovery_state=1,
    leader_epoch=6,
    partition_epoch=8,
    directories=[A, B, C],
    eligible_leader_replicas=[3],
    last_known_elr=[1],
)


def test_a_registration_comes_out_as_it_went_in() -> None:
    assert broker_record(broker_from(BROKER)) == BROKER
    assert controller_record(controller_from(CONTROLLER)) == CONTROLLER
    plain = BROKER.replace(rack=None, fenced=True, in_controlled_shutdown=False, cordoned_log_dirs=None)
    assert broker_record(broker_from(plain)) == plain


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, {}),
        ({"fenced": FENCE}, {"fenced": True}),
        ({"fenced": UNFENCE}, {"fenced": False}),
        ({"in_controlled_shutdown": 1}, {"in_controlled_shutdown": True}),
        ({"in_controlled_shutdown": -1}, {}),
        ({"log_dirs": [C]}, {"directories": (C,)}),
        ({"cordoned_log_dirs": []}, {"cordoned_directories": ()}),
        ({"cordoned_log_dirs": [A]}, {"cordoned_directories": (A,)}),
    ],
)
@pytest.mark.parametrize("fenced", [True, False])
@pytest.mark.parametrize("is_going", [True, False])
def test_a_change_of_a_broker_changes_what_it_names(
    fenced: bool, is_going: bool, change: dict[str, Any], expected: dict[str, Any]
) -> None:
    before = broker_from(BROKER).replace(fenced=fenced, in_controlled_shutdown=is_going)
    after = broker_changed(before, BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=12, **change))
    assert after == before.replace(**expected)
    assert after.active == (not after.fenced and not is_going and "in_controlled_shutdown" not in expected)


@pytest.mark.parametrize(
    ("directories", "cordoned", "takes"),
    [
        ((), None, True),
        ((A,), None, True),
        ((A,), (), True),
        ((), (A,), True),
        ((A, B), (A,), True),
        ((A, B), (B,), True),
        ((A, B), (C,), True),
        ((A,), (A,), False),
        ((A, B), (A, B), False),
    ],
)
def test_a_broker_takes_replicas_while_a_directory_of_it_does(
    directories: tuple[UUID, ...], cordoned: tuple[UUID, ...] | None, takes: bool
) -> None:
    broker = broker_from(BROKER).replace(directories=directories, cordoned_directories=cordoned)
    assert broker.takes_replicas is takes


def test_a_partition_comes_out_as_it_went_in() -> None:
    sharing = Sharing()
    assert partition_record(PARTITION.topic_id, 4, partition_from(PARTITION, sharing)) == PARTITION
    plain = PARTITION.replace(eligible_leader_replicas=None, last_known_elr=None)
    assert partition_record(PARTITION.topic_id, 4, partition_from(plain, sharing)) == plain


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, {}),
        ({"leader": 3}, {"leader": 3, "leader_epoch": 7}),
        ({"leader": 2}, {"leader_epoch": 7}),
        ({"leader": -1}, {"leader": -1, "leader_epoch": 7}),
        ({"leader_recovery_state": 0}, {"leader_recovery_state": 0}),
        ({"directories": [C, C, C]}, {"directories": (C, C, C)}),
        *(
            ({name: value}, {name: tuple(value)})
            for name in ("replicas", "isr", "removing_replicas", "adding_replicas")
            for value in ([7, 8], [])
        ),
        *(({name: [7]}, {name: (7,)}) for name in ("eligible_leader_replicas", "last_known_elr")),
        *(({name: []}, {name: ()}) for name in ("eligible_leader_replicas", "last_known_elr")),
    ],
)
def test_a_change_of_a_partition_changes_what_it_names(change: dict[str, Any], expected: dict[str, Any]) -> None:
    sharing = Sharing()
    before = partition_from(PARTITION, sharing)
    record = PartitionChangeRecord(partition_id=4, topic_id=PARTITION.topic_id, **change)
    assert partition_changed(before, record, sharing) == before._replace(partition_epoch=9, **expected)


def test_where_a_replica_lies_and_whether_that_is_online() -> None:
    partition = PartitionImage(1, 0, 0, (1, 2), (1,), (A, B))
    assert [partition.directory_of(broker) for broker in (1, 2, 3)] == [A, B, UNASSIGNED_DIRECTORY]
    assert partition._replace(directories=(A,)).directory_of(1) == UNASSIGNED_DIRECTORY
    assert [is_reserved(UUID(int=number)) for number in (0, 99, 100)] == [True, True, False]
    assert [is_online(it, (A,)) for it in (A, B, UNASSIGNED_DIRECTORY, LOST_DIRECTORY)] == [True, False, True, False]
    assert [is_online(it, ()) for it in (A, LOST_DIRECTORY)] == [True, False]
