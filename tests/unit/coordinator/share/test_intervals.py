"""What a share coordinator does by itself: when it looks, at how many states at a time, and up to where it cuts."""

from uuid import UUID

from tests.unit.coordinator.share.bench import GROUP, PARTITIONS, TOPIC, Bench

from penstock.coordinator.effects import Cut, Effect
from penstock.coordinator.share.image import Needed, ShareImage
from penstock.coordinator.share.records import SharePartitionKey, ShareState, Snapshot, Update
from penstock.coordinator.share.settings import ShareCoordinatorSettings

PRUNE_MS, COLD_MS = 1_000, 5_000
SETTINGS = ShareCoordinatorSettings(prune_interval_ms=PRUNE_MS, cold_interval_ms=COLD_MS, at_once=2)


def begun(partitions: int = 1) -> Bench:
    bench = Bench(SETTINGS)
    for index in range(partitions):
        bench.initialize(partition=index)
    return bench


def deadlines(bench: Bench, until_ms: int) -> list[int]:
    """When it wakes, from now on."""
    found, began_ms = [], bench.now_ms
    while (due_ms := bench.shard.next_deadline_ms()) is not None and due_ms <= began_ms + until_ms:
        found.append(due_ms - began_ms)
        bench.now_ms = due_ms
        bench.take(bench.shard.wake(due_ms))
    return found


def test_it_looks_at_each_interval_and_not_before() -> None:
    """And once at the beginning, for topics that have gone."""
    assert deadlines(Bench(SETTINGS), 6_000) == [0, 1_000, 2_000, 3_000, 4_000, 5_000, 6_000]
    prunes = ShareCoordinatorSettings(prune_interval_ms=1_500, cold_interval_ms=2_000)
    assert deadlines(Bench(prunes), 6_100) == [0, 1_500, 2_000, 3_000, 4_000, 4_500, 6_000]


def test_a_state_that_rests_is_written_again_after_the_interval_and_then_no_more() -> None:
    bench = begun()
    bench.advance(COLD_MS - 1)
    assert len(bench.log) == 1
    bench.advance(1)
    assert len(bench.log) == 2
    state = bench.state()
    assert state is not None
    assert (state.snapshot_epoch, state.updates, state.written_ms - state.created_ms) == (1, 0, COLD_MS)
    bench.advance(10 * COLD_MS)
    assert len(bench.log) == 2, "the log is as short as it gets"
    bench.write((0, 0, 2, 1))
    bench.advance(COLD_MS)
    assert len(bench.log) == 4


def test_states_are_written_again_some_at_a_time() -> None:
    bench = begun(PARTITIONS)
    bench.advance(COLD_MS - 1)
    bench.log.clear()
    bench.now_ms += 1
    counts = []
    for _ in range(3):
        bench.take(bench.shard.wake(bench.now_ms))
        counts.append(len(bench.log))
        bench.now_ms += 1
    assert counts == [2, 4, 4]


def test_what_is_gone_is_dropped_some_at_a_time_and_what_goes_meanwhile_after_that() -> None:
    bench = begun(PARTITIONS)
    bench.image.topics_by_id.clear()
    bench.take(bench.shard.topics_deleted(bench.now_ms))
    assert len(bench.shard.states()) == PARTITIONS, "it begins in its turn"
    bench.advance(0)
    assert len(bench.shard.states()) == 2
    bench.take(bench.shard.topics_deleted(bench.now_ms))  # told while the first is under way
    bench.advance(0)
    assert len(bench.shard.states()) == 2
    bench.advance(1)
    assert bench.shard.states() == {}
    assert len(bench.log) == 2 * PARTITIONS
    table = bench.shard._table
    assert (table._is_dropping, table._drops_again) == (False, False)


def test_topics_that_go_during_a_walk_are_dropped_by_another() -> None:
    bench = begun(PARTITIONS)
    del bench.image.topics_by_id[TOPIC].partitions[3]
    bench.take(bench.shard.topics_deleted(bench.now_ms))
    assert [key.partition for key in bench.shard.states()] == [0, 1, 2, 3]
    bench.image.topics_by_id.clear()
    bench.take(bench.shard.topics_deleted(bench.now_ms))
    bench.advance(10)
    assert bench.shard.states() == {}


def test_the_log_is_cut_where_the_oldest_state_begins_and_each_place_once() -> None:
    bench = begun(2)
    cuts: list[int] = []
    take = bench.take

    def noted(effects: list[Effect]) -> None:
        cuts.extend(one.offset for one in effects if isinstance(one, Cut))
        take(effects)

    bench.take = noted  # type: ignore[method-assign]
    bench.advance(3 * PRUNE_MS)
    assert cuts == [], "the first one is needed"
    bench.advance(3 * PRUNE_MS)
    assert (cuts, bench.begin) == ([2], 2)
    bench.delete(partition=0)
    bench.advance(2 * PRUNE_MS)
    assert cuts == [2, 3]
    bench.delete(partition=1)
    bench.advance(2 * PRUNE_MS)
    assert cuts == [2, 3, 5]


def key(partition: int) -> SharePartitionKey:
    return SharePartitionKey(GROUP, UUID(int=1), partition)


def test_where_the_log_may_begin() -> None:
    """At the oldest of the last snapshots; where there are none, at the record that took the last away."""
    needed, state = Needed(), ShareState(0, 1, 0, 0, 0)
    assert needed.offset == 0
    for record, offset, expected in [
        (Snapshot(key(0), state), 3, 3),
        (Snapshot(key(1), state), 4, 3),
        (Update(key(1), 0, 0, 0, 0, ()), 5, 3),
        (Snapshot(key(0), state), 6, 4),
        (Snapshot(key(1), None), 7, 6),
        (Snapshot(key(2), None), 8, 6),
        (Snapshot(key(0), None), 9, 9),
        (Update(key(0), 0, 0, 0, 0, ()), 10, 9),
    ]:
        needed.note(record, offset)
        assert needed.offset == expected


def test_how_far_something_was_deleted_is_the_latest_epoch() -> None:
    image = ShareImage()
    assert image.deleted_in(key(0)) is None
    for up_to, known in [(5, 5), (3, 5), (7, 7), (0, 7)]:
        image.note_deletion(key(0), up_to)
        assert image.deleted_in(key(0)) == known
    image.note_deletion(key(1), 0)
    assert (image.deleted_in(key(1)), image.deleted_in(key(2))) == (0, None)
