"""What a share coordinator answers, what it writes for that, and what the next one finds."""

from typing import Any
from uuid import UUID

import pytest
from tests.unit.coordinator.share.bench import GROUP, PARTITIONS, TOPIC, Bench, batches

from penstock.coordinator.effects import Append
from penstock.coordinator.share.records import (
    UNREAD,
    SharePartitionKey,
    Snapshot,
    Update,
    decode_record,
    key_of,
)
from penstock.coordinator.share.settings import ShareCoordinatorSettings
from penstock.metadata.records import RemoveTopicRecord
from penstock.protocol.errors import DecodeError, ErrorCode
from penstock.protocol.messages.delete_share_group_state import PartitionData as DeletedPartition
from penstock.protocol.messages.initialize_share_group_state import PartitionData
from penstock.protocol.messages.read_share_group_state import StateBatch

FEW = ShareCoordinatorSettings(updates_per_snapshot=2)


def kinds(bench: Bench) -> list[str]:
    found = []
    for key, value in bench.log:
        record = decode_record(key, value)
        assert record is not None
        is_end = isinstance(record, Snapshot) and record.state is None
        found.append("end" if is_end else type(record).__name__)
    return found


def vars_of(batch: StateBatch) -> tuple[int, int, int, int]:
    return batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count


def test_what_is_written_is_read() -> None:
    bench = Bench()
    assert bench.initialize(start_offset=10).error_code == 0
    assert bench.write((10, 14, 2, 1), (16, 19, 0, 3), start_offset=10, count=5).error_code == 0
    told = bench.read()
    assert (told.start_offset, told.state_epoch) == (10, 1)
    assert [vars_of(one) for one in told.state_batches] == [(10, 14, 2, 1), (16, 19, 0, 3)]
    summary = bench.summary()
    assert (summary.start_offset, summary.delivery_complete_count, summary.leader_epoch) == (10, 5, 0)
    assert kinds(bench) == ["Snapshot", "Update"]


def test_updates_count_in_their_order_and_the_next_coordinator_finds_all() -> None:
    bench = Bench()
    bench.initialize()
    bench.write((0, 9, 0, 1))
    bench.write((3, 4, 2, 1))
    bench.write((0, 2, 2, 1), start_offset=3)
    before = bench.state()
    assert before is not None
    assert before.batches == batches((3, 4, 2, 1), (5, 9, 0, 1))
    bench.restart()
    assert bench.state() == before


def test_after_so_many_updates_comes_a_snapshot_of_all() -> None:
    bench = Bench(FEW)
    bench.initialize()
    for offset in range(4):
        bench.write((offset, offset, 2, 1))
    assert kinds(bench) == ["Snapshot", "Update", "Update", "Snapshot", "Update"]
    state = bench.state()
    assert state is not None
    assert (state.snapshot_epoch, state.updates, state.batches) == (1, 1, batches((0, 3, 2, 1)))
    bench.restart()
    assert bench.state() == state


@pytest.mark.parametrize(
    ("start_offset", "count", "kept"),
    [(30, 3, (30, 3)), (20, 3, (20, 7)), (20, 9, (20, 9)), (10, 9, (20, 7))],
    ids=["later", "the same, fewer", "the same, more", "earlier"],
)
def test_neither_the_start_nor_the_count_goes_back(start_offset: int, count: int, kept: tuple[int, int]) -> None:
    bench = Bench()
    bench.initialize(start_offset=20)
    bench.write(start_offset=20, count=7)
    bench.write(start_offset=start_offset, count=count)
    state = bench.state()
    assert state is not None
    assert (state.start_offset, state.delivery_complete_count) == kept


