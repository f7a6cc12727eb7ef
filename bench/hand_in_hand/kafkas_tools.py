"""Apache Kafka's own tools for replicas against three nodes of Penstock: their output is checked."""

import json
import subprocess
import threading
from pathlib import Path
from typing import Final

from bench.hand_in_hand import clients
from bench.hand_in_hand.node import HEAP, HandError, Say, penstock, wait_until
from bench.process import CommandError, said_by
from bench.versus.kafka import LOGGING, Artifact, java_command
from penstock.testing import Cluster

TOOLS: Final = (Artifact("org.apache.kafka", "kafka-tools", "4.1.1"), LOGGING)
"""The newest release with these tools."""
REASSIGN: Final = "reassign.ReassignPartitionsCommand"
TROUBLES: Final = ("under-replicated", "at-min-isr", "under-min-isr", "unavailable")
RECORD_BYTES: Final = 10_000
RECORDS: Final = 1_200
"""Of four partitions: each is three answers long, so that a throttled move waits in the middle."""
PARTITIONS: Final = 4
TOOL_LIMIT_S: Final = 120.0


class Tools:
    def __init__(
        self, cluster: Cluster, say: Say, name: str = "kafka-tools", jars: tuple[Artifact, ...] = TOOLS
    ) -> None:
        self._jars = name, jars
        self._cluster = cluster
        self._say = say

    def command(self, tool: str, *words: str) -> list[str]:
        """A tool that asks no cluster, or not by --bootstrap-server."""
        name = tool if tool.startswith("kafka.") else f"org.apache.kafka.tools.{tool}"
        return [*java_command(*self._jars, name, *HEAP), *words]

    def ask(self, tool: str, *words: str) -> list[str]:
        return self.command(tool, "--bootstrap-server", self._cluster.bootstrap_servers, *words)

    def run(self, tool: str, *words: str) -> str:
        return said_by(self.ask(tool, *words), TOOL_LIMIT_S)

    def refuse(self, expected: str, tool: str, *words: str) -> None:
        """Raises HandError unless the tool fails with this output."""
        try:
            self.run(tool, *words)
        except CommandError as error:
            if expected not in str(error):
                raise
            self._say(f"{tool} {' '.join(words[:2])}: {expected}")
        else:
            raise HandError(f"{tool} {' '.join(words)}: it does not fail")

    def watch(self, expected: str, tool: str, *words: str) -> None:
        """Ends an endless tool at this output. Raises HandError without it."""
        command = self.command(tool, *words)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            limit = threading.Timer(TOOL_LIMIT_S, process.kill)
            limit.start()
            said = []
            for line in process.stdout:
                said.append(line)
                if expected in line:
                    break
            limit.cancel()
            process.kill()
        if expected not in said[-1]:
            raise HandError(f"{tool} {' '.join(words)}: {expected!r} is not in {said!r}")
        self._say(f"{tool}: {said[-1].strip()}")

    def expect(self, expected: str, tool: str, *words: str) -> None:
        said = self.run(tool, *words)
        if expected not in said:
            raise HandError(f"{tool} {' '.join(words)}: {expected!r} is not in {said!r}")
        self._say(f"{tool.rpartition('.')[2]} {' '.join(words[:2])}: {expected}")

    def describe(self, topic: str) -> str:
        return self.run("TopicCommand", "--describe", "--topic", topic)

    def in_trouble(self, trouble: str) -> str:
        return self.run("TopicCommand", "--describe", f"--{trouble}-partitions").strip()

    def expect_trouble(self, expected: str) -> None:
        """With a node away: of the four filters the first two show this, the others nothing."""
        for trouble in TROUBLES[:2]:
            self.expect(expected, "TopicCommand", "--describe", f"--{trouble}-partitions")
        self.expect_no_trouble(*TROUBLES[2:])

    def expect_no_trouble(self, *troubles: str) -> None:
        for trouble in troubles or TROUBLES:
            if shown := self.in_trouble(trouble):
                raise HandError(f"--{trouble}-partitions shows {shown}")

    def elect(self, kind: str, topic: str) -> list[str]:
        """For the first partition."""
        return ["LeaderElectionCommand", "--election-type", kind, "--topic", topic, "--partition", "0"]


def moves_file(path: Path, topic: str, partitions: int, replicas: list[int]) -> list[str]:
    """Writes the file of moves; returns the option that names it."""
    moves = [{"topic": topic, "partition": number, "replicas": replicas} for number in range(partitions)]
    path.write_text(json.dumps({"version": 1, "partitions": moves}))
    return ["--reassignment-json-file", str(path)]


def try_kafkas_tools(folder: Path, say: Say) -> None:
    """Raises HandError."""
    with Cluster(nodes=3, process=True) as cluster:
        tools = Tools(cluster, say)
        _features(tools)
        _topics(tools, cluster)
        _moves(tools, folder)
        tools.expect('"offsetLag":0', "LogDirsCommand", "--describe", "--topic-list", "clicks")
        _comparison(tools, cluster)
        _trouble(tools, cluster)
        _unclean(tools, cluster)


