"""An ordered queue of waits: an event takes those who are due and nobody else."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from penstock.replication.waits import NEVER, Wait, Waits


def named(name: str) -> Callable[[], None]:
    def waiter() -> None: ...

    waiter.__name__ = name
    return waiter


def test_who_is_due_comes_in_order_and_nobody_else() -> None:
    waits = Waits()
    late, early, same = named("late"), named("early"), named("same")
    for offset, waiter in ((7, late), (3, early), (3, same)):
        waits.add(offset, waiter)
    assert waits.take_due(2) == ()
    assert waits.take_due(3) == [early, same]
    assert waits.take_due(6) == ()
    assert waits.take_due(100) == [late]
    assert len(waits) == 0


def test_one_waiter_may_wait_several_times_and_take_one_back() -> None:
    waits = Waits()
    waiter = named("waiter")
    first, second = waits.add(5, waiter), waits.add(5, waiter)
    waits.cancel(first)
    waits.cancel(first)
    assert waits.take_due(5) == [waiter]
    waits.cancel(second)
    assert waits.take_all() == []


def test_everybody_can_be_taken() -> None:
    waits = Waits()
    waiters = [named(str(number)) for number in range(3)]
    for offset, waiter in enumerate(waiters):
        waits.add(offset, waiter)
    assert waits.take_all() == waiters
    assert len(waits) == 0
    assert waits.next_offset > 1 << 62, "nobody is due"


def test_nobody_is_due_before_the_first_that_is_left() -> None:
    waits = Waits()
    assert waits.next_offset > 1 << 62
    first = waits.add(3, named("first"))
    waits.add(7, named("second"))
    assert waits.next_offset == 3
    waits.cancel(first)
    assert waits.next_offset == 7
    waits.take_due(7)
    assert waits.next_offset > 1 << 62


def test_queues_that_had_nobody_have_no_list_of_their_own() -> None:
    first, second = Waits(), Waits()
    assert first._waits is second._waits
    first.add(3, named("one"))
    first.take_due(3)
    first.take_all()
    second.take_all()
    assert (len(first), len(second), len(Waits())) == (0, 0, 0)
    first.add(4, named("two"))
    assert (len(first), len(second)) == (1, 0)


@pytest.mark.parametrize("seed", range(5))
def test_waits_are_a_sorted_list(seed: int) -> None:
    random, waits, model = Random(seed), Waits(), list[Wait]()
    had = list[Wait]()
    for number in range(300):
        match random.randrange(8):
            case 0 | 1 | 2 | 3:
                wait = waits.add(random.randrange(10), named(str(number)))
                model.append(wait)
                had.append(wait)
            case 4 | 5 if had:
                wait = random.choice(had)
                waits.cancel(wait)
                model = [one for one in model if one is not wait]
            case 6:
                reached = random.randrange(-1, 11)
                due = sorted((one for one in model if one[0] <= reached), key=lambda one: one[:2])
                assert list(waits.take_due(reached)) == [one[2] for one in due]
                model = [one for one in model if one[0] > reached]
            case 7 if random.random() < 0.2:
                assert list(waits.take_all()) == [one[2] for one in sorted(model, key=lambda one: one[:2])]
                model = []
        assert len(waits) == len(model)
        assert waits.next_offset == min((one[0] for one in model), default=NEVER)
