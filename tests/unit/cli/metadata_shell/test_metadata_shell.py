import json
import shlex
from pathlib import Path
from uuid import UUID

import pytest
from click.testing import CliRunner, Result
from tests.unit.cli.elections import election

from penstock.cli.metadata_shell.metadata_shell import MANUAL, Shell, ShellError, command
from penstock.cli.metadata_shell.node import Node
from penstock.cli.metadata_shell.source import MetadataView, read_view
from penstock.cli.metadata_shell.tree import build_tree
from penstock.metadata.image import ResourceType
from penstock.metadata.record_frames import encode_record
from penstock.metadata.records import (
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    TopicRecord,
)
from penstock.metadata.security_records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    EntityData,
    UserScramCredentialRecord,
)
from penstock.metadata.snapshot import encode_snapshot, snapshot_name
from penstock.protocol.records import Record, encode_batch

TOPIC = UUID(int=5)
RECORDS = [
    TopicRecord(name="orders", topic_id=TOPIC),
    PartitionRecord(partition_id=0, topic_id=TOPIC, replicas=[1], isr=[1], leader=1, leader_epoch=3, partition_epoch=4),
    ConfigRecord(resource_type=ResourceType.TOPIC, resource_name="orders", name="cleanup.policy", value="compact"),
    ProducerIdsRecord(broker_id=1, next_producer_id=3000),
]


