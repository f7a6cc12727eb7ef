"""The commands that measure and that tell of each record, against a real node; the lines are those of Kafka's tools."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.wire.test_cli import ask, create, penstock

CLIENTS = pytest.mark.parametrize("client", ["penstock", "confluent-kafka"])
NUMBER = r"[0-9]+\.[0-9]+"
TOTAL = re.compile(
    rf"(\d+)( steady state)? records sent, {NUMBER} records/sec \({NUMBER} MB/sec\), {NUMBER} ms avg latency, "
    rf"{NUMBER} ms max latency, \d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99\.9th\."
)


def sent(bootstrap: str, topic: str) -> int:
    return sum(row["offset"] for row in ask(bootstrap, "offsets", "--topic", topic))


def values(bootstrap: str, topic: str, count: int, *options: str) -> list[str]:
    read = ("consume", "--topic", topic, "--from-beginning", "--max-messages", str(count))
    return sorted(penstock(*read, *options, "--bootstrap-server", bootstrap).stdout.splitlines())


@CLIENTS
def test_records_are_sent_and_read_and_both_are_measured(bootstrap: str, topic: str, client: str) -> None:
    create(bootstrap, topic, "--partitions", "2")
    result = penstock(
        "producer-perf-test", "--topic", topic, "--num-records", "300", "--warmup-records", "100",
        "--record-size", "50", "--throughput", "-1", "--client", client,
        "--producer-props", f"bootstrap.servers={bootstrap}", "acks=1", "compression.type=lz4",
    )  # fmt: skip
    begun, steady, *totals = result.stdout.splitlines()
    assert begun.startswith("Warmup first 100 records.")
    assert steady == "In steady state."
    assert [TOTAL.fullmatch(line) is not None for line in totals] == [True, True], totals
    assert [line.partition(" records")[0] for line in totals] == ["300", "200 steady state"]
    assert sent(bootstrap, topic) == 300
    read = ("consumer-perf-test", "--topic", topic, "--client", client, "--bootstrap-server", bootstrap)
    header, line = penstock(*read, "--num-records", "300").stdout.splitlines()
    names = header.split(", ")
    assert names[:2] == ["start.time", "end.time"]
    found = dict(zip(names, line.split(", "), strict=True))
    assert found["data.consumed.in.nMsg"] == "300"
    assert found["data.consumed.in.MB"] == f"{300 * 50 / 2**20:.4f}"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}", found["end.time"])
    assert int(found["fetch.time.ms"]) > 0


def test_each_interval_is_told_where_that_is_wanted(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    send = ("producer-perf-test", "--topic", topic, "--num-records", "20", "--payload-monotonic")
    often = ("--throughput", "2000", "--reporting-interval", "1")
    lines = penstock(*send, *often, "--bootstrap-server", bootstrap).stdout.splitlines()
    assert re.fullmatch(rf"\d+ records sent, {NUMBER} records/sec \({NUMBER} MB/sec\), .* max latency\.", lines[0])
    assert sorted(map(int, values(bootstrap, topic, 20))) == list(range(20))
    read = ("consumer-perf-test", "--include", f"{topic}.*", "--messages", "20", "--client", "penstock")
    detailed = ("--hide-header", "--show-detailed-stats", "--reporting-interval", "1", "--date-format", "HH")
    lines = penstock(*read, *detailed, "--bootstrap-server", bootstrap).stdout.splitlines()
    assert re.fullmatch(r"\d\d, 0, [0-9., ]+", lines[0])
    assert lines[-1].split(", ")[4] == "20"


@CLIENTS
def test_a_reader_gives_up_when_nothing_comes(bootstrap: str, topic: str, client: str) -> None:
    create(bootstrap, topic)
    read = ("consumer-perf-test", "--topic", topic, "--num-records", "1", "--timeout", "1", "--client", client)
    lines = penstock(*read, "--bootstrap-server", bootstrap).stdout.splitlines()
    assert lines[1].startswith("WARNING: Exiting before consuming the expected number of records: timeout (1 ms)")
    assert lines[2].split(", ")[4] == "0"


@CLIENTS
def test_records_go_in_transactions_of_a_duration(bootstrap: str, topic: str, client: str) -> None:
    create(bootstrap, topic)
    send = ("producer-perf-test", "--topic", topic, "--num-records", "30", "--payload-monotonic", "--throughput", "200")
    of_one = ("--transactional-id", f"{topic}-perf", "--transaction-duration-ms", "1", "--client", client)
    total = penstock(*send, *of_one, "--bootstrap-server", bootstrap).stdout
    assert total.startswith("30 records sent, ")
    committed = ("--isolation-level", "read_committed")
    assert sorted(map(int, values(bootstrap, topic, 30, *committed))) == list(range(30))
    assert sent(bootstrap, topic) > 31, "each transaction has a marker"
    ids = [row["transactional_id"] for row in ask(bootstrap, "transactions", "list")]
    assert f"{topic}-perf" in ids


@CLIENTS
def test_payloads_and_keys(bootstrap: str, topic: str, client: str, tmp_path: Path) -> None:
    create(bootstrap, topic)
    payloads = tmp_path / "payloads"
    payloads.write_text("a\nbb\nccc\n")
    send = ("producer-perf-test", "--topic", topic, "--num-records", "12", "--throughput", "-1", "--client", client)
    of_file = ("--payload-file", str(payloads), "--key-distribution", "range", "--record-key-range", "3")
    lines = penstock(*send, *of_file, "--bootstrap-server", bootstrap).stdout.splitlines()
    assert lines[:2] == [f"Reading payloads from: {payloads}", "Number of records read: 3"]
    rows = [row.split("\t") for row in values(bootstrap, topic, 12, "--property", "print.key=true")]
    assert sorted(key for key, _ in rows) == sorted("012" * 4)
    assert {value for _, value in rows} <= {"a", "bb", "ccc"}


@CLIENTS
def test_records_that_cannot_be_sent_are_counted(bootstrap: str, topic: str, client: str) -> None:
    create(bootstrap, topic, "--config", "max.message.bytes=100")
    send = ("producer-perf-test", "--topic", topic, "--num-records", "1", "--record-size", "500", "--throughput", "-1")
    result = penstock(*send, "--client", client, "--bootstrap-server", bootstrap, exit_code=1)
    assert result.stdout.startswith("0 records sent, 0.000000 records/sec")
    assert "1 of 1 records could not be sent" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--record-size", "1", "--payload-monotonic"), "give exactly one of --record-size"),
        ((), "give exactly one of --record-size"),
        (("--payload-monotonic", "--warmup-records", "5"), "has to be less than --num-records"),
        (("--payload-monotonic", "--key-distribution", "range"), "go with --record-key-range"),
        (("--payload-monotonic", "acks=1"), "'acks=1' belongs to no option"),
        (("--payload-monotonic", "--producer-props", "linger=1"), "linger is not a setting of this client"),
        (("--payload-monotonic", "--throughput", "0"), "0 would never send anything"),
        (
            ("--payload-monotonic", "--client", "confluent-kafka", "--producer-props", "partitioner.class=RoundRobin"),
            "has no partitioner.class",
        ),
    ],
)
def test_wrong_usage_of_the_producer(bootstrap: str, topic: str, arguments: tuple[str, ...], complaint: str) -> None:
    send = ("producer-perf-test", "--topic", topic, "--num-records", "5", "--bootstrap-server", bootstrap)
    throughput = () if "--throughput" in arguments else ("--throughput", "-1")
    assert complaint in penstock(*send, *throughput, *arguments, exit_code=2).stderr


def test_the_time_to_the_reader(bootstrap: str, topic: str) -> None:
    lines = penstock(
        "e2e-latency", "--topic", topic, "--num-records", "5", "--producer-acks", "all", "--record-size", "20",
        "--record-key-size", "3", "--num-headers", "2", "--record-header-key-size", "4", "--record-header-size", "-1",
        "--bootstrap-server", bootstrap,
    ).stdout.splitlines()  # fmt: skip
    assert lines[0].startswith(f'Topic "{topic}" does not exist. Will create topic with 1 partition(s)')
    assert re.fullmatch(rf"0\t{NUMBER}", lines[1])
    assert re.fullmatch(rf"Avg latency: {NUMBER} ms", lines[2])
    assert re.fullmatch(r"Percentiles: 50th = \d+, 99th = \d+, 99\.9th = \d+", lines[3])
    assert sent(bootstrap, topic) == 5


def events(*arguments: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in penstock(*arguments).stdout.splitlines()]
    assert all(list(event)[:2] == ["timestamp", "name"] for event in found)
    return found


def test_each_record_is_told_of(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, "--partitions", "1")
    to = ("--topic", topic, "--bootstrap-server", bootstrap)
    options = ("--value-prefix", "7", "--repeating-keys", "2", "--message-create-time", "1000")
    begun, *told, ended, data = events("verifiable-producer", *to, "--max-messages", "3", *options)
    assert begun["name"] == "startup_complete"
    assert [(it["key"], it["value"], it["topic"], it["partition"], it["offset"]) for it in told] == [
        ("0", "7.0", topic, 0, 0), ("1", "7.1", topic, 0, 1), ("0", "7.2", topic, 0, 2),
    ]  # fmt: skip
    assert {it["name"] for it in told} == {"producer_send_success"}
    assert ended["name"] == "shutdown_complete"
    assert (data["name"], data["sent"], data["acked"], data["target_throughput"]) == ("tool_data", 3, 3, -1)
    shown = values(bootstrap, topic, 1, "--property", "print.timestamp=true")[0]
    assert int(shown.split("\t")[0].removeprefix("CreateTime:")) < 1_000_000
    read = ("verifiable-consumer", *to, "--group-id", topic, "--max-messages", "3", "--verbose")
    told = events(*read)
    names = [event["name"] for event in told]
    assert (names[0], names[1], names[-1]) == ("startup_complete", "partitions_assigned", "shutdown_complete")
    assert told[1]["partitions"] == [{"topic": topic, "partition": 0}]
    assert [event["value"] for event in told if event["name"] == "record_data"] == ["7.0", "7.1", "7.2"]
    assert sum(event["count"] for event in told if event["name"] == "records_consumed") == 3
    committed = [event for event in told if event["name"] == "offsets_committed"]
    assert committed[-1]["success"] is True
    assert committed[-1]["offsets"] == [{"topic": topic, "partition": 0, "offset": 3}]
    (row,) = ask(bootstrap, "groups", "--describe", "--group", topic)
    assert row["current_offset"] == 3


def test_a_record_that_fails_is_told_of_as_well(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, "--config", "max.message.bytes=60")
    to = ("--topic", topic, "--bootstrap-server", bootstrap)
    told = events("verifiable-producer", *to, "--max-messages", "1", "--throughput", "1000")
    assert [event["name"] for event in told][1:3] == ["producer_send_error", "shutdown_complete"]
    assert "MESSAGE_TOO_LARGE" in told[1]["message"]
    assert (told[-1]["sent"], told[-1]["acked"]) == (1, 0)


def sharing(bootstrap: str, topic: str, *lines: str) -> None:
    """A topic with these records, and a share group of its name that begins with the first."""
    create(bootstrap, topic, "--partitions", "1")
    penstock("produce", "--topic", topic, "--bootstrap-server", bootstrap, given="".join(f"{it}\n" for it in lines))
    group = ("--entity-type", "groups", "--entity-name", topic)
    key = "share.auto.offset.reset=earliest"
    penstock("configs", *group, "--alter", "--add-config", key, "--bootstrap-server", bootstrap)


SHARED = rf"{NUMBER}, {NUMBER}, {NUMBER}, (\d+), \d+"
MOMENT = r"\d+-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}"


def test_members_of_a_share_group_read_and_are_measured(bootstrap: str, topic: str) -> None:
    sharing(bootstrap, topic, *"abcdefghij")
    asked = ("share-consumer-perf-test", "--bootstrap-server", bootstrap, "--topic", topic, "--group", topic)
    more = ("--num-records", "10", "--threads", "2", "--show-consumer-stats", "--show-detailed-stats")
    header, *lines = penstock(*asked, *more, "--reporting-interval", "1").stdout.splitlines()
    assert header == (
        "start.time, end.time, data.consumed.in.MB, MB.sec, nMsg.sec, data.consumed.in.nMsg, fetch.time.ms"
    )
    assert re.fullmatch(rf"{MOMENT}, {MOMENT}, {SHARED} for share consumer [12]", lines[0])
    each = [
        re.fullmatch(
            rf"Share consumer {number} having client id perf-share-consumer-client-{number} consumption metrics- "
            rf"{MOMENT}, {MOMENT}, {SHARED}",
            lines[-3 + number - 1],
        )
        for number in (1, 2)
    ]
    assert sum(int(found[1]) for found in each if found is not None) == 10
    total = re.fullmatch(rf"{MOMENT}, {MOMENT}, {SHARED}", lines[-1])
    assert total is not None
    assert total[1] == "10"
    gone = penstock(*asked, "--num-records", "1", "--timeout", "300", "--hide-header").stdout.splitlines()
    assert gone[0].startswith("WARNING: Exiting before consuming the expected number of records: timeout (300 ms)")


def test_each_shared_record_is_told_of(bootstrap: str, topic: str) -> None:
    sharing(bootstrap, topic, *"abc")
    result = penstock(
        "verifiable-share-consumer", "--bootstrap-server", bootstrap, "--topic", topic, "--group-id", topic,
        "--max-messages", "4", "--verbose", "--acknowledgement-mode", "sync", "--ack-pattern", "release,accept,reject",
        "--offset-reset-strategy", "Earliest",
    )  # fmt: skip
    events = [json.loads(line) for line in result.stdout.splitlines()]
    names = [event["name"] for event in events]
    assert names[:2] == ["startup_complete", "offset_reset_strategy_set"]
    assert names[-1] == "shutdown_complete"
    records = [event for event in events if event["name"] == "record_data"]
    assert [record["value"] for record in records[:3]] == ["a", "b", "c"]
    assert {record["value"] for record in records[3:]} == {"a"}, "what was released comes again"
    first = next(event for event in events if event["name"] == "records_consumed")
    assert first["partitions"] == [{"topic": topic, "partition": 0, "count": 3, "offsets": [0, 1, 2]}]
    said = [event for event in events if event["name"] == "offsets_acknowledged"]
    assert said[0]["ackTypeCounts"] == {"RELEASE": 1, "ACCEPT": 1, "REJECT": 1}
    assert said[0]["partitions"] == first["partitions"]
    assert said[0]["success"]


@pytest.mark.parametrize(
    ("pattern", "mode", "complaint"),
    [
        ("accept", "auto", "--ack-pattern needs --acknowledgement-mode sync or async"),
        ("renew,renew", "sync", "with renew alone no record is ever done with"),
        ("keep", "sync", "'keep' is none of accept, release, reject, renew"),
    ],
)
def test_patterns_that_cannot_be(bootstrap: str, pattern: str, mode: str, complaint: str) -> None:
    asked = ("--topic", "t", "--group-id", "g", "--ack-pattern", pattern, "--acknowledgement-mode", mode)
    result = penstock("verifiable-share-consumer", "--bootstrap-server", bootstrap, *asked, exit_code=2)
    assert complaint in result.stderr


def test_a_group_of_another_kind_is_told_in_words(bootstrap: str, topic: str) -> None:
    sharing(bootstrap, topic, "a")
    group = f"{topic}-other"
    penstock(
        "consume", "--topic", topic, "--group", group, "--from-beginning", "--max-messages", "1",
        "--bootstrap-server", bootstrap,
    )  # fmt: skip
    asked = ("share-consumer-perf-test", "--bootstrap-server", bootstrap, "--topic", topic, "--group", group)
    result = penstock(*asked, "--num-records", "1", "--threads", "2", exit_code=1)
    assert result.stderr == f"Error: group {group} is no share group (GROUP_ID_NOT_FOUND)\n"
