"""A topic that is replicated by consensus, under Java's clients and under Kafka's tools, both of 4.1.1.

Producers and a group of consumers work on it while the leader of its storage group is killed, each node in its turn;
then each of Kafka's tools that has to do with replicas does its work, or is refused in plain words.
"""

import asyncio
import json
import subprocess
import time
from pathlib import Path
from typing import Final

from bench.hand_in_hand.compaction import DUMP
from bench.hand_in_hand.java_clients import LIMIT_S, QUIET, TOPIC, JavaClients, JavaConsumer
from bench.hand_in_hand.kafkas_tools import REASSIGN, TOOL_LIMIT_S, TOOLS, Tools, moves_file
from bench.hand_in_hand.node import HandError, Say, wait_until
from bench.process import said_by
from bench.topics import create_topic, leaders_of, wait_in_sync
from penstock.client.admin import Admin
from penstock.client.values import TopicPartition
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.testing import Cluster

PARTITIONS: Final = 6
BY_CONSENSUS: Final = {"replication.mode": "consensus"}
KILLS: Final = 3
CONFIGS: Final = "kafka.admin.ConfigCommand"
NO_MOVES: Final = "No partition reassignments found"
BALANCE: Final = "penstock leaders balance gives the lead to the group's first replica"


def work_on_consensus_topic(folder: Path, say: Say) -> None:
    """Raises HandError."""
    with Cluster(nodes=3, process=True, config=QUIET) as cluster:
        create_topic(cluster.bootstrap_servers, TOPIC, PARTITIONS, replicas=3, config=BY_CONSENSUS)
        records = _kill_leaders(cluster, folder, say)
        tools = Tools(cluster, say, "kafka-all-tools", (*TOOLS, *DUMP))
        _topic(tools)
        _offsets(tools, records, folder)
        _settings(tools)
        _elections(tools)
        cluster.node(3).stop()
        tools.expect_trouble(f"Topic: {TOPIC}\tPartition: 5")
        _moves(tools, cluster, folder)
        _comparison(tools, cluster)
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


def _topic(tools: Tools) -> None:
    """Kafka's tool knows Kafka's keys alone, so it makes no such topic; it shows and enlarges one."""
    made = ["--create", "--topic", "mine", "--config", "replication.mode=consensus"]
    tools.refuse("Unknown topic config name: replication.mode", "TopicCommand", *made)
    tools.run("TopicCommand", "--alter", "--topic", TOPIC, "--partitions", str(PARTITIONS + 2))
    described = tools.describe(TOPIC)
    for expected in ("replication.mode=consensus,storage.group=0", f"PartitionCount: {PARTITIONS + 2}"):
        if expected not in described:
            raise HandError(f"{expected} is not in {described}")
    tools.expect(f"Topic: {STORAGE_GROUPS}\tPartition: 0", "TopicCommand", "--describe", "--topic", STORAGE_GROUPS)
    tools.expect_no_trouble()
    for words in (["--delete"], ["--alter", "--partitions", "5"]):
        tools.refuse("they begin as such, and none is ever deleted", "TopicCommand", "--topic", STORAGE_GROUPS, *words)


def _offsets(tools: Tools, records: int, folder: Path) -> None:
    """For all topics: the log of the group is refused at once, the others are answered."""
    if (found := _total(tools, "latest")) != records:
        raise HandError(f"{found} records are in the partitions, {records} were acknowledged")
    begun_s = time.monotonic()
    said = subprocess.run(tools.ask("GetOffsetShell"), capture_output=True, text=True, timeout=TOOL_LIMIT_S)
    if f"{STORAGE_GROUPS}-0 due to error" not in said.stderr or time.monotonic() > begun_s + TOOL_LIMIT_S / 4:
        raise HandError(f"GetOffsetShell of all topics takes long, or says nothing of {STORAGE_GROUPS}: {said.stderr}")
    cut = folder / "cut.json"
    wanted = [{"topic": TOPIC, "partition": 0, "offset": 100}, {"topic": STORAGE_GROUPS, "partition": 0, "offset": 1}]
    cut.write_text(json.dumps({"version": 1, "partitions": wanted}))
    said_of_cut = tools.run("DeleteRecordsCommand", "--offset-json-file", str(cut))
    for expected in (f"{TOPIC}-0\tlow_watermark: 100", f"{STORAGE_GROUPS}-0\terror: "):
        if expected not in said_of_cut:
            raise HandError(f"{expected} is not in {said_of_cut}")
    if (found := _total(tools, "earliest")) != 100:
        raise HandError(f"the partitions begin at {found} and not at 100, together")
    tools.expect('"offsetLag":0', "LogDirsCommand", "--describe", "--topic-list", f"{TOPIC},{STORAGE_GROUPS}")
    if '"offsetLag":-' in tools.run("LogDirsCommand", "--describe"):
        raise HandError("some replica is said to be ahead")