def test_what_begins_again_is_read_before_it_is_written() -> None:
    """A leader that goes on from what was there before the deletion, in whatever epochs, would lose records."""
    bench = Bench()
    bench.initialize(start_offset=0)
    bench.read(leader_epoch=3)
    bench.write((0, 9, 2, 1), leader_epoch=3)
    bench.delete()
    bench.initialize(start_offset=0)
    assert bench.summary().leader_epoch == UNREAD
    assert bench.write((0, 9, 2, 1), leader_epoch=3).error_code == ErrorCode.FENCED_STATE_EPOCH
    assert bench.read(leader_epoch=3).start_offset == 0
    assert bench.write((0, 9, 2, 1), leader_epoch=3).error_code == 0
    assert bench.summary().leader_epoch == 3


def test_a_leader_is_fenced_by_a_newer_one_that_reads() -> None:
    bench = Bench()
    bench.initialize()
    assert bench.read(leader_epoch=5).error_code == 0
    assert bench.write((0, 0, 2, 1), leader_epoch=4).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert bench.read(leader_epoch=4).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert bench.write((0, 0, 2, 1), leader_epoch=5).error_code == 0
    assert kinds(bench) == ["Snapshot", "Update", "Update"], "reading again with the same epoch writes nothing"
    bench.restart()
    assert bench.write((0, 0, 2, 1), leader_epoch=4).error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_a_state_that_began_anew_refuses_what_was_before() -> None:
    bench = Bench()
    bench.initialize(state_epoch=1)
    bench.read(leader_epoch=3)
    bench.initialize(state_epoch=2, start_offset=100)
    assert bench.write((0, 0, 2, 1), state_epoch=1, leader_epoch=3).error_code == ErrorCode.FENCED_STATE_EPOCH
    assert bench.initialize(state_epoch=1).error_code == ErrorCode.FENCED_STATE_EPOCH
    assert bench.read(leader_epoch=2).error_code == ErrorCode.FENCED_LEADER_EPOCH, "leaders stay fenced"
    state = bench.state()
    assert state is not None
    assert (state.start_offset, state.state_epoch, state.snapshot_epoch, state.batches) == (100, 2, 1, ())


def test_what_was_initialized_in_an_epoch_is_not_begun_anew_in_it() -> None:
    """The answer was lost, or the request came twice: meanwhile records were delivered."""
    bench = Bench()
    bench.initialize(state_epoch=1, start_offset=-1)
    bench.write((0, 9, 2, 1), start_offset=5)
    assert bench.initialize(state_epoch=1, start_offset=-1).error_code == 0
    state = bench.state()
    assert state is not None
    assert state.start_offset == 5


def test_what_is_not_there_is_no_state_and_no_error_for_a_summary() -> None:
    bench = Bench()
    assert bench.read().error_code == ErrorCode.INVALID_REQUEST
    assert bench.write((0, 0, 2, 1)).error_code == ErrorCode.INVALID_REQUEST
    summary = bench.summary()
    assert (summary.error_code, summary.start_offset, summary.delivery_complete_count) == (0, -1, -1)
    assert bench.delete().error_code == 0
    assert bench.log == []


def test_what_cannot_be_is_refused() -> None:
    bench = Bench()
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert bench.initialize(partition=4).error_code == unknown
    assert bench.initialize(partition=-1).error_code == unknown
    assert bench.initialize(topic=UUID(int=99)).error_code == unknown
    assert bench.initialize(state_epoch=-1).error_code == ErrorCode.INVALID_REQUEST
    bench.initialize()
    assert bench.read(leader_epoch=-1).error_code == ErrorCode.INVALID_REQUEST
    assert bench.write(leader_epoch=-1).error_code == ErrorCode.INVALID_REQUEST
    assert bench.write(state_epoch=-1).error_code == ErrorCode.INVALID_REQUEST
    assert bench.write((5, 4, 2, 1)).error_code == ErrorCode.INVALID_REQUEST
    assert bench.write((-1, 4, 2, 1)).error_code == ErrorCode.INVALID_REQUEST
    assert bench.write((0, 2**63 - 1, 2, 1)).error_code == 0
    assert len(bench.log) == 2


