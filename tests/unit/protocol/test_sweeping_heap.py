"""A heap that drops what no longer counts before it comes up, beside a sorted list."""

import random

import pytest

from penstock.protocol import sweeping_heap
from penstock.protocol.sweeping_heap import FEW, LOOKS, SweepingHeap


def test_of_few_entries_none_is_looked_at_again() -> None:
    looked_at: list[tuple[int, ...]] = []

    def counts(entry: tuple[int, ...]) -> bool:
        looked_at.append(entry)
        return True

    heap = SweepingHeap(counts)
    for number in range(FEW):
        heap.push((number,))
    assert (len(heap), looked_at) == (FEW, [])
    heap.push((FEW,))
    assert (len(heap), len(looked_at)) == (FEW + 1, LOOKS)
    assert sorted(heap) == [(number,) for number in range(FEW + 1)]


@pytest.mark.parametrize("live", [0, 3_000])
def test_what_counts_no_longer_does_not_pile_up(live: int) -> None:
    """One in days for each of ten thousand things that are made and taken away."""
    gone, most = set[tuple[int, ...]](), 0
    heap = SweepingHeap[tuple[int, ...]](lambda entry: entry not in gone)
    for number in range(live):
        heap.push((0, number))
    for number in range(live, live + 10_000):
        heap.push((1, number))
        gone.add((1, number))
        most = max(most, len(heap))
    assert most <= live * 5 / 3 + FEW + 1
    assert live == 0 or heap.first == (0, 0)


@pytest.mark.parametrize("few", [0, 5, FEW])
def test_the_first_is_the_first_of_all_that_count(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping_heap, "FEW", few)
    chance, model = random.Random(few), set[tuple[int, int]]()
    heap = SweepingHeap[tuple[int, int]](lambda entry: entry in model)
    for number in range(3_000):
        match chance.random():
            case x if x < 0.5 or not model:
                entry = (chance.randrange(100), number)
                model.add(entry)
                heap.push(entry)
            case x if x < 0.75:
                model.remove(chance.choice(sorted(model)))
            case _:
                while heap.first not in model:
                    heap.pop()
                assert heap.first == min(model)
                model.remove(heap.pop())
        assert model <= set(heap)
        assert len(set(heap)) == len(heap)
    heap.clear()
    assert (len(heap), heap.first, list(heap)) == (0, None, [])
