"""What a state of the past has left goes on under this one: a node's data, a cluster node by node, workers' topics."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet
import pytest
from confluent_kafka import Consumer, Producer
from tests.cluster.connect_processes import worker_file
from tests.upgrades.load import Load
from tests.upgrades.states import RECENT, SECONDS, THIS, Process, State, older_state

pytestmark = pytest.mark.soak
TRIES = 4
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> State:
    return older_state(tmp_path_factory.mktemp("older"))


class Cluster:
    """Three nodes that the older state has made; each is started by the state that is asked for."""

    def __init__(self, older: State, directory: Path) -> None:
        self.older = older
        self.directory = directory
        made = older.start("start", "--nodes", "3", "--directory", str(directory), "--port", "0")
        made.stop()
        self.nodes: dict[int, Process] = {}

    def begin(self, *nodes: tuple[int, State]) -> None:
        """None of several is ready before the others: the first ones wait."""
        self.nodes |= {number: state.start_at_once(*self._file(number)) for number, state in nodes}
        for number, _ in nodes:
            self.nodes[number].listens()

    def _file(self, number: int) -> tuple[str, str]:
        return "start", str(self.directory / f"node-{number}.properties")

    def change(self, number: int, state: State) -> None:
        self.nodes.pop(number).stop()
        self.begin((number, state))

    @property
    def bootstrap(self) -> str:
        return ",".join(node.address for node in self.nodes.values())

    def kill(self) -> None:
        for node in self.nodes.values():
            node.process.kill()


@pytest.fixture
def cluster(older: State, tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(older, tmp_path / "data")
    try:
        cluster.begin(*((number, older) for number in (1, 2, 3)))
        yield cluster
    finally:
        cluster.kill()


def test_a_cluster_changes_node_by_node_and_its_clients_notice_nothing(cluster: Cluster) -> None:
    servers = ["--bootstrap-server", cluster.bootstrap]
    create = ["topics", "--create", "--partitions", "4", "--replication-factor", "3", *servers]
    cluster.older.command(*create, "--topic", "plain")
    cluster.older.command(*create, "--topic", "agreed", "--config", "replication.mode=consensus")
    with Load(cluster.bootstrap, "plain", "agreed") as load:
        load.goes_on()
        for number in (1, 2, 3):
            cluster.change(number, THIS)
            until_well(cluster)
            load.goes_on()
        # There and back: nothing was written that the older state does not understand.
        for state in (cluster.older, THIS):
            cluster.change(2, state)
            until_well(cluster)
            load.goes_on()
    THIS.command("features", "upgrade", "--feature", "group.version=1", "--feature", "transaction.version=2", *servers)
    with Load(cluster.bootstrap, "plain", "agreed") as load:
        load.goes_on()


def start(directory: Path) -> tuple[str, ...]:
    keys = ("listeners=PLAINTEXT://127.0.0.1:0", f"log.dirs={directory}", "group.initial.rebalance.delay.ms=0")
    return "start", *(word for key in keys for word in ("--set", key))


@contextmanager
def a_node(state: State, directory: Path) -> Iterator[list[str]]:
    """Gives the options of commands that ask it; it has to stop well."""
    node = state.start(*start(directory))
    try:
        yield ["--bootstrap-server", node.address]
        node.stop()
    finally:
        node.process.kill()


def read(state: State, servers: list[str], count: int, *more: str) -> list[str]:
    """As many records of the topic, by a group that commits."""
    consume = ["consume", "--topic", "plain", "--from-beginning", "--max-messages", str(count), "--group", "readers"]
    return [line for line in state.command(*consume, *more, *servers).split() if "-" in line]


def test_a_nodes_data_go_on_and_may_go_back(older: State, tmp_path: Path) -> None:
    wanted = {f"{codec}-{number}" for codec in CODECS for number in range(10)}
    with a_node(older, tmp_path) as servers:
        older.command("topics", "--create", "--topic", "plain", "--partitions", "3", *servers)
        older.command("topics", "--create", "--topic", "kept", "--config", "cleanup.policy=compact", *servers)
        for codec in CODECS:
            lines = "".join(f"{codec}-{number}\n" for number in range(10))
            older.command("produce", "--topic", "plain", "--compression-codec", codec, *servers, given=lines)
        seen = read(older, servers, 20)
    with a_node(THIS, tmp_path) as servers:
        seen += read(THIS, servers, 20)
        assert "cleanup.policy=compact" in THIS.command("topics", "--describe", "--topic", "kept", *servers)
        THIS.command("topics", "--create", "--topic", "new", *servers)
        for config in ("SCRAM-SHA-256=[password=a-long-one]", "producer_byte_rate=1000000"):
            alter = ["configs", "--alter", "--entity-type", "users", "--entity-name", "u", "--add-config", config]
            THIS.command(*alter, *servers)
    with a_node(older, tmp_path) as servers:
        seen += read(older, servers, 10)
        assert "new" in older.command("topics", "--list", *servers)
    with a_node(THIS, tmp_path):
        pass
    assert len(seen) == len(wanted)
    assert set(seen) == wanted


PIPELINE = """
name: copies
source:
  kafka.bootstrap.servers: {servers}
  subscribe: plain
  startingOffsets: earliest
sql: SELECT value FROM source
sink:
  format: parquet
  path: {directory}/copies
