"""The command line against a real node: what it prints for programs, how it exits, how it fails."""

import json
import re
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.cli.main import main
from penstock.protocol.uuids import ZERO_UUID, uuid_from_text

INTERNAL = "__consumer_offsets"


def penstock(*arguments: str, given: str | bytes = "", exit_code: int = 0) -> Result:
    result = CliRunner().invoke(main, list(arguments), input=given, prog_name="penstock")
    assert result.exit_code == exit_code, result.output
    assert "Traceback" not in result.output
    return result


def ask(bootstrap: str, *arguments: str, given: str | bytes = "") -> Any:
    command, *options = arguments
    return json.loads(penstock(command, *options, "--bootstrap-server", bootstrap, "--json", given=given).stdout)


def create(bootstrap: str, topic: str, *options: str) -> None:
    assert ask(bootstrap, "topics", "--create", "--topic", topic, *options) == {"topic": topic, "created": True}


def consume(bootstrap: str, topic: str, count: int, *options: str) -> list[str]:
    result = penstock(
        "consume", "--topic", topic, "--from-beginning", "--max-messages", str(count), *options,
        "--bootstrap-server", bootstrap,
    )  # fmt: skip
    assert result.stderr == f"processed {count} records\n"
    return result.stdout.splitlines()


def test_the_life_of_a_topic(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, "--partitions", "2", "--config", "retention.ms=1234")
    assert topic in ask(bootstrap, "topics", "--list")
    (described,) = ask(bootstrap, "topics", "--describe", "--topic", topic)
    assert described["partition_count"] == 2
    assert described["configs"] == {"retention.ms": "1234"}
    assert [row["partition"] for row in described["partitions"]] == [0, 1]
    assert described["partitions"][0]["isr"] == described["partitions"][0]["replicas"]
    assert uuid_from_text(described["topic_id"]) != ZERO_UUID
    assert ask(bootstrap, "topics", "--describe", "--topic-id", described["topic_id"]) == [described]
    assert ask(bootstrap, "topics", "--describe", "--topic", topic, "--under-replicated-partitions") == []
    ask(bootstrap, "topics", "--alter", "--topic", topic, "--partitions", "5")
    assert len(ask(bootstrap, "topics", "--describe", "--topic", topic)[0]["partitions"]) == 5
    assert ask(bootstrap, "topics", "--delete", "--topic", topic) == [{"topic": topic, "deleted": True}]
    assert topic not in ask(bootstrap, "topics", "--list")


