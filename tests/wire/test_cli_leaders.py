"""`penstock leaders` against three nodes that balance only when they are asked to."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.cli.main import main
from penstock.cli.replicas import leader_balance
from penstock.testing import Cluster
from penstock.testing.quorum_view import wait_until

PINNED = "leader.balance.pinned"
SECONDS = 60


def penstock(cluster: Cluster, *arguments: str, exit_code: int = 0) -> Result:
    result = CliRunner().invoke(main, [*arguments, "--bootstrap-server", cluster.bootstrap_servers])
    assert result.exit_code == exit_code, result.output
    return result


def told(cluster: Cluster, *arguments: str) -> Any:
    return json.loads(penstock(cluster, *arguments, "--json").stdout)


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Broker 1 is preferred for everything."""
    monkeypatch.setattr(leader_balance, "LOOK_S", 0.01)
    with Cluster(nodes=3, config={"auto.leader.rebalance.enable": "false"}) as cluster:
        penstock(cluster, "topics", "--create", "--topic", "t", "--replica-assignment", ",".join(["1:2:3"] * 6))
        wait_until(lambda: "t" in told(cluster, "topics", "--list") or None, SECONDS, "the topic is known")
        yield cluster


def pin(cluster: Cluster, text: str) -> None:
    entity = ("--entity-type", "brokers", "--entity-default")
    penstock(cluster, "configs", "--alter", *entity, "--add-config", f"{PINNED}=[{text}]")
    wait_until(lambda: text in penstock(cluster, "configs", "--describe", *entity).stdout or None, SECONDS, "the pin")


def elsewhere(cluster: Cluster) -> dict[int, int]:
    """Who should lead each partition that another one leads."""
    return {row["partition"]: row["should_lead"] for row in told(cluster, "leaders", "show")["elsewhere"]}


def test_a_plan_is_made_written_compared_and_carried_out(three: Cluster) -> None:
    assert told(three, "leaders", "show")["elsewhere"] == []
    pin(three, "t:0:3,t:1:9")
    plan = told(three, "leaders", "plan", "--all")
    assert [row["planned"] for row in plan["brokers"]] == [2, 2, 2]
    assert [(row["planned"], row["pinned_to"]) for row in plan["partitions"]][:2] == [
        (3, "3"),
        (plan["partitions"][1]["planned"], "9, which has no replica"),
    ]
    ideal = {row["partition"]: row["planned"] for row in plan["partitions"]}
    assert "4 of 6 partitions would have another preferred leader" in penstock(three, "leaders", "plan").stdout
    assert told(three, "leaders", "show")["elsewhere"] == [], "nothing was written"

    assert "4 of 6 partitions have another preferred leader" in penstock(three, "leaders", "plan", "--execute").stdout
    moved = {index: leader for index, leader in ideal.items() if leader != 1}
    wait_until(lambda: elsewhere(three) == moved or None, SECONDS, "the plan is known")
    shown = told(three, "leaders", "show")
    assert [(row["should_lead"], row["leads"]) for row in shown["brokers"]] == [(2, 6), (2, 0), (2, 0)]
    dry = told(three, "leaders", "balance", "--dry-run")
    assert [(row["partition"], row["from"], row["to"]) for row in dry] == [(i, 1, to) for i, to in moved.items()]
    assert "SHOULD LEAD" in penstock(three, "leaders", "show").stdout

    assert "4 moved, 0 left to others" in penstock(three, "leaders", "balance").stdout
    assert [row["leads"] for row in told(three, "leaders", "show")["brokers"]] == [2, 2, 2]
    assert told(three, "leaders", "balance") == {"moved": 0, "left": [], "late_brokers": []}
    assert told(three, "leaders", "plan")["partitions"] == [], "what is balanced stays"


def test_a_storage_group_is_planned_and_moved_as_all_that_is_in_it(three: Cluster) -> None:
    consensus = ("--config", "replication.mode=consensus")
    penstock(three, "topics", "--create", "--topic", "c", "--replica-assignment", "1:2:3,1:2:3,1:2:3", *consensus)

    def shown() -> Any:
        return told(three, "leaders", "show")

    wait_until(lambda: sum(row["leads"] for row in shown()["brokers"]) == 9 or None, SECONDS, "the group has a leader")
    pin(three, "__storage_group:0:3,c:1:2")
    plan = penstock(three, "leaders", "plan", "--execute", "--json")
    assert "c:1:2 has no effect, it is in a storage group: pin __storage_group:0 instead" in plan.stderr
    planned = json.loads(plan.stdout)
    assert [row["planned"] for row in planned["brokers"]] == [3, 3, 3], "the group counts as the three in it"
    rows = [row for row in planned["partitions"] if row["topic"] != "t"]
    assert [(row["topic"], row["planned"]) for row in rows] == [("__storage_group", 3)]
    wait_until(lambda: [row["should_lead"] for row in shown()["brokers"]] == [3, 3, 3] or None, SECONDS, "the plan")
    penstock(three, "leaders", "balance")
    wait_until(lambda: [row["leads"] for row in shown()["brokers"]] == [3, 3, 3] or None, SECONDS, "all have moved")

    def leaders() -> set[int]:
        return {row["leader"] for row in told(three, "topics", "--describe", "--topic", "c")[0]["partitions"]}

    wait_until(lambda: leaders() == {3} or None, SECONDS, "what is in the group goes with it")
    refused = penstock(three, "leaders", "show", "--topic", "c", exit_code=1).output
    assert "what is in a storage group moves with its partition of __storage_group" in refused


def test_a_plan_by_bytes_of_what_nobody_writes_to_is_one_by_count(three: Cluster) -> None:
    plan = told(three, "leaders", "plan", "--by", "bytes", "--measure", "0.2")
    assert sum(row["bytes_per_second"] for row in plan["brokers"]) == 0
    assert [row["planned"] for row in plan["brokers"]] == [2, 2, 2]


def test_kafkas_preferred_election_goes_by_the_plan(three: Cluster) -> None:
    penstock(three, "leaders", "plan", "--execute")
    wait_until(lambda: len(elsewhere(three)) == 4 or None, SECONDS, "the plan is known")
    penstock(three, "leader-election", "--election-type", "preferred", "--all-topic-partitions")
    wait_until(lambda: not elsewhere(three) or None, SECONDS, "who should lead leads")


def test_what_cannot_be_understood_is_said(three: Cluster) -> None:
    entity = ("--entity-type", "brokers", "--entity-default", "--add-config", f"{PINNED}=[t:0]")
    refused = penstock(three, "configs", "--alter", *entity, exit_code=1)
    assert "topic:partition:broker" in refused.output
    one = ("--entity-type", "brokers", "--entity-name", "1", "--add-config", f"{PINNED}=[t:0:1]")
    assert "for all brokers, not for one" in penstock(three, "configs", "--alter", *one, exit_code=1).output
    assert "no regular expression" in penstock(three, "leaders", "show", "--topic", "(", exit_code=2).output
