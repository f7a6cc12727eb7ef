"""Nobody gets at what the cluster keeps for itself by its name or id, through any API, and nothing is lost for trying.

What is refused with which code is the table in `penstock.protocol.internal_topics`; what takes a topic's name is read
from the declarations of the messages, so an API that is new is tried here without being named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from tests.wire.naming import apis_that_name_topics, has_ids, has_names, request_that_names, told
from tests.wire.raw_client import RawClient, decode_all

from penstock.log.checkpoint import decode_partition_metadata
from penstock.log.names import PARTITION_METADATA, partition_directory
from penstock.node.serving.handler import BROKER_HANDLERS, CONTROLLER_HANDLERS, Handler, load_handlers
from penstock.protocol.errors import ErrorCode
from penstock.protocol.internal_topics import (
    CLUSTER_METADATA,
    CLUSTER_METADATA_ID,
    INTERNAL_TOPICS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
    Act,
    refusal_of,
)
from penstock.protocol.messages.metadata import MetadataRequest, MetadataResponseTopic
from penstock.protocol.requests.api import AnyApiKey, ApiKey, OwnApiKey, api_of
from penstock.protocol.schema import Message
from penstock.testing.cluster import Cluster

ACTS: Mapping[AnyApiKey, Act | None] = {
    ApiKey.PRODUCE: Act.PRODUCE,
    ApiKey.FETCH: Act.USE,
    ApiKey.LIST_OFFSETS: Act.USE,
    ApiKey.METADATA: Act.AUTO_CREATE,
    ApiKey.OFFSET_COMMIT: None,
    ApiKey.OFFSET_FETCH: None,
    ApiKey.OFFSET_DELETE: None,
    ApiKey.ADD_PARTITIONS_TO_TXN: None,
    ApiKey.TXN_OFFSET_COMMIT: None,
    ApiKey.WRITE_TXN_MARKERS: Act.USE,
    ApiKey.CREATE_TOPICS: Act.CREATE,
    ApiKey.DELETE_TOPICS: Act.DELETE,
    ApiKey.DELETE_RECORDS: Act.DELETE_RECORDS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Act.USE,
    ApiKey.DESCRIBE_CONFIGS: Act.CONFIGURE,
    ApiKey.ALTER_CONFIGS: Act.CONFIGURE,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Act.CONFIGURE,
    ApiKey.ALTER_REPLICA_LOG_DIRS: Act.USE,
    ApiKey.DESCRIBE_LOG_DIRS: None,
    ApiKey.CREATE_PARTITIONS: Act.ADD_PARTITIONS,
    ApiKey.ELECT_LEADERS: Act.MOVE,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Act.MOVE,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: None,
    ApiKey.DESCRIBE_PRODUCERS: Act.USE,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: None,
}
"""What a request of each API wants of the topic that it names; None where that is not about the topic's own log."""

OF_THE_QUORUM = frozenset(
    (ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH, ApiKey.FETCH_SNAPSHOT, ApiKey.DESCRIBE_QUORUM)
)
"""Requests that name a log of the consensus core as if it were a topic: for these the names mean just that."""
OF_SUBSCRIPTIONS = frozenset(
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT)
)
"""Requests that name topics to read, whether these are there or not."""
OF_SHARE_GROUPS = frozenset(
    (
        ApiKey.SHARE_FETCH,
        ApiKey.SHARE_ACKNOWLEDGE,
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE,
        ApiKey.WRITE_SHARE_GROUP_STATE,
        ApiKey.DELETE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    )
)
"""They read, and note what was read; a new cluster does not serve them."""
OF_POSITIONS = frozenset((OwnApiKey.COMMITTED_POSITIONS, OwnApiKey.DESCRIBE_HOLDERS))
"""They say what groups have read."""
NOT_TRIED = OF_THE_QUORUM | OF_SUBSCRIPTIONS | OF_SHARE_GROUPS | OF_POSITIONS
OF_NODES = frozenset((ApiKey.ALTER_PARTITION, ApiKey.ASSIGN_REPLICAS_TO_DIRS, OwnApiKey.HAND_OVER_LEADER))
"""What brokers ask controllers: it says which broker asks, and is refused for that first."""

NOT_HERE = {ErrorCode.NOT_COORDINATOR}
IS_NOT_THERE = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}
FOR_BEING_INTERNAL = {ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED}
NOT_YET_THERE = {ErrorCode.LOG_DIR_NOT_FOUND, ErrorCode.GROUP_ID_NOT_FOUND}
IS_ONLY_ASKED = {ApiKey.OFFSET_FETCH, ApiKey.DESCRIBE_LOG_DIRS, ApiKey.LIST_PARTITION_REASSIGNMENTS}
JAVA_FRAMES = Path(__file__).with_name("java_client_frames.txt")
GROUPED = "grouped"
KEPT = "kept"
RECORDS = 100