KEPT: list[MetadataRecord] = [
    AccessControlEntryRecord(
        id=UUID(int=4), resource_type=2, resource_name="flights", pattern_type=4, principal="User:ada", host="*",
        operation=3, permission_type=3,
    ),
    ClientQuotaRecord(
        entity=[
            EntityData(entity_type="user", entity_name="a/da(1)"), EntityData(entity_type="client-id", entity_name=None)
        ],
        key="producer_byte_rate",
        value=1024.0,
    ),
    UserScramCredentialRecord(name="ada", mechanism=1, salt=b"salt", stored_key=b"k", server_key=b"s", iterations=4096),
    DelegationTokenRecord(owner="User:ada", requester="User:ada", renewers=["User:bob"], token_id="t1"),
]  # fmt: skip


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory: an election at offset 0, then the records."""
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=abc\nnode.id=1\n")
    beginning = election(1, 6, now_ms=1529210278988)
    records = [Record(timestamp_ms=1529210279000, value=encode_record(record)) for record in RECORDS]
    batch = encode_batch(records, base_offset=1, partition_leader_epoch=6)
    (directory / f"{0:020d}.log").write_bytes(bytes(beginning + batch) + b"half a batch")
    return tmp_path


def run(*arguments: str | Path, typed: str | None = None) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments], input=typed)


def content(path: Path, node: str) -> str:
    return next(iter(Shell(build_tree(read_view(path))).run(["cat", node])))


def test_the_controller_has_exactly_the_three_keys(data: Path) -> None:
    assert run("-d", data, "cat", "/controller").output == ('{"version":1,"brokerid":1,"timestamp":"1529210278988"}\n')
    assert run("-d", data, "cat", "/controller_epoch").output == "6\n"


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("/cluster/id", {"version": "1", "id": "abc"}),
        ("/config/topics/orders", {"version": 1, "config": {"cleanup.policy": "compact"}}),
        (
            "/latest_producer_id_block",
            {"version": 1, "broker": 1, "block_start": "2000", "block_end": "2999"},
        ),
        (
            "/brokers/topics/orders/partitions/0/state",
            {"controller_epoch": 6, "leader": 1, "version": 1, "leader_epoch": 3, "isr": [1]},
        ),
    ],
)
def test_nodes_as_zookeeper_had_them(data: Path, node: str, expected: object) -> None:
    assert json.loads(content(data, node)) == expected


def test_the_image_is_that_of_kafkas_shell(data: Path) -> None:
    by_name = content(data, "/image/topics/byName/orders/0")
    assert by_name.startswith("PartitionRegistration(replicas=[1], directories=[")
    assert by_name.endswith("leader=1, leaderRecoveryState=RECOVERED, leaderEpoch=3, partitionEpoch=4)")
    assert content(data, "/image/topics/byId/AAAAAAAAAAAAAAAAAAAABQ/0") == by_name
    assert content(data, "/image/provenance") == "offset 4, epoch 6, time 2018-06-17T04:37:59.000+00:00"


def test_a_snapshot_counts_and_the_log_before_it_tells_who_leads(data: Path) -> None:
    newer = [TopicRecord(name="newer", topic_id=UUID(int=6)), ProducerIdsRecord(broker_id=-1, next_producer_id=3000)]
    snapshot = data / "__cluster_metadata-0" / snapshot_name(5, 6)
    snapshot.write_bytes(b"".join(encode_snapshot(newer, leader_epoch=6, last_timestamp_ms=1, now_ms=1)))
    assert run("-d", data, "ls", "/brokers/topics").output == "newer\n"
    assert '"brokerid":1' in content(data, "/controller")
    assert '"broker":1' in content(data, "/latest_producer_id_block")
    assert "controller" not in build_tree(read_view(snapshot)).children, "a snapshot alone does not say who leads"


def test_what_a_node_was_formatted_with_counts_only_while_there_is_no_log(data: Path) -> None:
    """A node that joins a cluster keeps what it would have founded one with."""
    directory = data / "__cluster_metadata-0"
    wishes = [FeatureLevelRecord(name="metadata.version", feature_level=33)]
    formatted = b"".join(encode_snapshot(wishes, leader_epoch=0, last_timestamp_ms=1, now_ms=1))
    (directory / snapshot_name(0, 0)).write_bytes(formatted)
    assert read_view(data).image.features == {}
    (directory / f"{0:020d}.log").write_bytes(b"")
    assert read_view(data).image.features == {"metadata.version": 33}


def test_damage_is_one_line(data: Path) -> None:
    log = data / "__cluster_metadata-0" / f"{0:020d}.log"
    raw = bytearray(log.read_bytes())
    raw[80] ^= 1
    log.write_bytes(raw)
    assert "the batch at position 0 is damaged" in run("-s", log, "ls").output
    assert run("-s", log, "-d", data, "ls").exit_code == 2


def shell() -> Shell:
    root = Node()
    root.put("a/b", "one")
    root.put("a/c/d", "two")
    return Shell(root)


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ("ls", ["a"]),
        ("ls a", ["b", "c"]),
        ("ls a/b", ["a/b"]),
        ("ls / a", ["/:", "a", "a:", "b", "c"]),
        ("cat a/b /a/c/../c/d", ["one", "two"]),
        ("find a", ["a", "a/b", "a/c", "a/c/d"]),
        ("tree", ["a:", "  b:", "    one", "  c:", "    d:", "      two"]),
        ("pwd", ["/"]),
        ("help", list(MANUAL.values())),
        ("man ls", [MANUAL["ls"]]),
    ],
)
def test_what_commands_print(line: str, printed: list[str]) -> None:
    assert list(shell().run(line.split())) == printed


def test_places_and_history() -> None:
    walker = shell()
    assert list(walker.run(["cd", "a/c"])) == []
    assert list(walker.run(["pwd"])) == ["/a/c"]
    assert list(walker.run(["cat", "../b"])) == ["one"]
    assert list(walker.run(["history", "2"])) == ["3  cat ../b", "4  history 2"]


@pytest.mark.parametrize(
    "line",
    ["rm a", "cat", "cat a", "cd a/b", "ls nothing", "man mv", "history x", "rm /controller", "set /controller 2"],
)
def test_what_cannot_be_done_is_said(line: str) -> None:
    with pytest.raises(ShellError):
        list(shell().run(line.split()))


@pytest.mark.parametrize(
    ("line", "successor"),
    [
        ("rm /controller", None),
        ("set /controller 2", 2),
        ("""set /controller '{"version":1,"brokerid":3,"timestamp":"0"}'""", 3),
    ],
)
def test_the_controller_is_handed_over_by_its_node(line: str, successor: int | None) -> None:
    asked: list[int | None] = []
    assert list(Shell(Node(), hand_over=asked.append).run(shlex.split(line))) == []
    assert asked == [successor]


@pytest.mark.parametrize("value", ["x", "-1", "true", "{}", '{"brokerid":"2"}', "1 2"])
def test_what_names_no_controller_is_refused(value: str) -> None:
    with pytest.raises(ShellError, match="set: "):
        list(Shell(Node(), hand_over=fail).run(["set", "/controller", *value.split(" ")]))


def fail(successor: int | None) -> None:
    raise AssertionError(successor)


def test_what_notified_zookeepers_controller_says_what_does_it_now(data: Path) -> None:
    assert "AlterPartition" in content(data, "/isr_change_notification")
    assert "heartbeats" in content(data, "/log_dir_event_notification")


def test_users_rights_and_quotas_are_shown_without_secrets() -> None:
    view = MetadataView()
    for record in KEPT:
        view.image.apply(record)
    tree = list(Shell(build_tree(view)).run(["tree", "/image/acls", "/image/clientQuotas", "/image/scram"]))
    assert tree == [
        "AAAAAAAAAAAAAAAAAAAABA:",
        "  StandardAcl(resourceType=TOPIC, resourceName=flights, patternType=PREFIXED, principal=User:ada, host=*, "
        "operation=READ, permissionType=ALLOW)",
        "clientId()_user(a/da\\(1\\)):",
        "  producer_byte_rate:",
        "    1024.0",
        "SCRAM-SHA-256:",
        "  ada:",
        "    ScramCredentialData(salt=[redacted], storedKey=[redacted], serverKey=[redacted], iterations=4096)",
        "SCRAM-SHA-512:",
    ]
    (token,) = Shell(build_tree(view)).run(["cat", "/image/delegationToken/t1"])
    assert token.startswith("DelegationTokenData(owner=User:ada, tokenRequester=User:ada, renewers=User:bob, ")


def test_a_metadata_transaction_that_has_not_ended_is_not_shown(data: Path) -> None:
    (segment,) = (data / "__cluster_metadata-0").glob("*.log")
    segment.write_bytes(segment.read_bytes().removesuffix(b"half a batch"))
    records = [BeginTransactionRecord(), TopicRecord(name="late", topic_id=UUID(int=9))]
    with segment.open("ab") as file:
        file.write(encode_batch([Record(value=encode_record(each)) for each in records], base_offset=5))
    assert list(Shell(build_tree(read_view(data))).run(["ls", "/brokers/topics"])) == ["orders"]
    with segment.open("ab") as file:
        file.write(encode_batch([Record(value=encode_record(EndTransactionRecord()))], base_offset=7))
    assert list(Shell(build_tree(read_view(data))).run(["ls", "/brokers/topics"])) == ["late", "orders"]


def test_completion() -> None:
    assert shell().complete("ca", is_first=True) == ["cat "]
    assert shell().complete("a", is_first=False) == ["a/"]
    assert shell().complete("/a/", is_first=False) == ["/a/b ", "/a/c/"]
    assert shell().complete("x/", is_first=False) == []
    walker = shell()
    walker.root.put("a/b\x1b")
    assert walker.complete("a/", is_first=False) == ["a/b ", "a/c/"], "what cannot be typed is not offered"


def test_the_prompt_goes_on_after_a_mistake_until_exit(data: Path) -> None:
    result = run("-d", data, typed="cd /controller\nls nothing\ncd /cluster\npwd\nexit\npwd\n")
    assert result.exit_code == 0
    assert result.stdout.count("/cluster") == 1
    assert "nothing: no such node" in result.output


def test_an_empty_view_has_a_tree() -> None:
    assert list(Shell(build_tree(MetadataView())).run(["ls", "/admin"])) == ["delete_topics"]
