"""Whatever commands come in whatever order: what the cluster must never look like, and that a snapshot tells all."""

import random
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from penstock.controller.config_rules import DefinedConfigs
from penstock.controller.controller import Controller
from penstock.controller.decision import ControllerSettings
from penstock.metadata.image import ClusterImage
from penstock.metadata.record_frames import decode_record, encode_record
from penstock.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from penstock.protocol.messages.broker_registration import BrokerRegistrationRequest, Listener
from penstock.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest
from penstock.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.protocol.schema import Message

CLUSTER = "penstock"
names = st.sampled_from(["flights", "delays", "a.b", "a_b", ""])
brokers = st.integers(1, 4)
epochs = st.integers(-1, 40)

creations = st.builds(
    lambda name, partitions, replicas: CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)]
    ),
    names,
    st.integers(-1, 4),
    st.integers(-1, 3),
)
deletions = st.builds(DeleteTopicsRequest, topic_names=st.lists(names, max_size=2))
growths = st.builds(
    lambda name, count: CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=name, count=count)]),
    names,
    st.integers(0, 6),
)
alterations = st.builds(
    lambda name, operation, key, value: IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=2,
                resource_name=name,
                configs=[AlterableConfig(name=key, config_operation=operation, value=value)],
            )
        ]
    ),
    names,
    st.integers(0, 3),
    st.sampled_from(["retention.ms", "cleanup.policy", "nonsense"]),
    st.sampled_from(["1", "compact", "delete", ""]),
)
blocks = st.builds(AllocateProducerIdsRequest, broker_id=brokers, broker_epoch=epochs)
registrations = st.builds(
    BrokerRegistrationRequest,
    broker_id=brokers,
    cluster_id=st.just(CLUSTER),
    incarnation_id=st.integers(1, 9).map(lambda number: UUID(int=number)),
    listeners=st.just([Listener(name="PLAINTEXT", host="127.0.0.1", port=9092)]),
    rack=st.sampled_from([None, "east", "west"]),
    previous_broker_epoch=epochs,
)


class Beat:
    """A heartbeat whose broker knows its own epoch."""

    def __init__(self, broker: int, fence: bool, stop: bool) -> None:
        self.broker, self.fence, self.stop = broker, fence, stop

    def request(self, image: ClusterImage) -> BrokerHeartbeatRequest:
        broker = image.brokers.get(self.broker)
        return BrokerHeartbeatRequest(
            broker_id=self.broker,
            broker_epoch=broker.epoch if broker else -1,
            current_metadata_offset=1000,
            want_fence=self.fence,
            want_shut_down=self.stop,
        )


heartbeats = st.builds(Beat, brokers, st.booleans(), st.booleans())
calm_heartbeats = st.builds(Beat, brokers, st.just(False), st.just(False))
commands = st.one_of(
    creations, deletions, growths, alterations, blocks, registrations, heartbeats, calm_heartbeats, creations
)


def check(image: ClusterImage) -> None:
    for name, topic in image.topics.items():
        assert name
        assert image.topics_by_id[topic.topic_id] is topic
        assert list(topic.partitions) == list(range(len(topic.partitions)))
        for partition in topic.partitions.values():
            assert partition.isr
            assert set(partition.isr) <= set(partition.replicas)
            assert partition.leader == -1 or partition.leader in partition.isr
            assert len(partition.directories) == len(partition.replicas)
    assert len(image.topics) == len(image.topics_by_id)
    assert not {"a.b", "a_b"} <= set(image.topics)
    assert all(resource.name in image.topics for resource in image.configs)


@given(st.lists(commands, max_size=40), st.integers(0, 3))
def test_any_history(history: list[Message | Beat], seed: int) -> None:
    settings = ControllerSettings(rules=DefinedConfigs({}), num_partitions=2)
    controller = Controller(ClusterImage(CLUSTER), settings, random.Random(seed))
    standby = ClusterImage(CLUSTER)
    for item in history:
        command = item.request(controller.image) if isinstance(item, Beat) else item
        decision = controller.decide(command, 0)
        controller.apply(decision.records)
        for record in decision.records:
            standby.apply(decode_record(encode_record(record)))
        check(controller.image)
    assert standby == controller.image
    restored = ClusterImage(CLUSTER)
    for record in standby.records():
        restored.apply(decode_record(encode_record(record)))
    assert restored == standby