def _features(tools: Tools) -> None:
    """Levels are shown, changed and refused; without a cluster the words are those of `penstock`."""
    name = "eligible.leader.replicas.version"
    shown = f"Feature: {name}\tSupportedMinVersion: 0\tSupportedMaxVersion: 1\tFinalizedVersionLevel:"
    tools.expect(f"{shown} 1", "FeatureCommand", "describe")
    tools.expect(f"{name} can be disabled.", "FeatureCommand", "disable", "--feature", name, "--dry-run")
    tools.expect(f"{name} was disabled.", "FeatureCommand", "disable", "--feature", name)
    tools.expect(f"{shown} 0", "FeatureCommand", "describe")
    tools.expect(f"{name} was upgraded to 1.", "FeatureCommand", "upgrade", "--feature", f"{name}=1")
    tools.expect(f"{shown} 1", "FeatureCommand", "describe")
    tools.refuse("Could not upgrade group.version to 1.", "FeatureCommand", "upgrade", "--feature", "group.version=1")
    tools.refuse(
        "Can not downgrade metadata.version to 25.", "FeatureCommand", "downgrade", "--metadata", "4.0", "--dry-run"
    )
    for words in (
        ["version-mapping", "--release-version", "3.9"],
        ["version-mapping", "--release-version", "4.0"],
        ["version-mapping", "--release-version", "4.1"],
        ["feature-dependencies", "--feature", f"{name}=1", "--feature", "transaction.version=2"],
    ):
        ours, theirs = said_by(penstock("features", *words)), tools.run("FeatureCommand", *words)
        if ours != theirs:
            raise HandError(f"{' '.join(words)}: {ours!r} is not {theirs!r}")


def _topics(tools: Tools, cluster: Cluster) -> None:
    three = ["--replication-factor", "3", "--config", "min.insync.replicas=2"]
    tools.expect("Created topic three", "TopicCommand", "--create", "--topic", "three", "--partitions", "4", *three)
    tools.run("TopicCommand", "--alter", "--topic", "three", "--partitions", "6")
    tools.expect("PartitionCount: 6", "TopicCommand", "--describe", "--topic", "three")
    alone = ["--replica-assignment", ",".join(["1"] * PARTITIONS), "--config", "min.insync.replicas=1"]
    tools.expect("Created topic clicks", "TopicCommand", "--create", "--topic", "clicks", *alone)
    records = [(None, bytes(RECORD_BYTES))] * RECORDS
    clients.produce_all(cluster.bootstrap_servers, "clicks", records, {"acks": "all"}, partitions=PARTITIONS)


def _moves(tools: Tools, folder: Path) -> None:
    topics = folder / "topics.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": "clicks"}]}))
    file = moves_file(folder / "moves.json", "clicks", PARTITIONS, [2, 3])
    wanted = ["--topics-to-move-json-file", str(topics), "--broker-list", "1,2,3"]
    tools.expect("Proposed partition reassignment", REASSIGN, "--generate", *wanted)
    tools.expect("was set to 1 B/s", REASSIGN, "--execute", *file, "--throttle", "1")
    tools.expect("adding: 2,3. removing: 1.", REASSIGN, "--list")
    tools.expect("clicks-0 is still in progress", REASSIGN, "--verify", *file)
    tools.expect("Adding Replicas: 2,3", "TopicCommand", "--describe", "--topic", "clicks")
    if "clicks" in tools.in_trouble("under-replicated"):
        raise HandError("replicas that are still to come are missed")
    tools.expect("Successfully cancelled partition reassignments", REASSIGN, "--cancel", *file)
    tools.expect("Replicas: 1\t", "TopicCommand", "--describe", "--topic", "clicks")
    tools.expect("was set to 1 B/s", REASSIGN, "--execute", *file, "--throttle", "1")
    tools.expect("to 100000000 B/s", REASSIGN, "--execute", "--additional", *file, "--throttle", "100000000")
    wait_until("the moves are done", lambda: "is still" not in tools.run(REASSIGN, "--verify", *file))
    tools.expect("Clearing topic-level throttles on topic clicks", REASSIGN, "--verify", *file)
    if "throttled" in tools.describe("clicks"):
        raise HandError("throttles are left over")


def _comparison(tools: Tools, cluster: Cluster) -> None:
    """All replicas are read from the beginning, followers among them, until all are compared."""
    reach = ["--broker-list", cluster.bootstrap_servers, "--topics-include", "clicks|three"]
    since = ["--time", "-2", "--report-interval-ms", "500", "--max-wait-ms", "100"]
    tools.watch("max lag is 0 ", "ReplicaVerificationTool", *reach, *since)


def _trouble(tools: Tools, cluster: Cluster) -> None:
    """A node goes: the filters, and preferred leaders when it has come back."""
    cluster.node(3).stop()
    tools.expect_trouble("Topic: three\tPartition: 5")
    cluster.node(3).start()
    wait_until("all are in sync", lambda: not tools.in_trouble("under-replicated"))
    tools.run("LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")


def _unclean(tools: Tools, cluster: Cluster) -> None:
    """The only replica in sync dies; another one is elected, with loss."""
    lost = ["--topic", "lost", "--replica-assignment", "1:2", "--config", "min.insync.replicas=1"]
    tools.expect("Created topic lost", "TopicCommand", "--create", *lost)
    cluster.node(2).stop()
    clients.produce_all(cluster.bootstrap_servers, "lost", [(None, b"only on 1")], {"acks": "all"})
    cluster.node(1).kill()
    cluster.node(2).start()
    wait_until("nobody leads", lambda: "Leader: none" in tools.describe("lost"))
    tools.expect("lost", "TopicCommand", "--describe", "--unavailable-partitions")
    tools.expect("Successfully completed leader election (UNCLEAN)", *tools.elect("unclean", "lost"))
    tools.expect("Leader: 2", "TopicCommand", "--describe", "--topic", "lost")
