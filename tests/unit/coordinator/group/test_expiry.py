"""What time takes away goes some at a time, and others run in between."""

import pytest
from tests.unit.coordinator.group.slow_log import RETENTION_MS, Log

from penstock.coordinator.group.records import TOMBSTONES_AT_ONCE
from penstock.coordinator.group.removal import EXPIRED_AT_ONCE
from penstock.coordinator.group.table import GroupTable
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)


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


def test_a_transaction_keeps_its_own_offset_from_expiring_and_no_other() -> None:
    log = Log()
    for name in ("first", "second"):
        log.commit(name, 2)
    partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=5)]
    topics = [OffsetCommitRequestTopic(name="flights", partitions=partitions)]
    log.take(log.shard.commit_pending("commit", OffsetCommitRequest(group_id="second", topics=topics), 7, 0, 1))
    log.settle()
    log.take(log.shard.wake(RETENTION_MS))
    while log.appends:
        log.settle()
    assert [group.group_id for group in log.shard.list_groups()] == ["second"]
    assert [*log.shard.offsets("second")["flights"]] == [0]