trigger: available-now
checkpoint: {directory}/checkpoint
"""


def run(state: State, file: Path) -> None:
    """Again where Spark gave its Python up, which has ten seconds to begin: on a busy machine the older
    state, which keeps none that is warm, needs more.
    """
    for left in reversed(range(TRIES)):
        try:
            state.command("pipeline", "run", str(file))
        except AssertionError as error:
            if not left or "Python worker failed to connect back" not in str(error):
                raise
        else:
            return


@pytest.mark.timeout(4 * SECONDS)  # three times Spark, each of which may take so long
def test_the_checkpoint_of_a_pipeline_goes_on_and_may_go_back(older: State, tmp_path: Path) -> None:
    """Each record is copied once, by whichever state runs the next batch."""
    file = tmp_path / "copies.yaml"
    with a_node(THIS, tmp_path / "data") as servers:
        file.write_text(PIPELINE.format(servers=servers[1], directory=tmp_path))
        THIS.command("topics", "--create", "--topic", "plain", "--partitions", "3", *servers)
        for turn, state in enumerate((older, THIS, older)):
            lines = "".join(f"{turn}-{number}\n" for number in range(10))
            THIS.command("produce", "--topic", "plain", *servers, given=lines)
            run(state, file)
            copied = pyarrow.parquet.read_table(tmp_path / "copies").column("value").to_pylist()
            assert sorted(copied) == sorted(b"%d-%d" % (one, number) for one in range(turn + 1) for number in range(10))


def test_groups_of_the_consumer_protocol_go_back_once_they_are_deleted(older: State, tmp_path: Path) -> None:
    with a_node(THIS, tmp_path) as servers:
        level = ["features", "upgrade", "--feature", "group.version=1", *servers]
        assert "before going back" in THIS.command(*level, "--dry-run")
        THIS.command(*level)
        THIS.command("produce", "--topic", "plain", *servers, given="a-1\na-2\n")
        member = Consumer({"bootstrap.servers": servers[1], "group.id": "readers", "group.protocol": "consumer",
                           "auto.offset.reset": "earliest"})  # fmt: skip
        member.subscribe(["plain"])
        assert member.poll(60) is not None
        member.close()
        THIS.command("groups", "--delete", "--group", "readers", *servers)
        THIS.command("features", "downgrade", "--feature", "group.version=0", *servers)
    with a_node(older, tmp_path) as servers:
        assert read(older, servers, 2) == ["a-1", "a-2"]


def test_a_source_goes_on_where_the_older_worker_was(older: State, tmp_path: Path) -> None:
    lines, job = tmp_path / "lines.txt", tmp_path / "job.json"
    config = {"connector.class": "FileStreamSource", "file": str(lines), "topic": "plain"}
    job.write_text(json.dumps({"name": "lines", "config": config}))
    lines.write_text("first-1\nfirst-2\n")
    with a_node(older, tmp_path / "data") as servers:
        file = worker_file(tmp_path, servers[1], session_ms=6000)
        with a_worker(older, file) as worker:
            older.command("connect", "create", str(job), "--worker", f"http://{worker}")
            assert read(older, servers, 2) == ["first-1", "first-2"]
    with lines.open("a") as more:
        more.write("second-1\nsecond-2\n")
    with a_node(THIS, tmp_path / "data") as servers:
        file = worker_file(tmp_path, servers[1], session_ms=6000)
        with a_worker(THIS, file):
            assert read(THIS, servers, 2) == ["second-1", "second-2"]
        THIS.command("produce", "--topic", "plain", *servers, given="last-1\n")
        assert read(THIS, servers, 1) == ["last-1"]  # nothing was read from the file twice


@contextmanager
def a_worker(state: State, file: Path) -> Iterator[str]:
    """Where its REST interface is."""
    worker = state.start("worker", str(file))
    try:
        yield worker.address.rpartition("/")[2]
        worker.stop()
    finally:
        worker.process.kill()


def until_well(cluster: Cluster) -> None:
    for _ in range(100):
        said = THIS.command("cluster", "health", "--bootstrap-server", cluster.bootstrap, exit_code=None)
        if said == "all is well\n":
            return
    raise AssertionError(said)


def test_what_waits_and_what_a_share_group_has_read_go_on(tmp_path: Path) -> None:
    """Nothing of it is lost, and nothing comes twice."""
    recent = older_state(tmp_path / "sources", RECENT)
    take = ["consume", "--topic", "jobs", "--share", "--group", "workers", "--max-messages"]
    with a_node(recent, tmp_path / "data") as servers:
        recent.command("features", "upgrade", "--feature", "share.version=1", *servers, exit_code=None)
        waits = ["topics", "--create", "--topic", "reminders", "--config", "penstock.delay.enable=true"]
        recent.command(*waits, *servers)
        producer = Producer({"bootstrap.servers": servers[1]})
        for number in range(3):
            headers: list[tuple[str, str | bytes | None]] = [
                ("penstock-delay", b"86400000"),
                ("penstock-delay-id", b"%d" % number),
            ]
            producer.produce("reminders", b"reminder-%d" % number, headers=headers)
        assert producer.flush(SECONDS) == 0
        begins = ["configs", "--alter", "--entity-type", "groups", "--entity-name", "workers"]
        recent.command(*begins, "--add-config", "share.auto.offset.reset=earliest", *servers)
        recent.command("produce", "--topic", "jobs", *servers, given="".join(f"job-{number}\n" for number in range(10)))
        taken = words(recent.command(*take, "4", *servers))
    with a_node(THIS, tmp_path / "data") as servers:
        for number in (1, 0, 2):
            THIS.command("delayed", "now", "--topic", "reminders", "--id", str(number), *servers)
        come = ["consume", "--topic", "reminders", "--from-beginning", "--max-messages", "3", *servers]
        assert words(THIS.command(*come)) == ["reminder-1", "reminder-0", "reminder-2"]
        taken += words(THIS.command(*take, "6", *servers))
    assert sorted(taken) == [f"job-{number}" for number in range(10)]


def words(said: str) -> list[str]:
    return [word for word in said.split() if word.startswith(("job-", "reminder-"))]
