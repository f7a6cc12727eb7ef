"""Deletions of very many offsets are cut into batches that a log takes, and expiry lets others run in between."""

from random import Random
from uuid import UUID

import pytest
from tests.unit.coordinator.ahead import looks_ahead

from penstock.coordinator.effects import Append, Effect, Reply
from penstock.coordinator.group.records import TOMBSTONES_AT_ONCE, GroupMetadataValue, GroupRecord
from penstock.coordinator.group.removal import EXPIRED_AT_ONCE, RETRY_MS
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.group.table import GroupTable
from penstock.coordinator.shards.groups import GroupShard
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import TopicRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

RETENTION_MS = 60_000


class Log:
    """A shard whose writes are committed when a test says so."""

    def __init__(self, image: ClusterImage | None = None) -> None:
        settings = GroupSettings(offsets_retention_ms=RETENTION_MS, offsets_retention_check_interval_ms=RETENTION_MS)
        self.shard = GroupShard(settings, Random(1), image or ClusterImage())
        self.now_ms = 0
        looks_ahead(self.shard, lambda: self.now_ms)
        self.shard.loaded(0)
        self.appends: list[Append] = []
        self.answers: list[object] = []

    def take(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Append):
                self.appends.append(effect)
            elif isinstance(effect, Reply):
                self.answers.append(effect.response)

    def settle(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """The oldest write is committed, or fails, and later ones with it."""
        write_id = self.appends.pop(0).write_id
        if error is not ErrorCode.NONE:
            self.appends.clear()
        self.take(self.shard.appended(write_id, error, 0))

    def run(self) -> list[int]:
        """What is under way, until it is answered: how many records there are in what each turn writes."""
        sizes = []
        for now_ms in range(1, 100):
            sizes += [sum(len(append.records) for append in self.appends)]
            while self.appends:
                self.settle()
            if self.answers:
                break
            self.now_ms = now_ms
            self.take(self.shard.wake(now_ms))
        return sizes

    def commit(self, group_id: str, count: int, first: int = 0, now_ms: int = 0) -> None:
        indexes = range(first, first + count)
        partitions = [OffsetCommitRequestPartition(partition_index=n, committed_offset=n) for n in indexes]
        topics = [OffsetCommitRequestTopic(name="flights", partitions=partitions)]
        self.take(self.shard.commit("commit", OffsetCommitRequest(group_id=group_id, topics=topics), 8, now_ms))
        self.settle()
        self.answers.clear()

    def offsets(self, group_id: str) -> int:
        return sum(len(partitions) for partitions in self.shard.offsets(group_id).values())


def test_a_large_group_is_deleted_in_batches_and_others_run_in_between() -> None:
    log = Log()
    log.commit("large", 2 * TOMBSTONES_AT_ONCE + 5)
    log.take(log.shard.delete_group("delete", "large", 0))
    assert log.run() == [TOMBSTONES_AT_ONCE, TOMBSTONES_AT_ONCE, 6]
    assert log.answers == [ErrorCode.NONE]
    assert [*log.shard.list_groups()] == []


@pytest.mark.parametrize(("offsets", "last"), [(-2, []), (-1, []), (0, [1])])
def test_a_deletion_has_no_empty_batch(offsets: int, last: list[int]) -> None:
    log = Log()
    log.commit("large", TOMBSTONES_AT_ONCE + offsets)
    log.take(log.shard.delete_group("delete", "large", 0))
    assert log.run() == [min(TOMBSTONES_AT_ONCE + offsets + 1, TOMBSTONES_AT_ONCE), *last]


def test_nothing_is_left_of_a_deletion_when_another_node_goes_on() -> None:
    log = Log()
    log.commit("orders", 1)
    log.take(log.shard.delete_group("delete", "orders", 0))
    log.take(log.shard.unload(0))
    assert log.answers == [ErrorCode.NOT_COORDINATOR]
    assert [*log.shard.list_groups()] == []


def test_who_waits_for_a_deletion_is_answered_where_another_node_goes_on_between_two_batches() -> None:
    log = Log()
    log.commit("large", 2 * TOMBSTONES_AT_ONCE)
    log.take(log.shard.delete_group("delete", "large", 0))
    log.settle()
    log.take(log.shard.unload(0))
    assert log.answers == [ErrorCode.NOT_COORDINATOR]


@pytest.mark.parametrize(("fails", "written"), [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])
def test_a_batch_that_fails_leaves_the_group_with_what_it_and_later_ones_would_have_taken(
    fails: int, written: int
) -> None:
    log = Log()
    log.commit("large", 2 * TOMBSTONES_AT_ONCE + 5)
    log.take(log.shard.delete_group("delete", "large", 0))
    for now_ms in range(1, written):
        log.take(log.shard.wake(now_ms))
    sizes = [TOMBSTONES_AT_ONCE, TOMBSTONES_AT_ONCE, 5]
    for _ in range(fails):
        log.settle()
    log.settle(ErrorCode.NOT_ENOUGH_REPLICAS)
    log.take(log.shard.wake(written))
    assert (log.answers, log.appends) == ([ErrorCode.COORDINATOR_NOT_AVAILABLE], [])
    assert log.offsets("large") == sum(sizes[fails:])
    (group,) = log.shard.list_groups()
    assert (group.group_id, group.group_state) == ("large", "Empty")
    log.answers.clear()
    log.take(log.shard.delete_group("again", "large", 0))
    log.run()
    assert log.answers == [ErrorCode.NONE]
    assert [*log.shard.list_groups()] == []


def test_what_expires_of_a_large_group_goes_some_at_a_time_and_what_is_committed_meanwhile_stays() -> None:
    log = Log()
    log.commit("large", TOMBSTONES_AT_ONCE + 5)
    log.commit("large", 1, first=TOMBSTONES_AT_ONCE + 5, now_ms=RETENTION_MS)
    log.take(log.shard.wake(RETENTION_MS))
    assert [len(append.records) for append in log.appends] == [TOMBSTONES_AT_ONCE]
    log.settle()
    log.commit("large", 2, first=TOMBSTONES_AT_ONCE, now_ms=RETENTION_MS)
    log.take(log.shard.wake(RETENTION_MS + 1))
    assert [len(append.records) for append in log.appends] == [3]
    log.settle()
    assert sorted(log.shard.offsets("large")["flights"]) == [TOMBSTONES_AT_ONCE + n for n in (0, 1, 5)]


def test_expiry_looks_at_some_groups_at_a_time() -> None:
    log = Log()
    groups = [f"group-{number}" for number in range(10)]
    for group_id in groups:
        log.commit(group_id, EXPIRED_AT_ONCE // 2)
    now_ms, turns = RETENTION_MS, []
    while [*log.shard.list_groups()]:
        log.take(log.shard.wake(now_ms))
        turns.append([len(append.records) for append in log.appends])
        while log.appends:
            log.settle()
        deadline_ms = log.shard.next_deadline_ms()
        assert deadline_ms is not None
        now_ms = deadline_ms
    assert turns == [[TOMBSTONES_AT_ONCE], *([[2, TOMBSTONES_AT_ONCE]] * 4), [2]], "two groups, and their rest"


def test_many_small_groups_expire_some_at_a_time_and_are_written_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a group takes longer than a look at an offset, and a write longer than a group's part of it."""
    log = Log()
    for number in range(2_000):
        log.commit(f"group-{number}", 1)
    looks = [0]
    coming = GroupTable.coming

    def counted(table: GroupTable) -> object:
        looks[-1] += 1
        return coming(table)

    monkeypatch.setattr(GroupTable, "coming", counted)
    turns = []
    for now_ms in range(RETENTION_MS, RETENTION_MS + 101):
        log.take(log.shard.wake(now_ms))
        turns.append([len(append.records) for append in log.appends])
        looks.append(0)
        while log.appends:
            log.settle()
    assert turns == [*([[2 * 20]] * 100), []]
    assert [*log.shard.list_groups()] == []
    assert set(looks) == {0, 1}, "for all groups that a turn looks at"


def test_what_expires_in_many_groups_that_stay_is_written_together() -> None:
    log = Log()
    for number in range(300):
        log.commit(f"group-{number}", 1)
        log.commit(f"group-{number}", 1, first=1, now_ms=RETENTION_MS)
    log.take(log.shard.wake(RETENTION_MS))
    assert [len(append.records) for append in log.appends] == [300]


def test_groups_that_expire_in_vain_are_there_again() -> None:
    log = Log()
    for name in ("first", "second"):
        log.commit(name, 2)
    log.take(log.shard.wake(RETENTION_MS))
    assert [len(append.records) for append in log.appends] == [6]
    log.settle(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert [group.group_id for group in log.shard.list_groups()] == ["first", "second"]
    assert [log.offsets(name) for name in ("first", "second")] == [2, 2]


def test_expiry_looks_at_some_offsets_of_a_large_group_at_a_time() -> None:
    log = Log()
    log.commit("large", 2 * EXPIRED_AT_ONCE, now_ms=RETENTION_MS)
    log.commit("large", 5, first=2 * EXPIRED_AT_ONCE)
    log.commit("small", 1)
    turns = []
    for now_ms in range(RETENTION_MS, RETENTION_MS + 4):
        log.take(log.shard.wake(now_ms))
        turns.append([len(append.records) for append in log.appends])
        while log.appends:
            log.settle()
    assert turns == [[], [], [5, 2], []]
    assert log.offsets("large") == 2 * EXPIRED_AT_ONCE
    assert [group.group_id for group in log.shard.list_groups()] == ["large"]


@pytest.mark.parametrize("offsets", [2 * EXPIRED_AT_ONCE, 2 * EXPIRED_AT_ONCE + 5])
def test_a_large_group_goes_with_its_last_offsets(offsets: int) -> None:
    log = Log()
    log.commit("large", offsets)
    turns = []
    for now_ms in range(RETENTION_MS, RETENTION_MS + 3):
        log.take(log.shard.wake(now_ms))
        turns.append([len(append.records) for append in log.appends])
    assert turns == [[EXPIRED_AT_ONCE], [EXPIRED_AT_ONCE] * 2, [EXPIRED_AT_ONCE] * 2 + [offsets % EXPIRED_AT_ONCE + 1]]
    while log.appends:
        log.settle()
    assert [*log.shard.list_groups()] == []


def test_a_large_group_whose_offsets_expire_in_vain_stays() -> None:
    log = Log()
    log.commit("large", EXPIRED_AT_ONCE + 5)
    for now_ms in (RETENTION_MS, RETENTION_MS + 1):
        log.take(log.shard.wake(now_ms))
    log.settle(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert log.offsets("large") == EXPIRED_AT_ONCE + 5
    assert [group.group_id for group in log.shard.list_groups()] == ["large"]


def test_expiry_begins_anew_after_its_last_turn() -> None:
    log = Log()
    log.commit("first", 1)
    log.take(log.shard.wake(RETENTION_MS))
    log.settle()
    assert log.shard.next_deadline_ms() == 2 * RETENTION_MS


def test_a_deleted_topic_takes_the_offsets_of_all_groups_in_few_batches_and_others_run_in_between() -> None:
    log = Log()
    for number in range(30):
        log.commit(f"group-{number}", TOMBSTONES_AT_ONCE // 20)
    assert log.shard.forget_topics(0) == [], "all coordinators of a node are told in one turn"
    sizes = []
    for now_ms in range(3):
        log.take(log.shard.wake(now_ms))
        sizes.append([len(append.records) for append in log.appends])
        while log.appends:
            log.settle()
    assert sizes == [[TOMBSTONES_AT_ONCE], [TOMBSTONES_AT_ONCE // 2], []]
    assert log.shard._table.topics() == []


def test_what_could_not_be_taken_away_with_its_topic_is_tried_again() -> None:
    log = Log()
    log.commit("first", TOMBSTONES_AT_ONCE)
    log.commit("second", 1)
    log.take(log.shard.forget_topics(0))
    for now_ms in range(2):
        log.take(log.shard.wake(now_ms))
    assert len(log.appends) == 2
    log.settle(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert log.offsets("first") == TOMBSTONES_AT_ONCE
    assert log.shard.next_deadline_ms() == RETRY_MS, "once for all that failed"
    for now_ms in range(RETRY_MS, RETRY_MS + 2):
        log.take(log.shard.wake(now_ms))
        while log.appends:
            log.settle()
    assert log.shard._table.topics() == []
    assert log.shard.next_deadline_ms() == RETENTION_MS


FLIGHTS = TopicRecord(name="flights", topic_id=UUID(int=1))


def test_a_topic_that_has_come_again_meanwhile_has_no_offsets_but_those_committed_since() -> None:
    image = ClusterImage()
    log = Log(image)
    log.commit("first", TOMBSTONES_AT_ONCE)
    log.commit("second", 3)
    log.take(log.shard.forget_topics(10))
    log.take(log.shard.wake(10))
    image.apply(FLIGHTS)
    log.commit("second", 1, now_ms=11)
    log.take(log.shard.wake(11))
    while log.appends:
        log.settle()
    assert [*log.shard.offsets("second")["flights"]] == [0]
    assert log.offsets("first") == 0


def test_a_topic_that_has_come_again_before_anything_was_taken_away_has_no_offsets_either() -> None:
    image = ClusterImage()
    log = Log(image)
    log.commit("first", 1)
    log.take(log.shard.forget_topics(10))
    image.apply(FLIGHTS)
    log.take(log.shard.wake(10))
    assert len(log.appends) == 1


def test_what_could_not_be_taken_away_goes_also_if_its_topic_has_come_again() -> None:
    image = ClusterImage()
    log = Log(image)
    log.commit("first", 2)
    log.take(log.shard.forget_topics(10))
    log.take(log.shard.wake(10))
    log.settle(ErrorCode.NOT_ENOUGH_REPLICAS)
    image.apply(FLIGHTS)
    log.commit("first", 1, now_ms=RETRY_MS)
    log.take(log.shard.wake(10 + RETRY_MS))
    log.settle()
    assert [*log.shard.offsets("first")["flights"]] == [0]


@pytest.mark.parametrize(
    ("topic_id", "now_ms", "stays"),
    [(UUID(int=0), 9, False), (UUID(int=0), 10, True), (UUID(int=1), 9, True), (UUID(int=2), 10, False)],
)
@pytest.mark.parametrize("producer_id", [None, 7])
@pytest.mark.parametrize("is_written", [True, False])
def test_an_offset_is_of_the_topic_that_it_names_or_that_was_there_when_it_was_committed(
    topic_id: UUID, now_ms: int, stays: bool, producer_id: int | None, is_written: bool
) -> None:
    """Also one of a transaction that is open. The topic was gone at 10."""
    image = ClusterImage()
    log = Log(image)
    log.commit("first", TOMBSTONES_AT_ONCE)
    log.commit("second", 1)
    log.take(log.shard.forget_topics(10))
    log.take(log.shard.wake(10))
    log.settle()
    image.apply(FLIGHTS)
    partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=5)]
    topics = [OffsetCommitRequestTopic(name="flights", topic_id=topic_id, partitions=partitions)]
    request = OffsetCommitRequest(group_id="second", topics=topics)
    if producer_id is None:
        log.take(log.shard.commit("commit", request, 10, now_ms))
    else:
        log.take(log.shard.commit_pending("commit", request, producer_id, 0, now_ms))
    if is_written:
        log.settle()
    written = len(log.appends)
    log.take(log.shard.wake(11))
    assert len(log.appends) - written == (0 if stays else 1)


def test_a_group_without_offsets_is_there_again_when_its_deletion_fails() -> None:
    shard = GroupShard(GroupSettings(), Random(1), ClusterImage())
    shard.read(*GroupRecord("bare", GroupMetadataValue(protocol_type="consumer")).encode())
    shard.loaded(0)
    (append,) = shard.delete_group("delete", "bare", 0)
    assert isinstance(append, Append)
    shard.appended(append.write_id, ErrorCode.NOT_ENOUGH_REPLICAS, 0)
    assert [group.group_id for group in shard.classic_groups()] == ["bare"]


def test_a_deletion_takes_along_what_is_being_committed() -> None:
    log = Log()
    partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=7)]
    topics = [OffsetCommitRequestTopic(name="flights", partitions=partitions)]
    log.take(log.shard.commit("commit", OffsetCommitRequest(group_id="orders", topics=topics), 8, 0))
    log.take(log.shard.delete_group("delete", "orders", 0))
    log.settle()
    log.settle()
    assert log.answers[-1] is ErrorCode.NONE
    assert log.shard.offsets("orders") == {}
    assert [*log.shard.list_groups()] == []


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS])
def test_an_offset_that_is_being_deleted_is_not_called_gone(error: ErrorCode) -> None:
    log = Log()
    log.commit("orders", 1)
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    topics = [OffsetDeleteRequestTopic(name="flights", partitions=partitions)]
    for token in ("first", "second"):
        log.take(log.shard.delete_offsets(token, OffsetDeleteRequest(group_id="orders", topics=topics), 0))
    assert len(log.appends) == 1
    assert log.answers == []
    log.settle(error)
    expected = ErrorCode.NONE if error is ErrorCode.NONE else ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert [answer.error_code for answer in log.answers] == [expected] * 2  # type: ignore[attr-defined]
    assert log.offsets("orders") == (error is not ErrorCode.NONE)


def test_offsets_that_are_being_taken_away_are_not_taken_away_twice() -> None:
    log = Log()
    log.commit("orders", 3)
    log.take(log.shard.forget_topics(0))
    log.take(log.shard.forget_topics(0))
    log.take(log.shard.wake(0))
    assert [len(append.records) for append in log.appends] == [3]


def test_a_group_with_a_long_name_is_taken_away_in_batches_that_fit() -> None:
    log = Log()
    name = "g" * 32_000
    for begin in range(0, 60, 20):
        partitions = [OffsetCommitRequestPartition(partition_index=begin + n, committed_offset=n) for n in range(20)]
        topics = [OffsetCommitRequestTopic(name="flights", partitions=partitions)]
        log.take(log.shard.commit("commit", OffsetCommitRequest(group_id=name, topics=topics), 8, 0))
        log.settle()
    log.take(log.shard.delete_group("delete", name, 0))
    for now_ms in range(1, 10):
        log.take(log.shard.wake(now_ms))
    assert len(log.appends) > 1
    assert all(sum(len(key) for key, _ in append.records) < 1_000_000 for append in log.appends)
    while log.appends:
        log.settle()
    assert [*log.shard.list_groups()] == []
