"""Elections, reassignments, features and registrations from outside, against a fake broker."""

import pytest
from tests.unit.client.fake_broker import fake_broker
from tests.unit.client.fake_cluster import FakeCluster, Script

from penstock.client.admin import Admin
from penstock.client.admin.features import UpgradeType
from penstock.client.admin.partitions import Balance, ElectionType, Outcome, Reassignment
from penstock.client.settings import ClientSettings
from penstock.client.values import TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import alter_partition_reassignments as alter
from penstock.protocol.messages import elect_leaders as elect
from penstock.protocol.messages import list_partition_reassignments as listing
from penstock.protocol.messages.describe_log_dirs import DescribeLogDirsResponse, DescribeLogDirsResult
from penstock.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from penstock.protocol.messages.unregister_broker import UnregisterBrokerResponse
from penstock.protocol.messages.unregister_controller import UnregisterControllerResponse
from penstock.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.own_apis import (
    BalanceAction,
    BalanceLeadersRequest,
    BalanceLeadersResponse,
    DescribeCompactionResponse,
    OwnApiKey,
)
from penstock.protocol.schema import Message

SETTINGS = ClientSettings(retry_backoff_ms=1, retry_backoff_max_ms=1)
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


async def asked(fake: FakeCluster, key: ApiKey, *scripts: Script) -> Admin:
    fake.scripts[key] = list(scripts)
    assert fake.broker is not None
    admin = Admin([fake.broker.address], SETTINGS)
    await admin.cluster.start()
    return admin


async def test_leaders_are_elected_and_each_partition_has_its_outcome() -> None:
    fake = FakeCluster()

    def answer(request: Message) -> elect.ElectLeadersResponse:
        rows = [
            elect.PartitionResult(partition_id=0, error_message=None),
            elect.PartitionResult(partition_id=1, error_code=ErrorCode.ELECTION_NOT_NEEDED, error_message="it leads"),
        ]
        return elect.ElectLeadersResponse(
            replica_election_results=[elect.ReplicaElectionResult(topic="t", partition_result=rows)]
        )

    async with fake_broker(fake) as fake.broker:
        admin = await asked(fake, ApiKey.ELECT_LEADERS, answer, answer)
        outcomes = await admin.partitions.elect_leaders(ElectionType.UNCLEAN, [T0, T1, U0])
        assert outcomes == {T0: Outcome(ErrorCode.NONE), T1: Outcome(ErrorCode.ELECTION_NOT_NEEDED, "it leads")}
        await admin.partitions.elect_leaders(ElectionType.PREFERRED, None)
        await admin.cluster.close()
    first, second = fake.asked(ApiKey.ELECT_LEADERS)
    assert isinstance(first, elect.ElectLeadersRequest)
    assert isinstance(second, elect.ElectLeadersRequest)
    assert first.election_type == 1
    assert [(row.topic, row.partitions) for row in first.topic_partitions or []] == [("t", [0, 1]), ("u", [0])]
    assert second.topic_partitions is None, "all of them"


