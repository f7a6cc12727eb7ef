"""Apache Kafka's own tools against three nodes of Penstock, and with topics by consensus: their output is checked."""

import asyncio
import json
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from bench.hand_in_hand.java_clients import QUIET, TOPIC, JavaClients, JavaConsumer
from bench.hand_in_hand.node import HEAP, HandError, Say, penstock, produce_all, wait_until
from bench.process import CommandError, said_by
from bench.topics import create_topic, leaders_of, wait_in_sync
from bench.versus.kafka import java_command, write_properties
from penstock.client.admin import Admin
from penstock.client.values import TopicPartition
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.testing import Cluster

RECORD_BYTES: Final = 10_000
RECORDS: Final = 1_200
"""Of four partitions: each is three answers long, so that a throttled move waits in the middle."""
CLICKS_PARTITIONS: Final = 4
TOOL_LIMIT_S: Final = 120.0
COMPARED_S: Final = 30
"""In which all replicas are compared, many times over."""


class Step(NamedTuple):
    """A command, and what it has to say: each with its sign."""

    words: list[str]
    wanted: list[tuple[str, str]]


SIGNS: Final[dict[str, Callable[[str, str], bool]]] = {
    ">": lambda said, text: text in said,
    "~": lambda said, text: text not in said,
    "=": lambda said, text: text == said.strip(),
    "!": lambda said, text: text in said,
}
"""Before a text that the command has to say, may not say, has to say and nothing else, or has to fail with."""


class Tools:
    """The steps of a file, by their headings: commands of tools, and what each has to say below it.

    `wait` before a command repeats it until it says so; `node 1 stop` and the like are done to the cluster.
    """

    def __init__(self, cluster: Cluster, say: Say, jars: str, steps: Path, **names: object) -> None:
        self._cluster, self._say, self._jars = cluster, say, jars
        self._steps: dict[str, list[Step]] = {}
        for line in steps.read_text().format(**names).replace("\\t", "\t").splitlines():
            if line.startswith("# "):
                self._steps[line[2:].partition(":")[0]] = found = list[Step]()
            elif line[:1] in SIGNS:
                found[-1].wanted.append((line[0], line[2:]))
            elif line:
                found.append(Step(line.split(), []))

    def command(self, tool: str, *words: str) -> list[str]:
        """A tool that asks no cluster, or not by --bootstrap-server."""
        name = tool if tool.startswith("kafka.") else f"org.apache.kafka.tools.{tool}"
        return [*java_command(self._jars, name, *HEAP), *words]

    def ask(self, tool: str, *words: str) -> list[str]:
        return self.command(tool, "--bootstrap-server", self._cluster.bootstrap_servers, *words)

    def run(self, tool: str, *words: str) -> str:
        return said_by(self.ask(tool, *words), TOOL_LIMIT_S)

    def do(self, heading: str) -> None:
        """Raises HandError at a step that goes otherwise."""
        for words, wanted in self._steps[heading]:
            match words:
                case ["node", number, action]:
                    getattr(self._cluster.node(int(number)), action)()
                case ["wait", *command]:
                    wait_until(" ".join(words), partial(self._says, command, wanted), (), TOOL_LIMIT_S)
                case _ if not self._says(words, wanted):
                    raise HandError(f"{' '.join(words)}: it does not say {wanted}")
            for sign, text in wanted:
                self._say(f"{' '.join(words[:3])} {sign} {text}")

    def _says(self, words: list[str], wanted: list[tuple[str, str]]) -> bool:
        try:
            said, has_failed = self.run(*words), False
        except CommandError as error:
            said, has_failed = str(error), True
        if has_failed != any(sign == "!" for sign, _ in wanted):
            raise HandError(f"{' '.join(words)}: it has {'failed' if has_failed else 'not failed'}: {said}")
        return all(SIGNS[sign](said, text) for sign, text in wanted)

    def compare_replicas(self, topics: str) -> None:
        """Kafka's tool reads all from the beginning, followers among them, and never ends by itself. HandError."""
        words = ["--broker-list", self._cluster.bootstrap_servers, "--topics-include", topics, "--time", "-2"]
        command = self.command("ReplicaVerificationTool", *words, "--report-interval-ms", "500", "--max-wait-ms", "100")
        done = subprocess.run(["timeout", str(COMPARED_S), *command], capture_output=True, text=True)
        if "max lag is 0 " not in done.stdout:
            raise HandError(f"the replicas of {topics} differ: {done.stdout!r}")
        self._say(done.stdout.splitlines()[-1])


