"""What a member says of very many offsets, or of more than there are, costs no more than what it is about."""

from __future__ import annotations

import pytest

from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.sharing.acquiring import Demand, Fetched
from penstock.sharing.breaker import PROBE_MS, Breaker, State
from penstock.sharing.checks import check_in_flight
from penstock.sharing.failures import How
from penstock.sharing.in_flight import Batch, InFlight, RecordState, Run
from penstock.sharing.share_partition import SharePartition
from penstock.sharing.values import (
    ACCEPT,
    GAP,
    NEVER_MS,
    REJECT,
    RELEASE,
    Acknowledgement,
    ShareSettings,
    Written,
    same_types,
)

FAR = 1 << 62


@pytest.mark.parametrize(("delays_ms", "delay_ms"), [((), -1), ([7], 7)])
def test_one_thing_that_is_said_of_offsets_beyond_number_is_one_thing(delays_ms: list[int], delay_ms: int) -> None:
    said = Acknowledgement(-FAR, FAR, [RELEASE], delays_ms)
    assert list(same_types(said, FAR - 1)) == [(RELEASE, delay_ms, FAR - 1, FAR)]


def probing(rate: int) -> Breaker:
    breaker = Breaker(NEVER_MS)
    breaker.set_rate(rate)
    breaker.died(rate + 1, 0)
    breaker.pass_time(breaker.next_ms)
    assert breaker.state is State.PROBING
    return breaker


@pytest.mark.parametrize("most", [1, 10, 500])
def test_a_probe_is_cut_whatever_a_member_asks_for(most: int) -> None:
    partition = SharePartition(ShareSettings(dead_letter_max_rate=100))
    partition.load()
    partition.loaded(Written(0, 1), 0)
    partition.breaker = probing(100)
    acquired = partition.acquire(Demand("ann", most, most), Fetched(0, [(0, 499)]), 0)
    assert [(it.first, it.last) for it in acquired] == [(0, min(most, 10) - 1)]


def test_a_gap_is_no_record_that_was_accepted() -> None:
    partition = SharePartition(ShareSettings(dead_letter_max_rate=100))
    partition.load()
    partition.loaded(Written(0, 1), 0)
    partition.breaker = probing(100)
    partition.acquire(Demand("ann", 1, 1), Fetched(0, [(0, 0)]), 0)
    write = partition.acknowledge("ann", [Acknowledgement(0, 0, [GAP])], 1)
    assert write is not None
    partition.written(write.write_id, is_written=True, now_ms=1)
    assert partition.breaker.state is State.PROBING
    partition.breaker.pass_time(partition.breaker.next_ms + PROBE_MS)
    assert partition.can_acquire, "the next probe comes all the same"


@pytest.mark.parametrize(
    ("kind", "how"), [(ACCEPT, None), (GAP, None), (RELEASE, How.RELEASED), (REJECT, How.REJECTED)]
)
def test_only_what_fails_is_a_failure(kind: int, how: How | None) -> None:
    """What was accepted, and could not be written down, is delivered again; its letter tells of failures alone."""
    partition = SharePartition(ShareSettings(has_dead_letters=True))
    partition.load()
    partition.loaded(Written(0, 1), 0)
    partition.acquire(Demand("ann", 1, 1), Fetched(0, [(0, 0)]), 0)
    assert partition.acknowledge("ann", [Acknowledgement(0, 0, [kind])], 1) is not None
    (run,) = partition.flight.runs()
    assert [it.last.how for it in (run.failures,) if it is not None] == [how] * (how is not None)


@pytest.mark.parametrize("start_offset", [0, 11, 13, 99])
@pytest.mark.parametrize("delays_ms", [[], [5], [5, 5, 6], [5, 6, 6]])
@pytest.mark.parametrize("types", [[1], [1, 1, 2], [1, 2, 2], [2, 1, 2]])
def test_what_is_said_of_each_offset_is_the_same_in_few_words(
    types: list[int], delays_ms: list[int], start_offset: int
) -> None:
    told = same_types(Acknowledgement(10, 12, types, delays_ms), start_offset)
    each = {at: (kind, delay) for kind, delay, first, last in told for at in range(first, last + 1)}
    assert each == {
        10 + at: (types[at % len(types)], delays_ms[at % len(delays_ms)] if delays_ms else -1)
        for at in range(3)
        if 10 + at >= start_offset
    }


@pytest.mark.parametrize(
    ("first", "last", "code"),
    [
        (5, 9, None),
        (4, 9, ErrorCode.INVALID_RECORD_STATE),
        (2, 3, ErrorCode.INVALID_RECORD_STATE),
        (5, 10, ErrorCode.INVALID_REQUEST),
        (10, 11, ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_acknowledged_is_in_flight_from_its_first_to_its_last(
    first: int, last: int, code: ErrorCode | None
) -> None:
    flight = InFlight()
    flight.add(Batch([Run(5, 9, RecordState.ACQUIRED, 1)]))
    said = Acknowledgement(first, last, [RELEASE])
    if code is None:
        check_in_flight(flight, 0, said)
        return
    with pytest.raises(KafkaError) as refusal:
        check_in_flight(flight, 0, said)
    assert refusal.value.code == code


@pytest.mark.parametrize(("most", "last"), [(5, 4), (6, 9), (10, 9)])
def test_what_is_acquired_ends_with_a_batch_of_the_log(most: int, last: int) -> None:
    partition = SharePartition(ShareSettings())
    partition.load()
    partition.loaded(Written(0, 1), 0)
    acquired = partition.acquire(Demand("ann", most, 500), Fetched(0, [(0, 4), (5, 9)]), 0)
    assert acquired[-1].last == last
