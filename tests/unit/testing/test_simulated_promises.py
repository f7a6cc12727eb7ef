"""What the simulation holds nodes to where one of them does not know yet what others do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.log.compaction.rounds import COMPACTED, compact, pairs, records
from tests.unit.log.logs import NOW, open_log
from tests.unit.log.transactions import append_all, ended, written
from tests.unit.node.on_disk import NODE_ID, TOPIC_ID, node_on, topic_records

from penstock.client.values import ConsumedRecord, TopicPartition
from penstock.log.compaction.keys import Keys
from penstock.log.compaction.plain_keys import PlainKeys
from penstock.log.disk import Disk
from penstock.log.partition_log import PartitionLog
from penstock.metadata.image import ClusterImage
from penstock.node.assembly.start import RunningNode
from penstock.node.partitions.partition import Partition
from penstock.protocol.batch import BatchHeader
from penstock.protocol.control.records import ControlType
from penstock.protocol.internal_topics import CONSUMER_OFFSETS
from penstock.protocol.varint import Buffer
from penstock.testing.simulator.compacted_agreement import LONG_MS, READ_BYTES, CompactedHistory
from penstock.testing.simulator.ledger import Ledger
from penstock.testing.simulator.trace import Trace

PAD = "v" * 60
STANDS = {TopicPartition("t0", 0): 196}


def replica(log: PartitionLog, high_watermark: int) -> Partition:
    return cast("Partition", SimpleNamespace(log=log, high_watermark=high_watermark))


def filled(path: Path) -> PartitionLog:
    """Forty records of four keys, of which one comes but once; several segments of them."""
    path.mkdir()
    log = open_log(path, COMPACTED)
    for number in range(40):
        key = f"k{number % 3}" if number else "once"
        log.append_as_leader(pairs((key, f"{number}{PAD}")), leader_epoch=0, now_ms=NOW)
    return log


class Greedy(PlainKeys):
    """Believes that each key comes again."""

    def index(self, data: Buffer, header: BatchHeader, first_offset: int) -> bool:
        has_room = super().index(data, header, first_offset)
        self._offsets = dict.fromkeys(self._offsets, 1000)
        return has_room


def compacted(path: Path, make_keys: Callable[[int, float], Keys] = PlainKeys) -> PartitionLog:
    log = filled(path)
    compact(log, Disk(), make_keys=make_keys)
    return log


class Looks:
    """A history, and what it found."""

    def __init__(self) -> None:
        self.history = CompactedHistory()
        self.found: list[str] = []

    def look(
        self, name: str, log: PartitionLog, high_watermark: int, *, leads: bool = False, now_ms: int = NOW
    ) -> list[str]:
        self.history.compare(name, replica(log, high_watermark), leads=leads, now_ms=now_ms, violated=self.found.append)
        return self.found


def test_a_follower_may_have_compacted_what_no_leader_was_seen_with(tmp_path: Path) -> None:
    looks, leader, follower = Looks(), filled(tmp_path / "1"), compacted(tmp_path / "2")
    assert looks.look("leader", leader, 6, leads=True) == []
    assert looks.look("follower", follower, 40) == [], "the newer values of what is missing lie behind 6"
    follower.cleaned_to = 0  # a crash in the middle of a round leaves the mark where it was
    assert looks.look("follower", follower, 40) == []
    assert looks.look("leader", leader, 40, leads=True) == []
    assert looks.look("follower", follower, 40) == []


def test_a_value_that_compaction_lost_is_found_as_soon_as_leaders_were_seen_so_far(tmp_path: Path) -> None:
    looks, leader, follower = Looks(), filled(tmp_path / "1"), compacted(tmp_path / "2", Greedy)
    assert looks.look("leader", leader, 6, leads=True) == []
    assert looks.look("follower", follower, 40) == []
    assert looks.look("leader", leader, follower.segments.active.base_offset, leads=True) == []
    assert len(looks.look("follower", follower, 40)) == 1


def test_what_a_leader_has_compacted_before_anybody_looked_is_known_all_the_same(tmp_path: Path) -> None:
    whole, log = filled(tmp_path / "1"), compacted(tmp_path / "2", Greedy)
    for noted, found in ((b"", 0), (whole.read(0, READ_BYTES).read(), 1)):
        looks = Looks()
        looks.history.note(noted)
        assert len(looks.look("leader", log, 40, leads=True)) == found


def test_what_another_epoch_had_at_an_offset_is_not_taken_for_committed(tmp_path: Path) -> None:
    looks, log = Looks(), filled(tmp_path / "1")
    other = open_log(tmp_path, COMPACTED)
    other.append_as_leader(pairs(("never", "committed")), leader_epoch=1, now_ms=NOW)
    looks.history.note(other.read(0, READ_BYTES).read())
    assert looks.look("leader", log, 40, leads=True) == []


def with_a_deletion(path: Path, delete_retention_ms: int = 1000) -> PartitionLog:
    path.mkdir()
    log = open_log(path, COMPACTED.replace(delete_retention_ms=delete_retention_ms))
    for pair in (("k", "value"), ("k", None), ("other", "value")):
        log.append_as_leader(pairs(pair), leader_epoch=0, now_ms=NOW)
    return log


def without_its_tombstone(path: Path, delete_retention_ms: int = 1000) -> PartitionLog:
    log = with_a_deletion(path, delete_retention_ms)
    other = log.read(2, READ_BYTES).read()
    log.truncate_to(1)
    log.append_as_follower(memoryview(other))
    assert records(log) == [(0, "k", "value"), (2, "other", "value")]
    return log


def test_a_deleted_key_may_live_on_where_the_tombstone_never_came(tmp_path: Path) -> None:
    looks = Looks()
    assert looks.look("leader", with_a_deletion(tmp_path / "1"), 3, leads=True) == []
    assert looks.look("away", without_its_tombstone(tmp_path / "2"), 3) == []


def test_a_deleted_key_may_not_live_on_where_the_tombstone_was(tmp_path: Path) -> None:
    looks = Looks()
    assert looks.look("leader", with_a_deletion(tmp_path / "1"), 3, leads=True) == []
    assert looks.look("follower", with_a_deletion(tmp_path / "2"), 3) == []
    assert len(looks.look("follower", without_its_tombstone(tmp_path / "3"), 3)) == 1


def test_a_deleted_key_may_not_live_on_where_tombstones_are_kept_for_long(tmp_path: Path) -> None:
    looks = Looks()
    assert looks.look("leader", with_a_deletion(tmp_path / "1"), 3, leads=True) == []
    assert len(looks.look("away", without_its_tombstone(tmp_path / "2", LONG_MS), 3)) == 1


def test_a_tombstone_that_power_cuts_need_not_have_taken_may_have_done_its_work(tmp_path: Path) -> None:
    log = with_a_deletion(tmp_path / "1")
    looks = Looks()
    assert looks.look("leader", log, 3, leads=True) == []
    looks.history.forget_node("leader")
    looks.history.lost(1)
    other = log.read(2, READ_BYTES).read()
    log.truncate_fully_and_start_at(0)
    log.append_as_follower(memoryview(other))
    assert looks.look("leader", log, 3, leads=True) == []


def log_of(path: Path, *pairs_of_epochs: tuple[int, str, str]) -> PartitionLog:
    path.mkdir()
    log = open_log(path, COMPACTED)
    for epoch, key, value in pairs_of_epochs:
        log.append_as_leader(pairs((key, value)), leader_epoch=epoch, now_ms=NOW)
    return log


def only(path: Path, log: PartitionLog, *offsets: int) -> PartitionLog:
    """What compaction, and a cut, leave of that log."""
    path.mkdir()
    left = open_log(path, COMPACTED)
    for offset in offsets:
        left.append_as_follower(memoryview(log.read(offset, READ_BYTES, upper_offset=offset + 1).read()))
    return left


BEFORE = ((0, "a", "1"), (0, "b", "1"), (0, "a", "2"))
AFTER = (*BEFORE[:2], (1, "a", "3"), (1, "c", "1"))


def test_a_key_may_be_missing_that_was_compacted_because_of_what_power_cuts_took(tmp_path: Path) -> None:
    before, after = log_of(tmp_path / "1", *BEFORE), log_of(tmp_path / "2", *AFTER)
    for offset, is_right in ((1, True), (0, False)):  # the newest record of "b" is there
        looks = Looks()
        assert looks.look("leader", before, 3, leads=True) == []
        looks.history.lost(1)
        assert looks.look("other leader", after, 2, leads=True) == []
        follower = only(tmp_path / f"only {offset}", before, offset)
        assert (looks.look("follower", follower, 2) == []) is is_right


def test_a_key_may_not_be_missing_that_was_written_again_after_power_cuts(tmp_path: Path) -> None:
    before, after = log_of(tmp_path / "1", *BEFORE), log_of(tmp_path / "2", *AFTER)
    for offsets, is_right in (((1, 2, 3), True), ((1, 3), False), ((0, 1, 3), False)):
        looks = Looks()
        assert looks.look("leader", before, 3, leads=True) == []
        looks.history.lost(1)
        assert looks.look("other leader", after, 4, leads=True) == []
        follower = only(tmp_path / f"only {offsets}", after, *offsets)
        assert (looks.look("follower", follower, 4) == []) is is_right


def test_a_key_may_not_be_missing_whose_newest_record_power_cuts_left(tmp_path: Path) -> None:
    log = log_of(tmp_path / "1", *BEFORE)
    looks = Looks()
    assert looks.look("leader", log, 3, leads=True) == []
    looks.history.lost(1)
    looks.history.forget_node("leader")
    assert looks.look("leader", log, 3, leads=True) == []
    assert len(looks.look("follower", only(tmp_path / "2", log, 1), 3)) == 1


def test_after_unclean_elections_the_values_count_that_there_are(tmp_path: Path) -> None:
    log = log_of(tmp_path / "1", *BEFORE, (0, "c", "1"))
    for offsets, is_right in (((1, 2, 3), True), ((2, 3), True), ((0, 1, 3), False)):
        looks = Looks()
        looks.history.began_late = True
        assert looks.look("leader", log, 4, leads=True) == []
        follower = only(tmp_path / f"only {offsets}", log, *offsets)
        assert (looks.look("follower", follower, 4) == []) is is_right


def with_an_abort(path: Path) -> PartitionLog:
    path.mkdir()
    log = open_log(path, COMPACTED)
    commit, abort = ControlType.COMMIT, ControlType.ABORT
    append_all(log, written(1, 0, value=b"1"), written(1, 1, value=b"2"), ended(1, commit))
    append_all(log, written(1, 2, value=b"3"), ended(1, abort))
    return log


def test_what_was_aborted_counts_for_nobody_who_looks_after_unclean_elections(tmp_path: Path) -> None:
    """A replica may know of the abort before any leader was looked at, and who wrote the record was never seen."""
    log = with_an_abort(tmp_path / "1")
    for offsets, is_right in (((1, 3), True), ((1,), True), ((0, 3), False)):
        looks = Looks()
        looks.history.began_late = True
        assert looks.look("follower", log, 5) == []
        assert looks.look("leader", log, 5, leads=True) == []
        other = only(tmp_path / f"only {offsets}", log, *offsets)
        assert (looks.look("other", other, 5) == []) is is_right


def test_a_key_that_was_written_again_and_aborted_may_be_missing_after_power_cuts(tmp_path: Path) -> None:
    for control, is_right in ((ControlType.ABORT, True), (ControlType.COMMIT, False)):
        before = log_of(tmp_path / f"before {control}", (0, "k", "1"), (0, "k", "2"))
        after = log_of(tmp_path / f"after {control}", (0, "k", "1"))
        append_all(after, written(1, 0, value=b"3"), ended(1, control), leader_epoch=1)
        looks = Looks()
        assert looks.look("leader", before, 2, leads=True) == []
        looks.history.lost(1)
        looks.history.note(after.read(0, READ_BYTES).read())
        assert looks.look("other leader", after, 3, leads=True) == []
        assert (looks.look("follower", only(tmp_path / f"only {control}", after, 2), 3) == []) is is_right


def test_what_was_aborted_counts_for_nobody_though_a_leader_had_it_compacted_before(tmp_path: Path) -> None:
    """Nothing that was written has been seen, so only whoever has the record yet tells of it."""
    leader, other = with_an_abort(tmp_path / "1"), with_an_abort(tmp_path / "2")
    leader.load().roll(5, NOW)
    compact(leader, Disk())
    assert 3 not in [offset for offset, *_ in records(leader)]
    looks = Looks()
    looks.history.began_late = True
    assert looks.look("leader", leader, 5, leads=True) == []
    assert looks.look("other", other, 5) == []


@pytest.mark.parametrize("high_watermark", [1, 2])
def test_what_a_marker_aborts_that_no_leader_was_seen_with_counts_for_nobody(
    tmp_path: Path, high_watermark: int
) -> None:
    """A follower may be the first that is looked at with it, and has compacted by then. Behind a restart it may know
    less of what is committed than the round before, or take the marker of a snapshot for replicated, as Kafka does.
    """
    looks, log = Looks(), open_log(tmp_path, COMPACTED)
    append_all(log, written(1, 0, value=b"1"))
    looks.history.note(log.read(0, READ_BYTES).read())
    log.load().roll(1, NOW)
    append_all(log, ended(1, ControlType.ABORT))
    assert looks.look("leader", log, 1, leads=True) == []
    compact(log, Disk())
    assert 0 not in [offset for offset, *_ in records(log)]
    assert looks.look("follower", log, high_watermark) == []


def test_who_wrote_what_in_a_transaction_is_known_of_each_epoch(tmp_path: Path) -> None:
    """A leader that was replaced may still write, to an offset at which its successor has something else."""
    log, old = with_an_abort(tmp_path / "1"), log_of(tmp_path / "2", *[(7, "k", "never")] * 4)
    looks = Looks()
    for one in (log, old):
        looks.history.note(one.read(0, READ_BYTES).read())
    assert looks.look("leader", log, 5, leads=True) == []
    assert looks.look("other", only(tmp_path / "3", log, 1), 5) == []


def test_a_record_may_not_be_missing_while_it_is_too_young(tmp_path: Path) -> None:
    leader, follower = filled(tmp_path / "1"), compacted(tmp_path / "2")
    follower.config = COMPACTED.replace(min_compaction_lag_ms=1000)
    for age_ms, is_young in ((999, True), (1000, False)):
        looks = Looks()
        assert looks.look("leader", leader, 40, leads=True) == []
        found = looks.look("follower", follower, 40, now_ms=NOW + age_ms)
        assert any("too young" in line for line in found) is is_young


def test_what_power_cuts_took_of_the_last_leader_is_gone_when_nobody_else_is_eligible() -> None:
    """Nobody was eligible any more: the other one was killed, which brokers cannot tell from a power cut."""
    for is_cut, is_kept in ((False, True), (True, False)):
        ledger = Ledger(Trace(lambda: 0.0), flushes_each=False, replicas=2)
        image = ledger.agreement.newest = ClusterImage()
        for record in topic_records("t"):
            image.apply(record)
        ledger.promises.counts["t"] = 1
        ledger.acked(TopicPartition("t", 0), 0, b"value", 0)
        partitions = image.topics_by_id[TOPIC_ID].partitions
        partitions[0] = partitions[0]._replace(isr=(1,), eligible_leader_replicas=(2,))
        ledger.crashing("node1", None, power_lost=is_cut)
        partitions[0] = partitions[0]._replace(isr=(), leader=-1, leader_epoch=4, last_known_elr=(1,))
        ledger.look_at_weak()
        ledger.crashing("node2", None, power_lost=False)
        partitions[0] = partitions[0]._replace(
            isr=(1,), leader=1, leader_epoch=5, last_known_elr=(), eligible_leader_replicas=(), leader_recovery_state=1
        )
        ledger.look_at_recoveries()
        ledger.look_at_weak()
        assert bool(ledger.acknowledged[TopicPartition("t", 0)]) is is_kept
        assert ledger.lossy_crashes == is_cut
        ledger.acked(TopicPartition("t", 0), 1, b"another", 0)
        ledger.look_at_recoveries()
        ledger.look_at_weak()
        assert ledger.lossy_crashes == is_cut, "what the leader has now is promised again"


@pytest.mark.parametrize(
    ("retention_ms", "age_ms", "last", "is_right"),
    [(10, 11, 2, True), (10, 10, 2, False), (None, 11, 2, False), (10, 11, 1, False)],
)
def test_retention_may_take_what_is_old_while_a_partition_is_read_back(
    retention_ms: int | None, age_ms: int, last: int, is_right: bool
) -> None:
    ledger = Ledger(Trace(lambda: 9.0), flushes_each=True, retention_ms=retention_ms)
    partition = TopicPartition("t", 0)
    ledger.promises.creating("t", 1)
    ledger.promises.created("t", at_once=True)
    ledger.acked(partition, 1, b"p:1", ledger.clocks.latest_ms() - age_ms)
    records = [ConsumedRecord("t", 0, offset, 0, None, b"p:%d" % offset) for offset in (0, last, last)[: 4 - last]]
    ledger.read_back(partition, records, last + 1, [])
    assert (ledger.violations == []) is is_right


@pytest.mark.parametrize(("age_ms", "is_right"), [(11, True), (10, False)])
def test_a_hole_of_what_nobody_acknowledged_is_none_of_retentions_behind_a_record_that_stays(
    age_ms: int, is_right: bool
) -> None:
    ledger = Ledger(Trace(lambda: 9.0), flushes_each=True, retention_ms=10)
    written_ms = ledger.clocks.latest_ms() - age_ms
    records = [ConsumedRecord("t", 0, offset, written_ms, None, b"p:%d" % offset) for offset in (0, 2)]
    ledger.read_back(TopicPartition("t", 0), records, 3, [])
    assert (ledger.violations == []) is is_right


def coordinator(image: ClusterImage, partitions: Any) -> RunningNode:
    parts = SimpleNamespace(context=SimpleNamespace(image=image))
    return cast(
        "RunningNode", SimpleNamespace(is_broker=True, parts=parts, broker=SimpleNamespace(partitions=partitions))
    )


def test_a_coordinator_that_was_replaced_and_does_not_know_it_need_not_know_of_commits(tmp_path: Path) -> None:
    ledger = Ledger(Trace(lambda: 0.0), flushes_each=True, replicas=2)
    metadata = topic_records(CONSUMER_OFFSETS)
    with node_on(tmp_path, *metadata) as node:
        ledger.agreement.newest = node.image
        ledger.started(f"node{NODE_ID}", coordinator(node.image, node.table), {})
        ledger.commit_acknowledged("g", TopicPartition("t0", 0), 196)
        assert ledger.promised_offsets("g") == STANDS
        assert ledger.promised_offsets("other") == {}
        newer = ClusterImage(node.image.cluster_id)
        for record in metadata:
            newer.apply(record)
        topic = newer.topics_by_id[TOPIC_ID]
        topic.partitions[0] = topic.partitions[0]._replace(leader=NODE_ID + 1, leader_epoch=4)
        ledger.agreement.newest = newer
        assert ledger.promised_offsets("g") == {}
        ledger.crashing(f"node{NODE_ID}", None, power_lost=False)
        assert ledger.promised_offsets("g") == STANDS