def test_what_is_deleted_is_gone_with_its_epochs() -> None:
    bench = Bench()
    bench.initialize(state_epoch=9)
    bench.read(leader_epoch=9)
    assert bench.delete().error_code == 0
    bench.restart()
    assert bench.state() is None
    assert bench.initialize(state_epoch=1).error_code == 0
    assert bench.read(leader_epoch=1).error_code == 0


def test_what_was_deleted_does_not_begin_by_a_request_that_was_sent_before() -> None:
    """The group had gone to its epoch 5 without writing that here; the next group of that name begins above."""
    bench = Bench()
    bench.initialize(state_epoch=3)
    late: dict[str, Any] = {"state_epoch": 5, "start_offset": 70, "heeds_deletions": True}
    bench.delete(group_epoch=5)
    refused = bench.initialize(**late)
    assert (refused.error_code, refused.newest_epoch) == (ErrorCode.FENCED_STATE_EPOCH, 5)
    assert bench.initialize(6, -1, heeds_deletions=True).error_code == 0
    refused = bench.initialize(**late)
    assert (refused.error_code, refused.newest_epoch) == (ErrorCode.FENCED_STATE_EPOCH, 6)
    assert bench.read().start_offset == -1


def test_what_a_log_says_was_deleted_is_known_after_a_load() -> None:
    bench = Bench()
    bench.initialize(state_epoch=3)
    bench.delete()
    bench.restart()
    assert bench.initialize(3, heeds_deletions=True).error_code == ErrorCode.FENCED_STATE_EPOCH
    assert bench.initialize(state_epoch=3).error_code == 0, "Kafka's coordinators of groups know nothing of this"


def test_what_could_not_be_written_begins_in_the_same_epoch_when_it_is_asked_again() -> None:
    """It was not deleted: nothing of it was told to anybody."""
    bench = Bench()
    bench.holds = True
    assert bench.initialize(heeds_deletions=True) is None
    bench.fail()
    bench.holds = False
    assert bench.initialize(heeds_deletions=True).error_code == 0


def test_answers_wait_for_the_log_and_what_fails_is_taken_back() -> None:
    bench = Bench()
    bench.initialize()
    bench.holds = True
    assert bench.write((0, 9, 2, 1), start_offset=0) is None
    assert bench.read() is None, "what it would tell is not committed"
    bench.fail()
    codes = [reply[0].error_code for reply in list(bench.replies.values())[1:]]
    assert codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    state = bench.state()
    assert state is not None
    assert (state.batches, state.updates) == ((), 0)


def test_the_log_begins_at_the_oldest_snapshot_that_is_needed() -> None:
    settings = ShareCoordinatorSettings(updates_per_snapshot=2, cold_interval_ms=10**9)
    bench = Bench(settings)
    bench.initialize(partition=0)
    bench.initialize(partition=1)
    for offset in range(3):
        bench.write((offset, offset, 2, 1), partition=0)
    bench.advance(settings.prune_interval_ms)
    assert bench.begin == 1, "the second partition has its only snapshot there"
    for offset in range(3):
        bench.write((offset, offset, 2, 1), partition=1)
    bench.advance(settings.prune_interval_ms)
    assert bench.begin == 4
    before = [bench.state(0), bench.state(1)]
    bench.restart()
    assert [bench.state(0), bench.state(1)] == before
    bench.delete(0)
    bench.delete(1)
    bench.advance(settings.prune_interval_ms)
    assert bench.begin == len(bench.log) - 1


def test_a_snapshot_that_is_not_committed_keeps_the_one_before_it() -> None:
    settings = ShareCoordinatorSettings(updates_per_snapshot=0, cold_interval_ms=10**9)
    bench = Bench(settings)
    bench.initialize()
    bench.holds = True
    bench.write((0, 0, 2, 1))
    bench.now_ms += settings.prune_interval_ms
    bench.take(bench.shard.wake(bench.now_ms))
    assert bench.begin == 0