def topics(client: RawClient, wanted: Set[str]) -> dict[str, MetadataResponseTopic]:
    """All topics that a broker knows, once it knows these: what the controller has made is news to it."""
    while True:
        found: list[MetadataResponseTopic] = client.ask(MetadataRequest(topics=None)).topics
        known = {topic.name: topic for topic in found if topic.name is not None}
        if wanted <= known.keys():
            return known


class Attempts:
    """Requests about one internal topic over one connection, and what is to be answered."""

    def __init__(
        self,
        client: RawClient,
        handlers: Mapping[int, Handler],
        name: str,
        *,
        topic_id: UUID | None = None,
        directory: Path = Path(),
    ) -> None:
        """`topic_id` is None where there is no topic of that name; `directory` is a log directory of the node."""
        self._client = client
        self._handlers = handlers
        self._name = name
        self._exists = topic_id is not None
        self._topic_id = CLUSTER_METADATA_ID if topic_id is None else topic_id
        self._directory = directory

    def make(self) -> None:
        for key in apis_that_name_topics(self._handlers):
            is_between_controllers = key is ApiKey.FETCH and ApiKey.PRODUCE not in self._handlers
            if key in NOT_TRIED or is_between_controllers:
                continue
            for version in range(self._handlers[key].lowest, self._handlers[key].newest + 1):
                request_class = api_of(key).request_class
                if has_names(request_class, version):
                    self._try(key, version, request_that_names(key, self._name, directory=self._directory), by_id=False)
                if has_ids(request_class, version):
                    self._try(
                        key,
                        version,
                        request_that_names(key, topic_id=self._topic_id, directory=self._directory),
                        by_id=True,
                    )

    def _try(self, key: AnyApiKey, version: int, request: Message, *, by_id: bool) -> None:
        if key in OF_NODES:
            assert list(told(self._client.ask(request, version)))
            return
        act = ACTS[key]
        is_described = act is Act.AUTO_CREATE and self._exists
        refusal = None if act is None or is_described else refusal_of(self._name, act)
        if act in (Act.DELETE, Act.CREATE) and refusal is None and self._name != CLUSTER_METADATA:
            return  # it would be done
        answer = set(told(self._client.ask(request, version)))
        what = f"{key.name} {version} of {self._name} {'by id' if by_id else 'by name'}: {answer}"
        if not self._exists and by_id:
            assert answer - NOT_HERE <= {ErrorCode.UNKNOWN_TOPIC_ID, *self._before_ids(key, version)}, what
            assert answer or act is None, what
        elif refusal is not None:
            assert answer == {refusal.code}, what
        elif not self._exists:
            assert answer - NOT_HERE <= IS_NOT_THERE, what
        else:
            assert not answer & (FOR_BEING_INTERNAL | IS_NOT_THERE), what

    def _before_ids(self, key: AnyApiKey, version: int) -> set[ErrorCode]:
        """Metadata has a field for ids before anything can be asked by it (KIP-516)."""
        return {ErrorCode.INVALID_REQUEST} if key is ApiKey.METADATA and version < 12 else set()


def frames_of_java() -> Iterator[tuple[AnyApiKey, int, bytes]]:
    """API, version and frame of requests about the metadata log, as a Java client sent them."""
    for line in JAVA_FRAMES.read_text().splitlines():
        if not line.startswith("#"):
            name, version, frame = line.split()
            yield next(api.key for api in map(api_of, ApiKey) if api.name == name), int(version), bytes.fromhex(frame)


def try_frames_of_java(client: RawClient) -> None:
    for key, version, frame in frames_of_java():
        client.send_frame(frame)
        _, message, left = decode_all(key, version, client.receive_frame())
        answer = set(told(message))
        assert not left
        assert answer - NOT_HERE - NOT_YET_THERE <= IS_NOT_THERE | {ErrorCode.INVALID_REQUEST}, (key, answer)
        assert answer or key in IS_ONLY_ASKED, key


