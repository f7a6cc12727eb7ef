"""Several nodes for tests: they find each other, outlive the loss of one, and keep what they stored."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.cli.main import main
from penstock.testing import Cluster
from penstock.testing.cluster_node import ClusterNode
from penstock.testing.layout import QUICK_QUORUM, voters_settings
from penstock.testing.ports import ReservedPort
from penstock.testing.quorum_view import known_brokers, wait_until

SECONDS = 30
pytest_plugins = ["pytester"]


def topics(address: str) -> list[str]:
    return sorted(AdminClient({"bootstrap.servers": address}).list_topics(timeout=30).topics)


def create(address: str, name: str) -> None:
    """A topic that nobody else makes: where it is there already, the broker asked again what had been done."""
    admin = AdminClient({"bootstrap.servers": address})
    try:
        admin.create_topics([NewTopic(name, 3, 1)])[name].result(30)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def wait_for_topic(address: str | None, name: str) -> None:
    """A broker knows what was created as soon as it has followed the metadata log that far."""
    assert address is not None
    wait_until(lambda: name in topics(address) or None, SECONDS, f"topic {name} at {address}")


def penstock(*arguments: str) -> str:
    result = CliRunner().invoke(main, list(arguments), prog_name="penstock")
    assert result.exit_code == 0, result.output
    return result.stdout


def said(arguments: list[str]) -> str:
    """What a command prints that need not succeed: who is to control next is a wish."""
    return CliRunner().invoke(main, arguments, prog_name="penstock").output


def quorum(servers: list[str]) -> Any:
    return json.loads(penstock("metadata-quorum", *servers, "describe", "--status", "--json"))


def voters(servers: list[str]) -> list[int]:
    return [voter["node_id"] for voter in quorum(servers)["voters"]]


def observers(servers: list[str]) -> list[int]:
    return [observer["node_id"] for observer in quorum(servers)["observers"]]


def spare_controller(cluster: Cluster, directory: Path, file: Path) -> ClusterNode:
    """A controller that joins the cluster without a vote; its configuration is in the file as well."""
    port = ReservedPort()
    settings = QUICK_QUORUM | voters_settings({0: cluster.bootstrap_controllers}, dynamic=True)
    settings |= {
        "process.roles": "controller",
        "node.id": "4",
        "listeners": f"CONTROLLER://{port.address}",
        "log.dirs": str(directory),
    }
    file.write_text("\n".join(f"{key}={value}" for key, value in settings.items()))
    cluster_id = json.loads(
        penstock("cluster", "cluster-id", "--bootstrap-server", cluster.bootstrap_servers, "--json")
    )
    penstock("storage", "format", "-t", cluster_id["cluster_id"], "-c", str(file), "--no-initial-controllers")
    return ClusterNode(4, settings, directory=directory, process=False, ports=[port], controller_address=port.address)


@contextmanager
def running(node: ClusterNode) -> Iterator[None]:
    node.start()
    try:
        yield
    finally:
        node.stop()
        node.give_back()


@pytest.fixture(scope="module")
def shared_processes() -> Iterator[Cluster]:
    """Three processes."""
    with Cluster(nodes=3, process=True) as cluster:
        yield cluster


@pytest.fixture
def processes(shared_processes: Cluster) -> Iterator[Cluster]:
    """Three processes, all of which run when the next test begins."""
    yield shared_processes
    for node in shared_processes.nodes:
        if node.is_paused:
            node.resume()
    if not all(node.is_running for node in shared_processes.nodes):
        shared_processes.start()


def test_three_threads_are_one_cluster_and_come_back_on_the_same_ports(tmp_path: Path) -> None:
    with Cluster(nodes=3, directory=tmp_path) as cluster:
        addresses = cluster.bootstrap_servers
        assert len(addresses.split(",")) == 3
        assert cluster.active_controller in (1, 2, 3)
        assert cluster.pid is None
        for number, node in enumerate(cluster.nodes):
            assert node.address is not None
            assert known_brokers(node.address) == {1, 2, 3}
            create(node.address, f"by-{number}")
        cluster.restart()
        assert cluster.bootstrap_servers == addresses
        for name in ("by-0", "by-1", "by-2"):
            wait_for_topic(addresses, name)


def test_when_the_active_controller_stops_another_one_takes_over() -> None:
    with Cluster(nodes=3) as cluster:
        first = cluster.wait_for_controller()
        cluster.node(first).stop()
        assert not cluster.node(first).is_running
        second = cluster.wait_for_controller(other_than=first)
        address = cluster.node(second).address
        assert address is not None
        create(address, "after")
        cluster.node(first).start()
        wait_for_topic(cluster.node(first).address, "after")


def test_what_was_created_outlives_the_controller_that_is_killed(processes: Cluster) -> None:
    first = processes.wait_for_controller()
    create(processes.bootstrap_servers, "before-the-kill")
    assert processes.node(first).pid is not None
    processes.node(first).kill()
    assert processes.node(first).pid is None
    processes.wait_for_controller(other_than=first)
    for node in processes.nodes:
        if node.is_running:
            wait_for_topic(node.address, "before-the-kill")
    processes.start()
    wait_for_topic(processes.node(first).address, "before-the-kill")


def test_a_controller_that_hung_is_active_no_longer_when_it_wakes(processes: Cluster, tmp_path: Path) -> None:
    first = processes.wait_for_controller()
    processes.node(first).pause()
    assert processes.node(first).is_paused
    second = processes.wait_for_controller(other_than=first)
    create(str(processes.node(second).address), "while-it-hung")
    patience = tmp_path / "client.properties"
    patience.write_text("socket.connection.setup.timeout.ms=200\n")
    hanging_first = f"{processes.node(first).address},{processes.node(second).address}"
    asked = ["controller", "--bootstrap-server", hanging_first, "--command-config", str(patience)]
    assert CliRunner().invoke(main, asked).output.startswith(f"controller {second} is active in epoch ")
    processes.node(first).resume()
    assert processes.wait_for_controller(other_than=first) != first
    create(str(processes.node(first).address), "by-the-one-that-hung")


def test_all_are_killed_and_come_back(processes: Cluster) -> None:
    create(processes.bootstrap_servers, "before-all-were-killed")
    servers = ["--bootstrap-server", processes.bootstrap_servers]
    epoch = quorum(servers)["leader_epoch"]
    processes.kill()
    assert not any(node.is_running for node in processes.nodes)
    assert processes.active_controller is None
    processes.start()
    wait_for_topic(processes.bootstrap_servers, "before-all-were-killed")
    assert quorum(servers)["leader_epoch"] > epoch, "an epoch never comes again"


def test_voters_come_and_go(tmp_path: Path) -> None:
    """A fourth controller follows the log, is made a voter, leads, and is removed, with the commands that do so."""
    with Cluster(nodes=3, dynamic_voters=True, directory=tmp_path / "three") as cluster:
        servers = ["--bootstrap-server", cluster.bootstrap_servers]
        before = quorum(servers)
        assert voters(servers) == [1, 2, 3]
        file = tmp_path / "node-4.properties"
        fourth = spare_controller(cluster, tmp_path / "four", file)
        with running(fourth):
            added = penstock("metadata-quorum", *servers, "add-controller", "--config", str(file), "--dry-run")
            assert added.startswith("DRY RUN of adding controller 4 with directory id ")
            wait_until(lambda: 4 in observers(servers) or None, SECONDS, "controller 4 follows")
            added = penstock("metadata-quorum", *servers, "add-controller", "--config", str(file))
            directory_id = added.split()[6]
            assert quorum(servers)["leader_epoch"] == before["leader_epoch"], "who joins disturbs nobody"
            assert added == (
                f"Added controller 4 with directory id {directory_id} and endpoints: "
                f"CONTROLLER://{fourth.controller_address}\n"
            )
            assert voters(servers) == [1, 2, 3, 4]
            transfer = ["controller", *servers, "--transfer", "--to", "4"]
            wait_until(lambda: "controller 4 is active" in said(transfer) or None, SECONDS, "controller 4 is elected")
            removed = penstock(
                "metadata-quorum", "remove-controller", "-i", "4", "-d", directory_id, "--unregister",
                "--bootstrap-controller", cluster.bootstrap_controllers,
            )  # fmt: skip
            assert removed.splitlines() == [
                f"Removed KRaft controller 4 with directory id {directory_id}",
                "Unregistered KRaft controller 4",
            ]
            assert voters(servers) == [1, 2, 3]
        cluster.restart()
        assert voters(servers) == [1, 2, 3]


def test_brokers_and_controllers_apart() -> None:
    with Cluster(brokers=2, controllers=1) as cluster:
        assert [node.address is None for node in cluster.nodes] == [False, False, True]
        assert cluster.active_controller == 3
        assert len(cluster.bootstrap_servers.split(",")) == 2
        assert cluster.bootstrap_controllers == cluster.node(3).controller_address
        create(cluster.bootstrap_servers, "orders")
        wait_for_topic(cluster.node(1).address, "orders")
        wait_for_topic(cluster.node(2).address, "orders")


def test_the_fixtures_give_as_many_nodes_as_are_wished_for(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        pytest_plugins = ["penstock.testing.pytest_plugin"]

        @pytest.fixture(scope="session")
        def penstock_nodes():
            return 2
        """
    )
    pytester.makepyfile(
        """
        def test_two(penstock_cluster, penstock_bootstrap_servers):
            assert len(penstock_cluster.nodes) == 2
            assert len(penstock_bootstrap_servers.split(",")) == 2
        """
    )
    pytester.runpytest("-p", "no:cacheprovider", "-o", "asyncio_default_fixture_loop_scope=function").assert_outcomes(
        passed=1
    )
