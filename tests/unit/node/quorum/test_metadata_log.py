"""The metadata log over whatever replicates it: batches become records, the image, and snapshots."""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from uuid import UUID

import pytest
from tests.unit.node.controller_node import create, started
from tests.unit.node.gated_log import GatedLog

from penstock.metadata.image import ClusterImage
from penstock.metadata.record_frames import encode_record
from penstock.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from penstock.metadata.snapshot import decode_snapshot, encode_snapshot
from penstock.node.quorum import metadata_log
from penstock.node.quorum.metadata_log import RECORDS_PER_STEP, SOONER_MS, MetadataLog, SnapshotLimits
from penstock.protocol.control.records import ControlType, control_batch, control_record
from penstock.protocol.errors import DecodeError, KafkaError
from penstock.protocol.records import Record, encode_batch
from penstock.raft.control import quorums_in
from penstock.raft.ports import SnapshotId
from penstock.raft.voters import Quorum, ReplicaKey, Voter

VOTERS = Quorum.of([Voter(ReplicaKey(node, UUID(int=node))) for node in (1, 2, 3)])


def topic(name: str) -> TopicRecord:
    return TopicRecord(name=name, topic_id=UUID(int=sum(name.encode())))


def batch(base_offset: int, *records: MetadataRecord) -> bytes:
    values = [Record(timestamp_ms=1, value=encode_record(record)) for record in records]
    return bytes(encode_batch(values, base_offset=base_offset, partition_leader_epoch=3))


def election(base_offset: int) -> bytes:
    return bytes(control_batch([control_record(ControlType.LEADER_CHANGE, b"", 1)], base_offset=base_offset, epoch=3))


def snapshot(*records: MetadataRecord) -> bytes:
    return b"".join(encode_snapshot(records, leader_epoch=3, last_timestamp_ms=1, now_ms=1))


class Replicated:
    """What the metadata log asks of the quorum; it remembers the snapshots."""

    log_end_offset = 0
    told_high_watermark = 0
    has_all = False
    quorum = VOTERS

    async def start(self) -> None:
        """It is there from the beginning."""

    def __init__(self) -> None:
        self.snapshots: dict[int, bytes] = {}
        self.snapshot_error: Exception | None = None

    def append(self, batch: bytearray, epoch: int) -> asyncio.Future[int]:
        raise NotImplementedError

    def upgrade(self, kraft_version: int, epoch: int, *, validate_only: bool) -> None:
        raise NotImplementedError

    def barrier(self, epoch: int) -> asyncio.Future[int]:
        raise NotImplementedError

    def resign(self) -> None:
        raise NotImplementedError

    async def snapshot(self, chunks: Iterable[bytes], end_offset: int) -> SnapshotId:
        if self.snapshot_error is not None:
            raise self.snapshot_error
        self.snapshots[end_offset] = b"".join(chunks)
        return self.snapshot_id_at(end_offset)

    def quorum_at(self, end_offset: int) -> Quorum:
        return VOTERS

    def snapshot_id_at(self, end_offset: int) -> SnapshotId:
        return SnapshotId(end_offset, 3)


class Heard:
    """Listens to the metadata log."""

    def __init__(self, log: MetadataLog) -> None:
        self.names: list[str] = []
        self.replaced = 0
        log.add_listener(self._on_records, self._on_replaced)

    def _on_records(self, records: Sequence[MetadataRecord]) -> None:
        self.names += [record.name for record in records if isinstance(record, TopicRecord)]

    def _on_replaced(self) -> None:
        self.replaced += 1


class Clock:
    now_ms = 1_000

    def __call__(self) -> int:
        return self.now_ms


def opened(limits: SnapshotLimits = SnapshotLimits()) -> tuple[MetadataLog, Replicated, Clock]:
    clock = Clock()
    log = MetadataLog(ClusterImage("cluster"), clock, limits)
    replicated = Replicated()
    log.quorum = replicated
    return log, replicated, clock


def load(log: MetadataLog, content: bytes, snapshot: SnapshotId) -> int:
    """Read a snapshot and put it in place; how many pauses there were."""
    reading, pauses = log.read_snapshot(content, snapshot), 0
    while True:
        try:
            next(reading)
        except StopIteration as done:
            done.value()
            return pauses
        pauses += 1