def attempts_of_librdkafka(bootstrap: str) -> dict[str, int | None]:
    """What a client in C hears when it wants to use, make, change and delete the metadata log as a topic."""
    heard: dict[str, int | None] = {}
    producer = Producer({"bootstrap.servers": bootstrap, "topic.metadata.propagation.max.ms": 1_000})
    producer.produce(
        CLUSTER_METADATA,
        b"value",
        partition=0,
        on_delivery=lambda error, _: heard.__setitem__("produce", error.code() if error else None),
    )
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "curious", "allow.auto.create.topics": True})
    try:
        consumer.subscribe([CLUSTER_METADATA])
        message = consumer.poll(30)
        error = None if message is None else message.error()
        heard["consume"] = error.code() if error else None
    finally:
        consumer.close()
    admin = AdminClient({"bootstrap.servers": bootstrap})
    resource = ConfigResource(ResourceType.TOPIC, CLUSTER_METADATA)
    changed = ConfigResource(
        ResourceType.TOPIC,
        CLUSTER_METADATA,
        incremental_configs=[ConfigEntry("retention.ms", "1", incremental_operation=AlterConfigOpType.SET)],
    )
    partition = TopicPartition(CLUSTER_METADATA, 0, 0)
    wanted: dict[str, Callable[[], Mapping[Any, Future[Any]]]] = {
        "create": lambda: admin.create_topics([NewTopic(CLUSTER_METADATA, 1, 1)]),
        "add partitions": lambda: admin.create_partitions([NewPartitions(CLUSTER_METADATA, 3)]),
        "delete": lambda: admin.delete_topics([CLUSTER_METADATA]),
        "delete records": lambda: admin.delete_records([partition]),
        "describe configs": lambda: admin.describe_configs([resource]),
        "alter configs": lambda: admin.incremental_alter_configs([changed]),
        "list offsets": lambda: admin.list_offsets({partition: OffsetSpec.latest()}),  # type: ignore[no-untyped-call]
    }
    for name, want in wanted.items():
        (future,) = want().values()
        with pytest.raises(KafkaException) as raised:
            future.result(30)
        heard[name] = raised.value.args[0].code()
    return heard


def assert_metadata_log_is_whole(cluster: Cluster, own_directories: Mapping[int, Path]) -> None:
    for node in cluster.nodes:
        parent = own_directories.get(node.id, node.directory)
        log = parent / partition_directory(CLUSTER_METADATA, 0)
        content = (log / PARTITION_METADATA).read_bytes()
        assert decode_partition_metadata(content, "") == CLUSTER_METADATA_ID
        found = [path for directory in {parent, node.directory} for path in directory.glob(f"{CLUSTER_METADATA}*")]
        assert found == [log]


def send(bootstrap: str, topic: str) -> None:
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(RECORDS):
        producer.produce(topic, str(number), on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(60) == 0
    assert not failures


def received(bootstrap: str, topic: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "whole", "auto.offset.reset": "earliest"})
    found: list[int] = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while len(found) < RECORDS:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                found.append(int(message.value() or b"-1"))
    finally:
        consumer.close()
    return found


def test_every_api_of_brokers_that_names_topics_is_in_the_table() -> None:
    found = apis_that_name_topics(load_handlers(BROKER_HANDLERS))
    assert ACTS.keys() | NOT_TRIED == {*found}


@pytest.mark.parametrize("has_own_directory", [False, True], ids=["beside", "own-directory"])
@pytest.mark.parametrize("nodes", [1, 3])
def test_internal_topics_stand_whatever_clients_try(tmp_path: Path, nodes: int, has_own_directory: bool) -> None:
    own = {node_id: tmp_path / f"metadata-{node_id}" for node_id in range(1, nodes + 1) if has_own_directory}
    cluster = Cluster(nodes=nodes, process=True, directory=tmp_path / "data")
    for node in cluster.nodes:
        if node.id in own:
            node._settings["metadata.log.dir"] = str(own[node.id])
    with cluster:
        bootstrap = cluster.bootstrap_servers
        with RawClient(bootstrap.split(",")[0]) as client:
            client.create_topic(GROUPED, configs={"replication.mode": "consensus"})
            client.find_coordinator("a-group")
            for name in (TRANSACTION_STATE, SHARE_GROUP_STATE):
                client.create_topic(name)
            wanted = {*INTERNAL_TOPICS, GROUPED} - {CLUSTER_METADATA}
            there = topics(client, wanted)
            assert there.keys() == wanted
            send(bootstrap, KEPT)
            for name in INTERNAL_TOPICS:
                topic = there.get(name)
                Attempts(
                    client,
                    load_handlers(BROKER_HANDLERS),
                    name,
                    topic_id=None if topic is None else topic.topic_id,
                    directory=cluster.nodes[0].directory,
                ).make()
            try_frames_of_java(client)
        controller = cluster.node(cluster.active_controller).controller_address
        if controller is not None:
            with RawClient(controller) as client:
                Attempts(client, load_handlers(CONTROLLER_HANDLERS), CLUSTER_METADATA).make()
        heard = attempts_of_librdkafka(bootstrap)
        assert heard.pop("create") == KafkaError.INVALID_REQUEST
        assert set(heard.values()) <= {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._NOENT}, heard
        assert_metadata_log_is_whole(cluster, own)
        cluster.kill()
        cluster.start()
        assert_metadata_log_is_whole(cluster, own)
        assert received(bootstrap, KEPT) == list(range(RECORDS))
        with RawClient(bootstrap.split(",")[0]) as client:
            assert topics(client, {*there, KEPT}).keys() == {*there, KEPT}
            client.create_topic("later")
