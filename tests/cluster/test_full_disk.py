"""A disk that is full, and has room again: nothing acknowledged is lost, nobody hangs, and the node goes on by itself.
Where other replicas are in sync one of them leads meanwhile.

A limit on the size of files stands for the full disk: it needs no rights, and it can be lifted while the node runs.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator

import psutil
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.wire.raw_client import RawClient, batch_of

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.records import decode_batch, iterate_batches
from penstock.testing import Cluster
from penstock.testing.quorum_view import wait_until

TOPIC = "filling"
LIMIT_BYTES = 256 * 1024
MAX_TRIES = 2_000
SECONDS = 60


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(process=True) as cluster:
        yield cluster


def limit_files(cluster: Cluster, limit_bytes: int, node_id: int | None = None) -> None:
    pid = cluster.pid if node_id is None else cluster.node(node_id).pid
    assert pid is not None, "it would be this process that is limited"
    psutil.Process(pid).rlimit(psutil.RLIMIT_FSIZE, (limit_bytes, resource.RLIM_INFINITY))


def produce_until_full(client: RawClient, acknowledged: dict[int, bytes]) -> int:
    """Produce to the first error; its code."""
    for number in range(MAX_TRIES):
        value = b"%d " % number + b"v" * 5000
        answer = client.produce(TOPIC, batch_of(value))
        if answer.error_code:
            return answer.error_code
        acknowledged[answer.base_offset] = value
    return 0


def stored(client: RawClient) -> dict[int, bytes | None]:
    found: dict[int, bytes | None] = {}
    records = client.fetch(TOPIC, 0).records
    while records:
        for position, _ in iterate_batches(records):
            found |= {record.offset: record.value for record in decode_batch(records, position)}
        records = client.fetch(TOPIC, max(found) + 1).records
    return found


def create(client: RawClient, name: str) -> int:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return int(client.ask(CreateTopicsRequest(topics=[topic])).topics[0].error_code)


@pytest.mark.parametrize("ending", ["kill", "stop"])
def test_records(cluster: Cluster, ending: str) -> None:
    acknowledged: dict[int, bytes] = {}
    with RawClient(cluster.bootstrap_servers) as client:
        client.create_topic(TOPIC)
        limit_files(cluster, LIMIT_BYTES)
        assert produce_until_full(client, acknowledged) == ErrorCode.KAFKA_STORAGE_ERROR
        assert len(acknowledged) > 10
        assert stored(client) == acknowledged
        limit_files(cluster, 2 * LIMIT_BYTES)
        assert produce_until_full(client, acknowledged) == ErrorCode.KAFKA_STORAGE_ERROR
        assert stored(client) == acknowledged
    getattr(cluster, ending)()
    cluster.restart()
    with RawClient(cluster.bootstrap_servers) as client:
        assert stored(client) == acknowledged


def test_metadata(cluster: Cluster) -> None:
    with RawClient(cluster.bootstrap_servers) as client:
        limit_files(cluster, 4096)
        created = [f"topic-{number}" for number in range(MAX_TRIES)]
        codes: list[int] = []
        while not codes or not codes[-1]:
            codes.append(create(client, created[len(codes)]))
        assert codes[-1] == ErrorCode.KAFKA_STORAGE_ERROR
        assert create(client, "another") == ErrorCode.KAFKA_STORAGE_ERROR
        assert client.lives()
        limit_files(cluster, resource.RLIM_INFINITY)
        assert create(client, "another") == ErrorCode.NONE
    cluster.kill()
    cluster.restart()
    with RawClient(cluster.bootstrap_servers) as client:
        assert client.produce("another", batch_of(b"v")).error_code == ErrorCode.NONE
        assert create(client, created[0]) == ErrorCode.TOPIC_ALREADY_EXISTS
        assert create(client, created[len(codes) - 1]) == ErrorCode.NONE


def test_a_leader_gives_way_to_a_replica_that_has_room() -> None:
    """Producers hear of no error; when there is room again it is in sync, and may lead."""
    with Cluster(nodes=3, process=True) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        topic = NewTopic(TOPIC, num_partitions=1, replica_assignment=[[1, 2, 3]], config={"min.insync.replicas": "2"})
        admin.create_topics([topic])[TOPIC].result()

        def in_sync(*, leads_still: bool) -> bool | None:
            found = admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions[0]
            return (len(found.isrs) == 3 and (found.leader == 1 or not leads_still)) or None

        wait_until(lambda: in_sync(leads_still=True), SECONDS, "all are in sync")
        limit_files(cluster, LIMIT_BYTES, 1)
        told: list[object] = []
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True})
        for number in range(200):
            producer.produce(TOPIC, b"%d " % number + b"v" * 5000, on_delivery=lambda error, _: told.append(error))
            producer.poll(0)
        assert producer.flush(SECONDS) == 0
        assert told == [None] * 200
        found = admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions[0]
        assert (found.leader in (2, 3), sorted(found.isrs)) == (True, [2, 3])
        limit_files(cluster, resource.RLIM_INFINITY, 1)
        wait_until(lambda: in_sync(leads_still=False), SECONDS, "it is in sync again")
