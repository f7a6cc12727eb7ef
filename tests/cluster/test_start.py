"""`penstock start` as a process: what it says, how it stops, and why it refuses."""

import json
import os
import signal
import socket
import subprocess
import urllib.request
from pathlib import Path

import pytest
from tests.cluster.started import ANY_PORT, SECONDS, START, environment, refused, started

CONTROLLER = (
    *("--set", "process.roles=controller"),
    *("--set", "listeners=CONTROLLER://127.0.0.1:0"),
    *("--set", "controller.listener.names=CONTROLLER"),
    *("--set", "controller.quorum.voters=7@h:9093,42@i:9093,100@j:9093"),
)


AT_ONCE = ("--set", "group.initial.rebalance.delay.ms=0")


def connects(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), timeout=10):
        return True


def only_error(directory: Path, *arguments: str) -> str:
    """The one line with which a node refuses to start."""
    done = refused(directory, *arguments)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: ")
    return line.removeprefix("Error: ")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_without_a_file_it_says_where_it_is_and_stops_cleanly(tmp_path: Path, number: int) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(10)
        with started(tmp_path, *ANY_PORT, more={"NOTIFY_SOCKET": str(tmp_path / "notify")}) as node:
            assert manager.recv(100) == b"READY=1"
            assert connects(node.port)
            assert node.value("data in") == str(tmp_path / "penstock-data")
            assert node.value("to stop") == f"Ctrl-C, or kill {node.process.pid}"
            assert node.ends_after(number) == (0, "stopping\nstopped\n")
        assert manager.recv(100) == b"STOPPING=1"
    assert (tmp_path / "penstock-data" / "meta.properties").is_file()
    assert (tmp_path / "penstock-data" / ".kafka_cleanshutdown").is_file()


def test_a_disk_that_hangs_lets_a_node_end_in_time_or_with_a_second_signal(tmp_path: Path) -> None:
    """To open a pipe that nobody reads is a call that never returns, here in the event loop."""
    data = tmp_path / "penstock-data"
    with started(tmp_path, *ANY_PORT, "--set", "shutdown.timeout.ms=500") as node:
        os.mkfifo(data / ".kafka_cleanshutdown.tmp")
        code, said = node.ends_after(signal.SIGTERM)
    assert code == 1
    assert "node 1 has not stopped within shutdown.timeout.ms=500 and ends now: a disk may hang" in said
    assert str(data) in said
    assert not (data / ".kafka_cleanshutdown").exists()
    with started(tmp_path, *ANY_PORT) as node:
        assert node.process.stdout is not None
        node.process.terminate()
        while node.process.stdout.readline() != "stopping\n":
            pass
        assert node.ends_after(signal.SIGINT)[0] == -signal.SIGINT


def test_a_disk_that_hung_before_does_so_too(tmp_path: Path) -> None:
    """The event loop does not hear of any signal then."""
    data = tmp_path / "penstock-data"
    data.mkdir()
    os.mkfifo(data / "meta.properties")
    for timeout_ms, before, codes in (("500", [], [1]), ("300000", [signal.SIGINT], [128 + 2, 128 + 15])):
        arguments = (*START, *ANY_PORT, "--set", f"shutdown.timeout.ms={timeout_ms}")
        with (
            subprocess.Popen(arguments, cwd=tmp_path, env=environment(), stderr=subprocess.DEVNULL) as node,
            (data / "meta.properties").open("wb"),  # it reads from there now
        ):
            for number in (*before, signal.SIGTERM):
                node.send_signal(number)
            assert node.wait(SECONDS) in codes


def test_a_server_properties_of_kafka_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text(
        "process.roles=broker,controller\n"
        "node.id=7\n"
        "controller.quorum.voters=7@localhost:9093\n"
        "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\n"
        "inter.broker.listener.name=PLAINTEXT\n"
        "controller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL\n"
        "log.dirs=kraft-logs\n"
        "num.network.threads=3\n"
        "offsets.topic.replication.factor=1\n"
    )
    with started(tmp_path, "server.properties") as node:
        assert "no log directory of server.properties was formatted (kraft-logs)" in node.said[0]
        assert connects(node.port)
    assert "node.id=7" in (tmp_path / "kraft-logs" / "meta.properties").read_text()


