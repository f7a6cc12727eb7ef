"""`penstock groups` and `penstock dump-log` against a real node and its files."""

import asyncio
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from tests.wire.test_cli import ask, consume, create, penstock

from penstock.client.consumer import Consumer
from penstock.client.settings import ConsumerSettings


@pytest.fixture
def group(bootstrap: str, topic: str) -> str:
    """A group that has read all 6 records of a topic with 2 partitions, and has no members."""
    create(bootstrap, topic, "--partitions", "2")
    ask(bootstrap, "produce", "--topic", topic, "--sync", given="1\n2\n3\n4\n5\n6\n")
    consume(bootstrap, topic, 6, "--group", f"group-{topic}")
    return f"group-{topic}"


def positions(bootstrap: str, group: str) -> dict[int, int]:
    return {row["partition"]: row["current_offset"] for row in ask(bootstrap, "groups", "--describe", "--group", group)}


def reset(bootstrap: str, group: str, *options: str) -> dict[int, int]:
    rows: list[dict[str, Any]] = ask(bootstrap, "groups", "--reset-offsets", "--group", group, *options)
    return {row["partition"]: row["new_offset"] for row in rows}


def test_a_group_is_listed_and_described(bootstrap: str, group: str, topic: str) -> None:
    (listed,) = [row for row in ask(bootstrap, "groups", "--list") if row["group"] == group]
    assert listed == {"group": group, "protocol": "consumer", "state": "Empty", "type": "classic"}
    assert group in [row["group"] for row in ask(bootstrap, "groups", "--list", "--state", "empty")]
    assert group not in [row["group"] for row in ask(bootstrap, "groups", "--list", "--state", "Stable")]
    rows = ask(bootstrap, "groups", "--describe", "--group", group)
    assert [(row["topic"], row["partition"], row["lag"], row["consumer_id"]) for row in rows] == [
        (topic, 0, 0, None),
        (topic, 1, 0, None),
    ]
    (state,) = ask(bootstrap, "groups", "--describe", "--group", group, "--state")
    assert (state["state"], state["members"]) == ("Empty", 0)
    assert ask(bootstrap, "groups", "--describe", "--group", group, "--members", "--verbose") == []


async def test_a_group_with_a_member(bootstrap: str, topic: str) -> None:
    await asyncio.to_thread(create, bootstrap, topic, "--partitions", "2")
    name = f"group-{topic}"
    settings = ConsumerSettings(group_id=name, client_id="reader", heartbeat_interval_ms=50)
    async with Consumer(bootstrap, settings) as consumer:
        await consumer.subscribe([topic])
        while not consumer.assignment:
            await consumer.poll(100)
        (member,) = await asyncio.to_thread(
            ask, bootstrap, "groups", "--describe", "--group", name, "--members", "--verbose"
        )
        assert member["consumer_id"].startswith("reader-")
        assert (member["client_id"], member["partitions"], member["assignment"]) == ("reader", 2, f"{topic}(0,1)")
        rows = await asyncio.to_thread(ask, bootstrap, "groups", "--describe", "--group", name)
        everything = ("--members", "--state", "--offsets", "--verbose")
        all_of_it = await asyncio.to_thread(ask, bootstrap, "groups", "--describe", "--group", name, *everything)
        assert {key: len(found) for key, found in all_of_it.items()} == {"state": 1, "members": 1, "offsets": 2}
        assert [row.keys() for row in all_of_it["members"]] == [member.keys()]
        assert isinstance(member.pop("heartbeat_age"), int)
        assert all_of_it["members"] == [{**member, "heartbeat_age": all_of_it["members"][0]["heartbeat_age"]}]
        assert {row["consumer_id"] for row in rows} == {member["consumer_id"]}
        refused = [
            (["groups", "--delete", "--group", name], "has members: stop its consumers first"),
            (["groups", "--reset-offsets", "--group", name, "--all-topics", "--to-latest"], "its state is Stable"),
        ]
        for arguments, complaint in refused:
            result = await asyncio.to_thread(penstock, *arguments, "--bootstrap-server", bootstrap, exit_code=1)
            assert complaint in result.stderr


