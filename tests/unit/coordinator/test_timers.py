import random

import pytest

from penstock.coordinator.timers import AT_ONCE, Timer, Timers
from penstock.protocol import sweeping_heap
from penstock.protocol.sweeping_heap import FEW


def test_timers_fire_at_their_deadline_in_order() -> None:
    timers, fired = Timers(), list[tuple[str, int]]()
    for name, deadline_ms in (("late", 300), ("early", 100), ("middle", 200)):
        timers.set(Timer(lambda now_ms, name=name: fired.append((name, now_ms))), deadline_ms)
    assert timers.next_ms() == 100
    timers.fire_due(99)
    assert fired == []
    timers.fire_due(250)
    assert fired == [("early", 250), ("middle", 250)]
    assert timers.next_ms() == 300


def test_a_deadline_that_is_put_off_costs_an_assignment() -> None:
    timers, fired = Timers(), list[int]()
    timer = Timer(fired.append)
    timers.set(timer, 100)
    timer.deadline_ms = 500
    timers.fire_due(100)
    assert fired == []
    assert timers.next_ms() == 500
    timers.set(timer, 200)
    assert timers.next_ms() == 200
    timers.fire_due(200)
    timers.fire_due(1000)
    assert fired == [200]


def test_a_timer_that_is_off_does_not_fire() -> None:
    timers, fired = Timers(), list[int]()
    timer = Timer(fired.append)
    timers.set(timer, 100)
    timer.deadline_ms = None
    assert timers.next_ms() is None
    timers.set(timer, 300)
    timers.fire_due(300)
    assert fired == [300]


def test_a_timer_may_set_itself_again() -> None:
    timers, fired = Timers(), list[int]()

    def fire(now_ms: int) -> None:
        fired.append(now_ms)
        timers.set(timer, now_ms + 10)

    timer = Timer(fire)
    timers.set(timer, 10)
    timers.fire_due(10)
    timers.fire_due(25)
    assert fired == [10, 25]
    assert timers.next_ms() == 35


def test_of_very_many_some_fire_at_a_time() -> None:
    timers, fired = Timers(), list[int]()
    for number in range(3 * AT_ONCE):
        timers.set(Timer(lambda _, number=number: fired.append(number)), 10)
    for turn in (1, 2, 3):
        assert timers.next_ms() == 10
        timers.fire_due(10)
        assert fired == list(range(turn * AT_ONCE))
    assert timers.next_ms() is None


def test_that_very_many_are_put_off_is_found_out_some_at_a_time() -> None:
    timers = Timers()
    for timer in [Timer(print) for _ in range(3 * AT_ONCE)]:
        timers.set(timer, 10)
        timer.deadline_ms = 20
    assert timers.next_ms() == 10
    timers.fire_due(10)
    assert timers.next_ms() == 20


@pytest.mark.parametrize("on", [0, 3_000])
def test_timers_that_are_off_are_not_kept_until_their_time(on: int) -> None:
    """Each member that joins and goes has one: a thousand a second for five minutes were 360 MB."""
    timers, most = Timers(), 0
    for number in range(on):
        timers.set(Timer(print), 400_000 + number)
    for number in range(10_000):
        timer = Timer(print)
        timers.set(timer, 300_000 + number % 7)
        timer.deadline_ms = None
        most = max(most, len(timers._heap))
    assert most <= on * 5 / 3 + FEW + 1


@pytest.mark.parametrize("on", [0, 3_000])
def test_nor_are_entries_of_timers_that_were_put_forward(on: int) -> None:
    timers, most = Timers(), 0
    for number in range(on):
        timers.set(Timer(print), 400_000 + number)
    timer = Timer(print)
    for number in range(20_000):
        timers.set(timer, 300_000 - number)
        most = max(most, len(timers._heap))
    assert most <= on * 5 / 3 + FEW + 1
    assert timers.next_ms() == 300_000 - 19_999


def test_an_end_leaves_nothing() -> None:
    timers, fired = Timers(), list[int]()
    made = [Timer(fired.append) for _ in range(2 * FEW)]
    for timer in made:
        timers.set(timer, 5)
    assert len(timers._heap) == 2 * FEW
    timers.end()
    assert (list(timers._heap), timers.next_ms()) == ([], None)
    assert {(one.deadline_ms, one.queued_ms, one.of) for one in made} == {(None, None, ())}
    for timer in made:
        timer.fire(5)
    assert fired == []


@pytest.mark.parametrize("few", [0, 5, FEW])
def test_against_a_naive_list(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping_heap, "FEW", few)
    chance = random.Random(3)
    timers, fired, wanted = Timers(), list[int](), dict[int, int]()
    made = [Timer(lambda now_ms, number=number: fired.append(number)) for number in range(20)]
    now_ms = 0
    for _ in range(3000):
        number = chance.randrange(20)
        if chance.random() < 0.6:
            wanted[number] = now_ms + chance.randrange(1, 200)
            timers.set(made[number], wanted[number])
        elif chance.random() < 0.3:
            wanted.pop(number, None)
            made[number].deadline_ms = None
        else:
            now_ms += chance.randrange(60)
            due = sorted((deadline_ms, number) for number, deadline_ms in wanted.items() if deadline_ms <= now_ms)
            fired.clear()
            timers.fire_due(now_ms)
            assert sorted(fired) == sorted(number for _, number in due)
            assert [wanted[number] for number in fired] == [deadline_ms for deadline_ms, _ in due]
            for number in fired:
                del wanted[number]
        assert timers.next_ms() == min(wanted.values(), default=None)