def _total(tools: Tools, moment: str) -> int:
    lines = tools.run("GetOffsetShell", "--topic", TOPIC, "--time", moment).splitlines()
    return sum(int(line.rpartition(":")[2]) for line in lines)


def _settings(tools: Tools) -> None:
    topic = ["--entity-type", "topics", "--entity-name", TOPIC]
    tools.expect("replication.mode=consensus", CONFIGS, "--describe", *topic)
    tools.expect("Completed updating config", CONFIGS, "--alter", *topic, "--add-config", "retention.ms=604800001")
    for setting, why in (
        ("replication.mode=isr", "replication.mode: it is decided when a topic is created"),
        ("storage.group=1", "storage.group: it is decided when a topic is created"),
        ("cleanup.policy=compact", "expected delete where replication.mode=consensus"),
        ("min.insync.replicas=1", "a majority of the replicas has each record"),
        ("unclean.leader.election.enable=true", "who leads has all that was acknowledged"),
    ):
        tools.refuse(why, CONFIGS, "--alter", *topic, "--add-config", setting)


def _elections(tools: Tools) -> None:
    """The controller elects no leader there; transactions are refused as everywhere."""
    tools.run("LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")
    for kind, topic in (("preferred", TOPIC), ("unclean", TOPIC), ("preferred", STORAGE_GROUPS)):
        tools.refuse(BALANCE, *tools.elect(kind, topic))


def _moves(tools: Tools, cluster: Cluster, folder: Path) -> None:
    """The group moves to two nodes, and then back to a third one, which is away at first."""
    single = moves_file(folder / "single.json", TOPIC, 1, [1, 2])
    two = moves_file(folder / "two.json", STORAGE_GROUPS, 1, [1, 2])
    three = moves_file(folder / "three.json", STORAGE_GROUPS, 1, [2, 1, 3])
    name = f"{STORAGE_GROUPS}-0"
    tools.refuse(f"move {name}, and all that is in it moves", REASSIGN, "--execute", *single)
    tools.expect(f"Successfully started partition reassignment for {name}", REASSIGN, "--execute", *two)
    _wait_moved(tools, two)
    _expect_replicas(tools, "1,2")
    asyncio.run(_bring_back(cluster.bootstrap_servers))
    tools.expect(f"{name} is still in progress", REASSIGN, "--verify", "--preserve-throttles", *three)
    tools.expect("adding: 3.", REASSIGN, "--list")
    cancelled = f"Successfully cancelled partition reassignment for: {name}"
    tools.expect(cancelled, REASSIGN, "--cancel", "--preserve-throttles", *three)
    wait_until("the move is taken back", lambda: NO_MOVES in tools.run(REASSIGN, "--list"), (), LIMIT_S)
    cluster.node(3).start()
    tools.run(REASSIGN, "--execute", *three, "--throttle", "100000000")
    _wait_moved(tools, three)
    _wait_in_sync(cluster)
    _expect_replicas(tools, "2,1,3")
    tools.expect_no_trouble()


async def _bring_back(bootstrap: str) -> None:
    """Kafka's tool begins no move to a node that is away; its controllers, and Penstock's, do."""
    async with Admin(bootstrap) as admin:
        await admin.partitions.reassign({TopicPartition(STORAGE_GROUPS, 0): [2, 1, 3]})


def _wait_moved(tools: Tools, file: list[str]) -> None:
    wait_until("the move is done", lambda: "is completed" in tools.run(REASSIGN, "--verify", *file), (), LIMIT_S)


def _expect_replicas(tools: Tools, replicas: str) -> None:
    for topic in (TOPIC, STORAGE_GROUPS):
        for line in tools.describe(topic).splitlines()[1:]:
            if f"Replicas: {replicas}\t" not in line:
                raise HandError(f"the replicas are not {replicas}: {line}")


def _comparison(tools: Tools, cluster: Cluster) -> None:
    """Followers are read as well; over all topics the tool is refused the log of the group."""
    reach = ["--broker-list", cluster.bootstrap_servers, "--time", "-2", "--report-interval-ms", "500"]
    tools.watch("max lag is 0 ", "ReplicaVerificationTool", *reach, "--topics-include", TOPIC)


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
