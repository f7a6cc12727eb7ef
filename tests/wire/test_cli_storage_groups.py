"""`penstock storage-groups`, and what the other commands make of topics that are replicated by consensus."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.cli.main import main
from penstock.testing import Cluster
from penstock.testing.quorum_view import wait_until

SECONDS = 60


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    with Cluster(nodes=3) as cluster:
        yield cluster


def penstock(cluster: Cluster, *arguments: str, exit_code: int = 0) -> Result:
    result = CliRunner().invoke(main, [*arguments, "--bootstrap-server", str(cluster.nodes[0].address)])
    assert result.exit_code == exit_code, result.output
    return result


def told(cluster: Cluster, *arguments: str) -> Any:
    return json.loads(penstock(cluster, *arguments, "--json").stdout)


def test_groups_are_shown_and_made(three: Cluster) -> None:
    assert told(three, "storage-groups") == []
    assert "no storage group" in penstock(three, "storage-groups").stderr
    create = ("topics", "--create", "--partitions", "2", "--replication-factor", "3")
    penstock(three, *create, "--topic", "orders", "--config", "replication.mode=consensus")
    penstock(three, *create, "--topic", "flights")
    made = penstock(three, "storage-groups", "--create", "--replicas", "2,1").stdout
    assert made == "created storage group 1, in which 2,1 vote\n"
    assert told(three, "storage-groups", "--create", "--replication-factor", "1")["group"] == 2

    def all_known() -> Any:
        """Another broker than the one that made something may have heard of it already."""
        names = told(three, "topics", "--list")
        groups = told(three, "storage-groups")
        all_led = len(groups) == 3 and all(group["leader"] > 0 for group in groups)
        return groups if all_led and {"orders", "flights"} <= set(names) else None

    first, second, _ = wait_until(all_known, SECONDS, "what was made is known, and led")
    assert first["leader"] in first["isr"]
    assert (first["group"], sorted(first["voters"])) == (0, [1, 2, 3])
    assert first["topics"] == [{"topic": "orders", "partitions": 2}]
    assert (second["group"], second["voters"], second["topics"]) == (1, [2, 1], [])
    table = penstock(three, "storage-groups", "--describe", "--group", "0").stdout
    assert table.split()[:6] == ["GROUP", "LEADER", "VOTERS", "ISR", "TOPICS", "PARTITIONS"]
    assert table.splitlines()[-1].split() == ["0", "orders", "2"]
    assert "there is no storage group 9" in penstock(three, "storage-groups", "--group", "9", exit_code=1).stderr

    orders, flights = (told(three, "topics", "--describe", "--topic", name)[0] for name in ("orders", "flights"))
    assert (orders["replication_mode"], orders["storage_group"]) == ("consensus", 0)
    assert (flights["replication_mode"], flights["storage_group"]) == ("isr", None)
    described = penstock(three, "topics", "--describe", "--topic", "orders").stdout.splitlines()[1].split()
    assert described[4:6] == ["consensus", "0"]

    groups = told(three, "topics", "--describe", "--topic", "__storage_group")[0]
    assert (groups["replication_mode"], groups["storage_group"]) == ("consensus", None)
    planned = told(three, "leaders", "plan", "--all")["partitions"]
    assert {row["topic"] for row in planned} & {"orders", "flights", "__storage_group"} == {
        "flights",
        "__storage_group",
    }
    voters = {(1, 0), (2, 0), (3, 0), (1, 1), (2, 1)}
    wait_until(lambda: voters <= logs_of_groups(three) or None, SECONDS, "the groups' logs")
    assert voters <= logs_of_groups(three, "--topic-list", "__storage_group")

    _expect_all_but_groups_read(three)

    # What others decide is refused in plain words.
    refused = penstock(three, "cluster", "drain", "1", exit_code=1).stderr
    assert "2 other brokers are in service" in refused
    elect = ("leader-election", "--election-type", "preferred", "--topic", "orders", "--partition", "0")
    assert "its storage group decides who leads it" in penstock(three, *elect, exit_code=1).output
    elect = ("leader-election", "--election-type", "preferred", "--topic", "__storage_group", "--partition", "0")
    refused = penstock(three, *elect, exit_code=1).output
    assert "its replicas elect who leads it; penstock leaders balance gives the lead" in refused
    change = ("--entity-type", "topics", "--entity-name", "orders", "--add-config", "replication.mode=isr")
    kept = penstock(three, "configs", "--alter", *change, exit_code=1).stderr
    assert "replication.mode: it is decided when a topic is created" in kept
    delete = penstock(three, "topics", "--delete", "--topic", "__storage_group", exit_code=1)
    assert "none is ever deleted" in delete.stderr


def test_a_proposal_of_moves_has_groups_and_not_what_is_in_them(three: Cluster, tmp_path: Path) -> None:
    penstock(three, "storage-groups", "--create", "--replicas", "1,2")
    consensus = ("--config", "replication.mode=consensus")
    penstock(three, "topics", "--create", "--topic", "inside", "--replication-factor", "3", *consensus)
    wait_until(lambda: "inside" in told(three, "topics", "--list"), SECONDS, "the broker that is asked knows the topic")
    file = tmp_path / "topics.json"

    def generated(*topics: str, exit_code: int = 0) -> Result:
        file.write_text(json.dumps({"topics": [{"topic": topic} for topic in topics], "version": 1}))
        options = ("--topics-to-move-json-file", str(file), "--broker-list", "1,2,3")
        return penstock(three, "reassign-partitions", "--generate", *options, exit_code=exit_code)

    said = generated("inside", "__storage_group")
    assert "inside is left out: it goes where __storage_group-" in said.stderr
    now, proposed = (json.loads(line)["partitions"] for line in said.stdout.splitlines() if line.startswith("{"))
    assert {row["topic"] for row in proposed} == {"__storage_group"}
    assert [len(row["replicas"]) for row in proposed] == [len(row["replicas"]) for row in now], "each has as many"
    assert {2, 3} <= {len(row["replicas"]) for row in now}
    assert "nothing is left to move" in generated("inside", exit_code=1).stderr


def _expect_all_but_groups_read(three: Cluster) -> None:
    """All topics are those that can be read: the log of a group is for nodes alone."""
    compared = penstock(three, "replica-verification", "--once")
    assert "NOT_LEADER_OR_FOLLOWER" not in compared.stderr
    assert {row["topic"] for row in told(three, "offsets")} == {"orders", "flights"}
    asked = penstock(three, "offsets", "--topic", "__storage_group", exit_code=1)
    for number in range(3):
        assert f"__storage_group-{number} (TOPIC_AUTHORIZATION_FAILED)" in asked.stderr


def logs_of_groups(cluster: Cluster, *options: str) -> set[tuple[int, int]]:
    """On which nodes `log-dirs` shows the logs of which groups, with something in them."""
    return {
        (row["node_id"], log["partition"])
        for row in told(cluster, "log-dirs", *options)
        for log in row["partitions"]
        if log["topic"] == "__storage_group" and log["size_bytes"] > 0
    }


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--create", "--describe"), "give one of --describe, --create"),
        (("--replicas", "1,2"), "--replication-factor and --replicas are for --create"),
        (("--create", "--replicas", "1", "--replication-factor", "1"), "give one of --replication-factor, --replicas"),
        (("--create", "--replicas", "1,x"), "'1,x' is not a list of numbers"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: tuple[str, ...], complaint: str) -> None:
    result = CliRunner().invoke(main, ["storage-groups", *options])
    assert result.exit_code == 2
    assert complaint in result.stderr