def test_committed_batches_make_the_image_and_control_batches_move_its_offset() -> None:
    log, _, _ = opened()
    heard = Heard(log)
    log.committed(election(0) + batch(1, topic("a"), topic("b")) + election(3), 0, 3)
    assert list(log.image.topics) == heard.names == ["a", "b"]
    assert log.image.offset == 3


async def test_a_metadata_transaction_holds_when_it_ends_and_the_image_stands_before_it_until_then() -> None:
    log, replicated, _ = opened(SnapshotLimits(max_bytes_between=1))
    heard = Heard(log)
    log.committed(batch(0, BeginTransactionRecord(name="Bootstrap records"), topic("a")) + batch(2, topic("b")), 0, 2)
    assert (list(log.image.topics), log.image.offset, heard.names) == ([], -1, [])
    assert log.is_in_transaction
    log.committed(batch(3, topic("c"), EndTransactionRecord()), 3, 4)
    assert (list(log.image.topics), log.image.offset) == (["a", "b", "c"], 4)
    assert heard.names == ["a", "b", "c"]
    await log.close()
    assert list(replicated.snapshots) == [5], "none within the transaction"


def test_an_aborted_metadata_transaction_leaves_nothing_and_so_does_one_before_a_snapshot() -> None:
    log, _, _ = opened()
    log.committed(batch(0, BeginTransactionRecord(), topic("a")) + batch(2, AbortTransactionRecord()), 0, 2)
    assert (list(log.image.topics), log.image.offset, log.is_in_transaction) == ([], 2, False)
    log.committed(batch(3, BeginTransactionRecord(), topic("a")), 3, 4)
    load(log, snapshot(topic("b")), SnapshotId(40, 5))
    log.committed(batch(40, topic("c")), 40, 40)
    assert list(log.image.topics) == ["b", "c"]


def test_a_record_that_cannot_be_kept_is_refused_with_the_clusters_level() -> None:
    log, _, _ = opened()
    level = FeatureLevelRecord(name="metadata.version", feature_level=33)
    unknown = Record(timestamp_ms=1, value=bytes((1, 120, 0)))
    with pytest.raises(DecodeError) as refused:
        log.committed(batch(0, level) + bytes(encode_batch([unknown], base_offset=1, partition_leader_epoch=3)), 0, 1)
    assert str(refused.value) == (
        "__cluster_metadata-0: a metadata record is of the unknown type 120: this release of Penstock knows "
        "metadata.version 7 (3.3-IV3) to 33 (4.4-IV2), and the cluster is at 33 (4.4-IV2)"
    )


def test_a_snapshot_replaces_what_the_image_held_and_listeners_are_told() -> None:
    log, _, _ = opened()
    image = log.image
    heard = Heard(log)
    log.committed(batch(0, topic("a")), 0, 0)
    log.leader_changed(2, 5)
    load(log, snapshot(topic("b"), topic("c")), SnapshotId(40, 5))
    assert log.image is image, "others hold it as well"
    assert (list(image.topics), image.offset, heard.replaced) == (["b", "c"], 39, 1)
    assert [known.name for known in image.topics_by_id.values()] == ["b", "c"]
    assert (image.controller_id, image.controller_epoch) == (2, 5)


