"""The language of the controller's transcripts: a line is a command, what comes back are records and replies.

anew                                            a cluster without brokers, at time 0
newest                                          metadata.version and all features from now on
brokers 1 2@RACK [dirs=own]                     brokers, registered and unfenced, each with a directory of its own
create flights [partitions=3] [replicas=2] [assign=1,2/2,3] [config.KEY=VALUE] [validate]
delete flights delays                           by name
delete-id #2                                    by id; ids are numbered as they appear
partitions flights 5 [assign=1/2] [validate]
configs topic flights set KEY=VALUE [validate]  or: delete, append, subtract; also of a broker or a group
replace topic flights KEY=VALUE                 the older request, which replaces everything
producer-ids BROKER EPOCH
register BROKER incarnation=N [previous=EPOCH] [rack=R] [cluster=ID] [dirs=1,2]
heartbeat BROKER EPOCH seen=OFFSET [fence] [stop] [offline=DIR]
unregister BROKER
in-sync LEADER flights-0 1,2 [epoch=LEADER_EPOCH]   what the leader of a partition says of its replicas
elect preferred|unclean flights-0
move flights-0 3,4                              or: cancel flights-0; moves lists what is under way
balance tell|begin|stop                         of leaders, one partition at a time
group [replicas=2] [assign=1,2]                 a storage group begins
claim BROKER 0 epoch=N 1,2 voters=1,2           who leads storage group 0 says so, who has caught up, and who votes
later MILLISECONDS                              time passes, and what is due is done
image                                           each partition with its leader, leader epoch and replicas
"""

import random
from collections.abc import Callable, Iterable, Iterator
from uuid import UUID

from penstock.controller.config_rules import DefinedConfigs
from penstock.controller.controller import Controller
from penstock.controller.decision import ControllerSettings
from penstock.controller.first_records import first_records
from penstock.controller.reassignments import list_reassignments
from penstock.metadata.features import SUPPORTED_FEATURES
from penstock.metadata.image import ClusterImage, TopicImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import alter_configs, incremental_alter_configs
from penstock.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from penstock.protocol.messages.alter_configs import AlterConfigsRequest
from penstock.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from penstock.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from penstock.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from penstock.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from penstock.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from penstock.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest
from penstock.protocol.requests.own_apis import (
    BalanceLeadersRequest,
    ClaimStorageGroupRequest,
    CreateStorageGroupRequest,
    GroupVoter,
)
from penstock.protocol.schema import Message
from penstock.protocol.uuids import ZERO_UUID

CLUSTER = "penstock"
TYPES = {"topic": 2, "broker": 4, "logger": 8, "metrics": 16, "group": 32}
ELECTIONS = {"preferred": 0, "unclean": 1}
BALANCE = {"tell": 0, "begin": 1, "stop": 2}
OPERATIONS = {"set": 0, "delete": 1, "append": 2, "subtract": 3, "shrug": 9}

Options = dict[str, str]


