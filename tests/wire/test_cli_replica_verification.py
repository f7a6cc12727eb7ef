"""`penstock replica-verification` against three nodes, one of which has other bytes."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer

from penstock.cli.main import main
from penstock.testing import Cluster

PARTITIONS = 3


def verified(cluster: Cluster, topic: str, exit_code: int = 0) -> list[str]:
    """What it says of a topic, without the times."""
    words = ["replica-verification", "--once", "--max-wait-ms", "50", "--topics-include", topic]
    result: Result = CliRunner().invoke(main, [*words, "--bootstrap-server", str(cluster.nodes[0].address)])
    assert result.exit_code == exit_code, result.output
    lines = result.stdout.splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}: ", line) for line in lines)
    return [line[25:] for line in lines]


@pytest.fixture
def three() -> Iterator[Cluster]:
    with Cluster(nodes=3) as cluster:
        options = ["--topic", "t", "--partitions", str(PARTITIONS), "--replication-factor", "3"]
        servers = ["--bootstrap-server", cluster.bootstrap_servers]
        assert CliRunner().invoke(main, ["topics", "--create", *options, *servers]).exit_code == 0
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "linger.ms": 0})
        for number in range(30):
            producer.produce("t", b"v%d" % number, partition=number % PARTITIONS)
            producer.poll(0)
        assert producer.flush(30) == 0
        yield cluster


def test_replicas_that_agree(three: Cluster) -> None:
    begun, said = verified(three, "t")
    assert begun == "verification process is started"
    assert re.fullmatch(r"max lag is 0 for partition t-\d at offset 10 among 3 partitions", said)


def replicas(cluster: Cluster, exit_code: int = 0) -> list[dict[str, Any]]:
    words = ["offsets", "--replicas", "--topic", "t", "--partitions", "1", "--json"]
    result = CliRunner().invoke(main, [*words, "--bootstrap-server", str(cluster.nodes[0].address)])
    assert result.exit_code == exit_code, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


def test_how_far_each_replica_is(three: Cluster) -> None:
    rows = replicas(three)
    assert sorted(row["replica"] for row in rows) == [1, 2, 3]
    assert [row["leader"] for row in rows].count(True) == 1
    assert {(row["in_sync"], row["log_start"], row["log_end"], row["lag"]) for row in rows} == {(True, 0, 10, 0)}
    assert [row["high_watermark"] for row in rows if row["leader"]] == [10]
    assert all(0 <= row["high_watermark"] <= 10 for row in rows)
    three.nodes[2].stop()
    left = {row["replica"]: row for row in replicas(three, exit_code=1)}
    assert [left[3][name] for name in ("log_start", "high_watermark", "log_end", "lag")] == [None] * 4
    assert left[1]["log_end"] == left[2]["log_end"] == 10


def test_a_replica_with_other_bytes_is_named(three: Cluster) -> None:
    follower = three.nodes[1]
    follower.stop()
    (path,) = follower.directory.glob("t-1/*.log")
    data = bytearray(path.read_bytes())
    data[17] ^= 1  # the checksum of the first batch
    follower.start()
    path.write_bytes(data)
    said = verified(three, "t", exit_code=1)
    assert any(
        re.match(r"partition t-1 has unmatched checksum at offset \d+; replica 1's checksum", line) for line in said
    )
