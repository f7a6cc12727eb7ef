"""Which records a member gets of what was read: limits from both sides, and what goes out again how."""

from __future__ import annotations

import pytest

from penstock.sharing.acquiring import Acquired, Demand, Fetched, without
from penstock.sharing.in_flight import Batch, InFlight, RecordState, Run
from penstock.sharing.ordered import Keyed, OrderedPartition
from penstock.sharing.share_partition import SharePartition
from penstock.sharing.values import NEVER_MS, ShareSettings, StateBatch, Status, Written

BATCHES = [(0, 4), (5, 9), (10, 14)]
AVAILABLE, ACQUIRED = RecordState.AVAILABLE, RecordState.ACQUIRED


def partition(*left: StateBatch, limit: int = 5, most: int = 2_000) -> SharePartition:
    made = SharePartition(ShareSettings(delivery_count_limit=limit, partition_max_record_locks=most))
    made.load()
    made.loaded(Written(0, 1, left), 0)
    return made


def spans(acquired: list[Acquired]) -> list[tuple[int, int, int]]:
    return [tuple(it) for it in acquired]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("most", "size", "is_limit", "got", "next_offset"),
    [
        (1, 100, False, [(0, 4)], 5),
        (5, 100, False, [(0, 4)], 5),
        (6, 100, False, [(0, 9)], 10),
        (10, 5, False, [(0, 4), (5, 9)], 10),
        (10, 6, False, [(0, 9)], 10),
        (15, 6, False, [(0, 9), (10, 14)], 15),
        (15, 10, False, [(0, 9), (10, 14)], 15),
        (15, 11, False, [(0, 14)], 15),
        (99, 1, False, [(0, 4), (5, 9), (10, 14)], 15),
        (1, 100, True, [(0, 0)], 5),
        (5, 100, True, [(0, 4)], 5),
        (6, 100, True, [(0, 5)], 10),
        (99, 1, True, [(0, 14)], 15),
        (0, 100, False, [], 0),
    ],
)
def test_new_records_come_in_whole_batches_or_just_as_many(
    most: int, size: int, is_limit: bool, got: list[tuple[int, int]], next_offset: int
) -> None:
    it = partition()
    demand = Demand("ann", most, size, is_limit)
    assert spans(it.acquire(demand, Fetched(0, BATCHES), 0)) == [(first, last, 1) for first, last in got]
    assert it.next_offset == next_offset
    rest = got[-1][1] + 1 if got else 0
    assert it.next_fetch_offset == rest, "what a member did not want is there for the next one"
    assert it.in_hands()[0] == rest
    others = it.acquire(Demand("ben", 99, 99), Fetched(rest, [one for one in BATCHES if one[1] >= rest]), 0)
    assert (others[0].first if others else 15) == rest


@pytest.mark.parametrize(
    ("count", "limit", "got"),
    [
        (1, 5, [(0, 7, 2)]),
        (2, 5, [(0, 7, 3)]),
        (3, 5, [(0, 3, 4)]),
        (4, 5, [(0, 0, 5)]),
        (3, 10, [(0, 7, 4)]),
        (5, 10, [(0, 3, 6)]),
        (6, 10, [(0, 1, 7)]),
        (7, 10, [(0, 0, 8)]),
        (1, 2, [(0, 7, 2)]),
        (2, 3, [(0, 0, 3)]),
    ],
)
def test_from_half_of_the_deliveries_on_a_batch_is_halved_and_the_last_goes_alone(
    count: int, limit: int, got: list[tuple[int, int, int]]
) -> None:
    """A batch that comes from the one before is as large as it was written."""
    it = partition(StateBatch(0, 7, AVAILABLE, count), limit=limit)
    assert spans(it.acquire(Demand("ann", 99, 99), Fetched(0, [(0, 7)]), 0)) == got
    assert it.next_fetch_offset == got[-1][1] + 1


@pytest.mark.parametrize(
    ("counts", "got"),
    [
        ((1, 1), [(0, 3, 2), (4, 7, 2)]),
        ((1, 3), [(0, 3, 2)]),
        ((3, 1), [(0, 1, 4)]),
        ((4, 1), [(0, 0, 5)]),
        ((1, 4), [(0, 3, 2)]),
    ],
)
def test_what_is_throttled_goes_with_nothing_else(counts: tuple[int, int], got: list[tuple[int, int, int]]) -> None:
    left = [StateBatch(4 * at, 4 * at + 3, AVAILABLE, count) for at, count in enumerate(counts)]
    it = partition(*left)
    assert spans(it.acquire(Demand("ann", 99, 99), Fetched(0, [(0, 7), (8, 9)]), 0)) == got + (
        [(8, 9, 1)] if counts == (1, 1) else []
    )


