"""Commands that are well formed and make no sense: the controller decides on each, and all that it writes can be read.

A decision that raises, or a record that cannot be written, would be the end of every controller that is asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from uuid import UUID

from tests.property.mutations import wild
from tests.unit.controller.cluster import CLUSTER, join, registration
from tests.unit.controller.storage_groups import cluster
from tests.unit.controller.test_acls import ANY, RULE
from tests.unit.controller.test_client_quotas import entry
from tests.unit.controller.test_scram_users import ADA, GONE

from penstock.controller.controller import Controller
from penstock.controller.decisions import DECISIONS
from penstock.metadata.image import ResourceType
from penstock.metadata.record_frames import decode_record, encode_record
from penstock.protocol.codec import decode, encode
from penstock.protocol.messages import alter_configs, incremental_alter_configs
from penstock.protocol.messages import alter_partition as partitions
from penstock.protocol.messages import assign_replicas_to_dirs as directories
from penstock.protocol.messages import controller_registration as controllers
from penstock.protocol.messages import create_topics as topics
from penstock.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from penstock.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from penstock.protocol.messages.create_acls import CreateAclsRequest
from penstock.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from penstock.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from penstock.protocol.messages.delete_acls import DeleteAclsRequest
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from penstock.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from penstock.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest
from penstock.protocol.messages.unregister_controller import UnregisterControllerRequest
from penstock.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from penstock.protocol.requests.api import api_of
from penstock.protocol.requests.framing import api_of_request
from penstock.protocol.requests.own_apis import (
    BalanceLeadersRequest,
    ClaimStorageGroupRequest,
    CreateStorageGroupRequest,
    HandOverLeaderRequest,
)
from penstock.protocol.schema import Message

COMMANDS = 12_000
COMMANDS_OF_ONE_CONTROLLER = 60
TOPIC_ID = UUID(int=7)


def commands(controller: Controller) -> Iterator[Message]:
    """One of each that would be carried out, or nearly."""
    epoch = controller.image.brokers[1].epoch if 1 in controller.image.brokers else 0
    known = controller.image.topics.get("orders")
    yield from of_nodes(epoch)
    yield from of_topics()
    yield from of_configs()
    yield CreateAclsRequest(creations=[RULE, RULE.replace(host="10.0.0.0/8")])
    yield DeleteAclsRequest(filters=[ANY, ANY.replace(resource_name_filter="flights", pattern_type_filter=2)])
    quotas = {"producer_byte_rate": 5.0, "request_percentage": 0.5, "consumer_byte_rate": None}
    both: dict[str, str | None] = {"user": "ada", "client-id": None}
    yield AlterClientQuotasRequest(entries=[entry(both, quotas), entry({"user": "bob"}, quotas)])
    yield CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="ada", max_lifetime_ms=5)
    yield RenewDelegationTokenRequest(hmac=b"mac", renew_period_ms=5)
    yield ExpireDelegationTokenRequest(hmac=b"mac", expiry_time_period_ms=5)
    yield AlterUserScramCredentialsRequest(deletions=[GONE], upsertions=[ADA.replace(name="bob"), ADA])
    yield from of_partitions(epoch, TOPIC_ID if known is None else known.topic_id)


def of_nodes(epoch: int) -> Iterator[Message]:
    yield registration(4, 4, [UUID(int=44)])
    yield BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch, current_metadata_offset=100, want_shut_down=False)
    yield UnregisterBrokerRequest(broker_id=3)
    yield UnregisterControllerRequest(controller_id=1)
    listener = controllers.Listener(name="CONTROLLER", host="h", port=9093)
    feature = controllers.Feature(name="metadata.version", min_supported_version=7, max_supported_version=33)
    yield controllers.ControllerRegistrationRequest(
        controller_id=1, incarnation_id=UUID(int=5), listeners=[listener], features=[feature]
    )
    yield AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)
    update = FeatureUpdateKey(feature="metadata.version", max_version_level=20, upgrade_type=2)
    yield UpdateFeaturesRequest(feature_updates=[update])
    yield BalanceLeadersRequest(action=1)
    yield HandOverLeaderRequest(broker_id=1, broker_epoch=epoch)
    yield ClaimStorageGroupRequest(broker_id=1, broker_epoch=epoch, group=0, group_epoch=3, caught_up=[1, 2])
    yield CreateStorageGroupRequest(replicas=[1, 2])


def of_topics() -> Iterator[Message]:
    placed = topics.CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2])
    config = topics.CreatableTopicConfig(name="retention.ms", value="1000")
    yield topics.CreateTopicsRequest(
        topics=[
            topics.CreatableTopic(name="orders", num_partitions=3, replication_factor=2, configs=[config]),
            topics.CreatableTopic(name="placed", num_partitions=-1, replication_factor=-1, assignments=[placed]),
        ]
    )
    grouped = topics.CreatableTopicConfig(name="replication.mode", value="consensus")
    numbered = topics.CreatableTopicConfig(name="storage.group", value="0")
    yield topics.CreateTopicsRequest(
        topics=[topics.CreatableTopic(name="ours", num_partitions=3, replication_factor=2, configs=[grouped, numbered])]
    )
    yield DeleteTopicsRequest(topics=[DeleteTopicState(name="placed")], topic_names=["placed"])
    growth = CreatePartitionsAssignment(broker_ids=[1, 2])
    yield CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="orders", count=4, assignments=[growth])])


def of_configs() -> Iterator[Message]:
    yield alter_configs.AlterConfigsRequest(
        resources=[
            alter_configs.AlterConfigsResource(
                resource_type=ResourceType.TOPIC,
                resource_name="orders",
                configs=[alter_configs.AlterableConfig(name="retention.ms", value="5")],
            )
        ]
    )
    yield incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                resource_type=ResourceType.TOPIC,
                resource_name="orders",
                configs=[incremental_alter_configs.AlterableConfig(name="cleanup.policy", value="compact")],
            )
        ]
    )


def of_partitions(epoch: int, topic_id: UUID) -> Iterator[Message]:
    change = partitions.AlterPartitionRequestPartitionData(
        partition_index=0,
        leader_epoch=0,
        new_isr=[1, 2],
        new_isr_with_epochs=[partitions.BrokerState(broker_id=1, broker_epoch=epoch)],
        partition_epoch=0,
    )
    yield partitions.AlterPartitionRequest(
        broker_id=1,
        broker_epoch=epoch,
        topics=[partitions.AlterPartitionRequestTopicData(topic_id=topic_id, partitions=[change])],
    )
    place = directories.AssignReplicasToDirsRequestPartitionData(partition_index=0)
    lies_in = directories.AssignReplicasToDirsRequestDirectoryData(
        id=UUID(int=44),
        topics=[directories.AssignReplicasToDirsRequestTopicData(topic_id=topic_id, partitions=[place])],
    )
    yield directories.AssignReplicasToDirsRequest(broker_id=1, broker_epoch=epoch, directories=[lies_in])
    yield ElectLeadersRequest(election_type=1, topic_partitions=[TopicPartitions(topic="orders", partitions=[0, 1])])
    move = ReassignablePartition(partition_index=0, replicas=[2, 3])
    yield AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="orders", partitions=[move])])


def test_every_command_is_decided_and_written() -> None:
    random = Random(20261121)
    asked: Counter[type[Message]] = Counter()
    for _ in range(COMMANDS // COMMANDS_OF_ONE_CONTROLLER):
        controller = cluster(has_authorizer=True)
        assert controller.image.cluster_id == CLUSTER
        for number in range(COMMANDS_OF_ONE_CONTROLLER):
            # Ticks go on all the while, so brokers fall silent and are fenced.
            now_ms = number * 300
            whole = list(commands(controller))
            command = random.choice(whole)
            if random.random() < 0.8:
                command = wild(command, random)
            versions = api_of_request(command).versions
            version = versions[-1] if random.random() < 0.7 else random.choice(versions)
            carry_out(controller, command, version, now_ms)
            asked[type(command)] += 1
            if 1 not in controller.image.brokers:
                join(controller, 1, now_ms=now_ms)
    assert set(asked) == {api_of(key).request_class for key in DECISIONS}
    assert min(asked.values()) > 100


def carry_out(controller: Controller, command: Message, version: int, now_ms: int) -> None:
    """Decide on what would come over the wire, write the records, read them back, apply them, write the reply."""
    told, _ = decode(type(command), version, encode(command, version))
    decision = controller.decide(told, now_ms)
    controller.apply([decode_record(encode_record(record)) for record in decision.records])
    encode(decision.reply, version)
    assert type(decision.reply) is api_of(api_of_request(command).key).response_class
    while (due := controller.tick(now_ms)) is not None:
        controller.apply([decode_record(encode_record(record)) for record in due.records])
