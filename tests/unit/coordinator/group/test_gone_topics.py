"""What groups have in topics that are deleted goes some at a time."""

from uuid import UUID

import pytest
from tests.unit.coordinator.group.slow_log import RETENTION_MS, Log

from penstock.coordinator.group import removal
from penstock.coordinator.group.records import TOMBSTONES_AT_ONCE
from penstock.coordinator.group.removal import RETRY_MS
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import TopicRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)


def test_a_deleted_topic_takes_the_offsets_of_all_groups_in_few_batches_and_others_run_in_between() -> None:
    log = Log()
    for number in range(30):
        log.commit(f"group-{number}", TOMBSTONES_AT_ONCE // 20)
    assert log.shard.forget_topics(["flights"], 0) == [], "all coordinators of a node are told in one turn"
    sizes = []
    for now_ms in range(3):
        log.take(log.shard.wake(now_ms))
        sizes.append([len(append.records) for append in log.appends])
        while log.appends:
            log.settle()
    assert sizes == [[TOMBSTONES_AT_ONCE], [TOMBSTONES_AT_ONCE // 2], []]
    assert [*log.shard._table.topics()] == []


def test_where_a_topic_is_deleted_no_other_is_looked_at() -> None:
    """A metadata batch may delete one topic after the other, and each coordinator of a node hears of each."""
    log = Log()
    log.commit("first", 3)
    log.commit("second", 2, topic="trains")
    log.take(log.shard.forget_topics(["trains", "ships"], 0))
    log.take(log.shard.wake(0))
    log.settle()
    assert [*log.shard._table.topics()] == ["flights"]
    log.take(log.shard.forget_topics(["ships"], 0))
    assert log.shard.next_deadline_ms() == RETENTION_MS


def test_topics_that_may_be_gone_are_looked_for_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "TOPICS_AT_ONCE", 2)
    image = ClusterImage()
    image.apply(FLIGHTS)
    log = Log(image)
    for topic in ("trains", "flights", "ships", "cars"):
        log.commit("first", 1, topic=topic)
    assert log.shard.forget_topics(None, 0) == []
    sizes = []
    for now_ms in range(3):
        log.take(log.shard.wake(now_ms))
        sizes.append([len(append.records) for append in log.appends])
    assert sizes == [[], [], [3]]
    log.settle()
    assert [*log.shard._table.topics()] == ["flights"]


def test_what_could_not_be_taken_away_with_its_topic_is_tried_again() -> None:
    log = Log()
    log.commit("first", TOMBSTONES_AT_ONCE)
    log.commit("second", 1)
    log.take(log.shard.forget_topics(["flights"], 0))
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
    assert [*log.shard._table.topics()] == []
    assert log.shard.next_deadline_ms() == RETENTION_MS


FLIGHTS = TopicRecord(name="flights", topic_id=UUID(int=1))


def test_a_topic_that_has_come_again_meanwhile_has_no_offsets_but_those_committed_since() -> None:
    image = ClusterImage()
    log = Log(image)
    log.commit("first", TOMBSTONES_AT_ONCE)
    log.commit("second", 3)
    log.take(log.shard.forget_topics(["flights"], 10))
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
    log.take(log.shard.forget_topics(["flights"], 10))
    image.apply(FLIGHTS)
    log.take(log.shard.wake(10))
    assert len(log.appends) == 1


def test_what_could_not_be_taken_away_goes_also_if_its_topic_has_come_again() -> None:
    image = ClusterImage()
    log = Log(image)
    log.commit("first", 2)
    log.take(log.shard.forget_topics(["flights"], 10))
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
    log.take(log.shard.forget_topics(["flights"], 10))
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


def test_what_a_transaction_commits_in_a_topic_that_has_come_again_keeps_that_where_another_topic_is_gone() -> None:
    image = ClusterImage()
    log = Log(image)
    log.commit("first", 1)
    log.commit("first", 1, topic="trains")
    log.take(log.shard.forget_topics(["flights", "trains"], 10))
    image.apply(FLIGHTS)
    partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=5)]
    topics = [OffsetCommitRequestTopic(name="flights", partitions=partitions)]
    log.take(log.shard.commit_pending("commit", OffsetCommitRequest(group_id="first", topics=topics), 7, 0, 11))
    log.take(log.shard.wake(11))
    assert [len(append.records) for append in log.appends] == [1, 1], (
        "what is pending, and the end of the other topic's"
    )
    while log.appends:
        log.settle()
    assert [*log.shard.offsets("first")] == ["flights"]


def test_offsets_that_are_being_taken_away_are_not_taken_away_twice() -> None:
    log = Log()
    log.commit("orders", 3)
    log.take(log.shard.forget_topics(["flights"], 0))
    log.take(log.shard.forget_topics(["flights"], 0))
    log.take(log.shard.wake(0))
    assert [len(append.records) for append in log.appends] == [3]