def test_what_nobody_can_have_of_a_throttled_batch_ends_nothing() -> None:
    """Its records are held until their delay is over."""
    it = partition(StateBatch(0, 3, AVAILABLE, 4, 500), StateBatch(4, 7, AVAILABLE, 1))
    assert spans(it.acquire(Demand("ann", 99, 99), Fetched(0, [(0, 7)]), 0)) == [(4, 7, 2)]


def test_a_gap_is_given_out_as_new_and_no_further_than_it_reaches() -> None:
    left = [StateBatch(3, 4, RecordState.ACKNOWLEDGED, 1), StateBatch(9, 9, AVAILABLE, 1)]
    it = partition(*left)
    assert spans(it.acquire(Demand("ann", 4, 99), Fetched(0, [(0, 9)]), 0)) == [(0, 2, 1), (5, 8, 1)]
    assert it.next_fetch_offset == 9
    again = partition(*left)
    assert spans(again.acquire(Demand("ann", 2, 99, True), Fetched(0, [(0, 9)]), 0)) == [(0, 1, 1)]
    assert again.next_fetch_offset == 2


@pytest.mark.parametrize(
    ("aborted", "left", "out"),
    [
        ([], [(5, 9, 1)], []),
        ([(0, 4)], [(5, 9, 1)], []),
        ([(10, 12)], [(5, 9, 1)], []),
        ([(0, 5)], [(6, 9, 1)], [(5, 5)]),
        ([(9, 12)], [(5, 8, 1)], [(9, 9)]),
        ([(6, 7)], [(5, 5, 1), (8, 9, 1)], [(6, 7)]),
        ([(5, 9)], [], [(5, 9)]),
        ([(0, 12)], [], [(5, 9)]),
        ([(5, 5), (9, 9)], [(6, 8, 1)], [(5, 5), (9, 9)]),
    ],
)
def test_what_was_aborted_is_taken_out(
    aborted: list[tuple[int, int]], left: list[tuple[int, int, int]], out: list[tuple[int, int]]
) -> None:
    found, gone = without([Acquired(5, 9, 1)], aborted)
    assert (spans(found), gone) == (left, out)


def test_how_much_may_be_in_flight() -> None:
    it = partition(most=10)
    fetched = Fetched(0, [(0, 4), (5, 9), (10, 14)])
    assert spans(it.acquire(Demand("ann", 5, 99), fetched, 0)) == [(0, 4, 1)]
    assert it.can_acquire
    assert spans(it.acquire(Demand("ann", 99, 99), Fetched(5, [(5, 9), (10, 14)]), 0)) == [(5, 9, 1)]
    assert not it.can_acquire
    assert it.acquire(Demand("ann", 99, 99), Fetched(10, [(10, 14)]), 0) == []
    it.release("ann", 0)
    it.written(1, is_written=True, now_ms=0)
    assert (it.can_acquire, it.next_fetch_offset) == (True, 0)
    assert spans(it.acquire(Demand("ben", 3, 99, True), fetched, 0)) == [(0, 2, 2)]
    assert spans(it.acquire(Demand("ben", 99, 99), Fetched(3, fetched.batches), 0)) == [(3, 4, 2), (5, 9, 2)]


def test_batches_that_begin_later_are_cut_there() -> None:
    flight = InFlight()
    flight.add(Batch([Run(0, 4, AVAILABLE, 0)]))
    flight.add(Batch([Run(8, 9, ACQUIRED, 1, "ann")]))
    assert flight.reach(-1) is None
    assert [flight.reach(at) for at in (0, 7, 8, 99)] == [(0, 4), (0, 4), (0, 9), (0, 9)]
    assert [(run.first, run.last) for run in flight.begin_at(2)] == [(0, 1)]
    assert [(run.first, run.last) for run in flight.runs()] == [(2, 4), (8, 9)]
    assert [(run.first, run.last) for run in flight.runs_from(3)] == [(2, 4), (8, 9)]
    assert [(run.first, run.last) for run in flight.begin_at(9)] == [(2, 4), (8, 8)]
    assert [(run.first, run.last) for run in flight.begin_at(99)] == [(9, 9)]
    assert (len(flight), list(flight.runs())) == (0, [])


# -- in the order of keys ---------------------------------------------------------------------------------------------


def ordered(*left: StateBatch, most: int = 8, begins_at: int = 0) -> OrderedPartition:
    made = OrderedPartition(ShareSettings(partition_max_record_locks=most, ordered_by_key=True))
    made.load()
    made.loaded(Written(-1, 1, left), begins_at)
    return made


@pytest.mark.parametrize(("keyed", "wants"), [(5, True), (6, True), (7, False), (8, False)])
def test_the_log_is_read_ahead_when_there_is_room_for_a_quarter(keyed: int, wants: bool) -> None:
    it = ordered()
    it.admit([Keyed(0, keyed - 1, dict.fromkeys(range(keyed)))])
    assert (it.keyed_to, it.wants_keys) == (keyed, wants)