def write_moves(path: Path, topic: str, partitions: int, replicas: list[int]) -> None:
    moves = [{"topic": topic, "partition": number, "replicas": replicas} for number in range(partitions)]
    path.write_text(json.dumps({"version": 1, "partitions": moves}))


def try_kafkas_tools(folder: Path, say: Say) -> None:
    write_moves(folder / "moves.json", "clicks", CLICKS_PARTITIONS, [2, 3])
    (folder / "topics.json").write_text(json.dumps({"version": 1, "topics": [{"topic": "clicks"}]}))
    with Cluster(nodes=3, process=True) as cluster:
        tools = Tools(cluster, say, "kafka-tools", Path(__file__).with_suffix(".steps"), folder=folder)
        tools.do("features")
        _compare_words(tools)
        tools.do("topics")
        records = [(None, bytes(RECORD_BYTES))] * RECORDS
        produce_all(cluster.bootstrap_servers, "clicks", records, {"acks": "all"}, partitions=CLICKS_PARTITIONS)
        tools.do("moves")
        tools.compare_replicas("clicks|three")
        tools.do("a node goes and comes back")
        tools.do("the only replica in sync is to die")
        produce_all(cluster.bootstrap_servers, "lost", [(None, b"only on 1")], {"acks": "all"})
        tools.do("another one is elected, with loss")


def come_as_users(folder: Path, say: Say) -> None:
    with Cluster(nodes=3, process=True, secure=True) as cluster:
        for user in ("admin", "app"):
            write_properties(folder / user, cluster.client_properties(user))
        Tools(cluster, say, "kafka-all-tools", Path(__file__).with_name("secured.steps"), folder=folder).do("rights")


def _compare_words(tools: Tools) -> None:
    """Without a cluster the words are those of `penstock`."""
    levels = ["--feature", "eligible.leader.replicas.version=1", "--feature", "transaction.version=2"]
    releases = [["version-mapping", "--release-version", release] for release in ("3.9", "4.0", "4.1")]
    for words in (*releases, ["feature-dependencies", *levels]):
        ours, theirs = said_by(penstock("features", *words)), tools.run("FeatureCommand", *words)
        if ours != theirs:
            raise HandError(f"{' '.join(words)}: {ours!r} is not {theirs!r}")


PARTITIONS: Final = 6
BY_CONSENSUS: Final = {"replication.mode": "consensus"}
KILLS: Final = 3


def work_on_consensus_topic(folder: Path, say: Say) -> None:
    with Cluster(nodes=3, process=True, config=QUIET) as cluster:
        create_topic(cluster.bootstrap_servers, TOPIC, PARTITIONS, replicas=3, config=BY_CONSENSUS)
        records = _kill_leaders(cluster, folder, say)
        steps = Path(__file__).with_name("consensus.steps")
        tools = Tools(cluster, say, "kafka-all-tools", steps, folder=folder, topic=TOPIC, group=STORAGE_GROUPS)
        tools.do("topic")
        _offsets(tools, records, folder)
        tools.do("settings")
        tools.do("elections")
        _moves(tools, cluster, folder)
        tools.compare_replicas(TOPIC)  # over all topics it is refused the log of the group
        _dump(tools, cluster, say)


def _kill_leaders(cluster: Cluster, folder: Path, say: Say) -> int:
    """Under load; returns the final number of records."""
    bootstrap = cluster.bootstrap_servers
    clients = JavaClients([JavaConsumer(folder, f"reader-{number}", bootstrap, "readers") for number in (1, 2)])
    with clients.at_work(folder, bootstrap):
        for _ in range(KILLS):
            victim = leaders_of(bootstrap, TOPIC)[0]
            clients.begin_round()
            cluster.kill(victim)
            clients.wait_for_more()
            cluster.node(victim).start()
            _wait_in_sync(cluster)
            clients.wait_for_more()
            say(f"node {victim}, which led, killed: no producer waited for longer than {clients.longest_ms} ms")
    say(f"{clients.acknowledged} records acknowledged, each read once; {clients.commits} commits, all accepted")
    return clients.acknowledged


