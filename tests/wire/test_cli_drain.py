"""`penstock cluster drain` against four nodes, of which one goes."""

import json
import threading
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer

from penstock.cli.main import main
from penstock.testing import Cluster
from penstock.testing.quorum_view import wait_until

PARTITIONS = 60


def penstock(cluster: Cluster, *arguments: str, exit_code: int = 0) -> Result:
    result = CliRunner().invoke(main, [*arguments, "--bootstrap-server", str(cluster.nodes[0].address)])
    assert result.exit_code == exit_code, result.output
    return result


@pytest.fixture
def four() -> Iterator[Cluster]:
    with Cluster(nodes=4) as cluster:
        yield cluster


def replicas(cluster: Cluster, topic: str) -> list[list[int]]:
    shown = penstock(cluster, "topics", "--describe", "--topic", topic, "--json").stdout
    return [row["replicas"] for row in json.loads(shown)[0]["partitions"]]


def group_of_topic_c(cluster: Cluster) -> None:
    """A storage group with a replica on broker 4 begins, and leads the partitions of a topic."""
    penstock(cluster, "storage-groups", "--create", "--replicas", "4,1,2")
    keys = ("--config", "replication.mode=consensus", "--config", "storage.group=0")
    penstock(cluster, "topics", "--create", "--topic", "c", "--partitions", "2", "--replication-factor", "3", *keys)

    def is_led() -> bool | None:
        (shown,) = json.loads(penstock(cluster, "storage-groups", "--json").stdout)
        return shown["leader"] >= 0 or None

    wait_until(is_led, 30, "the storage group has a leader")


def test_a_broker_is_drained_and_forgotten_when_it_is_stopped(four: Cluster) -> None:
    options = ("--topic", "t", "--partitions", str(PARTITIONS), "--replication-factor", "3")
    penstock(four, "topics", "--create", *options)
    producer = Producer({"bootstrap.servers": four.bootstrap_servers, "acks": "all"})
    for index in range(PARTITIONS):
        producer.produce("t", b"v", partition=index)
    assert producer.flush(30) == 0
    group_of_topic_c(four)
    said = penstock(four, "cluster", "drain", "4", "--keep", "--throttle", "100000000").stdout
    assert "Broker 4 has no replicas any more; " in said
    assert "Clearing topic-level throttles on topics __storage_group,t" in said
    assert "Broker 4 gets no new replicas until `penstock configs --alter --broker 4 --delete-config" in said
    shown = penstock(four, "cluster", "drain-status").stdout
    assert "broker 4 has no replicas, and may be stopped\n" in shown
    (status,) = json.loads(penstock(four, "cluster", "drain-status", "--json").stdout)
    assert (status["broker"], status["state"], status["cordoned"], status["replicas"]) == (4, "drained", True, 0)
    penstock(four, "topics", "--create", "--topic", "later", "--partitions", "12", "--replication-factor", "2")
    for topic in ("t", "c", "__storage_group", "later"):
        assert {node for nodes in replicas(four, topic) for node in nodes} == {1, 2, 3}

    outcome: list[Result] = []
    waiting = threading.Thread(target=lambda: outcome.append(penstock(four, "cluster", "drain", "4")))
    waiting.start()
    four.nodes[3].stop()
    waiting.join(60)
    assert "Broker 4 has no replicas any more; 0 moved." in outcome[0].stdout
    assert outcome[0].stdout.endswith("Broker 4 is no longer registered.\n")

    def is_forgotten() -> bool | None:
        rows = penstock(four, "cluster", "describe", "--include-fenced-brokers", "--json").stdout
        return [row["node_id"] for row in json.loads(rows)["brokers"]] == [1, 2, 3] or None

    wait_until(is_forgotten, 30, "broker 4 is forgotten")
    refused = penstock(four, "cluster", "drain", "3", exit_code=1).stderr
    assert "-0 has 3 replicas, and 2 other brokers are in service and not cordoned: start another broker" in refused
    assert {node for nodes in replicas(four, "t") for node in nodes} == {1, 2, 3}, "nothing has begun"
    assert "there is no broker 4" in penstock(four, "cluster", "drain", "4", exit_code=1).stderr
