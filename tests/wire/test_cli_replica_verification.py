"""`penstock replica-verification` against three nodes, one of which has other bytes."""

import re
from collections.abc import Iterator

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