def test_no_more_is_taken_in_than_there_is_room_for() -> None:
    it = ordered(begins_at=100)
    assert it.keyed_to == 100
    it.admit([Keyed(90, 99, {}), Keyed(100, 120, dict.fromkeys(range(100, 121)))])
    assert (it.keyed_to, it.next_offset, it.next_fetch_offset) == (108, 108, 100)
    assert (it.can_acquire, it.wants_keys) == (True, False)


@pytest.mark.parametrize(("first", "start"), [(0, 0), (1, 1), (4, 4)])
def test_where_the_log_begins_later_so_does_the_partition(first: int, start: int) -> None:
    it = ordered()
    it.admit([Keyed(first, first + 3, dict.fromkeys(range(first, first + 4)))])
    assert (it.start_offset, it.keyed_to, it.next_offset) == (start, first + 4, first + 4)


def test_what_does_not_exist_is_finished_and_only_heads_are_free() -> None:
    it = ordered()
    it.admit([Keyed(0, 7, {1: 1, 2: 1, 4: None, 5: 2})])
    assert it.start_offset == 1
    free = [(run.first, run.last) for run in it.flight.runs() if run.is_available]
    assert free == [(1, 1), (4, 5)]
    assert it.delivery_complete_count == 3
    assert it.next_fetch_offset == 1


def test_a_record_that_is_over_gives_its_turn_to_the_next_of_its_key() -> None:
    it = ordered()
    it.admit([Keyed(0, 4, {0: 1, 1: 1, 2: 2, 3: 1, 4: 2})])
    assert spans(it.acquire(Demand("ann", 9, 9), Fetched(0, [(0, 4)]), 0)) == [(0, 0, 1), (2, 2, 1)]
    it.log_begins_at(1)
    assert spans(it.acquire(Demand("ann", 9, 9), Fetched(1, [(0, 4)]), 0)) == [(1, 1, 1)]
    it.log_begins_at(3)
    assert spans(it.acquire(Demand("ann", 9, 9), Fetched(3, [(0, 4)]), 0)) == [(3, 4, 1)]
    assert (it._keys, {key: list(queue) for key, queue in it._queues.items()}) == ({3: 1, 4: 2}, {1: [3], 2: [4]})


def test_a_record_that_is_to_be_a_dead_letter_is_one_though_the_log_has_lost_it() -> None:
    left = [StateBatch(0, 1, RecordState.ARCHIVING, 1), StateBatch(2, 3, AVAILABLE, 1)]
    it = OrderedPartition(ShareSettings(ordered_by_key=True, has_dead_letters=True))
    it.load()
    it.loaded(Written(0, 1, left), 0)
    it.admit([Keyed(0, 5, {3: 1, 4: 1, 5: None})])
    told = [(run.first, run.last, run.state.name) for run in it.flight.runs()]
    assert told[:3] == [(0, 1, "ARCHIVING"), (2, 2, "ARCHIVED"), (3, 3, "AVAILABLE")]
    (letter,) = it.take_dead_letters(0)
    assert (letter.first, letter.last) == (0, 1)


def test_a_new_partition_knows_nothing() -> None:
    for made in (SharePartition(ShareSettings()), OrderedPartition(ShareSettings(ordered_by_key=True))):
        assert (made.status, made.state_epoch, made.start_offset, made.next_offset) == (Status.EMPTY, 0, 0, 0)
        assert (made.in_flight, made.delivery_complete_count, made.in_hands()) == (0, 0, (0, 0))
        assert (made.next_expiry_ms, made.is_writing, made.can_acquire) == (NEVER_MS, False, False)
        made.load()
        assert (made.status, made.can_acquire) == (Status.INITIALIZING, False)
        made.loaded(Written(7, 3), 0)
        assert (made.status, made.state_epoch, made.start_offset, made.next_offset) == (Status.ACTIVE, 3, 7, 7)
        made.fence()
        assert (made.status, made.can_acquire) == (Status.FENCED, False)
        assert made.acquire(Demand("ann", 1, 1), Fetched(7, [(7, 7)]), 0) == []
        made.failed()
        assert made.status is Status.FAILED


def test_writes_are_numbered_and_forgotten() -> None:
    it = partition()
    for number in (1, 2):
        acquired = it.acquire(Demand("ann", 1, 1, True), Fetched(it.next_fetch_offset, BATCHES[:1]), 0)
        write = it.counting(acquired)
        assert (write.write_id, it._counting, it.is_writing) == (number, {number}, True)
        it.written(number, is_written=True, now_ms=0)
        assert (it._counting, it._under_way, it.is_writing) == (set(), {}, False)