def test_a_large_snapshot_is_read_step_by_step_and_changes_nothing_before_its_end() -> None:
    log, _, _ = opened()
    log.committed(batch(0, topic("a")), 0, 0)
    reading = log.read_snapshot(snapshot(*(topic(f"t{number}") for number in range(1000))), SnapshotId(2000, 5))
    for _ in range(1000 // RECORDS_PER_STEP):
        next(reading)
        assert list(log.image.topics) == ["a"]
    with pytest.raises(StopIteration) as done:
        next(reading)
    assert list(log.image.topics) == ["a"]
    done.value.value()
    assert len(log.image.topics) == 1000
    assert log.image.offset == 1999


@pytest.mark.parametrize("is_in_transaction", [False, True])
def test_a_large_batch_is_applied_step_by_step_and_no_part_of_it_is_seen(is_in_transaction: bool) -> None:
    log, _, _ = opened()
    heard, parts = Heard(log), list[int]()
    log.add_listener(lambda records: parts.append(len(records)), lambda: None)
    log.committed(batch(0, topic("a")), 0, 0)
    large: list[MetadataRecord] = [topic(f"t{number}") for number in range(1000)]
    end: list[MetadataRecord] = []
    if is_in_transaction:
        large, end = [BeginTransactionRecord(), *large], [EndTransactionRecord()]
    last = len(large) + len(end)
    steps = log.committed(batch(1, *large) + (batch(len(large) + 1, *end) if end else b""), 1, last)
    assert steps is not None
    seen = [(list(log.image.topics), log.image.offset)]
    seen += [(list(log.image.topics), log.image.offset) for _ in steps if not heard.names[1:]]
    assert seen == [(["a"], 0)] * len(seen)
    count = 1000 // RECORDS_PER_STEP
    assert 2 * count - 1 <= len(seen) <= 2 * count + 1
    assert (len(log.image.topics), log.image.offset) == (1001, last)
    assert (heard.names[0], heard.names[-1], heard.replaced) == ("a", "t999", 0)
    assert parts == [1, *[RECORDS_PER_STEP] * (1000 // RECORDS_PER_STEP)]


@pytest.mark.parametrize("others", [0, RECORDS_PER_STEP])
def test_who_hears_that_topics_are_gone_knows_their_names_also_where_they_are_there_again(others: int) -> None:
    log, _, _ = opened()
    names: list[dict[UUID, str]] = []
    log.add_listener(lambda _: names.append(dict(log.image.gone_names or {})), lambda: None)
    log.committed(batch(0, topic("a"), topic("b")), 0, 1)
    gone = RemoveTopicRecord(topic_id=topic("a").topic_id)
    again = TopicRecord(name="a", topic_id=UUID(int=5))
    more = [topic(f"t{number}") for number in range(others)]
    for _ in log.committed(batch(2, gone, again, *more), 2, 3 + others) or ():
        pass
    log.committed(batch(4 + others, RemoveTopicRecord(topic_id=topic("b").topic_id)), 4 + others, 4 + others)
    assert names[0] == {}
    assert names[1:-1] == [{topic("a").topic_id: "a"}] * (2 if others else 1)
    assert names[-1] == {topic("b").topic_id: "b"}


def test_a_snapshot_takes_the_place_of_a_batch_that_is_half_applied() -> None:
    log, _, _ = opened()
    assert log.committed(batch(0, *(topic(f"t{number}") for number in range(1000))), 0, 999) is not None
    load(log, snapshot(topic("b")), SnapshotId(1040, 5))
    log.committed(batch(1040, topic("c")), 1040, 1040)
    assert (list(log.image.topics), log.image.offset) == (["b", "c"], 1040)


def test_a_damaged_snapshot_leaves_the_image_as_it_was() -> None:
    log, _, _ = opened()
    log.committed(batch(0, topic("a")), 0, 0)
    with pytest.raises(DecodeError, match=r"00040-0000000005\.checkpoint"):
        load(log, snapshot(topic("b"))[:-1], SnapshotId(40, 5))
    assert list(log.image.topics) == ["a"]


def test_leader_listeners_find_the_image_changed_already() -> None:
    log, _, _ = opened()
    seen: list[tuple[int | None, int, int]] = []
    log.add_leader_listener(lambda leader_id, epoch: seen.append((leader_id, epoch, log.image.controller_id)))
    log.leader_changed(2, 5)
    log.leader_changed(None, 6)
    assert seen == [(2, 5, 2), (None, 6, -1)]


async def test_a_snapshot_holds_what_is_committed_and_names_the_voters() -> None:
    log, replicated, _ = opened(SnapshotLimits(max_bytes_between=1))
    log.committed(batch(0, topic("a"), topic("b")), 0, 1)
    await log.close()
    ((end_offset, content),) = replicated.snapshots.items()
    assert end_offset == 2
    assert [record.name for record in decode_snapshot(content) if isinstance(record, TopicRecord)] == ["a", "b"]
    assert list(quorums_in(content, Quorum()))[-1][1] == VOTERS


async def test_a_snapshot_is_due_by_bytes_or_by_age() -> None:
    size = len(batch(0, topic("a")))
    log, replicated, clock = opened(SnapshotLimits(2 * size, 1_000))
    log.committed(batch(0, topic("a")), 0, 0)
    assert not log.is_snapshot_due(1_999)
    assert log.is_snapshot_due(2_000)
    log.committed(batch(1, topic("b")), 1, 1)
    await log.close()
    assert list(replicated.snapshots) == [2]
    assert not log.is_snapshot_due(1_000_000), "nothing was committed since"
    clock.now_ms = 5_000
    log.committed(batch(2, topic("c")), 2, 2)
    await log.close()
    assert list(replicated.snapshots) == [2, 3]


async def test_a_snapshot_is_due_sooner_where_the_log_is_longer_than_what_it_adds_up_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata_log, "SOONER_BYTES", 2 * len(batch(0, topic("a"))))
    log, replicated, clock = opened()
    log.committed(batch(0, topic("a")), 0, 0)
    clock.now_ms += SOONER_MS
    assert not log.is_snapshot_due(clock.now_ms), "that is too little"
    log.committed(batch(1, topic("b")), 1, 1)
    await log.close()
    assert list(replicated.snapshots) == [2]
    taken = len(replicated.snapshots[2])
    names = (f"{number:04}" for number in range(1000))
    offset, committed = 2, 0
    while committed < taken:
        clock.now_ms += SOONER_MS
        assert not log.is_snapshot_due(clock.now_ms), "the log is still shorter than the last snapshot"
        data = batch(offset, TopicRecord(name=next(names), topic_id=UUID(int=offset)))
        log.committed(data, offset, offset)
        offset, committed = offset + 1, committed + len(data)
    await log.close()
    assert list(replicated.snapshots) == [2, offset]


async def test_a_snapshot_that_is_worth_while_waits_until_some_time_after_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata_log, "SOONER_BYTES", 1)
    monkeypatch.setattr(metadata_log, "SOONER_MS", 20)
    log, replicated, clock = opened()
    log.committed(batch(0, topic("a")), 0, 0)
    assert not log.is_snapshot_due(clock.now_ms + 19)
    clock.now_ms += 20
    async with asyncio.timeout(20):
        while not replicated.snapshots:  # nothing more is committed: the clock alone brings it
            await asyncio.sleep(0.001)
    await log.close()
    assert list(replicated.snapshots) == [1]


async def test_the_last_snapshot_is_written_at_the_end_if_it_is_worth_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_log, "SOONER_BYTES", 2 * len(batch(0, topic("a"))))
    log, replicated, _ = opened()
    log.committed(batch(0, topic("a")), 0, 0)
    await log.close()
    assert replicated.snapshots == {}, "that is too little"
    log.committed(batch(1, topic("b")), 1, 1)
    await log.close()
    await log.close()
    assert list(replicated.snapshots) == [2]


