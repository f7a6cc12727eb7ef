"""A node that is asked for protection which is not there yet does not start, and stops when it is asked later."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from tests.unit.node.stopped_node import METADATA, append, config, files, stop_a_node

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ClusterImage
from penstock.metadata.record_frames import encode_record
from penstock.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    MetadataRecord,
    RegisterBrokerRecord,
)
from penstock.metadata.resources import ResourceType
from penstock.metadata.security import SecurityImage
from penstock.metadata.security_records import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
)
from penstock.metadata.snapshot import snapshot_name
from penstock.node.assembly.protection import ASKS, UnprotectedError, asked_by_metadata
from penstock.node.assembly.start import RunningNode, StartError, start_node
from penstock.testing.thread_node import ThreadNode

IGNORED = {"penstock_security_ignored": "true"}
RULE = AccessControlEntryRecord(principal="User:alice")
NOBODY = ConfigRecord(resource_type=ResourceType.BROKER, resource_name="", name="super.users", value="")
ASKING: dict[str, tuple[MetadataRecord, str]] = {
    "a rule": (RULE, r"access rules \(ACLs\)"),
    "a config": (NOBODY.replace(value="User:x"), "super.users=User:x of all brokers"),
}
KEYS = {
    "authorizer.class.name": "org.example.Authorizer",
    "super.users": "User:admin",
    "client.quota.callback.class": "org.example.Quotas",
}
CURE = "remove that where it was set, or set penstock.security.ignored=true to serve everybody"


async def run_and_stop(tmp_path: Path, **settings: str) -> RunningNode:
    node = await start_node(config(tmp_path, **settings))
    await node.stop()
    return node


@pytest.mark.parametrize("key", KEYS)
def test_a_key_that_asks_is_refused_before_anything_is_touched(tmp_path: Path, key: str) -> None:
    with pytest.raises(StartError, match=f"the configuration asks .*{KEYS[key].split(',')[-1]}.*{CURE}"):
        asyncio.run(start_node(config(tmp_path, **{key: KEYS[key]})))
    assert not files(tmp_path)
    asyncio.run(run_and_stop(tmp_path, **{key: KEYS[key]}, **IGNORED))


def test_all_that_keys_ask_for_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(StartError) as raised:
        asyncio.run(start_node(config(tmp_path, **KEYS)))
    assert all(f"{key}={value}" in str(raised.value) for key, value in KEYS.items())


@pytest.mark.parametrize("kind", ASKING)
def test_a_directory_of_a_secured_cluster_is_not_taken_over(tmp_path: Path, kind: str) -> None:
    stop_a_node(tmp_path)
    record, words = ASKING[kind]
    append(encode_record(record))(tmp_path)
    before = files(tmp_path)
    for _ in range(2):
        with pytest.raises(StartError, match=f"the cluster's metadata ask .*{words}.*{CURE}"):
            asyncio.run(start_node(config(tmp_path)))
        assert files(tmp_path) == before


@pytest.mark.parametrize("name", [f"{METADATA}/{snapshot_name(0, 0)}", "bootstrap.checkpoint"])
def test_users_of_scram_ask_for_nothing_that_is_not_there(tmp_path: Path, name: str) -> None:
    """As kafka-storage.sh of Kafka 4.4 writes them with --add-scram; earlier ones gave the file the other name."""
    (tmp_path / "p1" / METADATA).mkdir(parents=True)
    (tmp_path / "p1" / "meta.properties").write_text("version=1\ncluster.id=kafkas\nnode.id=1\n")
    shutil.copy(Path(__file__).with_name("kafka_4_4_first.checkpoint"), tmp_path / "p1" / name)
    node = asyncio.run(run_and_stop(tmp_path))
    assert node.parts.context.image.security.scram_credentials


def test_what_is_gone_again_stops_nobody(tmp_path: Path) -> None:
    stop_a_node(tmp_path)
    gone = RemoveAccessControlEntryRecord(id=RULE.id)
    append(encode_record(RULE))(tmp_path)
    append(encode_record(gone))(tmp_path)  # a batch of its own: for a moment of the start the rule is there
    asyncio.run(run_and_stop(tmp_path))


@pytest.mark.parametrize("kind", ASKING)
def test_a_node_stops_when_its_metadata_begin_to_ask(tmp_path: Path, kind: str) -> None:
    record, words = ASKING[kind]

    async def run() -> None:
        node = await start_node(config(tmp_path))
        assert node.parts.controller is not None
        committed = node.parts.log.append([record], node.parts.controller.epoch)
        error = await node.failed
        await asyncio.wait([committed])
        assert isinstance(error, UnprotectedError)
        with pytest.raises(UnprotectedError, match=words):
            raise error
        await node.stop()

    asyncio.run(run())
    with pytest.raises(StartError, match=words):
        asyncio.run(start_node(config(tmp_path)))


def test_what_is_passed_over_is_said_at_each_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def run(*records: MetadataRecord, **settings: str) -> list[str]:
        caplog.clear()
        node = await start_node(config(tmp_path, **settings))
        assert node.parts.controller is not None
        for record in records:
            await node.parts.log.append([record], node.parts.controller.epoch)
        assert not node.failed.done()
        await node.stop()
        return [message for message in caplog.messages if "nothing acts on them" in message]

    said = "the cluster's metadata have {}, and nothing acts on them yet".format
    assert asyncio.run(run(NOBODY)) == []
    assert asyncio.run(run(RULE, RULE, **IGNORED)) == [said(ASKS["access_rules"])]
    assert asyncio.run(run(**IGNORED)) == [said(ASKS["access_rules"])]


def test_every_field_asks_for_protection_or_is_obeyed() -> None:
    obeyed = {"rule_ids", "scram_credentials", "scram_looks", "client_quotas", "delegation_tokens"}
    assert {*ASKS} == vars(SecurityImage()).keys() - obeyed


def test_configs_of_brokers_count_and_those_of_others_do_not() -> None:
    image = ClusterImage()
    image.apply(RegisterBrokerRecord(broker_id=7))
    image.apply(ASKING["a config"][0])
    for name in ("7", "8", "9"):
        image.apply(
            ConfigRecord(resource_type=ResourceType.BROKER, resource_name=name, name="super.users", value="User:a")
        )
    image.apply(ConfigRecord(resource_type=ResourceType.GROUP, resource_name="7", name="super.users", value="User:a"))
    assert list(asked_by_metadata(image, BrokerConfig.embedded({"node.id": "8"}))) == [
        "super.users=User:x of all brokers",
        "super.users=User:a of broker 8",
        "super.users=User:a of broker 7",
    ]


def test_what_an_aborted_transaction_had_is_not_there(tmp_path: Path) -> None:
    stop_a_node(tmp_path)
    append(*map(encode_record, (BeginTransactionRecord(name="t"), RULE, AbortTransactionRecord(reason="r"))))(tmp_path)
    asyncio.run(run_and_stop(tmp_path))


def test_a_damaged_checkpoint_of_kafkas_is_named(tmp_path: Path) -> None:
    (tmp_path / "p1").mkdir()
    (tmp_path / "p1" / "bootstrap.checkpoint").write_text("nonsense" * 20)
    with pytest.raises(StartError, match=r"p1/bootstrap\.checkpoint: "):
        asyncio.run(start_node(config(tmp_path)))


def test_a_node_that_has_to_stop_is_no_controller_any_more(tmp_path: Path) -> None:
    async def run() -> None:
        node = await start_node(config(tmp_path))
        controller = node.parts.controller
        assert controller is not None
        committed = node.parts.log.append([RULE], controller.epoch)
        await node.failed
        await asyncio.wait([committed])
        while node.parts.quorum.is_leader(node.parts.quorum.epoch) and node.parts.quorum.is_running:
            await asyncio.sleep(0)
            if node.parts.quorum.leader_id is None:
                break
        assert not controller.is_active
        await node.stop()

    asyncio.run(run())


def test_a_node_in_a_thread_stops_as_well(tmp_path: Path) -> None:
    node = ThreadNode({"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path / "p1")})
    node.stop()
    append(encode_record(RULE))(tmp_path)
    with pytest.raises(RuntimeError, match=r"the node did not start: .*access rules"):
        ThreadNode({"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path / "p1")})