def test_nothing_moves_without_execute(bootstrap: str, group: str) -> None:
    before = positions(bootstrap, group)
    assert sum(before.values()) == 6
    assert reset(bootstrap, group, "--all-topics", "--to-earliest") == {0: 0, 1: 0}
    assert positions(bootstrap, group) == before
    assert reset(bootstrap, group, "--all-topics", "--to-earliest", "--execute") == {0: 0, 1: 0}
    assert positions(bootstrap, group) == {0: 0, 1: 0}


def test_every_way_to_say_where(bootstrap: str, group: str, topic: str, tmp_path: Path) -> None:
    end = positions(bootstrap, group)
    assert reset(bootstrap, group, "--all-topics", "--to-latest") == end
    assert reset(bootstrap, group, "--all-topics", "--to-current") == end
    assert reset(bootstrap, group, "--topic", f"{topic}:1", "--to-offset", "0") == {1: 0}
    assert reset(bootstrap, group, "--all-topics", "--to-offset", "99") == end
    assert reset(bootstrap, group, "--all-topics", "--shift-by", "-99") == {0: 0, 1: 0}
    assert reset(bootstrap, group, "--all-topics", "--by-duration", "P1D") == {0: 0, 1: 0}
    assert reset(bootstrap, group, "--all-topics", "--to-datetime", "2000-01-01T00:00:00.000") == {0: 0, 1: 0}
    assert reset(bootstrap, group, "--all-topics", "--to-datetime", "2999-01-01T00:00:00.000") == end
    export = penstock(
        "groups", "--reset-offsets", "--group", group, "--all-topics", "--to-earliest", "--export",
        "--bootstrap-server", bootstrap,
    )  # fmt: skip
    assert export.stdout == f"{topic},0,0\n{topic},1,0\n"
    plan = tmp_path / "plan.csv"
    plan.write_text(export.stdout)
    assert reset(bootstrap, group, "--from-file", str(plan), "--execute") == {0: 0, 1: 0}
    assert positions(bootstrap, group) == {0: 0, 1: 0}


def test_offsets_and_groups_are_deleted(bootstrap: str, group: str, topic: str) -> None:
    deleted = ask(bootstrap, "groups", "--delete-offsets", "--group", group, "--topic", f"{topic}:0")
    assert deleted == [{"group": group, "topic": topic, "partition": 0, "status": "deleted"}]
    assert list(positions(bootstrap, group)) == [1]
    assert ask(bootstrap, "groups", "--delete", "--group", group) == [{"group": group, "deleted": True}]
    again = penstock("groups", "--delete", "--group", group, "--bootstrap-server", bootstrap, exit_code=1)
    assert again.stderr == f"Error: group '{group}' does not exist (GROUP_ID_NOT_FOUND)\n"


def data_directory(bootstrap: str) -> Path:
    (directory,) = ask(bootstrap, "log-dirs")
    return Path(directory["log_dir"])


def log_file(bootstrap: str, partition: str, name: str = "00000000000000000000.log") -> str:
    return str(data_directory(bootstrap) / partition / name)


def dump(path: str, *options: str) -> list[dict[str, Any]]:
    lines = penstock("dump-log", "--files", path, "--json", *options).stdout.splitlines()
    return [json.loads(line) for line in lines]


def test_a_segment_is_dumped(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, "--partitions", "1")
    ask(bootstrap, "produce", "--topic", topic, "--property", "parse.key=true", given="k\tv\n")
    path = log_file(bootstrap, f"{topic}-0")
    batch, record = dump(path, "--print-data-log")
    assert (batch["kind"], batch["baseOffset"], batch["count"], batch["isvalid"]) == ("batch", 0, 1, True)
    assert (record["offset"], record["key"], record["payload"]) == (0, "k", "v")
    shown = penstock("dump-log", "--files", path, "--deep-iteration").stdout.splitlines()
    assert shown[:2] == [f"Dumping {path}", "Log starting offset: 0"]
    assert shown[2].startswith("baseOffset: 0 lastOffset: 0 count: 1 ")
    assert shown[3].startswith("| offset: 0 CreateTime: ")


