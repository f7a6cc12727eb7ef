"""Offsets in transactions: seen by nobody before the marker is committed, and then all or none."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from tests.unit.coordinator.group.test_commit import JOIN

from penstock.coordinator.effects import Append, Effect, End, Part, Reply
from penstock.coordinator.group.classic.member import Caller
from penstock.coordinator.group.image import GroupImage, PendingOffsets, Place
from penstock.coordinator.group.records import (
    AnyRecord,
    CommittedOffset,
    GroupMetadataValue,
    GroupRecord,
    OffsetRecord,
    PendingRecord,
)
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.shards.groups import GroupShard
from penstock.metadata.image import ClusterImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.join_group import JoinGroupResponse
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from penstock.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

PRODUCER, EPOCH = 8, 3
INTERVAL_MS = 20_000


class Groups:
    """A shard whose writes are committed, or fail, when the test says so."""

    def __init__(self) -> None:
        self.shard = GroupShard(
            GroupSettings(offsets_retention_ms=1, offsets_retention_check_interval_ms=INTERVAL_MS),
            Random(1),
            ClusterImage(),
        )
        self.under_way: list[Append] = []
        self.replies: list[object] = []
        self.take(self.shard.loaded(0))

    def take(self, effects: list[Effect]) -> None:
        self.under_way += [effect for effect in effects if isinstance(effect, Append)]
        self.replies += [effect.response for effect in effects if isinstance(effect, Reply)]

    def write_one(self, error: ErrorCode = ErrorCode.NONE) -> Append:
        append = self.under_way.pop(0)
        if error is not ErrorCode.NONE:
            self.under_way.clear()
        self.take(self.shard.appended(append.write_id, error, 0))
        return append

    def write_all(self) -> None:
        while self.under_way:
            self.write_one()

    def commit(self, offset: int, *, producer: int | None = None, partition: int = 0, **who: Any) -> None:
        wanted = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        topics = [OffsetCommitRequestTopic(name="flights", partitions=[wanted])]
        request = OffsetCommitRequest(group_id="readers", topics=topics, **who)
        if producer is None:
            self.take(self.shard.commit("token", request, 8, 0))
        else:
            self.take(self.shard.commit_pending("token", request, producer, EPOCH, 0))

    def end(self, *, is_commit: bool, producer: int = PRODUCER) -> None:
        self.take(self.shard.end_transaction("token", Part(producer, EPOCH, End(7, is_commit)), 0))

    @property
    def offsets(self) -> dict[int, int]:
        return {index: one.offset for index, one in self.shard.offsets("readers").get("flights", {}).items()}

    @property
    def is_pending(self) -> bool:
        return self.shard.is_pending("readers", "flights", 0)


@pytest.mark.parametrize("is_commit", [True, False])
def test_they_count_when_the_marker_is_committed(is_commit: bool) -> None:
    groups = Groups()
    groups.commit(5)
    groups.commit(9, producer=PRODUCER)
    assert not groups.is_pending, "the write is not committed"
    groups.write_one()
    assert groups.write_one().part == Part(PRODUCER, EPOCH)
    assert (groups.offsets, groups.is_pending) == ({0: 5}, True)
    groups.end(is_commit=is_commit)
    assert (groups.offsets, groups.is_pending) == ({0: 5}, True), "the marker is not committed"
    marker = groups.write_one()
    assert (marker.records, marker.part) == ([], Part(PRODUCER, EPOCH, End(7, is_commit)))
    assert (groups.offsets, groups.is_pending) == ({0: 9 if is_commit else 5}, False)
    assert groups.replies[-1] is ErrorCode.NONE


def test_each_producer_ends_its_own() -> None:
    groups = Groups()
    groups.commit(9, producer=PRODUCER)
    groups.commit(11, producer=PRODUCER + 1)
    groups.end(is_commit=True, producer=PRODUCER + 1)
    groups.write_all()
    assert (groups.offsets, groups.is_pending) == ({0: 11}, True)


def test_a_marker_that_is_not_written_leaves_all_pending() -> None:
    groups = Groups()
    groups.commit(9, producer=PRODUCER)
    groups.write_all()
    groups.end(is_commit=True)
    groups.write_one(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    assert groups.replies[-1] is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert (groups.offsets, groups.is_pending) == ({}, True)


def test_what_fails_is_pending_nowhere() -> None:
    groups = Groups()
    groups.commit(9, producer=PRODUCER)
    groups.write_one(ErrorCode.NOT_ENOUGH_REPLICAS)
    groups.end(is_commit=True)
    groups.write_all()
    assert (groups.offsets, groups.is_pending) == ({}, False)


def test_a_later_commit_without_a_transaction_stays() -> None:
    groups = Groups()
    groups.commit(9, producer=PRODUCER)
    groups.commit(9, producer=PRODUCER, partition=1)
    groups.commit(5)
    groups.end(is_commit=True)
    groups.write_all()
    assert groups.offsets == {0: 5, 1: 9}


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS])
def test_a_commit_behind_the_marker_is_newer_and_where_it_fails_the_marker_counts(error: ErrorCode) -> None:
    groups = Groups()
    groups.commit(9, producer=PRODUCER)
    groups.write_all()
    groups.end(is_commit=True)
    groups.commit(12)
    groups.write_one()
    assert groups.offsets == {0: 9}, "what is decided is not committed"
    groups.write_one(error)
    assert groups.offsets == {0: 12 if error is ErrorCode.NONE else 9}


def test_the_next_coordinator_finds_them_in_the_log() -> None:
    groups = Groups()
    value = CommittedOffset(9, -1, "", 0)
    for partition, is_overtaken in ((0, False), (1, True)):
        key, encoded = OffsetRecord("readers", "flights", partition, value).encode()
        assert encoded is not None
        groups.shard.read_pending(PRODUCER, key, encoded, is_overtaken=is_overtaken)
    assert groups.is_pending
    groups.end(is_commit=True)
    groups.write_all()
    assert groups.offsets == {0: 9}


def test_an_offset_with_a_transaction_does_not_expire() -> None:
    groups = Groups()
    groups.commit(5)
    groups.commit(9, producer=PRODUCER)
    groups.write_all()
    for _ in range(2):
        groups.take(groups.shard.wake(groups.shard.next_deadline_ms() or 0))
        groups.write_all()
    assert groups.offsets == {0: 5}
    groups.end(is_commit=False)
    groups.write_all()
    groups.take(groups.shard.wake(groups.shard.next_deadline_ms() or 0))
    groups.write_all()
    assert (groups.offsets, [*groups.shard.list_groups()]) == ({}, [])


def test_members_of_another_generation_are_refused_and_who_names_none_is_not() -> None:
    groups = Groups()
    caller = Caller("test", "127.0.0.1", 3)
    groups.take(groups.shard.join("token", JOIN.replace(group_id="readers"), caller, 0))
    groups.take(groups.shard.wake(groups.shard.next_deadline_ms() or 0))
    joined = next(reply for reply in groups.replies if isinstance(reply, JoinGroupResponse))

    def code(**who: Any) -> int:
        groups.commit(9, producer=PRODUCER, **who)
        groups.write_all()
        return groups.replies[-1].topics[0].partitions[0].error_code  # type: ignore[attr-defined,no-any-return]

    member: dict[str, Any] = {"member_id": joined.member_id}
    assert code() == ErrorCode.NONE
    assert code(**member, generation_id_or_member_epoch=joined.generation_id) == ErrorCode.NONE
    assert code(**member, generation_id_or_member_epoch=joined.generation_id + 1) == ErrorCode.ILLEGAL_GENERATION
    assert code(member_id="somebody", generation_id_or_member_epoch=1) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("is_later_first", [True, False])
def test_of_two_producers_the_offset_that_was_written_last_counts_whoever_ends_first(is_later_first: bool) -> None:
    groups = Groups()
    groups.commit(9, producer=PRODUCER)
    groups.commit(11, producer=PRODUCER + 1)
    groups.commit(10, producer=PRODUCER)
    for producer in (PRODUCER, PRODUCER + 1) if is_later_first else (PRODUCER + 1, PRODUCER):
        groups.end(is_commit=True, producer=producer)
    groups.write_all()
    assert groups.offsets == {0: 10}


def test_an_earlier_offset_counts_where_the_later_transaction_is_aborted() -> None:
    groups = Groups()
    groups.commit(9, producer=PRODUCER)
    groups.commit(11, producer=PRODUCER + 1)
    groups.end(is_commit=False, producer=PRODUCER + 1)
    groups.end(is_commit=True)
    groups.write_all()
    assert groups.offsets == {0: 9}


def _delete_group(groups: Groups) -> None:
    groups.take(groups.shard.delete_group("token", "readers", 0))


def _delete_offset(groups: Groups) -> None:
    topic = OffsetDeleteRequestTopic(name="flights", partitions=[OffsetDeleteRequestPartition(partition_index=0)])
    request = OffsetDeleteRequest(group_id="readers", topics=[topic])
    groups.take(groups.shard.delete_offsets("token", request, 0))


def _delete_topic(groups: Groups) -> None:
    assert [*groups.shard._table.topics()] == ["flights"]
    groups.take(groups.shard.forget_topics(["flights"], 0))
    groups.take(groups.shard.wake(0))


@pytest.mark.parametrize("is_reloaded", [False, True])
@pytest.mark.parametrize("delete", [_delete_group, _delete_offset, _delete_topic])
def test_what_is_deleted_does_not_come_back_with_the_end_of_a_transaction(
    delete: Callable[[Groups], None], is_reloaded: bool
) -> None:
    groups = Groups()
    if is_reloaded:
        key, value = OffsetRecord("readers", "flights", 0, CommittedOffset(9, -1, "", 0)).encode()
        assert value is not None
        groups.shard.read_pending(PRODUCER, key, value, is_overtaken=False)
        groups.take(groups.shard.loaded(0))
    else:
        groups.commit(9, producer=PRODUCER)
        groups.write_all()
    delete(groups)
    assert {value for append in groups.under_way for _, value in append.records} == {None}
    groups.end(is_commit=True)
    groups.write_all()
    assert groups.offsets == {}


@pytest.mark.parametrize("delete", [_delete_group, _delete_offset, _delete_topic])
def test_nor_does_what_is_deleted_before_the_pending_offset_is_committed(delete: Callable[[Groups], None]) -> None:
    groups = Groups()
    groups.commit(9, producer=PRODUCER)
    delete(groups)
    assert {value for append in groups.under_way[1:] for _, value in append.records} == {None}
    groups.write_all()
    groups.end(is_commit=True)
    groups.write_all()
    assert groups.offsets == {}


def test_an_offset_about_to_be_pending_keeps_what_is_there_from_expiring() -> None:
    groups = Groups()
    groups.commit(5)
    groups.write_all()
    groups.commit(9, producer=PRODUCER)
    groups.take(groups.shard.wake(groups.shard.next_deadline_ms() or 0))
    for _ in range(2):
        groups.take(groups.shard.wake(INTERVAL_MS))
    groups.write_all()
    groups.end(is_commit=True)
    groups.write_all()
    assert groups.offsets == {0: 9}


def test_a_group_with_an_offset_about_to_be_pending_is_not_forgotten_with_an_aborted_one() -> None:
    groups = Groups()
    groups.commit(9, producer=PRODUCER)
    groups.write_all()
    groups.end(is_commit=False)
    groups.commit(11, producer=PRODUCER + 1)
    groups.write_one()
    assert [listed.group_id for listed in groups.shard.list_groups()] == ["readers"]


def test_many_offsets_come_true_in_one_pass_over_what_is_under_way() -> None:
    passes = []

    class Counted(list[AnyRecord]):
        def __iter__(self) -> Iterator[AnyRecord]:
            passes.append(self)
            return super().__iter__()

    groups = Groups()
    for partition in range(20):
        groups.commit(9, producer=PRODUCER, partition=partition)
    groups.write_all()
    groups.end(is_commit=True)
    other = OffsetRecord("others", "flights", 0, CommittedOffset(1, -1, "", 0))
    draft = groups.shard.agenda.draft()
    draft.records = Counted()
    draft.put(other)
    groups.shard.agenda.append_draft(draft, 0)
    passes.clear()
    groups.write_one()
    assert (len(groups.offsets), len(passes)) == (20, 1)


def test_a_member_of_a_group_that_is_not_there_is_told_so() -> None:
    groups = Groups()
    groups.commit(7, producer=PRODUCER, member_id="somebody", generation_id_or_member_epoch=3)
    (answer,) = groups.replies
    assert isinstance(answer, OffsetCommitResponse)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_deleted_topic_has_nobody_look_at_what_is_pending_in_others(monkeypatch: pytest.MonkeyPatch) -> None:
    image = GroupImage()
    committed = CommittedOffset(1, -1, "", 0)
    for number in range(100):
        image.pending.add(PendingRecord(number, "readers", f"t{number}", 0, committed))
    looked_at: list[Place] = []
    may_come = PendingOffsets.may_come

    def looks(self: PendingOffsets, place: Place) -> bool:
        looked_at.append(place)
        return may_come(self, place)

    monkeypatch.setattr(PendingOffsets, "may_come", looks)
    assert list(image.places_in("t7")) == looked_at == [("readers", "t7", 0)]
    assert len([*image.topics()]) == 100
    image.pending.end(7, is_commit=False)
    assert list(image.places_in("t7")) == []
    assert len([*image.topics()]) == 99


def test_of_a_transaction_offsets_alone_are_read() -> None:
    shard = Groups().shard
    value = GroupMetadataValue(protocol_type="consumer", generation=1, protocol=None, leader=None)
    key, encoded = GroupRecord("g", value).encode()
    assert encoded is not None
    shard.read_pending(PRODUCER, key, encoded, is_overtaken=False)
    assert not shard.is_pending("g", "", 0)