async def test_partitions_are_moved_and_moves_are_cancelled() -> None:
    fake = FakeCluster()

    def answer(request: Message) -> alter.AlterPartitionReassignmentsResponse:
        row = alter.ReassignablePartitionResponse(
            partition_index=1, error_code=ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, error_message=None
        )
        topic = alter.ReassignableTopicResponse(name="t", partitions=[row])
        return alter.AlterPartitionReassignmentsResponse(responses=[topic], error_message=None)

    async with fake_broker(fake) as fake.broker:
        admin = await asked(fake, ApiKey.ALTER_PARTITION_REASSIGNMENTS, answer)
        outcomes = await admin.partitions.reassign({T0: (1, 2), T1: None})
        await admin.cluster.close()
    assert outcomes == {T1: Outcome(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)}
    (request,) = fake.asked(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
    assert isinstance(request, alter.AlterPartitionReassignmentsRequest)
    assert [(row.partition_index, row.replicas) for row in request.topics[0].partitions] == [(0, [1, 2]), (1, None)]


async def test_what_is_on_the_move() -> None:
    fake = FakeCluster()
    moving = listing.OngoingPartitionReassignment(
        partition_index=1, replicas=[1, 2, 3], adding_replicas=[3], removing_replicas=[1]
    )
    topic = listing.OngoingTopicReassignment(name="t", partitions=[moving])
    answer = listing.ListPartitionReassignmentsResponse(topics=[topic], error_message=None)
    async with fake_broker(fake) as fake.broker:
        admin = await asked(fake, ApiKey.LIST_PARTITION_REASSIGNMENTS, lambda request: answer)
        found = await admin.partitions.reassignments()
        await admin.cluster.close()
    assert found == {T1: Reassignment((1, 2, 3), (3,), (1,))}
    assert found[T1].target == (2, 3)


async def test_a_feature_that_cannot_be_changed_says_why() -> None:
    fake = FakeCluster()
    refused = UpdateFeaturesResponse(error_code=ErrorCode.FEATURE_UPDATE_FAILED, error_message="too new")
    async with fake_broker(fake) as fake.broker:
        admin = await asked(
            fake, ApiKey.UPDATE_FEATURES, lambda request: UpdateFeaturesResponse(), lambda request: refused
        )
        await admin.features.update({"metadata.version": 20}, UpgradeType.SAFE_DOWNGRADE)
        with pytest.raises(KafkaError, match="too new"):
            await admin.features.update({"metadata.version": 99}, UpgradeType.UPGRADE, validate_only=True)
        assert await admin.features.describe() == ([], -1)
        await admin.cluster.close()
    first, second = fake.asked(ApiKey.UPDATE_FEATURES)
    assert isinstance(first, UpdateFeaturesRequest)
    assert isinstance(second, UpdateFeaturesRequest)
    assert (first.feature_updates[0].upgrade_type, first.validate_only) == (2, False)
    assert (second.feature_updates[0].upgrade_type, second.validate_only) == (1, True)


@pytest.mark.parametrize(("topic", "under_way"), [(None, None), ("t", T1)])
async def test_a_balancer_tells_how_far_it_is(topic: str | None, under_way: TopicPartition | None) -> None:
    told = BalanceLeadersResponse(
        is_balancing=True, moved=3, topic=topic, partition=1, giver=4, taker=5, catching_up=6, late=[7]
    )
    async with fake_broker(lambda header, request: told) as broker:
        cluster = FakeCluster()
        cluster.broker = broker
        broker.answering = lambda header, request: (
            told if isinstance(request, BalanceLeadersRequest) else cluster(header, request)
        )
        async with Admin([broker.address], SETTINGS) as admin:
            balance = await admin.partitions.balance_leaders(BalanceAction.TELL)
    assert balance == Balance(True, 3, under_way, 4, 5, 6, (7,))


async def test_a_broker_is_unregistered() -> None:
    fake = FakeCluster()
    unknown = UnregisterBrokerResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message=None)
    async with fake_broker(fake) as fake.broker:
        admin = await asked(fake, ApiKey.UNREGISTER_BROKER, lambda request: unknown)
        with pytest.raises(KafkaError, match="broker 9"):
            await admin.unregister_broker(9)
        await admin.cluster.close()


async def test_a_controller_is_unregistered() -> None:
    fake = FakeCluster()
    unknown = UnregisterControllerResponse(error_code=ErrorCode.CONTROLLER_ID_NOT_REGISTERED)
    async with fake_broker(fake) as fake.broker:
        admin = await asked(fake, ApiKey.UNREGISTER_CONTROLLER, lambda request: unknown)
        with pytest.raises(KafkaError, match="CONTROLLER_ID_NOT_REGISTERED: controller 9"):
            await admin.unregister_controller(9)
        await admin.cluster.close()


async def test_log_directories_are_those_of_brokers_that_are_in_service_by_then() -> None:
    """A broker that leaves while it is asked is left out: the question ends, and not only with its time."""
    fake = FakeCluster()

    def with_one_that_has_just_gone(_: Message) -> MetadataResponse:
        known = fake.metadata()
        known.brokers.append(MetadataResponseBroker(node_id=8, host="127.0.0.1", port=1))
        return known

    directories = DescribeLogDirsResponse(results=[DescribeLogDirsResult(log_dir="/d")])
    async with fake_broker(fake) as fake.broker:
        admin = await asked(fake, ApiKey.DESCRIBE_LOG_DIRS, lambda _: directories, lambda _: directories)
        fake.scripts[OwnApiKey.DESCRIBE_COMPACTION] = [lambda _: DescribeCompactionResponse()]
        fake.scripts[ApiKey.METADATA] = [with_one_that_has_just_gone]
        described = await admin.describe_log_dirs([7, 8])
        assert not fake.scripts[ApiKey.METADATA]
        await admin.cluster.close()
    assert [(it.node_id, it.path) for it in described] == [(7, "/d")]
