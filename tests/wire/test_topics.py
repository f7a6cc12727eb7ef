"""Topics, partitions and metadata through the admin clients of confluent-kafka, kafka-python and aiokafka, and kcat."""

import json
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioTopic
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic
from kafka import KafkaAdminClient
from kafka.admin import NewTopic as PythonTopic
from kafka.errors import InvalidTopicError, UnknownTopicOrPartitionError

TIMEOUT_S = 30


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def outcome(future: Any) -> int:
    """The error code of an admin call; 0 if it worked."""
    try:
        future.result(TIMEOUT_S)
    except KafkaException as error:
        return int(error.args[0].code())
    return 0


def created(admin: AdminClient, *topics: NewTopic, **options: Any) -> dict[str, int]:
    return {name: outcome(future) for name, future in admin.create_topics(list(topics), **options).items()}


def grown(admin: AdminClient, *topics: NewPartitions, **options: Any) -> dict[str, int]:
    return {name: outcome(future) for name, future in admin.create_partitions(list(topics), **options).items()}


def sizes(admin: AdminClient, *names: str) -> dict[str, int]:
    topics = admin.list_topics(timeout=TIMEOUT_S).topics
    return {name: len(topics[name].partitions) for name in names if name in topics}


def test_a_topic_is_created_listed_described_grown_and_deleted(admin: AdminClient, topic: str) -> None:
    assert created(admin, NewTopic(topic, 3, 1, config={"retention.ms": "5000"})) == {topic: 0}
    assert created(admin, NewTopic(topic, 3, 1)) == {topic: KafkaError.TOPIC_ALREADY_EXISTS}
    described = admin.describe_topics(TopicCollection([topic]))[topic].result(TIMEOUT_S)
    assert [(p.id, p.leader.id, [r.id for r in p.isr]) for p in described.partitions] == [
        (index, 1, [1]) for index in range(3)
    ]
    assert grown(admin, NewPartitions(topic, 5)) == {topic: 0}
    assert sizes(admin, topic) == {topic: 5}
    assert outcome(admin.delete_topics([topic])[topic]) == 0
    assert sizes(admin, topic) == {}
    assert outcome(admin.delete_topics([topic])[topic]) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_what_cannot_be_created_says_why(admin: AdminClient, topic: str) -> None:
    refused = created(
        admin,
        NewTopic("a b", 1, 1),
        NewTopic("", 1, 1),
        NewTopic(f"{topic}-many-replicas", 1, 9),
        NewTopic(f"{topic}-config", 1, 1, config={"retention.ms": "soon"}),
        NewTopic(f"{topic}-key", 1, 1, config={"no.such.key": "1"}),
        NewTopic(f"{topic}-hand", 1, replica_assignment=[[7]]),
    )
    assert refused == {
        "a b": KafkaError.TOPIC_EXCEPTION,
        "": KafkaError.TOPIC_EXCEPTION,
        f"{topic}-many-replicas": KafkaError.INVALID_REPLICATION_FACTOR,
        f"{topic}-config": KafkaError.INVALID_CONFIG,
        f"{topic}-key": KafkaError.INVALID_CONFIG,
        f"{topic}-hand": KafkaError.INVALID_REPLICA_ASSIGNMENT,
    }


def test_validating_creates_nothing(admin: AdminClient, topic: str) -> None:
    assert created(admin, NewTopic(topic, 1, 1), validate_only=True) == {topic: 0}
    assert sizes(admin, topic) == {}


def test_growing_answers_for_every_topic(admin: AdminClient, topic: str) -> None:
    one, two = f"{topic}-one", f"{topic}-two"
    created(admin, NewTopic(one, 1, 1), NewTopic(two, 2, 1))
    assert grown(admin, NewPartitions(one, 2), NewPartitions(two, 2), NewPartitions(f"{topic}-nothing", 2)) == {
        one: 0,
        two: KafkaError.INVALID_PARTITIONS,
        f"{topic}-nothing": KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
    assert grown(admin, NewPartitions(one, 9), validate_only=True) == {one: 0}
    assert sizes(admin, one) == {one: 2}


def test_a_producer_creates_its_topic_by_asking_for_it(bootstrap: str, admin: AdminClient, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"value")
    assert producer.flush(TIMEOUT_S) == 0
    assert sizes(admin, topic) == {topic: 4}


def test_a_consumer_may_forbid_that(bootstrap: str, admin: AdminClient, topic: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "allow.auto.create.topics": False})
    metadata = consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
    consumer.close()
    assert metadata.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert sizes(admin, topic) == {}


def test_the_cluster_describes_itself(admin: AdminClient) -> None:
    cluster = admin.describe_cluster(include_authorized_operations=True).result(TIMEOUT_S)
    assert cluster.controller.id == 1
    assert [node.id for node in cluster.nodes] == [1]
    assert cluster.authorized_operations
    assert cluster.cluster_id == admin.list_topics(timeout=TIMEOUT_S).cluster_id


def test_idempotent_producers_have_ids_of_their_own(bootstrap: str, topic: str) -> None:
    def produce(number: int) -> int:
        producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        producer.produce(topic, str(number))
        return int(producer.flush(TIMEOUT_S))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(produce, range(12))) == [0] * 12


def test_kafka_python(bootstrap: str, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        admin.create_topics([PythonTopic(topic, 2, 1)])
        (described,) = admin.describe_topics([topic])
        assert [partition["leader_id"] for partition in described["partitions"]] == [1, 1]
        with pytest.raises(InvalidTopicError):
            admin.create_topics([PythonTopic("a/b", 1, 1)])
        admin.delete_topics([topic])
        assert topic not in admin.list_topics()
        with pytest.raises(UnknownTopicOrPartitionError):
            admin.delete_topics([topic])
    finally:
        admin.close()


async def test_aiokafka(bootstrap: str, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics([AioTopic(topic, 2, 1)])
        (described,) = await admin.describe_topics([topic])
        assert len(described["partitions"]) == 2
        await admin.delete_topics([topic])
        assert topic not in await admin.list_topics()
    finally:
        await admin.close()


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_kcat(bootstrap: str, admin: AdminClient, topic: str) -> None:
    created(admin, NewTopic(topic, 3, 1))
    listed = subprocess.run(
        ["kcat", "-b", bootstrap, "-L", "-J", "-t", topic], capture_output=True, check=True, timeout=TIMEOUT_S
    )
    metadata = json.loads(listed.stdout)
    assert metadata["controllerid"] == 1
    assert [broker["name"] for broker in metadata["brokers"]] == [bootstrap]
    assert [(p["partition"], p["leader"]) for p in metadata["topics"][0]["partitions"]] == [(0, 1), (1, 1), (2, 1)]
