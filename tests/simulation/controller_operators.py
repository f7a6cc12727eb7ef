"""What people ask of a cluster, drawn: topics, configs, elections, moves, removals of brokers."""

from random import Random

from penstock.controller.upkeep import UNTIL_MOVED
from penstock.metadata.image import ClusterImage
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest
from penstock.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from penstock.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest
from penstock.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from penstock.protocol.requests.own_apis import BalanceAction, BalanceLeadersRequest, CreateStorageGroupRequest
from penstock.protocol.schema import Message

MAX_TOPICS = 8
MAX_PARTITIONS = 12


class Operators:
    """Draws commands that make sense most of the time."""

    def __init__(self, random: Random, broker_ids: list[int]) -> None:
        self._random = random
        self._broker_ids = broker_ids
        self._made = 0
        self._commands = [
            self._create,
            self._create,
            self._grow,
            self._delete,
            self._configure,
            self._elect,
            self._elect,
            self._move,
            self._move,
            self._move,
            self._unregister,
            self._set_feature,
            self._need_replicas,
            self._need_replicas,
            self._balance,
            self._balance,
            self._create_in_group,
            self._create_in_group,
            self._begin_group,
            self.move_group,
            self.move_group,
        ]

    def command(self, image: ClusterImage) -> Message:
        return self._random.choice(self._commands)(image)

    def _create(self, image: ClusterImage) -> Message:
        if len(image.topics) >= MAX_TOPICS:
            return self._delete(image)
        self._made += 1
        topic = CreatableTopic(
            name=f"topic{self._made}",
            num_partitions=self._random.randrange(1, 7),
            replication_factor=self._random.randrange(1, 4),
            configs=[CreatableTopicConfig(name="min.insync.replicas", value=self._random.choice("1223"))],
        )
        return CreateTopicsRequest(topics=[topic])

    def _create_in_group(self, image: ClusterImage) -> Message:
        request = self._create(image)
        for topic in request.topics if isinstance(request, CreateTopicsRequest) else ():
            configs = {"replication.mode": "consensus"}
            if self._random.random() < 0.3:
                configs["storage.group"] = str(self._random.randrange(len(image.storage_groups) + 2))
            topic.configs = [CreatableTopicConfig(name=name, value=value) for name, value in configs.items()]
        return request

    def _begin_group(self, image: ClusterImage) -> Message:
        return CreateStorageGroupRequest(replication_factor=self._random.randrange(1, 4))

    def _grow(self, image: ClusterImage) -> Message:
        name = self._topic(image)
        partitions = image.topics[name].partitions if name in image.topics else ()
        count = min(len(partitions) + self._random.randrange(1, 3), MAX_PARTITIONS)
        return CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=name, count=count)])

    def _delete(self, image: ClusterImage) -> Message:
        return DeleteTopicsRequest(topic_names=[self._topic(image)])

    def _configure(self, image: ClusterImage) -> Message:
        value = self._random.choice(("true", "false", "false"))
        config = AlterableConfig(name="unclean.leader.election.enable", config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=2, resource_name=self._topic(image), configs=[config])
        return IncrementalAlterConfigsRequest(resources=[resource])

    def _elect(self, image: ClusterImage) -> Message:
        election_type = 1 if self._random.random() < 0.2 else 0
        name = self._topic(image)
        named = [TopicPartitions(topic=name, partitions=[self._partition(image, name)])]
        everything = self._random.random() < 0.3
        return ElectLeadersRequest(election_type=election_type, topic_partitions=None if everything else named)

    def _move(self, image: ClusterImage) -> Message:
        return self._move_of(image, self._topic(image))

    def move_group(self, image: ClusterImage) -> Message:
        return self._move_of(image, STORAGE_GROUPS)

    def _move_of(self, image: ClusterImage, name: str) -> Message:
        replicas = self._random.sample(self._broker_ids, min(self._random.randrange(1, 4), len(self._broker_ids)))
        asked = ReassignablePartition(
            partition_index=self._partition(image, name), replicas=None if self._random.random() < 0.3 else replicas
        )
        return AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=name, partitions=[asked])])

    def _unregister(self, image: ClusterImage) -> Message:
        return UnregisterBrokerRequest(broker_id=self._random.choice(self._broker_ids))

    def _set_feature(self, image: ClusterImage) -> Message:
        elr, version = "eligible.leader.replicas.version", "metadata.version"
        name, level, upgrade_type = self._random.choice(
            ((elr, 0, 2), (elr, 1, 1), (elr, 1, 1), (version, self._random.randrange(20, 27), 1))
        )
        update = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade_type)
        return UpdateFeaturesRequest(feature_updates=[update])

    def _need_replicas(self, image: ClusterImage) -> Message:
        """Another number of replicas must be in sync, for one topic or for all; then moves are limited as well."""
        resource_type, name = self._random.choice(((2, self._topic(image)), (2, self._topic(image)), (4, "")))
        config = AlterableConfig(
            name="min.insync.replicas", config_operation=0, value=str(self._random.randrange(1, 4))
        )
        configs = [config] if name else [config, AlterableConfig(name=UNTIL_MOVED, config_operation=0, value="true")]
        resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=configs)
        return IncrementalAlterConfigsRequest(resources=[resource])

    def _balance(self, image: ClusterImage) -> Message:
        return BalanceLeadersRequest(
            action=self._random.choice((*[BalanceAction.BEGIN] * 3, BalanceAction.STOP, BalanceAction.TELL))
        )

    def _topic(self, image: ClusterImage) -> str:
        return self._random.choice([*image.topics, "nothing"])

    def _partition(self, image: ClusterImage, name: str) -> int:
        return self._random.randrange(len(image.topics[name].partitions)) if name in image.topics else 0