def test_a_directory_that_was_formatted_says_which_cluster(tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text(
        "process.roles=broker,controller\nnode.id=7\nlisteners=PLAINTEXT://127.0.0.1:0\nlog.dirs=kraft-logs\n"
    )
    (tmp_path / "kraft-logs").mkdir()
    (tmp_path / "kraft-logs" / "meta.properties").write_text("version=1\ncluster.id=of-the-format\nnode.id=7\n")
    with started(tmp_path, "server.properties") as node:
        assert node.said[0].startswith("Penstock ")
        assert node.said[0].endswith("node 7 of cluster of-the-format")
        assert connects(node.port)
    assert "node.id=7" in (tmp_path / "kraft-logs" / "meta.properties").read_text()


def test_set_goes_before_the_environment(tmp_path: Path) -> None:
    more = {"PENSTOCK_LOG_DIRS": "from-environment", "PENSTOCK_NODE_ID": "8"}
    with started(tmp_path, *ANY_PORT, "--set", "node.id=9", more=more) as node:
        assert "node 9 of cluster" in node.said[0]
        assert node.value("data in") == str(tmp_path / "from-environment")


def test_a_misspelt_key_is_a_warning(tmp_path: Path) -> None:
    with started(tmp_path, *ANY_PORT, "--set", "num.partitons=3") as node:
        assert node.said[0] == "warning: unknown key num.partitons; did you mean num.partitions?"
        assert connects(node.port)


def test_after_kill_it_starts_again_as_the_same_cluster(tmp_path: Path) -> None:
    with started(tmp_path, *ANY_PORT) as node:
        first = node.said[0]
        assert node.ends_after(signal.SIGKILL)[0] == -signal.SIGKILL
    with started(tmp_path, *ANY_PORT) as node:
        assert node.said[0] == first
        assert connects(node.port)


def test_a_taken_port_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"127.0.0.1:{port}" in only_error(tmp_path, "--set", f"listeners=PLAINTEXT://127.0.0.1:{port}")


def test_a_directory_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    line = only_error(tmp_path, *ANY_PORT, "--set", "log.dirs=file/data")
    assert "file/data" in line


def test_a_directory_of_another_node_is_one_line(tmp_path: Path) -> None:
    with started(tmp_path, *ANY_PORT) as node:
        node.ends_after(signal.SIGTERM)
    line = only_error(tmp_path, *ANY_PORT, "--set", "node.id=2")
    assert "penstock-data" in line
    assert "2" in line


def test_a_directory_of_another_cluster_is_one_line(tmp_path: Path) -> None:
    clusters = []
    for name in ("one", "two"):
        with started(tmp_path, *ANY_PORT, "--set", f"log.dirs={name}") as node:
            clusters.append(node.said[0])
            node.ends_after(signal.SIGTERM)
    assert clusters[0] != clusters[1]
    line = only_error(tmp_path, *ANY_PORT, "--set", "log.dirs=one,two")
    assert "cluster" in line


def test_a_directory_in_use_is_one_line(tmp_path: Path) -> None:
    with started(tmp_path, *ANY_PORT):
        line = only_error(tmp_path, *ANY_PORT)
    assert "penstock-data" in line


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--set", "num.partitions=none"], "num.partitions: 'none' is not allowed; expected an int of at least 1"),
        (["--set", "num.partitions"], "--set num.partitions: expected key=value"),
        (["nothing.properties"], "nothing.properties: cannot be read: No such file or directory"),
        (["--set", "process.roles="], "process.roles: '' is not allowed; expected broker, controller or both"),
        (["--set", "listeners=SSL://127.0.0.1:0"], "the listener SSL: ssl.keystore.location is missing: who listens"),
        (
            [*CONTROLLER, "--set", "node.id=8"],
            "node.id: '8' is not allowed; expected one of the ids in controller.quorum.voters (7, 42, 100), because"
            " this is a controller",
        ),
        (
            [*CONTROLLER, "--set", "node.id=42", "--set", "process.roles=broker"],
            "node.id: '42' is not allowed; expected none of the ids in controller.quorum.voters (7, 42, 100), because"
            " process.roles is broker",
        ),
    ],
)
def test_a_bad_setting_is_one_line(tmp_path: Path, arguments: list[str], says: str) -> None:
    assert says in only_error(tmp_path, *arguments)
    assert not (tmp_path / "penstock-data").exists()


def test_an_unknown_option_is_a_wrong_use(tmp_path: Path) -> None:
    done = refused(tmp_path, "--bind", "9092")
    assert done.returncode == 2
    assert "No such option '--bind'" in done.stderr


def test_a_worker_beside_a_node_is_asked_and_ends_with_it(tmp_path: Path) -> None:
    with started(tmp_path, *ANY_PORT, *AT_ONCE, "--worker", "--worker-port", "0") as node:
        assert node.process.stdout is not None
        line = node.process.stdout.readline()
        url = line.partition("worker")[2].split()[0]
        assert url.startswith("http://127.0.0.1:"), line
        with urllib.request.urlopen(url, timeout=30) as answer:
            assert json.loads(answer.read()).keys() == {"version", "commit", "kafka_cluster_id"}
        assert node.ends_after(signal.SIGTERM) == (0, "stopping\nstopped\n")
    assert (tmp_path / "penstock-data" / ".kafka_cleanshutdown").is_file()


def test_a_worker_that_cannot_be_is_told_and_the_node_runs(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with started(tmp_path, *ANY_PORT, "--worker", "--worker-port", str(port)) as node:
            assert node.process.stdout is not None
            assert "there is no worker" in node.process.stdout.readline()
            assert connects(node.port)


def test_a_worker_needs_one_node_that_is_a_broker(tmp_path: Path) -> None:
    assert (
        "--worker needs a node that is a broker"
        in refused(tmp_path, *CONTROLLER, "--set", "node.id=7", "--worker").stderr
    )
    assert "either --worker, for one node, or --nodes" in refused(tmp_path, "--nodes", "3", "--worker").stderr