def test_where_the_log_begins_is_known_after_a_load_as_well() -> None:
    settings = ShareCoordinatorSettings(updates_per_snapshot=0, cold_interval_ms=10**9)
    bench = Bench(settings)
    bench.initialize()
    bench.write((0, 0, 2, 1))
    bench.restart()
    bench.advance(settings.prune_interval_ms)
    assert bench.begin == 1


def test_cold_states_are_written_again_so_that_the_log_may_begin_later() -> None:
    bench = Bench()
    bench.initialize(partition=0)
    bench.initialize(partition=1)
    for offset in range(600):
        bench.write((offset, offset, 2, 1), partition=1)
        bench.now_ms += 400
    bench.advance(bench.settings.cold_interval_ms)
    bench.advance(bench.settings.prune_interval_ms)
    assert bench.begin > 500
    end = len(bench.log)
    bench.advance(10 * bench.settings.cold_interval_ms)
    assert len(bench.log) <= end + 2, "where nothing happens, nothing is written"
    before = [bench.state(0), bench.state(1)]
    bench.restart()
    assert [bench.state(0), bench.state(1)] == before


def test_many_cold_states_are_written_some_at_a_time() -> None:
    bench = Bench(ShareCoordinatorSettings(at_once=1))
    for partition in range(4):
        bench.initialize(partition=partition)
    bench.holds = True
    bench.now_ms += bench.settings.cold_interval_ms
    bench.take(bench.shard.wake(bench.now_ms))
    assert [len(append.records) for append in bench.under_way] == [1]
    bench.holds = False
    bench.commit()
    bench.advance(10)
    assert kinds(bench) == ["Snapshot"] * 8


def test_what_was_read_of_a_topic_goes_with_it_also_where_nobody_coordinated() -> None:
    bench = Bench()
    bench.initialize(partition=0)
    bench.initialize(partition=1)
    bench.holds = True
    bench.remove_topic()
    bench.holds = False
    bench.restart()
    bench.advance(0)
    assert kinds(bench) == ["Snapshot", "Snapshot", "end", "end"]


def test_a_coordinator_that_goes_sends_its_clients_away() -> None:
    bench = Bench()
    bench.holds = True
    bench.initialize()
    bench.take(bench.shard.unload(bench.now_ms))
    assert [reply[0].error_code for reply in bench.replies.values()] == [ErrorCode.NOT_COORDINATOR]


def test_one_request_about_many_is_one_batch_with_a_result_for_each() -> None:
    bench = Bench()
    data = [(SharePartitionKey(GROUP, TOPIC, index), bench_data(index)) for index in (0, 1, 9)]
    bench.take(bench.shard.initialize("all", data, bench.now_ms))
    assert [one.error_code for one in bench.replies["all"]] == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert len(bench.log) == 2


def bench_data(index: int) -> PartitionData:
    return PartitionData(partition=index, state_epoch=1)


LONG = "g" * 32_000
MOST_OF_A_BATCH = 1_048_588


def size_of(append: Append) -> int:
    return sum(len(key) + len(value or b"") for key, value in append.records)


def long_named(bench: Bench) -> list[tuple[SharePartitionKey, PartitionData]]:
    """More than fit into a batch."""
    data = PartitionData(partition=0, state_epoch=1, start_offset=0)
    return [(SharePartitionKey(f"{number:02}{LONG}", TOPIC, 0), data) for number in range(60)]


