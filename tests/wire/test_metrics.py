"""The figures of a node that confluent-kafka writes to and reads from agree with what it sent, to the last byte."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.wire.scraped import Figures, scraped

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.node.assembly.monitoring import Monitoring
from penstock.node.assembly.quorum_start import QuorumParts
from penstock.node.assembly.start import start_node
from penstock.node.monitoring.http import Asked, Told
from penstock.node.monitoring.names import family_of
from penstock.node.serving.server import BoundListener, Endpoint

WAIT_S = 30
RECORDS = 1_234
LEFT = 34
_TOPIC = {"topic"}
_PARTITION = {"topic", "partition"}
_NONE: set[str] = set()
STRIMZI = {
    "strimzi-kafka": {
        "kafka_server_replicamanager_leadercount": _NONE,
        "kafka_controller_kafkacontroller_activecontrollercount": _NONE,
        "kafka_controller_controllerstats_uncleanleaderelections_total": _NONE,
        "kafka_server_replicamanager_partitioncount": _NONE,
        "kafka_server_replicamanager_underreplicatedpartitions": _NONE,
        "kafka_cluster_partition_atminisr": _NONE,
        "kafka_cluster_partition_underminisr": _NONE,
        "kafka_cluster_partition_replicascount": _TOPIC,
        "kafka_controller_kafkacontroller_offlinepartitionscount": _NONE,
        "process_open_fds": _NONE,
        "kafka_server_brokertopicmetrics_bytesin_total": _TOPIC,
        "kafka_server_brokertopicmetrics_bytesout_total": _TOPIC,
        "kafka_server_brokertopicmetrics_messagesin_total": _TOPIC,
        "kafka_server_brokertopicmetrics_totalproducerequests_total": _TOPIC,
        "kafka_server_brokertopicmetrics_failedproducerequests_total": _TOPIC,
        "kafka_server_brokertopicmetrics_totalfetchrequests_total": _TOPIC,
        "kafka_server_brokertopicmetrics_failedfetchrequests_total": _TOPIC,
        "kafka_network_socketserver_networkprocessoravgidle_percent": _NONE,
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent": _NONE,
        "kafka_server_kafkaserver_linux_disk_write_bytes": _NONE,
        "kafka_server_kafkaserver_linux_disk_read_bytes": _NONE,
        "kafka_server_socket_server_metrics_connection_count": {"listener"},
        "kafka_log_log_size": _PARTITION,
    },
    "strimzi-kraft": {
        "process_open_fds": _NONE,
        "kafka_server_raftmetrics_append_records_rate": _NONE,
        "kafka_server_raftmetrics_fetch_records_rate": _NONE,
        "kafka_server_raftmetrics_commit_latency_avg": _NONE,
        "kafka_server_raftmetrics_current_state": {"current_state"},
        "kafka_server_raftmetrics_current_leader": _NONE,
        "kafka_server_raftmetrics_current_vote": _NONE,
        "kafka_server_raftmetrics_current_epoch": _NONE,
        "kafka_server_raftchannelmetrics_incoming_byte_total": _NONE,
        "kafka_server_raftchannelmetrics_outgoing_byte_total": _NONE,
        "kafka_server_raftchannelmetrics_request_total": _NONE,
        "kafka_server_raftchannelmetrics_response_total": _NONE,
        "kafka_server_raftmetrics_high_watermark": _NONE,
        "kafka_server_raftmetrics_log_end_offset": _NONE,
    },
    "strimzi-kafka-exporter": {
        "kafka_broker_info": _NONE,
        "kafka_topic_partitions": _TOPIC,
        "kafka_topic_partition_replicas": _TOPIC,
        "kafka_topic_partition_in_sync_replica": _TOPIC,
        "kafka_topic_partition_under_replicated_partition": _TOPIC,
        "kafka_cluster_partition_atminisr": _TOPIC,
        "kafka_cluster_partition_underminisr": _TOPIC,
        "kafka_topic_partition_leader_is_preferred": _TOPIC,
        "kafka_topic_partition_current_offset": _PARTITION,
        "kafka_topic_partition_oldest_offset": _PARTITION,
        "kafka_consumergroup_current_offset": _PARTITION | {"consumergroup"},
        "kafka_consumergroup_lag": _PARTITION | {"consumergroup"},
    },
}
"""What the expressions of Strimzi's dashboards ask for: names, with labels that they select or sum by. Those of the
cluster and the pod come from the scrape; the JVM's and the containers' are left out. `tests.metrics_beside_kafka` holds
this against the dashboards and against Kafka.
"""
WITH_PARTITIONS = {
    "strimzi-kafka": ["kafka_log_log_size"],
    "strimzi-kafka-exporter": ["kafka_topic_partition_current_offset", "kafka_topic_partition_oldest_offset"],
}
"""Those that have a partition at `penstock.metrics.level=partitions` alone."""


def create(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        future.result(WAIT_S)


def produce(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "compression.type": "lz4"})
    for number in range(count):
        producer.produce(topic, key=str(number), value=b"v" * (number % 200))
    assert producer.flush(WAIT_S) == 0


def consume(bootstrap: str, topic: str, partitions: int, count: int) -> None:
    """All records, and commit all but `LEFT` of the first partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    seen = 0
    ends: dict[int, int] = {}
    while seen < count:
        message = consumer.poll(WAIT_S)
        assert message is not None
        assert message.error() is None
        ends[message.partition() or 0] = (message.offset() or 0) + 1
        seen += 1
    ends[0] -= LEFT
    consumer.commit(offsets=[TopicPartition(topic, index, end) for index, end in ends.items()], asynchronous=False)
    consumer.close()


