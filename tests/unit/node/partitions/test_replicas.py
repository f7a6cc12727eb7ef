"""Replicas follow the committed metadata: made, led, configured, deleted; and found again after a restart."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from tests.unit.log.removed import remove_due
from tests.unit.node.on_disk import NODE_ID, TOPIC_ID, Node, node_on, topic_records

from penstock.log.health import Health
from penstock.metadata.image import ClusterImage, ResourceType
from penstock.metadata.records import (
    ClearElrRecord,
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
)
from penstock.node.partitions import backlog
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.node.partitions.replicas import DROPPED_AT_ONCE, OBEYED_AT_ONCE
from penstock.protocol.errors import ErrorCode, KafkaError

OTHER_NODE = 2


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with node_on(tmp_path) as node:
        yield node


def refuse(*_: object) -> None:
    raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left")


def config(name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=ResourceType.TOPIC, resource_name="orders", name=name, value=value)


def change(**fields: object) -> PartitionChangeRecord:
    return PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, **fields)  # type: ignore[arg-type]


def test_a_new_partition_is_led_with_its_configs(node: Node, tmp_path: Path) -> None:
    node.commit(*topic_records(partitions=2, retention_ms="1000", min_insync_replicas="2"))
    partition = node.partition(index=1)
    assert (tmp_path / "orders-1" / "partition.metadata").exists()
    assert partition.leader is not None
    assert (partition.leader_epoch, partition.high_watermark) == (3, 0)
    assert (partition.log.config.retention_ms, partition.min_insync_replicas) == (1000, 2)
    assert node.table.get(TOPIC_ID, 1) is partition


def test_topics_with_the_same_settings_share_one_object(node: Node) -> None:
    node.commit(*topic_records("a", topic_id=UUID(int=1)), *topic_records("b", topic_id=UUID(int=2)))
    assert node.partition("a").log.config is node.partition("b").log.config


def test_replicas_of_other_nodes_are_not_held(node: Node) -> None:
    records = topic_records()
    records[-1].replicas = [OTHER_NODE]  # type: ignore[attr-defined]
    node.commit(*records)
    assert node.table.get("orders", 0) is None
    assert list(node.table) == []


def test_a_topic_that_is_made_and_removed_in_one_commit_leaves_nothing(node: Node) -> None:
    node.commit(*topic_records(), RemoveTopicRecord(topic_id=TOPIC_ID))
    assert list(node.table) == []


async def test_leadership_comes_and_goes(node: Node) -> None:
    node.commit(*topic_records())
    node.produce(b"a")
    node.commit(change(leader=OTHER_NODE))
    assert node.partition().leader is None
    assert node.produce(b"b") == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    node.commit(change(leader=NODE_ID))
    assert node.partition().leader_epoch == 5
    assert node.produce(b"c") == (ErrorCode.NONE, 1)
    assert node.partition().log.leader_epochs.entries == [(3, 0), (5, 1)]


def test_a_change_of_the_isr_wakes_who_waits_for_the_high_watermark(node: Node) -> None:
    records = topic_records()
    records[-1].isr = [NODE_ID, OTHER_NODE]  # type: ignore[attr-defined]
    node.commit(*records)
    node.produce(b"a")
    woken: list[int] = []
    node.partition().committed.waits.add(1, lambda: woken.append(node.partition().high_watermark))
    node.commit(change(isr=[NODE_ID]))
    assert woken == [1]


@pytest.mark.parametrize("topic", ["orders", ""])
def test_a_leader_knows_the_partition_epoch_after_eligible_leaders_were_cleared(node: Node, topic: str) -> None:
    node.commit(*topic_records())
    node.commit(change(eligible_leader_replicas=[OTHER_NODE]))
    leader = node.partition().leader
    assert leader is not None
    before = leader.partition_epoch
    node.commit(ClearElrRecord(topic_name=topic))
    assert leader.partition_epoch == before + 1


async def test_what_cannot_be_obeyed_is_tried_again_when_there_is_room(
    node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    node.commit(*topic_records())
    node.produce(b"a")
    with monkeypatch.context() as full:
        full.setattr(IsrPartition, "obey", refuse)
        node.commit(change(leader=NODE_ID))
    assert node.partition().leader is None, "it is nothing until it can be what it shall be"
    assert caplog.messages[-1] == "orders-0: no space left"
    node.replicas.obey_late()
    assert node.partition().leader_epoch == 4
    assert node.produce(b"b") == (ErrorCode.NONE, 1)


async def test_what_a_deleted_topic_could_not_obey_is_not_tried_again(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited for room on a disk that may be full for weeks."""
    node.commit(*topic_records(), *topic_records("other", topic_id=UUID(int=1)))
    with monkeypatch.context() as full:
        full.setattr(IsrPartition, "obey", refuse)
        node.commit(change(leader=NODE_ID), change(leader=NODE_ID).replace(topic_id=UUID(int=1)))
    node.commit(RemoveTopicRecord(topic_id=TOPIC_ID))
    assert node.replicas._late.taken() == [(UUID(int=1), 0)]


