"""A controller with one active broker, and commands for it."""

import random
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from penstock.controller.config_rules import DefinedConfigs
from penstock.controller.controller import Controller
from penstock.controller.decision import ControllerSettings
from penstock.controller.first_records import first_records
from penstock.metadata.features import SUPPORTED_FEATURES
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import MetadataRecord
from penstock.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from penstock.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from penstock.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from penstock.protocol.schema import Message
from penstock.protocol.uuids import process_uuid

CLUSTER = "penstock"


def carry_out(controller: Controller, command: Message, now_ms: int = 0) -> Any:
    """Decides, applies at once, and gives the reply."""
    decision = controller.decide(command, now_ms)
    controller.apply(decision.records)
    return decision.reply


def tick(controller: Controller, now_ms: int) -> list[MetadataRecord]:
    """Does all that is due, and gives the records of it."""
    records: list[MetadataRecord] = []
    while (decision := controller.tick(now_ms)) is not None:
        controller.apply(decision.records)
        records += decision.records
    return records


def registration(
    broker_id: int, incarnation: int, log_dirs: Sequence[UUID] = (), previous_epoch: int = -1
) -> BrokerRegistrationRequest:
    """The command that registers a broker."""
    return BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=CLUSTER,
        incarnation_id=process_uuid(incarnation, random.Random(incarnation)),
        listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=9092 + broker_id)],
        features=[
            Feature(name=name, min_supported_version=levels.lowest, max_supported_version=levels.newest)
            for name, levels in SUPPORTED_FEATURES.items()
        ],
        log_dirs=list(log_dirs),
        previous_broker_epoch=previous_epoch,
    )


def heartbeat(controller: Controller, broker_id: int, **fields: Any) -> BrokerHeartbeatRequest:
    """The command by which a broker that has read everything reports itself; `fields` say what else it wants."""
    fields.setdefault("current_metadata_offset", controller.state.next_offset - 1)
    epoch = controller.image.brokers[broker_id].epoch
    return BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=epoch, **fields)


def join(controller: Controller, broker_id: int, log_dirs: Sequence[UUID] = (), now_ms: int = 0) -> int:
    """A broker registers and is unfenced; returns its epoch."""
    command = registration(broker_id, controller.state.next_offset + 1, log_dirs)
    epoch: int = carry_out(controller, command, now_ms).broker_epoch
    carry_out(controller, heartbeat(controller, broker_id), now_ms)
    return epoch


def partition(controller: Controller, topic: str, index: int = 0) -> tuple[int, tuple[int, ...]]:
    """Who leads a partition, and who is in sync."""
    found = controller.image.topics[topic].partitions[index]
    return found.leader, found.isr


def active_controller(
    *brokers: int, static: Mapping[str, str] | None = None, log_dirs: Sequence[UUID] = (), **settings: Any
) -> Controller:
    """The controller of a cluster in which `brokers` are active, or broker 1 if none is named."""
    known = ControllerSettings(rules=DefinedConfigs(static or {}), **settings)
    controller = Controller(ClusterImage(CLUSTER), known, random.Random(1))
    for broker_id in brokers or (1,):
        join(controller, broker_id, log_dirs)
    return controller


def track(controller: Controller) -> Controller:
    """The same controller, which keeps track of eligible leaders from now on; a topic needs one replica in sync."""
    controller.apply(first_records(controller.state, []))
    return controller


def successor(controller: Controller, **settings: Any) -> Controller:
    """The controller that takes over from one whose records are all committed."""
    known = ControllerSettings(rules=DefinedConfigs({}), **settings)
    offset = controller.state.next_offset
    return Controller(controller.image.copy(), known, random.Random(2), next_offset=offset)


def assigned(name: str, *replicas: Sequence[int], **configs: str) -> CreateTopicsRequest:
    """The command that creates one topic whose partitions have the given replicas."""
    assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
        for index, brokers in enumerate(replicas)
    ]
    topic = CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=assignments,
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )
    return CreateTopicsRequest(topics=[topic])


def in_sync(controller: Controller, broker_id: int, isr: Sequence[int | tuple[int, int]], **fields: Any) -> Any:
    """What the leader of flights-0 asks; a replica may come with the epoch of its broker."""
    topic = controller.image.topics["flights"]
    found = topic.partitions[0]
    fields = {"leader_epoch": found.leader_epoch, "partition_epoch": found.partition_epoch} | fields
    pairs = [(replica, -1) if isinstance(replica, int) else replica for replica in isr]
    asked = AlterPartitionRequestPartitionData(
        new_isr_with_epochs=[BrokerState(broker_id=replica, broker_epoch=epoch) for replica, epoch in pairs], **fields
    )
    topics = [AlterPartitionRequestTopicData(topic_id=topic.topic_id, partitions=[asked])]
    epoch = controller.image.brokers[broker_id].epoch
    return AlterPartitionRequest(broker_id=broker_id, broker_epoch=epoch, topics=topics)


def create(name: str, partitions: int = 1) -> CreateTopicsRequest:
    """The command that creates one topic."""
    return CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)])
