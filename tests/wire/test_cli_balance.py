"""`penstock balance` against four nodes, of which one has nothing yet."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer

from penstock.cli.main import main
from penstock.cli.replicas import balance_moves
from penstock.testing import Cluster
from penstock.testing.quorum_view import wait_until

MEASURE = ("--measure", "0.1")
SECONDS = 60


def penstock(cluster: Cluster, *arguments: str, exit_code: int = 0) -> Result:
    result = CliRunner().invoke(main, [*arguments, "--bootstrap-server", cluster.bootstrap_servers])
    assert result.exit_code == exit_code, result.output
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


def held(cluster: Cluster, topics: str = "t") -> Counter[int]:
    shown: Any = json.loads(penstock(cluster, "topics", "--describe", "--topic", topics, "--json").stdout)
    return Counter(node for topic in shown for row in topic["partitions"] for node in row["replicas"])


def test_a_new_node_gets_its_share_of_the_disks(four: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    plan = json.loads(penstock(four, "balance", "plan", *MEASURE, "--file", str(path), "--json").stdout)
    assert [row["replicas"] for row in plan["brokers"]] == [4, 4, 4, 0]
    assert [row["replicas_planned"] for row in plan["brokers"]] == [3, 3, 3, 3]
    assert held(four)[4] == 0, "a plan moves nothing"
    small = json.loads(penstock(four, "balance", "plan", *MEASURE, "--capacity", "4=0.34", "--json").stdout)
    assert [row["replicas_planned"] for row in small["brokers"]][3] == 1
    assert (
        "no disk is fuller than 100%" in penstock(four, "balance", "relieve", "--max-disk-usage-percent", "100").stderr
    )
    full = json.loads(penstock(four, "balance", "relieve", "--max-disk-usage-percent", "1", "--json").stdout)
    assert [(row["broker"], row["leaves"]) for row in full["disks"]] == [(1, 0), (2, 0), (3, 0), (4, 0)]
    left = sorted(row["broker"] for row in full["left"])
    assert left == [1, 2, 3, 4], "none of them has room for what is on the others"
    nowhere = str(tmp_path / "nowhere" / "plan.json")
    told = penstock(four, "balance", "plan", *MEASURE, "--file", nowhere, exit_code=1)
    assert "PLANNED" in told.stdout, "what was found out is not lost"
    assert f"the plan could not be written to {nowhere}: No such file" in told.stderr

    said = penstock(four, "balance", "execute", "--file", str(path), "--at-once", "2").stdout
    assert "3 partitions have moved" in said
    assert "Clearing topic-level throttles on topic t" in said
    assert held(four) == {1: 3, 2: 3, 3: 3, 4: 3}
    assert "nothing moves" in penstock(four, "balance", "execute", *MEASURE).stdout
    assert "stop it" in penstock(four, "cluster", "unregister", "--id", "4").stderr, "it runs, and registers anew"


def test_storage_groups_get_there_with_all_that_is_in_them(four: Cluster) -> None:
    for group, topic in enumerate(("a", "b")):
        penstock(four, "storage-groups", "--create", "--replicas", "1,2,3")
        mode = ("--config", "replication.mode=consensus", "--config", f"storage.group={group}")
        penstock(four, "topics", "--create", "--topic", topic, "--replica-assignment", "1:2:3,1:2:3", *mode)
    producer = Producer({"bootstrap.servers": four.bootstrap_servers, "acks": "all"})
    for topic in ("a", "b"):
        producer.produce(topic, bytes(900_000), partition=1)
    assert producer.flush(30) == 0

    groups = ("--topic", "__storage_group", *MEASURE)

    def planned() -> Any:
        plan = json.loads(penstock(four, "balance", "plan", *groups, "--json").stdout)
        return plan if [row["disk_bytes"] // 1_000_000 for row in plan["brokers"]] == [1, 1, 1, 0] else None

    plan = wait_until(planned, SECONDS, "each of three brokers has 1.8 MB in two groups")
    assert {row["topic"] for row in plan["partitions"]} == {"__storage_group"}
    assert " moved\n" in penstock(four, "balance", "execute", *groups).stdout
    wait_until(lambda: sorted(held(four, "[ab]").values()) == [2, 2, 4, 4] or None, SECONDS, "the topics moved")