def lack_files(*_: object, **__: object) -> None:
    with Health("d").raising("opening a log"):
        raise OSError(errno.EMFILE, "Too many open files")


async def test_what_lacks_an_open_file_is_tried_again_by_itself(
    node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody asks for a replica that follows, and no metadata need come: one is to lead on, two are new."""
    monkeypatch.setattr(backlog, "AGAIN_MS", 0)
    node.commit(*topic_records())
    node.produce(b"a")
    with monkeypatch.context() as few:
        few.setattr(IsrPartition, "obey", lack_files)
        few.setattr(node.directories, "create", lack_files)
        node.commit(change(leader=NODE_ID), *topic_records("new", topic_id=UUID(int=1), partitions=2))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert (node.partition().leader, node.table.get("new", 1)) == (None, None)
    assert len(caplog.messages) in (2, 3), "one line each time"
    assert caplog.messages[0] == "orders-0: opening a log: [Errno 24] Too many open files"
    await asyncio.sleep(0)
    assert (node.partition().leader_epoch, node.partition().leader is not None) == (4, True)
    assert all(node.partition("new", index).leader is not None for index in range(2))


@pytest.mark.parametrize("of_topic", [True, False], ids=["the topic's", "the broker's"])
async def test_how_many_must_be_in_sync_changes_after_who_led_before_that(node: Node, of_topic: bool) -> None:
    """Else a leader that leads no longer, as it is about to hear, commits by itself what its successor lacks."""
    node.broker.config.apply_dynamic(broker={}, default={"min.insync.replicas": "2"})
    records = topic_records(partitions=OBEYED_AT_ONCE + 1)
    for record in records:
        if isinstance(record, PartitionRecord):
            record.replicas = [NODE_ID, OTHER_NODE]
    node.commit(*records)
    await node.replicas.settled()
    last, committed = node.partition(index=OBEYED_AT_ONCE), list[int]()
    assert node.produce(b"a", index=OBEYED_AT_ONCE) == (ErrorCode.NONE, 0)
    last.committed.waits.add(1, lambda: committed.append(last.high_watermark))
    follows = PartitionChangeRecord(topic_id=TOPIC_ID, leader=OTHER_NODE, isr=[OTHER_NODE])
    changes = [follows.replace(partition_id=index) for index in range(OBEYED_AT_ONCE + 1)]
    if of_topic:
        node.commit(*changes, config("min.insync.replicas", "1"))
    else:
        node.commit(*changes)
        node.broker.config.apply_dynamic(broker={}, default={"min.insync.replicas": "1"})
        node.replicas.configure_all()
    await node.replicas.settled()
    assert committed == [0], "its epoch is over, and that is not committed"
    assert {node.partition(index=index).min_insync_replicas for index in range(OBEYED_AT_ONCE + 1)} == {1}


def test_configs_change_while_it_runs(node: Node) -> None:
    node.commit(*topic_records())
    before = node.partition().log.config.retention_ms
    node.commit(config("retention.ms", "77"), config("min.insync.replicas", "3"))
    assert (node.partition().log.config.retention_ms, node.partition().min_insync_replicas) == (77, 3)
    node.commit(config("retention.ms", None))
    assert node.partition().log.config.retention_ms == before


@pytest.mark.parametrize(("key", "value"), [("retention.ms", "soon"), ("no.such.key", "1")])
def test_a_config_that_is_not_understood_keeps_nothing_else_from_its_effect(
    node: Node, key: str, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    node.commit(*topic_records(max_message_bytes="777"))
    before = node.partition().log.config
    node.commit(config(key, value), change(leader=OTHER_NODE))
    assert node.partition().leader is None
    assert node.partition().log.config == before
    assert ("retention.ms: 'soon'" in caplog.text) is (value == "soon")


def test_a_restart_gets_over_a_config_that_is_not_understood(tmp_path: Path) -> None:
    with node_on(tmp_path, *topic_records(retention_ms="soon")) as node:
        assert node.produce(b"a") == (ErrorCode.NONE, 0)


def test_broker_keys_stand_behind_those_of_topics(node: Node) -> None:
    node.commit(*topic_records("own", topic_id=UUID(int=1), segment_bytes="5000000"), *topic_records())
    node.broker.config.apply_dynamic(broker={}, default={"log.segment.bytes": "9000000"})
    node.replicas.configure_all()
    assert node.partition("own").log.config.segment_bytes == 5_000_000
    assert node.partition("orders").log.config.segment_bytes == 9_000_000


def test_a_removed_topic_is_renamed_away_and_removed_after_the_delay_of_the_broker(node: Node, tmp_path: Path) -> None:
    """By a delay of its own a topic could stay on the disk for good, and in the memory of the node."""
    node.commit(*topic_records(file_delete_delay_ms=str(2**63 - 1)))
    node.broker.config.apply_dynamic(broker={}, default={"log.segment.delete.delay.ms": "1000"})
    node.replicas.configure_all()
    node.produce(b"a")
    node.commit(RemoveTopicRecord(topic_id=TOPIC_ID))
    assert node.table.get("orders", 0) is None
    (renamed,) = tmp_path.glob("orders-0*")
    assert renamed.name.endswith("-delete")
    remove_due(node.directories, node.now_ms + 999)
    assert renamed.exists()
    remove_due(node.directories, node.now_ms + 1000)
    assert not renamed.exists()


def test_a_topic_of_the_same_name_begins_anew(node: Node) -> None:
    node.commit(*topic_records())
    node.produce(b"a")
    node.commit(RemoveTopicRecord(topic_id=TOPIC_ID), *topic_records(topic_id=UUID(int=99)))
    assert node.partition().topic_id == UUID(int=99)
    assert node.produce(b"b") == (ErrorCode.NONE, 0)


@pytest.mark.parametrize("by_id", [True, False])
@pytest.mark.parametrize("is_at_work", [True, False])
async def test_a_topic_of_the_same_name_is_another_one_while_the_removed_one_goes(
    node: Node, tmp_path: Path, by_id: bool, is_at_work: bool
) -> None:
    """It may be asked for before the last partitions of the removed one are dropped."""
    count, new = DROPPED_AT_ONCE + 3, UUID(int=99)
    node.commit(*topic_records(partitions=count))
    await node.replicas.settled()
    for index in range(count):
        node.produce(b"old", index=index)
    if is_at_work:
        node.commit(*topic_records("other", partitions=20, topic_id=UUID(int=5)))
    node.commit(RemoveTopicRecord(topic_id=TOPIC_ID))
    node.commit(*topic_records(topic_id=new, partitions=count))
    made = node.broker.partition(new if by_id else "orders", count - 1)
    assert made.topic_id == new
    assert node.produce(b"new", index=count - 1) == (ErrorCode.NONE, 0)
    await node.replicas.settled()
    assert [node.partition(index=index).topic_id for index in range(count)] == [new] * count
    assert [node.partition(index=index).log.log_end_offset for index in range(count)] == [0] * (count - 1) + [1]
    assert node.partition(index=count - 1) is made
    assert node.table.of_topic(TOPIC_ID) == []
    assert sorted(node.table.of_topic(new), key=id) == sorted(node.table.of_topic("orders"), key=id)
    await asyncio.to_thread(remove_due, node.directories, node.now_ms + 10**6)
    places = {path.name for path in tmp_path.glob("orders-*")}
    assert places == {f"orders-{index}" for index in range(count)}


def test_a_restart_finds_everything_again(tmp_path: Path) -> None:
    records: list[MetadataRecord] = topic_records(partitions=2, max_message_bytes="777")
    with node_on(tmp_path, *records) as node:
        node.produce(b"a", b"b", index=1)
    with node_on(tmp_path, *records) as node:
        partition = node.partition(index=1)
        assert (partition.high_watermark, partition.log.log_end_offset) == (2, 2)
        assert partition.log.config.max_message_bytes == 777
        assert node.produce(b"c", index=1) == (ErrorCode.NONE, 2)


def test_a_log_that_the_metadata_does_not_know_is_set_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with node_on(tmp_path, *topic_records()) as node:
        node.produce(b"old")
    with node_on(tmp_path) as node:
        assert list(node.table) == []
        assert not (tmp_path / "orders-0").exists()
        (stray,) = tmp_path.glob("orders-0.*-stray")
        assert [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING] == [
            f"{tmp_path}/orders-0: no such partition in the metadata: now {stray}, remove it if it is not missed"
        ]
        node.commit(*topic_records())
        assert node.partition().log.log_end_offset == 0
    with node_on(tmp_path, *topic_records()) as node:
        node.now_ms += 10**9
        remove_due(node.directories, node.now_ms)
        assert (stray / "00000000000000000000.log").stat().st_size > 0


def test_what_a_crash_left_of_a_deleted_topic_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    with node_on(tmp_path, *topic_records()) as node:
        node.produce(b"old")
    with node_on(tmp_path) as node:
        node.commit(*topic_records(topic_id=UUID(int=99)))
        assert node.partition().high_watermark == 0
        assert node.produce(b"new") == (ErrorCode.NONE, 0)


async def test_very_many_partitions_are_made_by_and_by(node: Node) -> None:
    settled: list[int] = []
    node.replicas.has_settled.listen(lambda: settled.append(len(list(node.table))))
    node.commit(*topic_records(partitions=3 * OBEYED_AT_ONCE))
    assert len(list(node.table)) == OBEYED_AT_ONCE
    last = 3 * OBEYED_AT_ONCE - 1
    assert node.broker.partition("orders", last).leader is not None, "who asks for one need not wait"
    waiting = asyncio.ensure_future(node.replicas.settled())
    await asyncio.sleep(0)
    assert not waiting.done()
    await waiting
    assert settled == [3 * OBEYED_AT_ONCE]
    await node.replicas.settled()


async def test_what_is_committed_meanwhile_is_followed_as_well(node: Node) -> None:
    node.commit(*topic_records(partitions=2 * OBEYED_AT_ONCE))
    held = node.partition(index=0)
    node.commit(change(leader=OTHER_NODE))
    node.commit(*topic_records("later", topic_id=UUID(int=1)))
    await node.replicas.settled()
    assert held.leader is None
    assert node.partition("later").leader is not None


async def test_a_topic_that_is_removed_before_its_logs_are_made_leaves_nothing(node: Node) -> None:
    node.commit(*topic_records(partitions=2 * OBEYED_AT_ONCE))
    node.commit(RemoveTopicRecord(topic_id=TOPIC_ID))
    await node.replicas.settled()
    assert list(node.table) == []


async def test_after_a_stop_nothing_is_made(node: Node) -> None:
    node.commit(*topic_records(partitions=2 * OBEYED_AT_ONCE))
    waiting = asyncio.ensure_future(node.replicas.settled())
    await asyncio.sleep(0)
    made = len(list(node.table))
    node.replicas.stop()
    await waiting
    await asyncio.sleep(0)
    assert len(list(node.table)) == made


def test_a_new_image_is_followed_as_a_whole(node: Node) -> None:
    node.commit(*topic_records("gone", topic_id=UUID(int=1)), *topic_records())
    held = node.partition()
    other = ClusterImage(node.image.cluster_id)
    for record in (*topic_records(retention_ms="1000"), *topic_records("new", topic_id=UUID(int=2))):
        other.apply(record)
    other.apply(change(leader=NODE_ID))
    node.image.become(other)
    node.replicas.on_new_image()
    assert node.table.get("gone", 0) is None
    assert node.partition() is held
    assert (held.leader_epoch, held.log.config.retention_ms) == (4, 1000)
    assert node.partition("new").leader is not None


# throttles


def throttled(node: Node, index: int) -> tuple[bool, bool]:
    """Whether a replica is throttled while it leads, and while it follows."""
    partition = node.partition(index=index)
    return partition.leader_quota is node.throttles.leader, partition.follower_quota is node.throttles.follower


def test_replicas_are_throttled_that_the_topic_names_on_this_broker(tmp_path: Path) -> None:
    keys = {
        "leader.replication.throttled.replicas": f"0:{NODE_ID},1:9",
        "follower.replication.throttled.replicas": "*",
    }
    with node_on(tmp_path, *topic_records(partitions=2), *(config(*item) for item in keys.items())) as node:
        assert [throttled(node, 0), throttled(node, 1)] == [(True, True), (False, True)]
        node.commit(*(config(key, None) for key in keys))
        assert [throttled(node, 0), throttled(node, 1)] == [(False, False), (False, False)]


async def test_a_leader_whose_log_waited_for_its_disk_is_told_of_to_coordinators(node: Node) -> None:
    """Metadata may say nothing for a long time then."""
    node.commit(*topic_records())
    log, settled = node.partition().log, list[bool]()
    node.replicas.has_settled.listen(lambda: settled.append(node.partition().leader is not None))
    log.lend()
    node.commit(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=NODE_ID))
    assert node.partition().leader is None
    for go_on in log.take_back(is_whole=True):
        go_on()
    await asyncio.sleep(0)
    assert settled[-1:] == [True]


@pytest.mark.parametrize(("directories", "is_misplaced"), [(1, False), (2, True)])
def test_the_controller_is_told_where_a_replica_lies_if_it_could_lie_elsewhere(
    tmp_path: Path, directories: int, is_misplaced: bool
) -> None:
    paths = ",".join(str(tmp_path / str(number)) for number in range(directories))
    with node_on(tmp_path, *topic_records(), log_dirs=paths) as node:
        node.produce(b"a")
        lies_in = node.directories.id_of(node.partition().log)
        assert node.replicas.misplaced == ({(TOPIC_ID, 0): lies_in} if is_misplaced else {})


def test_a_replica_that_is_nobodys_here_is_offline_no_longer(node: Node) -> None:
    node.commit(*topic_records())
    node.replicas.on_directory_failed(node.partition().log.parent)
    assert list(node.replicas.offline) == [(TOPIC_ID, 0)]
    node.commit(change(replicas=[OTHER_NODE], isr=[OTHER_NODE], leader=OTHER_NODE))
    assert node.replicas.offline == {}


def test_where_a_replica_lies_that_is_gone_is_nobodys_concern(node: Node) -> None:
    node.commit(*topic_records())
    for topic_id, index in ((UUID(int=99), 0), (TOPIC_ID, 7)):
        gone = IsrPartition(node.partition().log, topic_id)
        gone.index = index
        node.replicas.on_moved(gone)
    assert node.replicas.misplaced == {}