async def test_a_snapshot_is_what_was_committed_when_it_was_begun() -> None:
    log, replicated, _ = opened(SnapshotLimits(max_bytes_between=1))
    log.committed(batch(0, topic("a")), 0, 0)  # its task has not had its turn yet
    log.committed(batch(1, topic("b")), 1, 1)
    await log.close()
    names = [record.name for record in decode_snapshot(replicated.snapshots[1]) if isinstance(record, TopicRecord)]
    assert names == ["a"]


async def test_no_interval_is_none() -> None:
    log, _, clock = opened(SnapshotLimits(1_000_000, 0))
    log.committed(batch(0, topic("a")), 0, 0)
    clock.now_ms = 10**12
    assert not log.is_snapshot_due(clock.now_ms)


async def test_a_snapshot_that_cannot_be_written_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    log, replicated, _ = opened(SnapshotLimits(max_bytes_between=1))
    replicated.snapshot_error = OSError("/nowhere")
    log.committed(batch(0, topic("a")), 0, 0)
    await log.close()
    assert "/nowhere" in caplog.text
    replicated.snapshot_error = None
    log.committed(batch(1, topic("b")), 1, 1)
    await log.close()
    assert list(replicated.snapshots) == [2]


async def test_records_that_cannot_be_applied_end_the_node(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await started(GatedLog(tmp_path))

    def broken(record: MetadataRecord) -> None:
        raise ValueError("no such topic")

    monkeypatch.setattr(node.image, "apply", broken)
    for reply in [node.submit(create("a")), node.submit(create("b"))]:
        with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
            await reply
    assert "no such topic" in str(node.quorum.failure)
    assert "restart the node" in caplog.text
    with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
        await node.submit(create("c"))


def test_what_the_formatting_said_is_a_wish_until_it_is_in_the_log() -> None:
    log = MetadataLog(ClusterImage("cluster"), lambda: 1)
    log.quorum = Replicated()
    level = FeatureLevelRecord(name="metadata.version", feature_level=20)
    load(log, snapshot(level), SnapshotId(0, 0))
    assert log.first_records == [level]
    assert log.image.features == {}
    assert log.image.offset == -1
    load(log, snapshot(level), SnapshotId(7, 3))
    assert log.image.features == {"metadata.version": 20}
