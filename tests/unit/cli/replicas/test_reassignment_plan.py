"""Where `penstock reassign-partitions --generate` would put the replicas of topics."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.unit.client.fake_cluster import TOPIC, FakeCluster, served_in_a_thread

from penstock.cli.main import main
from penstock.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker


class ThreeRacks(FakeCluster):
    """Six partitions with two replicas each, on two of the brokers 7, 8, 9, of which some have a rack of their own."""

    def __init__(self) -> None:
        super().__init__(partitions=6)
        self.racks: dict[int, str | None] = {7: "a", 8: "b", 9: "c"}

    def metadata(self) -> MetadataResponse:
        response = super().metadata()
        (first,) = response.brokers
        response.brokers = [
            MetadataResponseBroker(node_id=node, host=first.host, port=first.port, rack=rack)
            for node, rack in self.racks.items()
        ]
        for row in response.topics[0].partitions:
            row.replica_nodes = [7, 8]
        return response


@pytest.fixture
def cluster() -> ThreeRacks:
    return ThreeRacks()


@pytest.fixture
def address(cluster: ThreeRacks) -> Iterator[str]:
    with served_in_a_thread(cluster) as broker:
        yield str(broker.address)


def run(address: str, tmp_path: Path, *options: str, document: str | None = None) -> Result:
    file = tmp_path / "topics.json"
    file.write_text(document or json.dumps({"version": 1, "topics": [{"topic": TOPIC}]}))
    arguments = ["reassign-partitions", "--generate", "--topics-to-move-json-file", str(file), *options]
    return CliRunner().invoke(main, [*arguments, "--bootstrap-server", address])


def assignments(result: Result) -> list[list[dict[str, Any]]]:
    """The two assignments that it prints, one above the other."""
    assert result.exit_code == 0, result.output
    return [json.loads(line)["partitions"] for line in result.output.splitlines() if line.startswith("{")]


def test_the_current_replicas_and_proposed_ones_are_printed(address: str, tmp_path: Path) -> None:
    result = run(address, tmp_path, "--broker-list", "7,8,9")
    assert result.output.splitlines()[0] == "Current partition replica assignment"
    assert result.output.splitlines()[3] == "Proposed partition reassignment configuration"
    current, proposed = assignments(result)
    assert [row["replicas"] for row in current] == [[7, 8]] * 6
    assert [(row["topic"], row["partition"]) for row in proposed] == [(TOPIC, number) for number in range(6)]
    assert all(len(set(row["replicas"])) == 2 for row in proposed)
    leaders = [row["replicas"][0] for row in proposed]
    assert sorted(leaders) == [7, 7, 8, 8, 9, 9]


def test_only_the_brokers_of_the_list_are_used(address: str, tmp_path: Path) -> None:
    _, proposed = assignments(run(address, tmp_path, "--broker-list", "8,9"))
    assert {node for row in proposed for node in row["replicas"]} == {8, 9}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--broker-list", "9"], "2 replicas need as many brokers, but there are 1"),
        (["--broker-list", "7,10"], "there is no broker 10 in service"),
        ([], "--generate goes with --topics-to-move-json-file and --broker-list"),
    ],
)
def test_what_cannot_be_generated(address: str, tmp_path: Path, options: list[str], says: str) -> None:
    result = run(address, tmp_path, *options)
    assert result.exit_code != 0
    assert says in result.output


def test_racks_count_where_all_brokers_have_one_unless_it_is_said(
    address: str, cluster: ThreeRacks, tmp_path: Path
) -> None:
    cluster.racks[9] = None
    result = run(address, tmp_path, "--broker-list", "7,8,9")
    assert result.exit_code == 1
    assert "not all of these brokers have a rack" in result.output
    assignments(run(address, tmp_path, "--broker-list", "7,8,9", "--disable-rack-aware"))


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ("[]", "topics cannot be read"),
        ('{"version": 2, "topics": [{"topic": "t"}]}', "version 2 is not known"),
        ('{"topics": [{"topic": "t"}, {"topic": "t"}]}', "a topic comes twice"),
        ('{"topics": []}', "there are no topics"),
    ],
)
def test_a_file_that_names_no_topics(address: str, tmp_path: Path, document: str, says: str) -> None:
    result = run(address, tmp_path, "--broker-list", "7,8,9", document=document)
    assert result.exit_code == 1
    assert says in result.output
