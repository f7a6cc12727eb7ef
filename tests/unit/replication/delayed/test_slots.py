"""Slots of one width: what lies in them leaves by the first slot, part by part."""

from penstock.replication.delayed.slots import Slots


def test_the_first_slot_goes_when_it_is_empty() -> None:
    slots = Slots(10)
    assert not slots.has_one_before(1 << 40)
    for at, due_ms in enumerate((5_000, 3_000, 3_001, 3_002)):
        slots.add(due_ms, at)
    assert (slots.order[0], slots.first_count) == (2, 3)
    assert [slots.has_one_before(until_ms) for until_ms in (2_048, 2_049)] == [False, True]
    assert sorted(slots.take_some(2)) == [(3_001, 2), (3_002, 3)]
    assert slots.take_some(2) == [(3_000, 1)]
    assert (slots.order, list(slots.parts)) == ([4], [4])
    assert list(slots.take_part()) == [(5_000, 0)]
    assert (slots.order, slots.parts, list(slots)) == ([], {}, [])


def test_a_part_has_a_thousand_entries() -> None:
    slots = Slots(10)
    for at in range(1_001):
        slots.add(3_000, at)
    assert [(len(part), part.first, part.last) for part in slots] == [(1_000, 0, 999), (1, 1_000, 1_000)]
    assert len(slots.take_part()) == 1
    assert (len(slots.take_part()), slots.order) == (1_000, [])