class ControllerScript:
    """A controller that is told things in words."""

    def __init__(self) -> None:
        settings = ControllerSettings(rules=DefinedConfigs({}), num_partitions=2, default_replication_factor=1)
        self.controller = Controller(ClusterImage(CLUSTER), settings, random.Random(7))
        self.now_ms = 0
        self.features: list[Feature] = []
        self.ids: dict[UUID, str] = {}
        self.commands: dict[str, Callable[[list[str], Options], Iterable[object]]] = {
            "anew": self.anew,
            "newest": self.newest,
            "brokers": self.brokers,
            "create": self.create,
            "delete": self.delete,
            "delete-id": self.delete_id,
            "partitions": self.partitions,
            "configs": self.configs,
            "replace": self.replace,
            "producer-ids": self.producer_ids,
            "register": self.register,
            "heartbeat": self.heartbeat,
            "unregister": self.unregister,
            "later": self.later,
            "in-sync": self.in_sync,
            "elect": self.elect,
            "balance": self.balance,
            "group": self.group,
            "claim": self.claim,
            "move": self.move,
            "cancel": self.move,
            "moves": self.moves,
            "image": self.image,
        }

    def handle(self, line: str) -> Iterable[object]:
        name, *words = line.split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        return self.commands[name]([word for word in words if "=" not in word], options)

    def decide(self, command: Message) -> Iterator[str]:
        decision = self.controller.decide(command, self.now_ms)
        self.controller.apply(decision.records)
        yield from map(self.show, decision.records)
        yield from self.show_reply(decision.reply)

    # Commands.

    def anew(self, words: list[str], options: Options) -> Iterable[object]:
        self.__init__()  # type: ignore[misc]
        return ()

    def newest(self, words: list[str], options: Options) -> Iterable[object]:
        self.features = [
            Feature(name=name, min_supported_version=levels.lowest, max_supported_version=levels.newest)
            for name, levels in SUPPORTED_FEATURES.items()
        ]
        self.controller.apply(first_records(self.controller.state, []))
        return ()

    def brokers(self, words: list[str], options: Options) -> Iterable[object]:
        for word in words:
            broker, _, rack = word.partition("@")
            told = {"incarnation": broker} | ({"rack": rack} if rack else {}) | ({"dirs": broker} if options else {})
            list(self.register([broker], told))
            epoch = self.controller.image.brokers[int(broker)].epoch
            list(self.heartbeat([broker, str(epoch)], {"seen": str(epoch)}))
        return ()

    def create(self, words: list[str], options: Options) -> Iterable[object]:
        assignments = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
            for index, replicas in enumerate(assignment(options))
        ]
        configs = [
            CreatableTopicConfig(name=key.removeprefix("config."), value=value or None)
            for key, value in options.items()
            if key.startswith("config.")
        ]
        topics = [
            CreatableTopic(
                name=name.strip("'"),
                num_partitions=int(options.get("partitions", -1)),
                replication_factor=int(options.get("replicas", -1)),
                assignments=assignments,
                configs=configs,
            )
            for name in words
            if name != "validate"
        ]
        return self.decide(CreateTopicsRequest(topics=topics, validate_only="validate" in words))

    def delete(self, words: list[str], options: Options) -> Iterable[object]:
        return self.decide(DeleteTopicsRequest(topic_names=words))

    def delete_id(self, words: list[str], options: Options) -> Iterable[object]:
        by_name = {name: topic_id for topic_id, name in self.ids.items()}
        topics = [DeleteTopicState(topic_id=by_name.get(word, UUID(int=99))) for word in words]
        return self.decide(DeleteTopicsRequest(topics=topics))

    def partitions(self, words: list[str], options: Options) -> Iterable[object]:
        name, count = words[:2]
        assignments = [CreatePartitionsAssignment(broker_ids=replicas) for replicas in assignment(options)]
        topic = CreatePartitionsTopic(name=name, count=int(count), assignments=assignments or None)
        return self.decide(CreatePartitionsRequest(topics=[topic], validate_only="validate" in words))

    def configs(self, words: list[str], options: Options) -> Iterable[object]:
        kind, name, operation = words[:3]
        changes = [
            incremental_alter_configs.AlterableConfig(name=key, config_operation=OPERATIONS[operation], value=value)
            for key, value in options.items()
        ]
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=TYPES[kind], resource_name=name.strip("'"), configs=changes
        )
        return self.decide(IncrementalAlterConfigsRequest(resources=[resource], validate_only="validate" in words))

    def replace(self, words: list[str], options: Options) -> Iterable[object]:
        kind, name = words[:2]
        changes = [alter_configs.AlterableConfig(name=key, value=value) for key, value in options.items()]
        resource = alter_configs.AlterConfigsResource(
            resource_type=TYPES[kind], resource_name=name.strip("'"), configs=changes
        )
        return self.decide(AlterConfigsRequest(resources=[resource], validate_only="validate" in words))

    def producer_ids(self, words: list[str], options: Options) -> Iterable[object]:
        return self.decide(AllocateProducerIdsRequest(broker_id=int(words[0]), broker_epoch=int(words[1])))

    def register(self, words: list[str], options: Options) -> Iterable[object]:
        request = BrokerRegistrationRequest(
            broker_id=int(words[0]),
            cluster_id=options.get("cluster", CLUSTER),
            incarnation_id=UUID(int=int(options["incarnation"])),
            listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=9092)],
            rack=options.get("rack"),
            previous_broker_epoch=int(options.get("previous", -1)),
            features=self.features,
            log_dirs=directories(options.get("dirs", "")),
        )
        return self.decide(request)

    def heartbeat(self, words: list[str], options: Options) -> Iterable[object]:
        request = BrokerHeartbeatRequest(
            broker_id=int(words[0]),
            broker_epoch=int(words[1]),
            current_metadata_offset=int(options["seen"]),
            want_fence="fence" in words,
            want_shut_down="stop" in words,
            offline_log_dirs=directories(options.get("offline", "")),
        )
        return self.decide(request)

    def unregister(self, words: list[str], options: Options) -> Iterable[object]:
        return self.decide(UnregisterBrokerRequest(broker_id=int(words[0])))

    def in_sync(self, words: list[str], options: Options) -> Iterable[object]:
        topic, index = self.partition(words[1])
        image = self.controller.image
        present = topic.partitions[index]
        asked = AlterPartitionRequestPartitionData(
            partition_index=index,
            leader_epoch=int(options.get("epoch", present.leader_epoch)),
            partition_epoch=present.partition_epoch,
            new_isr_with_epochs=[BrokerState(broker_id=int(replica)) for replica in words[2].split(",")],
        )
        topics = [AlterPartitionRequestTopicData(topic_id=topic.topic_id, partitions=[asked])]
        leader = int(words[0])
        request = AlterPartitionRequest(broker_id=leader, broker_epoch=image.brokers[leader].epoch, topics=topics)
        return self.decide(request)

    def elect(self, words: list[str], options: Options) -> Iterable[object]:
        topic, index = self.partition(words[1])
        named = [TopicPartitions(topic=topic.name, partitions=[index])]
        return self.decide(ElectLeadersRequest(election_type=ELECTIONS[words[0]], topic_partitions=named))

    def balance(self, words: list[str], options: Options) -> Iterable[object]:
        return self.decide(BalanceLeadersRequest(action=BALANCE[words[0]]))

    def group(self, words: list[str], options: Options) -> Iterable[object]:
        named = assignment(options)
        factor = int(options.get("replicas", -1))
        return self.decide(CreateStorageGroupRequest(replicas=named[0] if named else [], replication_factor=factor))

    def claim(self, words: list[str], options: Options) -> Iterable[object]:
        broker_id, number = int(words[0]), int(words[1])
        request = ClaimStorageGroupRequest(
            broker_id=broker_id,
            broker_epoch=self.controller.image.brokers[broker_id].epoch,
            group=number,
            group_epoch=int(options["epoch"]),
            caught_up=[int(replica) for replica in words[2].split(",")],
            partition_epoch=self.controller.image.storage_groups[number].partition_epoch,
            voters=[
                GroupVoter(voter_id=int(voter), directory_id=self.controller.image.brokers[int(voter)].directories[0])
                for voter in options.get("voters", "").split(",")
                if voter
            ],
        )
        return self.decide(request)

    def move(self, words: list[str], options: Options) -> Iterable[object]:
        topic, index = self.partition(words[0])
        replicas = [int(replica) for replica in words[1].split(",")] if len(words) > 1 else None
        asked = ReassignablePartition(partition_index=index, replicas=replicas)
        return self.decide(
            AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic.name, partitions=[asked])])
        )

    def moves(self, words: list[str], options: Options) -> Iterable[object]:
        for topic in list_reassignments(self.controller.image, ListPartitionReassignmentsRequest()).topics:
            for p in topic.partitions:
                yield f"{topic.name}-{p.partition_index}: adds {p.adding_replicas}, removes {p.removing_replicas}"

    def partition(self, text: str) -> tuple[TopicImage, int]:
        name, _, index = text.rpartition("-")
        return self.controller.image.topics[name], int(index)

    def later(self, words: list[str], options: Options) -> Iterable[object]:
        self.now_ms += int(words[0])
        while (decision := self.controller.tick(self.now_ms)) is not None:
            self.controller.apply(decision.records)
            yield from map(self.show, decision.records)

    def image(self, words: list[str], options: Options) -> Iterable[object]:
        for topic in self.controller.image.topics.values():
            for index, p in topic.partitions.items():
                yield f"{topic.name}-{index}: leader {p.leader} epoch {p.leader_epoch} of {p.replicas} isr {p.isr}"

    # What comes back, in words.

    def show(self, message: Message) -> str:
        fields = (
            f"{name}={self.value(value)}"
            for name in message.__fields__
            if (value := getattr(message, name)) != message.__fields__[name].new_default()
        )
        return f"{type(message).__name__}({', '.join(fields)})"

    def show_reply(self, reply: Message) -> Iterator[str]:
        parts = [value for name in reply.__fields__ for value in as_list(getattr(reply, name))]
        while parts and (inner := [item for part in parts for item in partitions_of(part)]):
            parts = inner
        for part in parts or [reply]:
            fields = [f"{name}={self.value(getattr(part, name))}" for name in part.__fields__ if is_told(part, name)]
            code = ErrorCode(getattr(part, "error_code", 0))
            yield f"-> {' '.join([code.name, *fields])}"

    def value(self, value: object) -> str:
        if value == ZERO_UUID:
            return "0"
        if isinstance(value, UUID):
            return self.ids.setdefault(value, f"#{len(self.ids) + 1}")
        if isinstance(value, list):
            return f"[{', '.join(map(self.value, value))}]"
        return self.show(value) if isinstance(value, Message) else str(value)


def directories(text: str) -> list[UUID]:
    return [UUID(int=1000 + int(number)) for number in text.split(",") if number]


def assignment(options: Options) -> list[list[int]]:
    text = options.get("assign", "")
    return [[int(broker) for broker in part.split(",") if broker] for part in text.split("/")] if text else []


def as_list(value: object) -> list[Message]:
    return [item for item in value if isinstance(item, Message)] if isinstance(value, list) else []


def partitions_of(part: Message) -> list[Message]:
    """What a reply says of each partition, where it goes by topic; configs of a topic are no such thing."""
    names = [name for name in part.__fields__ if name.startswith("partition")]
    return [value for name in names for value in as_list(getattr(part, name))]


def is_told(part: Message, name: str) -> bool:
    """Replies tell what they do not leave at its default; all configs of a new topic would be too much."""
    value = getattr(part, name)
    return name not in ("error_code", "configs") and value not in ("", None, part.__fields__[name].new_default())