def test_what_is_too_much_for_a_batch_is_written_in_several_and_answered_once() -> None:
    bench = Bench()
    bench.holds = True
    bench.take(bench.shard.initialize("all", long_named(bench), bench.now_ms))
    assert max(map(size_of, bench.under_way)) < MOST_OF_A_BATCH
    assert "all" not in bench.replies
    bench.commit()
    assert [one.error_code for one in bench.replies["all"]] == [0] * 60
    gone = [(key, DeletedPartition(partition=0)) for key, _ in long_named(bench)]
    bench.take(bench.shard.delete("gone", gone, bench.now_ms))
    bench.fail()
    assert {one.error_code for one in bench.replies["gone"]} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert len(bench.shard.states()) == 60


def test_cold_states_of_groups_with_long_names_are_written_in_batches_that_fit() -> None:
    bench = Bench()
    bench.take(bench.shard.initialize("all", long_named(bench), bench.now_ms))
    sizes: list[int] = []
    bench.holds = True
    deadline_ms = bench.now_ms + 2 * bench.settings.cold_interval_ms
    while len(sizes) < 10 and bench.now_ms < deadline_ms:
        bench.advance(10_000)
        sizes += map(size_of, bench.under_way)
        bench.commit()
    assert 2_000_000 > sum(sizes) > 60 * 32_000
    assert max(sizes) < MOST_OF_A_BATCH


def test_topics_that_go_one_after_the_other_are_looked_for_by_one_walk() -> None:
    bench = Bench(ShareCoordinatorSettings(at_once=1))
    for index in range(PARTITIONS):
        bench.initialize(partition=index)
    for _ in range(100):
        bench.take(bench.shard.topics_deleted(bench.now_ms))
    assert len(bench.shard.agenda.timers._heap) < 10
    bench.remove_topic()
    bench.advance(1_000)
    assert bench.shard.states() == {}


def test_all_coordinators_of_a_node_may_hear_of_a_topic_that_goes_in_one_turn() -> None:
    bench = Bench()
    bench.initialize()
    bench.image.apply(RemoveTopicRecord(topic_id=TOPIC))
    assert bench.shard.topics_deleted(bench.now_ms) == []
    bench.advance(0)
    assert bench.shard.states() == {}


def test_keys_are_groups_topics_and_partitions() -> None:
    key = SharePartitionKey("a:b", TOPIC, 3)
    assert key.text == "a:b:AAAAAAAAAAAAAAAAAAAABw:3"
    assert key_of(key.text) == key
    for text in (
        "",
        "a:b",
        ":AAAAAAAAAAAAAAAAAAAABw:3",
        "g:AAAAAAAAAAAAAAAAAAAABw:-1",
        "g:short:1",
        "g:AAAAAAAAAAAAAAAAAAAABw:x",
    ):
        with pytest.raises(ValueError, match=r"."):
            key_of(text)


def test_records_are_what_they_claim_or_refused() -> None:
    key, value = Update(SharePartitionKey(GROUP, TOPIC, 3), 1, 2, 3, 4, batches((5, 6, 2, 1))).encode()
    assert value is not None
    assert decode_record(key, value) == Update(SharePartitionKey(GROUP, TOPIC, 3), 1, 2, 3, 4, batches((5, 6, 2, 1)))
    assert decode_record(b"\0\x09rest", b"") is None
    for bad_key, bad_value in (
        (b"\0", value),
        (key, b"\0"),
        (key, b"\0\x01rest"),
        (key[:-1], value),
        (key, value[:-3]),
    ):
        with pytest.raises(DecodeError):
            decode_record(bad_key, bad_value)


def test_what_is_asked_at_once_and_is_not_large_is_one_batch() -> None:
    bench = Bench()
    bench.holds = True
    asked = [
        (SharePartitionKey(GROUP, TOPIC, index), PartitionData(partition=index, state_epoch=1, start_offset=0))
        for index in range(PARTITIONS)
    ]
    bench.take(bench.shard.initialize("all", asked, bench.now_ms))
    (append,) = bench.under_way
    assert len(append.records) == PARTITIONS
    bench.commit()
    assert [one.error_code for one in bench.replies["all"]] == [ErrorCode.NONE] * PARTITIONS