def _wait_in_sync(cluster: Cluster) -> None:
    for topic in (TOPIC, STORAGE_GROUPS):
        wait_in_sync(cluster.bootstrap_servers, topic, len(cluster.nodes))


def _offsets(tools: Tools, records: int, folder: Path) -> None:
    """For all topics: the log of the group is refused at once, the others are answered."""
    if (found := _total(tools, "latest")) != records:
        raise HandError(f"{found} records are in the partitions, {records} were acknowledged")
    begun_s = time.monotonic()
    said = subprocess.run(tools.ask("GetOffsetShell"), capture_output=True, text=True, timeout=TOOL_LIMIT_S)
    if f"{STORAGE_GROUPS}-0 due to error" not in said.stderr or time.monotonic() > begun_s + TOOL_LIMIT_S / 4:
        raise HandError(f"GetOffsetShell of all topics takes long, or says nothing of {STORAGE_GROUPS}: {said.stderr}")
    wanted = [{"topic": TOPIC, "partition": 0, "offset": 100}, {"topic": STORAGE_GROUPS, "partition": 0, "offset": 1}]
    (folder / "cut.json").write_text(json.dumps({"version": 1, "partitions": wanted}))
    tools.do("offsets")
    if (found := _total(tools, "earliest")) != 100:
        raise HandError(f"the partitions begin at {found} and not at 100, together")


def _total(tools: Tools, moment: str) -> int:
    lines = tools.run("GetOffsetShell", "--topic", TOPIC, "--time", moment).splitlines()
    return sum(int(line.rpartition(":")[2]) for line in lines)


def _moves(tools: Tools, cluster: Cluster, folder: Path) -> None:
    """The group moves to two nodes, and then back to a third one, which is away at first."""
    write_moves(folder / "single.json", TOPIC, 1, [1, 2])
    write_moves(folder / "two.json", STORAGE_GROUPS, 1, [1, 2])
    write_moves(folder / "three.json", STORAGE_GROUPS, 1, [2, 1, 3])
    tools.do("to two nodes")
    _expect_replicas(tools, "1,2")
    asyncio.run(_bring_back(cluster.bootstrap_servers))
    tools.do("back to three")
    _wait_in_sync(cluster)
    _expect_replicas(tools, "2,1,3")
    tools.do("all in sync")


async def _bring_back(bootstrap: str) -> None:
    """Kafka's tool begins no move to a node that is away; its controllers, and Penstock's, do."""
    async with Admin(bootstrap) as admin:
        await admin.partitions.reassign({TopicPartition(STORAGE_GROUPS, 0): [2, 1, 3]})


def _expect_replicas(tools: Tools, replicas: str) -> None:
    for topic in (TOPIC, STORAGE_GROUPS):
        for line in tools.run("TopicCommand", "--describe", "--topic", topic).splitlines()[1:]:
            if f"Replicas: {replicas}\t" not in line:
                raise HandError(f"the replicas are not {replicas}: {line}")


def _dump(tools: Tools, cluster: Cluster, say: Say) -> None:
    """Kafka's tool reads the files of a partition, and those of its group, of which it knows the batches."""
    cluster.node(2).stop()
    directory = cluster.node(2).directory
    segments = [*directory.glob(f"{TOPIC}-0/*.log"), *directory.glob(f"{STORAGE_GROUPS}-0/*.log")]
    snapshots = [*directory.glob(f"{STORAGE_GROUPS}-0/*.checkpoint"), *directory.glob(f"{TOPIC}-0/*.snapshot")]
    indexes = [*directory.glob(f"{TOPIC}-0/*index"), *directory.glob(f"{STORAGE_GROUPS}-0/*index")]
    for files, option in ((segments + snapshots, "--deep-iteration"), (indexes, "--index-sanity-check")):
        words = ["--files", ",".join(map(str, files)), option]
        dumped = said_by(tools.command("kafka.tools.DumpLogSegments", *words))
        if "isvalid: false" in dumped or "Found timestamp mismatch" in dumped:
            raise HandError(f"Kafka's dump does not read {files}: {dumped[-500:]}")
        say(f"DumpLogSegments {option}: {', '.join(f'{path.parent.name}/{path.name}' for path in files)}")
