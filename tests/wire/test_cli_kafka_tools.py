"""Commands of Kafka's smaller scripts against a real node: records deleted, APIs listed, applications reset."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.wire.raw_client import RawClient
from tests.wire.raw_members import Member
from tests.wire.test_cli import ask, consume, create, penstock

from penstock.client.metadata import ClusterMetadata
from penstock.protocol.requests.api import ApiKey, api_of


def filled(bootstrap: str, topic: str, count: int) -> None:
    create(bootstrap, topic, "--partitions", "1")
    ask(bootstrap, "produce", "--topic", topic, given="".join(f"{number}\n" for number in range(count)))


def test_records_are_deleted_up_to_an_offset(bootstrap: str, topic: str, tmp_path: Path) -> None:
    filled(bootstrap, topic, 5)
    wanted = tmp_path / "offsets.json"
    rows = [
        {"topic": topic, "partition": 0, "offset": 3},
        {"topic": topic, "partition": 1, "offset": 3},
        {"topic": "no-such", "partition": 0, "offset": -1},
    ]
    wanted.write_text(json.dumps({"partitions": rows, "version": 1}))
    delete = ("delete-records", "--offset-json-file", str(wanted), "--bootstrap-server", bootstrap)
    begun, done, *lines = penstock(*delete, exit_code=1).stdout.splitlines()
    assert (begun, done) == ("Executing records delete operation", "Records delete operation completed:")
    assert lines == [
        "partition: no-such-0\terror: UNKNOWN_TOPIC_OR_PARTITION: partition no-such-0",
        f"partition: {topic}-0\tlow_watermark: 3",
        f"partition: {topic}-1\terror: UNKNOWN_TOPIC_OR_PARTITION: partition {topic}-1 does not exist",
    ]
    assert consume(bootstrap, topic, 2) == ["3", "4"]
    rows[0]["offset"] = 9
    wanted.write_text(json.dumps({"partitions": rows[:1]}))
    (told,) = json.loads(penstock(*delete, "--json", exit_code=1).stdout)
    assert told == {"topic": topic, "partition": 0, "low_watermark": None, "error": "OFFSET_OUT_OF_RANGE"}
    rows[0]["offset"] = -1
    wanted.write_text(json.dumps({"partitions": rows[:1]}))
    assert json.loads(penstock(*delete, "--json").stdout)[0]["low_watermark"] == 5


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ("[]", "expected {"),
        ('{"partitions": [], "version": 2}', "version 2 is not known"),
        ('{"partitions": [{"topic": "t", "partition": 0}]}', "and an offset are needed"),
        ('{"partitions": [{"topic": "t", "partition": 0, "offset": -2}]}', "and an offset are needed"),
        (
            '{"partitions": [%s, %s]}' % (('{"topic": "t", "partition": 0, "offset": 1}',) * 2),
            "duplicate topic partitions: t-0",
        ),
    ],
)
def test_a_file_of_offsets_that_cannot_be_meant(tmp_path: Path, document: str, complaint: str) -> None:
    path = tmp_path / "offsets.json"
    path.write_text(document)
    assert complaint in penstock("delete-records", "--offset-json-file", str(path), exit_code=1).stderr


@pytest.mark.parametrize("command", [("broker-api-versions",), ("cluster", "api-versions")])
def test_the_apis_of_a_broker(bootstrap: str, command: tuple[str, ...]) -> None:
    lines = penstock(*command, "--bootstrap-server", bootstrap).stdout.splitlines()
    assert (lines[0], lines[-1]) == (f"{bootstrap} (id: 1 rack: null isFenced: false) -> (", ")")
    rows = dict(line.strip().rstrip(",").split(": ", 1) for line in lines[1:-1])
    assert all(line.endswith(",") for line in lines[1:-2])
    newest = api_of(ApiKey.PRODUCE).versions[-1]
    assert rows["Produce(0)"] == f"0 to {newest} [usable: {newest}]"
    assert rows["PushTelemetry(72)"] == "UNSUPPORTED"
    assert "BrokerHeartbeat(63)" not in rows, "nobody misses it at a broker"
    (told,) = json.loads(penstock(*command, "--bootstrap-server", bootstrap, "--json").stdout)
    (fetch,) = [row for row in told["apis"] if row["name"] == "Fetch"]
    assert (told["node_id"], fetch["api_key"], fetch["min_version"]) == (1, 1, 4)


class ByValue:
    """Where the last byte of the value says; the names of the partitions are settings of its own."""

    calls: ClassVar[list[Any]] = []

    def configure(self, settings: Mapping[str, str]) -> None:
        self.first = int(settings["partitioner.first"])
        self.calls.append(settings["linger.ms"])

    def partition(self, topic: str, key: bytes | None, value: bytes | None, cluster: ClusterMetadata) -> int:
        self.calls.append((topic, key, len(cluster.topics[topic].partitions)))
        return self.first + int(value or b"0")

    def close(self) -> None:
        self.calls.append("closed")


def test_a_partitioner_of_ones_own(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, "--partitions", "4")
    own = f"partitioner.class={__name__}:ByValue"
    send = ("produce", "--topic", topic, "--producer-property", own, "--bootstrap-server", bootstrap)
    options = ("--producer-property", "partitioner.first=1", "--property", "parse.key=true", "--timeout", "7")
    ByValue.calls.clear()
    penstock(*send, *options, given="k\t0\nk\t2\n")
    assert ByValue.calls == ["7", (topic, b"k", 4), (topic, b"k", 4), "closed"]
    assert [row["offset"] for row in ask(bootstrap, "offsets", "--topic", topic)] == [0, 1, 0, 1]
    refused = penstock(*send, "--producer-property", "partitioner.first=9", "--json", given="1\n", exit_code=1)
    assert "has no partition 10: it has 4" in refused.stderr


def test_records_in_turn(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, "--partitions", "3")
    kafkas = "partitioner.class=org.apache.kafka.clients.producer.RoundRobinPartitioner"
    ask(bootstrap, "produce", "--topic", topic, "--producer-property", kafkas, given="a\n" * 6)
    assert [row["offset"] for row in ask(bootstrap, "offsets", "--topic", topic)] == [2, 2, 2]


@pytest.mark.parametrize(
    ("name", "complaint"),
    [("Mine", "your own as module:Class"), ("os:abort", "no class"), ("none_such:A", "none_such")],
)
def test_a_partitioner_that_is_not_there(bootstrap: str, topic: str, name: str, complaint: str) -> None:
    send = ("produce", "--topic", topic, "--producer-property", f"partitioner.class={name}")
    assert complaint in penstock(*send, "--bootstrap-server", bootstrap, exit_code=2).stderr


def test_an_application_of_kafka_streams_is_reset(bootstrap: str, topic: str) -> None:
    filled(bootstrap, topic, 4)
    application, passed = f"app-{topic}", f"through-{topic}"
    filled(bootstrap, passed, 2)
    own = [f"{application}-store-changelog", f"{application}-KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-0000000001-topic"]
    for name in (*own, f"{application}-output"):
        create(bootstrap, name)
    consume(bootstrap, topic, 4, "--group", application)
    reset = ("streams-application-reset", "--application-id", application, "--bootstrap-server", bootstrap)
    topics = ("--input-topics", f"{topic},no-such", "--intermediate-topics", passed)
    dry = penstock(*reset, *topics, "--dry-run", exit_code=1).stdout.splitlines()
    assert dry == [
        "----Dry run displays the actions which will be performed when running Streams Reset Tool----",
        f"Reset-offsets for input topics [{topic}, no-such]",
        f"Seek-to-end for intermediate topics [{passed}]",
        "Following input topics are not found, skipping them",
        "Topic: no-such",
        f"Following input topics offsets will be reset to (for consumer group {application})",
        f"Topic: {topic} Partition: 0 Offset: 0",
        f"Following intermediate topics offsets will be reset to end (for consumer group {application})",
        f"Topic: {passed}",
        "Done.",
        f"Deleting inferred internal topics [{', '.join(sorted(own))}]",
        "Done.",
    ]
    assert positions(bootstrap, application) == {topic: 4}
    assert set(own) <= set(ask(bootstrap, "topics", "--list"))
    foreign = penstock(*reset, "--internal-topics", f"{application}-output", exit_code=1)
    assert f"[{application}-output] are no topics of {application} itself" in foreign.stderr
    moved = (*reset, "--input-topics", topic, "--intermediate-topics", passed, "--internal-topics", own[0])
    assert "Deleting specified internal topics" in penstock(*moved, "--to-offset", "3").stdout
    assert positions(bootstrap, application) == {topic: 3, passed: 2}
    left = ask(bootstrap, "topics", "--list")
    assert (own[0] in left, own[1] in left, f"{application}-output" in left) == (False, True, True)
    assert penstock(*reset).stdout.splitlines()[0] == "No input or intermediate topics specified. Skipping seek."
    assert own[1] not in ask(bootstrap, "topics", "--list")
    assert "give exactly one of" in penstock(*reset, "--to-earliest", "--to-latest", exit_code=2).stderr


def positions(bootstrap: str, group: str) -> dict[str, int]:
    return {row["topic"]: row["current_offset"] for row in ask(bootstrap, "groups", "--describe", "--group", group)}


def test_members_that_are_left_are_put_out_where_that_is_asked_for(bootstrap: str, topic: str) -> None:
    filled(bootstrap, topic, 2)
    consume(bootstrap, topic, 2, "--group", topic)
    reset = ("streams-application-reset", "--application-id", topic, "--input-topics", topic)
    to = ("--bootstrap-server", bootstrap)
    with RawClient(bootstrap) as client:
        Member.joined(client, topic)
        assert "--force puts out members that are gone" in penstock(*reset, *to, exit_code=1).stderr
        assert penstock(*reset, *to, "--force").stdout.startswith("Force deleting all active members in the group")
    assert ask(bootstrap, "groups", "--describe", "--group", topic, "--members") == []
    assert positions(bootstrap, topic) == {topic: 0}


def test_subscriptions_of_client_metrics(bootstrap: str) -> None:
    verb = "client-metrics"
    made = ("--metrics", "org.apache.kafka.consumer.", "--interval", "1000", "--match", "client_id=a.*")
    assert ask(bootstrap, verb, "--alter", "--name", "readers", *made) == {"name": "readers", "done": "changed"}
    drawn = ask(bootstrap, verb, "--alter", "--generate-name", "--metrics", "*")["name"]
    assert ask(bootstrap, verb, "--list") == sorted(["readers", drawn])
    (row,) = ask(bootstrap, verb, "--describe", "--name", "readers")
    assert list(row.values()) == ["readers", "1000", "client_id=a.*", "org.apache.kafka.consumer."]
    ask(bootstrap, verb, "--alter", "--name", "readers", "--interval", "")
    assert ask(bootstrap, verb, "--describe", "--name", "readers")[0]["interval_ms"] == "300000"
    for name in ("readers", drawn):
        assert ask(bootstrap, verb, "--delete", "--name", name)["done"] == "deleted"
    assert ask(bootstrap, verb, "--describe") == []
    where = ("--bootstrap-server", bootstrap)
    assert "INVALID_CONFIG" in penstock(verb, "--alter", "--name", "a", "--interval", "99", *where, exit_code=1).stderr
    assert "there is no subscription a" in penstock(verb, "--delete", "--name", "a", *where, exit_code=1).stderr
    assert "--alter needs" in penstock(verb, "--alter", "--name", "a", *where, exit_code=2).stderr
