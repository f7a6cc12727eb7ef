"""`penstock start --nodes`: a local cluster of processes, what it says, and what is left of it."""

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from tests.cluster.started import SECONDS, START, Started, environment, refused, started

from penstock.testing.quorum_view import known_brokers, wait_until

QUICK = (
    "--set", "controller.quorum.election.timeout.ms=300",
    "--set", "controller.quorum.fetch.timeout.ms=600",
    "--set", "broker.heartbeat.interval.ms=200",
    "--set", "broker.session.timeout.ms=2000",
)  # fmt: skip
THREE = ("--nodes", "3", "--port", "0", *QUICK)
NOBODY_IS_FENCED = ("--set", "broker.session.timeout.ms=60000")


def pids(cluster: Started) -> list[int]:
    return [int(cluster.value(f"node {node_id}").rpartition("pid ")[2]) for node_id in (1, 2, 3)]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def line_with(cluster: Started, text: str) -> str:
    """The next line that says so."""
    assert cluster.process.stdout is not None
    return next(line.rstrip("\n") for line in cluster.process.stdout if text in line)


def first_answer(server: str) -> set[int]:
    """Whom it knows, as soon as it answers."""
    return wait_until(lambda: known_brokers(server) or None, SECONDS, f"an answer of {server}")


def test_three_nodes_start_stop_and_start_again_as_the_same_cluster(tmp_path: Path) -> None:
    with started(tmp_path, *THREE, *NOBODY_IS_FENCED) as cluster:
        (first,) = [line for line in cluster.said if "of 3 nodes" in line]  # a slow start says what it waits for
        servers = cluster.value("bootstrap").split(",")
        assert [first_answer(server) for server in servers] == [{1, 2, 3}] * 3
        assert cluster.value("data in") == str(tmp_path / "penstock-data")
        assert cluster.value("to stop") == f"Ctrl-C, or kill {cluster.process.pid}"
        children = pids(cluster)
        code, rest = cluster.ends_after(signal.SIGINT)
    assert code == 0
    assert [line for line in rest.splitlines() if not line.startswith("node ")] == ["stopping", "stopped"]
    assert not any(map(is_alive, children))
    with started(tmp_path, "--nodes", "3", *QUICK) as cluster:
        assert first in cluster.said
        assert cluster.value("bootstrap").split(",") == servers
        assert cluster.ends_after(signal.SIGTERM)[0] == 0


def test_one_that_dies_is_told_and_can_be_started_alone(tmp_path: Path) -> None:
    with started(tmp_path, *THREE) as cluster:
        second = pids(cluster)[1]
        os.kill(second, signal.SIGKILL)
        told = line_with(cluster, "start it again")
        file = tmp_path / "penstock-data" / "node-2.properties"
        assert told == (
            f"node 2 (pid {second}) was killed by SIGKILL; the others go on; to start it again: penstock start {file}"
        )
        with started(tmp_path, str(file), *QUICK) as alone:
            assert "node 2 of cluster" in "\n".join(alone.said)
            first = cluster.value("bootstrap").split(",")[0]
            wait_until(lambda: known_brokers(first) == {1, 2, 3} or None, SECONDS, "the second node is known again")
            assert alone.ends_after(signal.SIGTERM)[0] == 0
        for pid in (pids(cluster)[0], pids(cluster)[2]):
            os.kill(pid, signal.SIGKILL)
        assert "the other one goes on" in line_with(cluster, "start it again")
        assert "no node is left" in line_with(cluster, "start it again")
        assert cluster.process.wait(SECONDS) == 1


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL])
def test_all_stop_cleanly_when_the_terminal_or_their_parent_is_gone(tmp_path: Path, number: int) -> None:
    with started(tmp_path, *THREE) as cluster:
        children = pids(cluster)
        assert cluster.process.stdout is not None
        cluster.process.stdout.close()
        cluster.process.send_signal(number)
        cluster.process.wait(SECONDS)
        wait_until(lambda: not any(map(is_alive, children)) or None, SECONDS, "the end of all nodes")
    for node_id in (1, 2, 3):
        assert (tmp_path / "penstock-data" / f"node-{node_id}" / ".kafka_cleanshutdown").is_file()


def test_a_node_says_what_it_waits_for(tmp_path: Path) -> None:
    with started(tmp_path, *THREE) as cluster:
        assert cluster.ends_after(signal.SIGTERM)[0] == 0
    command = [*START, "penstock-data/node-3.properties", *QUICK]
    with subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True) as alone:
        assert alone.stdout is not None
        said = alone.stdout.readline()
        alone.terminate()
        assert alone.wait(SECONDS) == 0
    assert said.startswith("node 3 does not serve yet: ")
    assert "a majority of 1, 2, 3" in said


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["server.properties", "--nodes", "3"], 2, "either FILE"),
        (["--directory", "x"], 2, "go with --nodes"),
        (["--port", "0"], 2, "go with --nodes"),
        (["--nodes", "0"], 2, "0 is not in the range"),
        (["--nodes", "3", "--set", "node.id=4"], 2, "--set node.id"),
        (["--nodes", "3", "--set", "node.id"], 1, "expected key=value"),
    ],
)
def test_wrong_usage_is_said_and_nothing_is_made(tmp_path: Path, arguments: list[str], code: int, says: str) -> None:
    done = refused(tmp_path, *arguments)
    assert done.returncode == code
    assert says in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_port_that_is_taken_is_one_line_and_nothing_is_made(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = refused(tmp_path, "--nodes", "2", "--port", str(min(port, 55_000)))
        if port <= 55_000:
            assert done.returncode == 1
            assert f"port {port} cannot be had" in done.stderr
            assert not list(tmp_path.iterdir())


def test_a_port_that_is_taken_of_nodes_that_were_made_before_is_changed_in_their_files(tmp_path: Path) -> None:
    made = tmp_path / "penstock-data"
    made.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        (made / "node-1.properties").write_text(
            f"node.id=1\nlisteners=PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}\n"
        )
        says = refused(tmp_path, "--nodes", "1").stderr
    assert f"change listeners in {made}/node-*.properties" in says


def test_what_lies_there_already_is_not_touched(tmp_path: Path) -> None:
    single = tmp_path / "penstock-data"
    single.mkdir()
    (single / "meta.properties").write_text("version=1\ncluster.id=abc\nnode.id=1\n")
    assert "data of a single node" in refused(tmp_path, "--nodes", "3").stderr
    (single / "meta.properties").unlink()
    for number in (1, 2):
        (single / f"node-{number}.properties").write_text(f"node.id={number}\nlisteners=PLAINTEXT://127.0.0.1:1\n")
    assert "a cluster of 2 nodes: start it with --nodes 2" in refused(tmp_path, "--nodes", "3").stderr
    assert "have their ports" in refused(tmp_path, "--nodes", "2", "--port", "5").stderr
    (single / "node-1.properties").write_text("node.id=1\n")
    assert "listeners is missing" in refused(tmp_path, "--nodes", "2").stderr


@pytest.mark.parametrize(("wrong", "says"), [("num.partitions=none", "num.partitions: 'none'")])
def test_when_nodes_do_not_start_why_is_said_and_none_is_left(tmp_path: Path, wrong: str, says: str) -> None:
    done = refused(tmp_path, "--nodes", "2", "--port", "0", "--set", wrong)
    assert done.returncode == 1
    assert says in done.stdout
    assert "did not start" in done.stdout