def test_a_topic_that_is_there_or_is_not(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    again = ("topics", "--create", "--topic", topic, "--bootstrap-server", bootstrap)
    assert "TOPIC_ALREADY_EXISTS" in penstock(*again, exit_code=1).stderr
    assert penstock(*again, "--if-not-exists").stdout == f"there is already topic {topic}\n"
    missing = ("topics", "--delete", "--topic", "no-such-topic", "--bootstrap-server", bootstrap)
    assert penstock(*missing, exit_code=1).stderr == (
        "Error: topic 'no-such-topic' does not exist (UNKNOWN_TOPIC_OR_PARTITION)\n"
    )
    penstock(*missing, "--if-exists")


def test_an_expression_takes_several_topics(bootstrap: str, topic: str) -> None:
    for suffix in ("a", "b"):
        create(bootstrap, f"{topic}-{suffix}")
    assert ask(bootstrap, "topics", "--list", "--topic", f"{topic}-.") == [f"{topic}-a", f"{topic}-b"]
    assert ask(bootstrap, "topics", "--list", "--topic", f"{topic}-b,{topic}-c") == [f"{topic}-b"]
    assert INTERNAL not in ask(bootstrap, "topics", "--list", "--exclude-internal")


def test_a_table_for_people_says_the_same(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, "--partitions", "2", "--config", "cleanup.policy=compact")
    shown = penstock("topics", "--describe", "--topic", topic, "--bootstrap-server", bootstrap).stdout.splitlines()
    assert shown[0].split() == ["TOPIC", "ID", "PARTITIONS", "REPLICATION", "MODE", "GROUP", "CONFIGS"]
    assert (shown[1].split()[0], shown[1].split()[-1]) == (topic, "cleanup.policy=compact")
    assert shown[2].split() == ["TOPIC", "PARTITION", "LEADER", "REPLICAS", "ISR", "ELR", "LAST", "KNOWN", "ELR"]
    assert [line.split()[1] for line in shown[3:]] == ["0", "1"]


def test_lines_go_in_and_come_out(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, "--partitions", "1")
    lines = [f"line {number}" for number in range(1_000)]
    sent = ask(bootstrap, "produce", "--topic", topic, "--compression-codec", "zstd", given="\n".join(lines))
    assert sent == {"topic": topic, "sent": 1_000, "failed": 0}
    assert consume(bootstrap, topic, 1_000) == lines
    assert consume(bootstrap, topic, 3, "--partition", "0") == lines[:3]


def test_keys_headers_and_nulls(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, "--partitions", "1")
    penstock(
        "produce", "--topic", topic, "--sync", "--bootstrap-server", bootstrap,
        "--property", "parse.key=true", "--property", "key.separator= ", "--property", "parse.headers=true",
        "--reader-property", "null.marker=NULL", "--producer-property", "acks=1",
        given="h1:one,h2:NULL\tkey value\r\nNULL\tNULL NULL\n",
    )  # fmt: skip
    first, second = (json.loads(line) for line in consume(bootstrap, topic, 2, "--json"))
    assert (first["key"], first["value"]) == ("key", "value")
    assert first["headers"] == [{"name": "h1", "value": "one"}, {"name": "h2", "value": None}]
    assert (second["key"], second["value"], second["headers"]) == (None, None, [])
    asked = [f"--property=print.{name}=true" for name in ("timestamp", "partition", "offset", "headers", "key")]
    shown = consume(bootstrap, topic, 2, *asked, "--property", "key.separator=|")
    assert re.fullmatch(r"CreateTime:\d+\|Partition:0\|Offset:0\|h1:one,h2:null\|key\|value", shown[0])
    assert shown[1].endswith("|NO_HEADERS|null|null")


def test_bytes_that_are_no_text(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    ask(bootstrap, "produce", "--topic", topic, given=b"\xff\xfe\n")
    (line,) = consume(bootstrap, topic, 1, "--json")
    assert json.loads(line)["value_base64"] == "//4="


def test_a_line_that_is_not_of_the_form_is_named(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    arguments = ("produce", "--topic", topic, "--property", "parse.key=true", "--bootstrap-server", bootstrap)
    result = penstock(*arguments, given="a\tb\nno key\n", exit_code=1)
    assert result.stderr == "Error: line 2: no '\\t' behind the key in b'no key'\n"
    penstock(*arguments, "--property", "ignore.error=true", given="no key\n")


def test_a_record_that_is_refused_makes_the_exit_code_1(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, "--config", "max.message.bytes=100")
    arguments = ("produce", "--topic", topic, "--json", "--bootstrap-server", bootstrap)
    result = penstock(*arguments, given="x" * 500, exit_code=1)
    assert json.loads(result.stdout) == {"topic": topic, "sent": 1, "failed": 1}
    assert "MESSAGE_TOO_LARGE" in result.stderr


def test_reading_ends_when_nothing_comes_any_more(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    result = penstock("consume", "--topic", topic, "--timeout-ms", "20", "--bootstrap-server", bootstrap)
    assert result.stderr == "processed 0 records\n"


def test_the_settings_that_would_hold_are_shown() -> None:
    options = ("--group", "g", "--consumer-property", "fetch.min.bytes=7", "--show-config", "--json")
    rows = {row["setting"]: (row["value"], row["default"]) for row in json.loads(penstock("consume", *options).stdout)}
    assert (rows["group.id"], rows["fetch.min.bytes"]) == (("g", None), ("7", "1"))
    assert rows["client.id"] == ("console-consumer", "penstock")


def test_offsets_by_time(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, "--partitions", "2")
    ask(bootstrap, "produce", "--topic", topic, "--property", "parse.key=true", given="k\ta\nk\tb\n")
    ends = ask(bootstrap, "offsets", "--topic", topic)
    assert sorted(row["offset"] for row in ends) == [0, 2]
    (one,) = ask(bootstrap, "offsets", "--topic", topic, "--partitions", "1", "--time", "earliest")
    assert one == {"topic": topic, "partition": 1, "offset": 0, "timestamp": None}
    written = next(row["partition"] for row in ends if row["offset"] == 2)
    chosen = ("offsets", "--topic-partitions", f"{topic}:{written}")
    assert ask(bootstrap, *chosen, "--time", "0")[0]["timestamp"] > 0
    assert ask(bootstrap, *chosen, "--time", "9999999999999")[0]["offset"] is None


def test_configurations(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    changed = ask(
        bootstrap,
        "configs",
        "--alter",
        "--topic",
        topic,
        "--add-config",
        "cleanup.policy=[compact,delete],retention.ms=5",
    )
    assert changed["changed"] == ["cleanup.policy", "retention.ms"]
    (described,) = ask(bootstrap, "configs", "--describe", "--entity-type", "topics", "--entity-name", topic)
    assert {entry["name"]: entry["value"] for entry in described["configs"]} == {
        "cleanup.policy": "compact,delete",
        "retention.ms": "5",
    }
    ask(bootstrap, "configs", "--alter", "--topic", topic, "--delete-config", "cleanup.policy,retention.ms")
    assert ask(bootstrap, "configs", "--describe", "--topic", topic)[0]["configs"] == []
    everything = ask(bootstrap, "configs", "--describe", "--topic", topic, "--all")[0]["configs"]
    assert {"name": "max.message.bytes", "value": "1048588"}.items() <= next(
        entry for entry in everything if entry["name"] == "max.message.bytes"
    ).items()
    bad = ("configs", "--alter", "--topic", topic, "--bootstrap-server", bootstrap, "--add-config", "retention.ms=soon")
    assert "INVALID_CONFIG" in penstock(*bad, exit_code=1).stderr


def test_the_cluster_and_its_directories(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, "--partitions", "2")
    described = ask(bootstrap, "cluster", "describe")
    (broker,) = described["brokers"]
    assert f"{broker['host']}:{broker['port']}" == bootstrap
    cluster_id = penstock("cluster", "cluster-id", "--bootstrap-server", bootstrap).stdout.strip()
    assert cluster_id == described["cluster_id"]
    (directory,) = ask(bootstrap, "log-dirs", "--topic-list", topic, "--broker-list", str(broker["node_id"]))
    assert [(row["topic"], row["partition"]) for row in directory["partitions"]] == [(topic, 0), (topic, 1)]
    assert [(row["dirty_percent"], row["cleaned_ms"]) for row in directory["partitions"]] == [(None, None)] * 2
    missing = penstock("log-dirs", "--broker-list", "77", "--bootstrap-server", bootstrap, exit_code=1)
    assert "there is no node 77 in this cluster" in missing.stderr


def test_nobody_listens() -> None:
    address = "127.0.0.1:1"
    result = penstock("topics", "--list", "--bootstrap-server", address, exit_code=1)
    cure = "is a node running there? start one with `penstock start`"
    assert result.stderr == f"Error: cannot reach {address} (connection refused): {cure}\n"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("topics",), "give exactly one of --list, --describe, --create, --alter, --delete"),
        (("topics", "--create"), "--create needs --topic NAME"),
        (("topics", "--list", "--bootstrap-server", "here:there"), "'there' is no port"),
        (("produce", "--topic", "t", "--producer-property", "linger.mz=1"), "did you mean linger.ms?"),
        (("consume",), "give --topic NAME or --include EXPRESSION"),
        (("consume", "--topic", "t", "--offset", "3"), "--offset needs --partition"),
        (("offsets", "--time", "noon"), "'noon' is neither one of latest"),
        (("groups", "--describe"), "--describe needs --group NAME or --all-groups"),
        (("groups", "--reset-offsets", "--group", "g", "--all-topics"), "give exactly one of --to-earliest"),
        (("configs", "--describe"), "say whose configuration it is"),
        (("dump-log", "--files", "notes.txt"), "is none of the files of a log directory"),
        (("completion", "tcsh"), "'tcsh' is not one of"),
    ],
)
def test_wrong_usage_is_exit_code_2(arguments: tuple[str, ...], complaint: str) -> None:
    assert complaint in " ".join(penstock(*arguments, exit_code=2).stderr.split())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    assert "_PENSTOCK_COMPLETE" in penstock("completion", shell).stdout