def test_a_damaged_segment_is_exit_code_1(bootstrap: str, topic: str, tmp_path: Path) -> None:
    create(bootstrap, topic, "--partitions", "1")
    ask(bootstrap, "produce", "--topic", topic, "--sync", given="a\nb\n")
    content = Path(log_file(bootstrap, f"{topic}-0")).read_bytes()
    damaged = tmp_path / "00000000000000000000.log"
    damaged.write_bytes(content[:-3])
    result = penstock("dump-log", "--files", str(damaged), "--json", exit_code=1)
    assert json.loads(result.stdout.splitlines()[-1])["kind"] == "broken"
    damaged.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    result = penstock("dump-log", "--files", str(damaged), "--json", exit_code=1)
    assert [json.loads(line)["isvalid"] for line in result.stdout.splitlines()] == [True, False]


def test_a_missing_file_is_named_and_the_others_are_dumped(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, "--partitions", "1")
    ask(bootstrap, "produce", "--topic", topic, "--sync", given="a\n")
    log, missing = log_file(bootstrap, f"{topic}-0"), log_file(bootstrap, f"{topic}-0", "no.index")
    result = penstock("dump-log", "--files", f"{missing},{log}", "--json", exit_code=1)
    assert [json.loads(line)["kind"] for line in result.stdout.splitlines()] == ["batch"]
    assert result.stderr == f"there is no file {missing}\n"


def test_the_metadata_log_is_decoded(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, "--partitions", "1")
    lines = dump(log_file(bootstrap, "__cluster_metadata-0"), "--cluster-metadata-decoder", "--skip-record-metadata")
    topics = [
        line["payload"]["data"]["name"] for line in lines if line.get("payload", {}).get("type") == "TOPIC_RECORD"
    ]
    assert topic in topics


def test_committed_offsets_are_decoded(bootstrap: str, group: str, topic: str) -> None:
    decoded = [
        line
        for path in data_directory(bootstrap).glob("__consumer_offsets-*/*.log")
        for line in dump(str(path), "--offsets-decoder")
        if line["kind"] == "record" and "key" in line  # groups of other kinds are there as well, of other tests
    ]
    committed = {
        line["key"]["partition"]: line["payload"]["offset"]
        for line in decoded
        if line["key"]["type"] == "offset_commit" and line["key"]["group"] == group
    }
    assert sum(committed.values()) == 6
    assert {"type": "group_metadata", "group": group} in [line["key"] for line in decoded]


def test_the_files_beside_a_segment(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, "--partitions", "1")
    ask(bootstrap, "produce", "--topic", topic, given="a\n")
    (described,) = ask(bootstrap, "topics", "--describe", "--topic", topic)
    assert dump(log_file(bootstrap, f"{topic}-0", "partition.metadata")) == [
        {"kind": "topic", "topicId": described["topic_id"]}
    ]
    assert dump(log_file(bootstrap, f"{topic}-0", "leader-epoch-checkpoint")) == [
        {"kind": "epoch", "epoch": 0, "startOffset": 0}
    ]


def test_an_index_is_checked_against_its_segment(bootstrap: str, topic: str, tmp_path: Path) -> None:
    create(bootstrap, topic, "--partitions", "1")
    ask(bootstrap, "produce", "--topic", topic, "--sync", given="a\nb\nc\nd\n")
    segment = tmp_path / "00000000000000000000.log"
    segment.write_bytes(Path(log_file(bootstrap, f"{topic}-0")).read_bytes())
    index = segment.with_suffix(".index")
    index.write_bytes(
        b"".join(struct.pack(">ii", batch["lastOffset"], batch["position"]) for batch in dump(str(segment)))
    )
    (checked,) = dump(str(index), "--verify-index-only")
    assert (checked["isValid"], checked["entries"]) == (True, 4)
    index.write_bytes(b"\0\0\0\1\0\0\0\1")
    result = penstock("dump-log", "--files", str(index), "--verify-index-only", exit_code=1)
    assert "offset 1: no batch begins at position 1" in result.stdout
