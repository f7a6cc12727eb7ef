"""What a share partition at its leader is, apart from what it does."""

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.node.sharing.shared import Aborts, Shared

ROLE, OTHER = object(), object()


@pytest.mark.parametrize(
    ("role", "leader", "is_led"),
    [(ROLE, ROLE, True), (ROLE, OTHER, False), (ROLE, None, False), (None, None, False), (None, ROLE, False)],
)
def test_it_is_led_while_the_partition_has_the_role_that_it_had(role: object, leader: object, is_led: bool) -> None:
    shared: Any = object.__new__(Shared)
    shared.role, shared.partition = role, SimpleNamespace(leader=leader)
    assert shared.is_led is is_led


@pytest.mark.parametrize(
    ("end", "start", "finished", "backlog"), [(9, 3, 0, 6), (9, 3, 2, 4), (9, 3, 6, 0), (9, 9, 0, 0), (5, 9, 0, 0)]
)
def test_what_is_still_to_be_done(end: int, start: int, finished: int, backlog: int) -> None:
    """Records before the end that nobody has finished with, also where the end is before the beginning for a while."""
    shared: Any = object.__new__(Shared)
    shared.machine = SimpleNamespace(start_offset=start, delivery_complete_count=finished)
    shared.oldest = SimpleNamespace(came_ms=lambda offset: 100 + offset)
    for reads_committed in (False, True):
        shared.reads_committed = reads_committed
        high, stable = (end + 5, end) if reads_committed else (end, end - 5)
        shared.partition = SimpleNamespace(high_watermark=high, last_stable_offset=stable)
        assert shared.backlog == backlog
        assert shared.oldest_ms == (100 + start if backlog else -1)


def header(base: int, last: int, producer_id: int, *, is_marker: bool = False) -> Any:
    return SimpleNamespace(base_offset=base, last_offset=last, producer_id=producer_id, is_marker=is_marker)


def test_batches_of_a_producer_are_aborted_from_where_its_transaction_begins_to_its_marker() -> None:
    aborts = Aborts([(7, 10), (8, 4), (7, 30)])
    told = [
        (header(0, 3, 8), False),
        (header(4, 5, 8), True),
        (header(6, 8, 7), False),
        (header(9, 12, 7), True),
        (header(13, 13, 9), False),
        (header(14, 14, 7, is_marker=True), False),
        (header(15, 15, 7), False),
        (header(16, 16, 8), True),
        (header(17, 17, 8, is_marker=True), False),
        (header(18, 29, 8), False),
        (header(30, 30, 7), True),
    ]
    assert [aborts.has(one) for one, _ in told] == [is_aborted for _, is_aborted in told]
