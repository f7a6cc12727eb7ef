"""The commands about the quorum, features and replicas, against three nodes in threads of this process."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from tests.wire.test_cli import penstock

from penstock.cli.main import main
from penstock.testing import Cluster
from penstock.testing.quorum_view import known_brokers, wait_until


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    """Three nodes; who leads them changes from test to test."""
    with Cluster(nodes=3) as cluster:
        cluster.wait_for_controller()
        yield cluster


@pytest.fixture(params=["server", "controller"])
def reach(three: Cluster, request: pytest.FixtureRequest) -> tuple[str, str]:
    """Both ways to reach a cluster."""
    if request.param == "server":
        return "--bootstrap-server", three.bootstrap_servers
    return "--bootstrap-controller", three.bootstrap_controllers


def create(three: Cluster, topic: str, *options: str) -> None:
    """Create a topic, and wait until the broker knows it that all commands ask first."""
    servers = ["--bootstrap-server", three.bootstrap_servers]
    penstock("topics", "--create", "--if-not-exists", "--topic", topic, *options, *servers)

    def look() -> bool | None:
        return topic in json.loads(penstock("topics", "--list", "--json", *servers).stdout) or None

    wait_until(look, 30, f"topic {topic}")


def active(reach: tuple[str, str]) -> tuple[int, int]:
    document = json.loads(penstock("controller", *reach, "--json").stdout)
    return document["controller_id"], document["epoch"]


def test_the_status_of_the_quorum(three: Cluster, reach: tuple[str, str]) -> None:
    lines = penstock("metadata-quorum", *reach, "describe", "--status").stdout.splitlines()
    told = {label: value.strip() for label, _, value in (line.partition(":") for line in lines)}
    assert int(told["LeaderId"]) == three.active_controller
    assert int(told["HighWatermark"]) > 0
    assert [voter["id"] for voter in json.loads(told["CurrentVoters"])] == [1, 2, 3]
    endpoints = [voter["endpoints"] for voter in json.loads(told["CurrentVoters"])]
    assert endpoints == [[f"CONTROLLER://{node.controller_address}"] for node in three.nodes]
    behind = penstock("metadata-quorum", "describe", "--status", *reach).stdout.splitlines()
    assert behind[0] == lines[0], "the addresses may stand behind the subcommand too"


def test_the_replicas_of_the_metadata_log(reach: tuple[str, str]) -> None:
    header, *rows = penstock(
        "metadata-quorum", *reach, "describe", "--replication", "--human-readable"
    ).stdout.splitlines()
    assert header.split() == [
        "NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status",
    ]  # fmt: skip
    assert [row.split("\t")[-2].strip() for row in rows] == ["Leader", "Follower", "Follower"]
    assert all(re.fullmatch(r"\d{1,5} ms ago", row.split("\t")[4].strip()) for row in rows)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["describe"], "one of --status and --replication"),
        (["describe", "--status", "--replication"], "one of --status and --replication"),
        (["describe", "--status", "--human-readable"], "goes with --replication"),
        (["describe", "--status", "--bootstrap-server", "a:1", "--bootstrap-controller", "a:1"], "give one of"),
        (["add-controller"], "give the configuration file"),
        (["remove-controller", "-i", "1", "-d", "short"], "22 characters"),
    ],
)
def test_wrong_usage_is_said(arguments: list[str], says: str) -> None:
    assert says in penstock("metadata-quorum", *arguments, exit_code=2).stderr


def test_the_active_controller_resigns(reach: tuple[str, str]) -> None:
    node, epoch = active(reach)
    document = json.loads(penstock("controller", *reach, "--resign", "--json").stdout)
    assert document["before"] == {"controller_id": node, "epoch": epoch}
    assert document["epoch"] > epoch
    assert active(reach) == (document["controller_id"], document["epoch"])


def test_the_office_goes_to_who_is_named(reach: tuple[str, str]) -> None:
    to = active(reach)[0] % 3 + 1

    def transferred() -> tuple[int, list[str]] | None:
        """A wish: the voters elect whose log is good enough, and on a busy machine it may not be so far."""
        node, epoch = active(reach)
        wished = CliRunner().invoke(main, ["controller", *reach, "--transfer", "--to", str(to)])
        if wished.exit_code:
            assert f", not {to}: try again" in wished.stderr
            return None
        assert wished.stdout.startswith(f"controller {node} resigned from epoch {epoch}\n")
        return epoch, wished.stdout.splitlines()

    epoch, said = wait_until(transferred, 30, "the voters elect who is named")
    now, newer = active(reach)
    assert newer > epoch
    assert (now, said[1]) == (to, f"controller {to} is active in epoch {newer}")
    again = penstock("controller", *reach, "--transfer", "--to", str(to)).stdout
    assert again == f"controller {to} is active in epoch {newer}\n", "nothing was to be done"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--resign", "--transfer", "--to", "1"], 2, "one of --resign and --transfer"),
        (["--transfer"], 2, "go together"),
        (["--to", "1"], 2, "go together"),
        (["--transfer", "--to", "9"], 1, "the voters are 1, 2, 3"),
    ],
)
def test_an_office_that_cannot_be_had(three: Cluster, arguments: list[str], code: int, says: str) -> None:
    reach = ["--bootstrap-server", three.bootstrap_servers]
    assert says in penstock("controller", *reach, *arguments, exit_code=code).stderr


def test_all_nodes_make_the_same_of_the_metadata(three: Cluster, reach: tuple[str, str]) -> None:
    create(three, "sums")
    rows = json.loads(penstock("metadata", "checksum", *reach, "--json").stdout)
    assert [row["node"] for row in rows] == [1, 2, 3]
    assert len({(row["offset"], row["checksum"]) for row in rows}) == 1


def test_each_node_says_what_it_is_in_numbers(three: Cluster, reach: tuple[str, str]) -> None:
    create(three, "numbers")
    node, epoch = active(reach)
    rows = json.loads(penstock("metadata", "metrics", *reach, "--json").stdout)
    values = {(row["node"], row["group"], row["metric"]): row["value"] for row in rows}
    states = {node: values[node, "raft-metrics", "current-state"] for node in (1, 2, 3)}
    assert states == dict.fromkeys((1, 2, 3), "follower") | {node: "leader"}
    assert values[node, "raft-metrics", "current-epoch"] == str(epoch)
    assert values[node, "KafkaController", "ActiveControllerCount"] == "1"
    assert int(values[node, "KafkaController", "GlobalTopicCount"]) >= 1
    assert int(values[node, "ControllerEventManager", "EventQueueTimeMs.count"]) >= 1
    assert float(values[node, "ControllerEventManager", "EventQueueProcessingTimeMs.max"]) > 0
    only = json.loads(penstock("metadata", "metrics", *reach, "--node", "2", "--json").stdout)
    assert {row["node"] for row in only} == {2}
    refused = penstock("metadata", "metrics", *reach, "--node", "9", exit_code=1)
    assert "there is no node 9: there are 1, 2, 3" in refused.output


def test_a_node_that_does_not_answer_is_told(three: Cluster) -> None:
    away = three.nodes[2]
    reach = ["--bootstrap-controller", three.bootstrap_controllers]
    away.stop()
    try:
        result = penstock("metadata", "checksum", *reach, "--json")
        health = CliRunner().invoke(main, ["cluster", "health", *reach])
    finally:
        away.start()
        wait_until(
            lambda: known_brokers(str(three.nodes[0].address)) == {1, 2, 3} or None, 60, "the first node knows it again"
        )
    assert [row["node"] for row in json.loads(result.stdout)] == [1, 2]
    assert f"node 3 does not answer: cannot reach {away.controller_address}" in result.stderr
    assert (health.exit_code, health.stdout.splitlines()[0]) == (1, "does not answer (1): 3")


def test_the_shell_shows_who_is_active_and_lets_it_go(reach: tuple[str, str]) -> None:
    node, epoch = active(reach)
    (content, shown_epoch) = penstock(
        "metadata-shell", *reach, "cat", "/controller", "/controller_epoch"
    ).stdout.split()
    assert list(json.loads(content)) == ["version", "brokerid", "timestamp"]
    assert (json.loads(content)["brokerid"], int(shown_epoch)) == (node, epoch)
    typed = "rm /controller\ncat /controller_epoch\ncat /controller\nrm /brokers\nexit\n"
    result = penstock("metadata-shell", *reach, given=typed)
    epochs, contents = re.findall(r"^(?:>> )*(\d+)$", result.output, re.M), re.findall(r"\{.*\}", result.output)
    assert int(epochs[0]) > epoch
    assert json.loads(contents[0])["brokerid"] == active(reach)[0]
    assert int(json.loads(contents[0])["timestamp"]) >= int(json.loads(content)["timestamp"])
    assert "only /controller can be removed" in result.output


def test_the_shell_hands_the_controller_over_to_whom_is_written_there(reach: tuple[str, str]) -> None:
    successor = active(reach)[0] % 3 + 1

    def handed_over() -> bool | None:
        """A wish: the voters elect whose log is good enough, and on a busy machine it may not be so far."""
        CliRunner().invoke(main, ["metadata-shell", *reach, "set", "/controller", str(successor)])
        return active(reach)[0] == successor or None

    wait_until(handed_over, 30, "the voters elect whom the shell named")
    refused = penstock("metadata-shell", *reach, "set", "/controller", "9", exit_code=1)
    assert refused.stderr == "Error: controller 9 cannot take over: the voters are 1, 2, 3\n"


def test_the_shell_sees_what_is_so_now(three: Cluster, reach: tuple[str, str]) -> None:
    create(three, "seen", "--partitions", "2")
    assert penstock("metadata-shell", *reach, "ls", "/brokers/ids").stdout.split() == ["1", "2", "3"]
    assert "seen" in penstock("metadata-shell", *reach, "ls", "/brokers/topics").stdout.split()
    state = json.loads(penstock("metadata-shell", *reach, "cat", "/brokers/topics/seen/partitions/1/state").stdout)
    assert state["leader"] in (1, 2, 3)


def test_the_apis_of_all_nodes(three: Cluster, reach: tuple[str, str]) -> None:
    told = json.loads(penstock("cluster", "api-versions", *reach, "--json").stdout)
    assert [(node["node_id"], node["error"]) for node in told] == [(1, None), (2, None), (3, None)]
    names = {row["name"] for row in told[2]["apis"]}
    of_broker, of_controller = "Produce" in names, "BrokerHeartbeat" in names
    assert (of_broker, of_controller) == (reach[0] == "--bootstrap-server", reach[0] == "--bootstrap-controller")


def test_the_health(reach: tuple[str, str]) -> None:
    def look() -> bool | None:
        return CliRunner().invoke(main, ["cluster", "health", *reach]).stdout == "all is well\n" or None

    wait_until(look, 30, "the cluster is well")
    assert json.loads(penstock("cluster", "health", *reach, "--node", "2", "--json").stdout)["problems"] == {}
    assert penstock("cluster", "health", *reach, "--node", "9", exit_code=1).stdout == "not in service (1): 9\n"


def test_the_features(reach: tuple[str, str]) -> None:
    lines = penstock("features", *reach, "describe").stdout.splitlines()
    features = "eligible.leader.replicas group kraft metadata penstock.delay share streams transaction"
    names = [f"{name}.version" for name in features.split()]
    assert [line.split("\t")[0] for line in lines] == [f"Feature: {name}" for name in names]
    levels = ["SupportedMinVersion: 3.3-IV3", "SupportedMaxVersion: 4.4-IV2", "FinalizedVersionLevel: 4.4-IV2"]
    assert lines[3].split("\t")[1:4] == levels
    document = json.loads(penstock("features", "describe", *reach, "--json").stdout)
    assert document["features"][3]["finalized_level"] == 33
    assert penstock("features", *reach, "describe", "--node-id", "3").stdout.splitlines() == lines
    unknown = penstock("features", *reach, "describe", "--node-id", "4", exit_code=1)
    assert "in this cluster: there are 1,2,3" in unknown.stderr
    for text, level in (("33", 33), ("4.4-IV2", 33), ("4.4", 33)):
        done = penstock("features", *reach, "upgrade", "--metadata", text, "--dry-run").stdout
        assert done == f"metadata.version can be upgraded to {level}.\n"
    asked = penstock("features", *reach, "upgrade", "--release-version", "4.4", "--dry-run")
    assert "before going back" in asked.stderr
    assert asked.stdout == (
        "eligible.leader.replicas.version can be upgraded to 1.\ngroup.version can be upgraded to 1.\n"
        "metadata.version can be upgraded to 33.\nshare.version can be upgraded to 2.\n"
        "streams.version can be upgraded to 1.\ntransaction.version can be upgraded to 2.\n"
    )
    done = penstock("features", *reach, "disable", "--feature", names[0], "--dry-run").stdout
    assert done == "eligible.leader.replicas.version can be disabled.\n"
    refused = penstock("features", *reach, "disable", "--feature", names[3], "--unsafe", exit_code=1)
    assert refused.stdout.startswith("Could not disable metadata.version. ")
    penstock("features", *reach, "disable", exit_code=2)
    penstock("features", *reach, "upgrade", "--release-version", "4.4", "--metadata", "33", exit_code=2)
    lossy = penstock("features", *reach, "downgrade", "--metadata", "4.4-IV1", "--dry-run", exit_code=1)
    assert lossy.stdout.startswith("Can not downgrade metadata.version to 32. ")
    refused = penstock("features", *reach, "upgrade", "--feature", "metadata.version=99", exit_code=1)
    assert refused.stdout.startswith("Could not upgrade metadata.version to 99. ")
    assert refused.stderr == "Error: 1 out of 1 operation(s) failed.\n"


@pytest.mark.parametrize(
    "arguments", [["--feature", "x"], ["--feature", "a=1", "--feature", "a=2"], ["--metadata", "5.0"], []]
)
def test_features_that_are_none(arguments: list[str]) -> None:
    penstock("features", "upgrade", *arguments, exit_code=2)


@pytest.mark.parametrize(("node_id", "says"), [("77", "CONTROLLER_ID_NOT_REGISTERED"), ("1", "is a voter")])
def test_a_controller_is_unregistered_only_if_it_is_known_and_votes_no_longer(
    reach: tuple[str, str], node_id: str, says: str
) -> None:
    assert says in penstock("cluster", "unregister-controller", *reach, "-i", node_id, exit_code=1).stderr


def test_who_is_no_voter_cannot_be_removed_but_unregistered(reach: tuple[str, str]) -> None:
    asked = ("metadata-quorum", "remove-controller", *reach, "-i", "77", "-d", "AAAAAAAAAAAAAAAAAAAAAQ", "--unregister")
    assert penstock(*asked, "--dry-run").stdout.splitlines() == [
        "DRY RUN of removing KRaft controller 77 with directory id AAAAAAAAAAAAAAAAAAAAAQ",
        "DRY RUN of unregistering KRaft controller 77",
    ]
    refused = penstock(*asked, exit_code=1)
    assert "penstock cluster unregister-controller --id 77" in refused.stderr
    assert not refused.stdout


def test_a_broker_is_unregistered_only_if_it_is_known(reach: tuple[str, str]) -> None:
    assert "BROKER_ID_NOT_REGISTERED" in penstock("cluster", "unregister", *reach, "--id", "77", exit_code=1).stderr


def test_both_tell_the_clusters_id(three: Cluster, reach: tuple[str, str]) -> None:
    described = penstock("cluster", "describe", "--bootstrap-server", three.bootstrap_servers).stdout
    assert f"cluster {penstock('cluster', 'cluster-id', *reach).stdout}" in described


def test_both_change_configs_and_list_moves(three: Cluster, reach: tuple[str, str]) -> None:
    topic = f"changed-by-{reach[0].removeprefix('--bootstrap-')}"
    create(three, topic)
    for owner, key in (
        (["--topic", topic], "retention.ms"),
        (["--broker-defaults"], "log.retention.ms"),
        (["--broker", "2"], "log.retention.ms"),
    ):
        penstock("configs", *reach, "--alter", *owner, "--add-config", f"{key}=77")
        described = ["configs", "--bootstrap-server", three.bootstrap_servers, "--describe", *owner]

        def look(key: str = key, described: list[str] = described) -> bool | None:
            shown = penstock(*described).stdout.splitlines()
            return [key, "77"] in [line.split()[:2] for line in shown] or None

        wait_until(look, 30, f"{key} of {owner}")
        penstock("configs", *reach, "--alter", *owner, "--delete-config", key)
    assert penstock("reassign-partitions", *reach, "--list").stdout == "No partition reassignments found.\n"


def test_what_only_brokers_can_do_is_not_asked_of_controllers(tmp_path: Path) -> None:
    file = tmp_path / "moves.json"
    file.write_text('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1]}]}')
    reach = ["--bootstrap-controller", "127.0.0.1:1"]
    for action in (["--execute"], ["--verify"], ["--cancel"]):
        words = ["reassign-partitions", *reach, *action, "--reassignment-json-file", str(file)]
        assert "--bootstrap-controller goes with --list" in penstock(*words, exit_code=2).stderr
    words = ["configs", *reach, "--describe", "--entity-type", "topics"]
    assert "controllers do not list these" in penstock(*words, exit_code=2).stderr


def test_both_describe_configurations(three: Cluster, reach: tuple[str, str]) -> None:
    create(three, "described", "--config", "retention.ms=7000")
    show = ["configs", *reach, "--describe"]
    assert "retention.ms  7000" in penstock(*show, "--topic", "described").stdout
    nodes = json.loads(penstock(*show, "--entity-type", "brokers", "--all", "--json").stdout)
    values = [{entry["name"]: entry["value"] for entry in node["configs"]} for node in nodes]
    assert [one["node.id"] for one in values] == ["1", "2", "3"]
    assert "describes itself" in penstock(*show, "--broker", "7", exit_code=1).stderr


def test_where_nodes_can_be_reached(three: Cluster, reach: tuple[str, str]) -> None:
    header, *rows = (line.split() for line in penstock("cluster", "list-endpoints", *reach).stdout.splitlines())
    if reach[0] == "--bootstrap-controller":
        assert header == ["ID", "HOST", "PORT", "RACK", "ENDPOINT_TYPE"]
        ports = [str(node.controller_address).rpartition(":")[2] for node in three.nodes]
        assert rows == [[str(node), "127.0.0.1", port, "null", "controller"] for node, port in enumerate(ports, 1)]
        penstock("cluster", "list-endpoints", *reach, "--include-fenced-brokers", exit_code=2)
    else:
        assert header == ["ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE"]
        assert [row[0] for row in rows] == ["1", "2", "3"]
        assert {tuple(row[3:]) for row in rows} == {("null", "unfenced", "broker")}


def described(three: Cluster, topic: str) -> Any:
    arguments = ["--topic", topic, "--bootstrap-server", three.bootstrap_servers, "--json"]
    return json.loads(penstock("topics", "--describe", *arguments).stdout)[0]["partitions"]


def test_leaders_are_elected(three: Cluster, reach: tuple[str, str], tmp_path: Path) -> None:
    create(three, "elected", "--partitions", "2")
    said = penstock("leader-election", *reach, "--election-type", "preferred", "--topic", "elected", "--partition", "1")
    assert said.stdout == "Valid replica already elected for partitions elected-1\n"
    file = tmp_path / "partitions.json"
    file.write_text('{"partitions": [{"topic": "elected", "partition": 0}, {"topic": "elected", "partition": 7}]}')
    failed = penstock(
        "leader-election", *reach, "--election-type", "preferred", "--path-to-json-file", str(file), exit_code=1
    )
    assert "Valid replica already elected for partitions elected-0" in failed.stdout
    assert "partition: elected-7: UNKNOWN_TOPIC_OR_PARTITION" in failed.stdout
    assert failed.stderr == "Error: 1 replica(s) could not be elected\n"
    penstock("leader-election", *reach, "--election-type", "preferred", "--all-topic-partitions")


def test_where_a_replica_is_and_where_it_should_be(three: Cluster, tmp_path: Path) -> None:
    servers = ["--bootstrap-server", three.bootstrap_servers]
    create(three, "moved", "--partitions", "1", "--replication-factor", "1")
    (home,) = described(three, "moved")[0]["replicas"]
    away = home % 3 + 1
    file = tmp_path / "moves.json"
    file.write_text(json.dumps({"partitions": [{"topic": "moved", "partition": 0, "replicas": [away]}]}))
    with_file = [*servers, "--reassignment-json-file", str(file)]
    before = penstock("reassign-partitions", *with_file, "--verify").stdout.splitlines()
    assert before[1] == (
        f"There is no active reassignment of partition moved-0, but replica set is {home} rather than {away}."
    )
    begun = penstock("reassign-partitions", *with_file, "--execute")
    assert json.loads(begun.stdout.splitlines()[2])["partitions"][0]["replicas"] == [home]

    def has_moved() -> bool | None:
        return "moved-0 is completed" in penstock("reassign-partitions", *with_file, "--verify").stdout or None

    wait_until(has_moved, 30, "the partition is where it should be")
    assert described(three, "moved")[0]["replicas"] == [away]
    assert penstock("reassign-partitions", *servers, "--list").stdout == "No partition reassignments found.\n"
    assert "None of the specified" in penstock("reassign-partitions", *with_file, "--cancel").stdout


def test_a_throttled_move_waits_until_it_is_called_back_or_let_go(three: Cluster, tmp_path: Path) -> None:
    servers = ["--bootstrap-server", three.bootstrap_servers]
    create(three, "heavy", "--partitions", "1", "--replication-factor", "1")
    producer = Producer({"bootstrap.servers": three.bootstrap_servers, "linger.ms": 0})
    for _ in range(3):
        producer.produce("heavy", bytes(900_000))
        producer.flush(30)
    (home,) = described(three, "heavy")[0]["replicas"]
    away = home % 3 + 1
    file = tmp_path / "moves.json"
    file.write_text(json.dumps({"partitions": [{"topic": "heavy", "partition": 0, "replicas": [away]}]}))
    with_file = [*servers, "--reassignment-json-file", str(file)]

    def set_for(kind: str, name: str) -> str:
        """What is set, of what concerns throttles."""
        shown = penstock("configs", *servers, "--describe", "--entity-type", kind, "--entity-name", name).stdout
        return " ".join(f"{key}={value}" for key, value in re.findall(r"(\S+throttled\S+) +(\S+)", shown))

    said = penstock("reassign-partitions", *with_file, "--execute", "--throttle", "1").stdout
    assert "The inter-broker throttle limit was set to 1 B/s" in said
    for kind, name, key in (
        ("brokers", str(away), "follower.replication.throttled.rate=1"),
        ("topics", "heavy", f"leader.replication.throttled.replicas=0:{home}"),
    ):
        wait_until(lambda k=kind, n=name, key=key: key in set_for(k, n) or None, 30, f"{kind} {name} knows {key}")  # type: ignore[misc]
    held_back = penstock("reassign-partitions", *with_file, "--verify").stdout
    assert "Reassignment of partition heavy-0 is still in progress." in held_back
    again = [*with_file, "--execute", "--additional", "--throttle", "1000000000"]
    assert "was set to 1000000000 B/s" in penstock("reassign-partitions", *again).stdout

    def has_moved() -> bool | None:
        return "heavy-0 is completed" in penstock("reassign-partitions", *with_file, "--verify").stdout or None

    wait_until(has_moved, 30, "it goes on with the new throttle")
    for kind, name in (("brokers", str(away)), ("brokers", str(home)), ("topics", "heavy")):
        wait_until(lambda k=kind, n=name: not set_for(k, n) or None, 30, f"--verify has taken the throttle of {name}")  # type: ignore[misc]


@pytest.mark.parametrize(("replicas", "says"), [([9], "there is no broker 9 in service"), ([1, 1], "a node twice")])
def test_moves_that_cannot_be(three: Cluster, tmp_path: Path, replicas: list[int], says: str) -> None:
    file = tmp_path / "moves.json"
    file.write_text(json.dumps({"partitions": [{"topic": "t", "partition": 0, "replicas": replicas}]}))
    arguments = ["--bootstrap-server", three.bootstrap_servers, "--reassignment-json-file", str(file), "--execute"]
    assert says in penstock("reassign-partitions", *arguments, exit_code=1).stderr


def test_a_node_that_is_alone() -> None:
    with Cluster() as cluster:
        assert cluster.active_controller == 1
        reach = ["--bootstrap-server", cluster.bootstrap_servers]
        assert penstock("controller", *reach).stdout == "controller 1 is active in epoch 1\n"
        status = penstock("metadata-quorum", *reach, "describe", "--status").stdout
        assert 'CurrentVoters:          [{"id": 1}]' in status
        assert "--directory" in penstock("metadata-shell", *reach, "ls", exit_code=1).stderr
        wrong = penstock("controller", "--bootstrap-controller", cluster.bootstrap_servers, exit_code=1)
        assert "--bootstrap-server" in wrong.stderr