def of(figures: Figures, name: str, **labels: str) -> float:
    return figures[name, frozenset(labels.items())]


async def test_figures_agree_with_what_clients_did(tmp_path: Path) -> None:
    async with scraped(tmp_path) as it:
        await asyncio.to_thread(create, it.bootstrap, "orders", 3)
        await asyncio.to_thread(produce, it.bootstrap, "orders", RECORDS)
        await asyncio.to_thread(consume, it.bootstrap, "orders", 3, RECORDS)
        await asyncio.to_thread(create, it.bootstrap, "idle", 1)
        logs = [it.node.broker.partition("orders", index).log for index in range(3)]
        size = sum(log.size_bytes for log in logs)
        topic = "kafka_server_brokertopicmetrics"
        figures = await it.until("kafka_consumergroup_lag_sum", LEFT, consumergroup="readers", topic="orders")
        assert of(figures, f"{topic}_messagesin_total", topic="orders") == RECORDS
        assert of(figures, f"{topic}_bytesin_total", topic="orders") == size
        assert of(figures, f"{topic}_bytesout_total", topic="orders") == size
        assert of(figures, "kafka_log_log_size", topic="orders") == size
        assert of(figures, "kafka_log_log_size", topic="idle") == 0
        assert of(figures, "kafka_topic_partition_current_offset", topic="orders") == RECORDS
        lag = {"consumergroup": "readers", "topic": "orders"}
        assert of(figures, "kafka_consumergroup_lag", **lag, partition="0") == LEFT
        assert of(figures, "kafka_consumergroup_lag", **lag, partition="1") == 0
        assert of(figures, "kafka_coordinator_group_groupmetadatamanager_numoffsets") == 3
        assert of(figures, "kafka_server_group_coordinator_metrics_offset_count") == 3
        assert of(figures, "penstock_request_seconds_count", request="Produce") >= 3
        assert of(figures, "kafka_server_replicamanager_leadercount") == 3 + 1 + 50
        assert of(figures, "kafka_cluster_partition_replicascount", topic="orders") == 3
        assert of(figures, "kafka_cluster_partition_underminisr", topic="orders", partition="") == 0
        sent = of(figures, "kafka_network_requestmetrics_requestbytes_sum", request="Produce")
        assert size < sent < size + 200 * of(figures, "penstock_request_seconds_count", request="Produce")
        assert without_value(figures) == WITH_PARTITIONS


