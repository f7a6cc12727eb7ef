"""What is due next beside a plain dict of all that waits, whatever comes, goes and the clock does."""

from random import Random

import pytest

from penstock.replication.delayed.near import Entry, Near


@pytest.mark.parametrize("seed", range(20))
def test_what_is_due_first_is_taken_first(seed: int) -> None:
    random, near, waits = Random(seed), Near(), dict[int, int]()
    offsets = random.sample(range(4_096 - 50, 4_096 + 50), 100)
    fresh, taken = iter(offsets), 0
    for _ in range(300):
        at, due_ms = random.choice(list(waits) or offsets), random.randrange(10)
        match random.randrange(6):
            case 0 | 1 if (new := next(fresh, None)) is not None:
                waits[new] = due_ms
                near.add(due_ms, new)
            case 5 if waits.get(at, -1) > due_ms:  # what is due sooner than it was
                waits[at] = due_ms
                near.add(due_ms, at)
            case 2:
                assert near.due_ms.pop(at) == waits.pop(at, None)
            case 3:
                now_ms, most = random.randrange(10), random.randrange(1, 5)
                due = sorted(Entry(its_ms, one) for one, its_ms in waits.items() if its_ms <= now_ms)
                assert near.take(now_ms, most) == due[:most]
                taken += bool(due)
            case 4:
                first = min((Entry(its_ms, one) for one, its_ms in waits.items()), default=None)
                assert near.first == first
        assert near.due_ms.get(at) == waits.get(at)
        assert near.due_ms.each(offsets) == [waits.get(one) for one in offsets]
        assert (len(near.due_ms), dict(near.due_ms.items())) == (len(waits), waits)
        assert near.of(offsets) == [one for one in offsets if one in waits]
        due_numbers = [number for number, one in enumerate(offsets) if waits.get(one, due_ms + 1) <= due_ms]
        assert near.numbers(offsets, due_ms) == due_numbers
    assert taken
    for one in offsets:
        near.due_ms.pop(one)
    assert (near.first, near.take(99, 99)) == (None, [])
    assert (near._heaps, near._order, near._first, near.due_ms._shards) == ({}, [], [], {})
