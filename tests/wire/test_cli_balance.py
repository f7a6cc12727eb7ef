"""`penstock balance` against four nodes, of which one has nothing yet."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer

from penstock.cli import balance_moves
from penstock.cli.main import main
from penstock.testing import Cluster

MEASURE = ("--measure", "0.1")


def penstock(cluster: Cluster, *arguments: str) -> Result:
    result = CliRunner().invoke(main, [*arguments, "--bootstrap-server", cluster.bootstrap_servers])
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture
def four(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setattr(balance_moves, "LOOK_S", 0.05)
    with Cluster(nodes=4) as cluster:
        penstock(cluster, "topics", "--create", "--topic", "t", "--replica-assignment", "1:2,2:3,3:1,1:2,2:3,3:1")
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
        for index in range(6):
            producer.produce("t", bytes(100_000), partition=index)
        assert producer.flush(30) == 0
        yield cluster


def held(cluster: Cluster) -> Counter[int]:
    shown: Any = json.loads(penstock(cluster, "topics", "--describe", "--topic", "t", "--json").stdout)
    return Counter(node for row in shown[0]["partitions"] for node in row["replicas"])


def test_a_new_node_gets_its_share_of_the_disks(four: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    plan = json.loads(penstock(four, "balance", "plan", *MEASURE, "--file", str(path), "--json").stdout)
    assert [row["replicas"] for row in plan["brokers"]] == [4, 4, 4, 0]
    assert [row["replicas_planned"] for row in plan["brokers"]] == [3, 3, 3, 3]
    assert held(four)[4] == 0, "a plan moves nothing"
    assert "PLANNED" in penstock(four, "balance", "plan", *MEASURE).stdout

    said = penstock(four, "balance", "execute", "--file", str(path), "--at-once", "2").stdout
    assert "3 partitions have moved" in said
    assert "Clearing topic-level throttles on topic t" in said
    assert held(four) == {1: 3, 2: 3, 3: 3, 4: 3}
    assert "nothing moves" in penstock(four, "balance", "execute", *MEASURE).stdout