def without_value(figures: Figures) -> dict[str, list[str]]:
    """Of Strimzi's dashboards, the names of which no figure has all the labels that are asked for."""
    labels = [(name, {label for label, _ in of_it}) for (name, of_it) in figures]
    return {
        board: missing
        for board, asked in STRIMZI.items()
        if (
            missing := [
                name for name, needs in asked.items() if not any(name == n and needs <= has for n, has in labels)
            ]
        )
    }


async def test_the_page_may_be_packed_and_the_node_says_that_it_is_ready(tmp_path: Path) -> None:
    async with scraped(tmp_path) as it:
        status, head, body = await it.get("/metrics", "Accept-Encoding: gzip")
        assert (status, "Content-Encoding: gzip" in head) == (200, True)
        assert b"kafka_server_raftmetrics_current_leader 1\n" in gzip.decompress(body)
        status, _, body = await it.get("/health/ready")
        assert (status, set(json.loads(body).values())) == (200, {True})
        assert len(json.loads(body)) == 6
        it.node.broker.lease.ends()
        status, _, body = await it.get("/health/ready")
        assert (status, [name for name, holds in json.loads(body).items() if not holds]) == (503, ["holds its lease"])
        assert (await it.get("/health/live"))[0] == 200


async def test_each_partition_is_told_where_that_is_asked_for(tmp_path: Path) -> None:
    async with scraped(tmp_path, penstock_metrics_level="partitions", penstock_metrics_max_topics="1") as it:
        await asyncio.to_thread(create, it.bootstrap, "orders", 2)
        await asyncio.to_thread(produce, it.bootstrap, "orders", 100)
        await asyncio.to_thread(create, it.bootstrap, "payments", 1)
        await asyncio.to_thread(produce, it.bootstrap, "payments", 10)
        figures = await it.until("kafka_server_brokertopicmetrics_messagesin_total", 10, topic="other")
        assert of(figures, "kafka_server_brokertopicmetrics_messagesin_total", topic="orders") == 100
        assert of(figures, "kafka_server_brokertopicmetrics_messagesin_total") == 110
        assert of(figures, "kafka_topic_partition_current_offset", topic="payments", partition="0") == 10
        assert of(figures, "kafka_topic_partition_in_sync_replica", topic="orders") == 2
        assert of(figures, "kafka_topic_partitions", topic="other") == 1
        unwell = {key: value for key, value in figures.items() if key[0] == "kafka_cluster_partition_underreplicated"}
        assert set(unwell.values()) == {0}
        await asyncio.to_thread(consume, it.bootstrap, "orders", 2, 100)
        figures = await it.until("kafka_consumergroup_lag_sum", LEFT, consumergroup="readers", topic="orders")
        assert without_value(figures) == {}


async def test_fifty_scrapes_at_once_and_one_after_the_other_are_answered_while_clients_are_served(
    tmp_path: Path,
) -> None:
    async with scraped(tmp_path) as it:
        await asyncio.to_thread(create, it.bootstrap, "orders", 1)
        producing = asyncio.ensure_future(asyncio.to_thread(produce, it.bootstrap, "orders", RECORDS))
        for _ in range(4):
            pages = await asyncio.gather(*(it.get("/metrics", "Accept-Encoding: gzip") for _ in range(50)))
            assert {status for status, _, _ in pages} == {200}
            assert len({body for _, _, body in pages}) <= 3, "those who ask together are told the same"
        await producing
        await it.until("kafka_server_brokertopicmetrics_messagesin_total", RECORDS, topic="orders")


async def test_a_node_that_begins_has_a_page_and_is_not_ready(tmp_path: Path) -> None:
    config = BrokerConfig.embedded({"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)})
    names: list[str] = []
    asked: list[asyncio.Task[Told]] = []

    def on_parts(parts: QuorumParts) -> None:
        listener = BoundListener(Endpoint("METRICS", "127.0.0.1", 0))
        listener.close()
        monitoring = Monitoring(parts, listener)
        names.extend(family_of(metric).name for metric in monitoring._all() for _ in metric.samples())
        asked.append(asyncio.create_task(monitoring._health.ready(Asked("/health/ready", {}))))

    node = await start_node(config, on_parts=on_parts)
    await node.stop()
    assert "process_start_time_seconds" in names
    assert (await asked[0]).status == 503
