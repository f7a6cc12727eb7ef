"""Two lists of batches come to one as in Kafka's PersisterStateBatchCombiner; a count by single offsets agrees."""

from itertools import pairwise
from random import Random
from uuid import UUID

import pytest

from penstock.coordinator.share import batches
from penstock.coordinator.share.batches import StateBatch, merged
from penstock.coordinator.share.records import SharePartitionKey, ShareState, Update

Said = list[tuple[int, int, int, int]]

CASES: dict[str, tuple[Said, Said, Said, int]] = {
    "more deliveries, the same offsets": ([(100, 110, 0, 1)], [(100, 110, 0, 2)], [(100, 110, 0, 2)], -1),
    "fewer deliveries, the same offsets": ([(100, 110, 0, 3)], [(100, 110, 0, 1)], [(100, 110, 0, 3)], -1),
    "more deliveries at the beginning": (
        [(100, 110, 0, 1)], [(100, 105, 0, 2)], [(100, 105, 0, 2), (106, 110, 0, 1)], -1,
    ),
    "fewer deliveries at the beginning": ([(100, 110, 0, 3)], [(100, 105, 0, 1)], [(100, 110, 0, 3)], -1),
    "more deliveries, and further": ([(100, 110, 0, 1)], [(100, 115, 0, 2)], [(100, 115, 0, 2)], -1),
    "fewer deliveries, and further": (
        [(100, 110, 0, 3)], [(100, 115, 0, 1)], [(100, 110, 0, 3), (111, 115, 0, 1)], -1,
    ),
    "a higher state in the middle": (
        [(100, 115, 0, 1)], [(105, 110, 1, 1)], [(100, 104, 0, 1), (105, 110, 1, 1), (111, 115, 0, 1)], -1,
    ),
    "a lower state in the middle": ([(100, 115, 1, 1)], [(105, 110, 0, 1)], [(100, 115, 1, 1)], -1),
    "more deliveries at the end": (
        [(100, 110, 0, 1)], [(105, 110, 0, 2)], [(100, 104, 0, 1), (105, 110, 0, 2)], -1,
    ),
    "fewer deliveries at the end": ([(100, 110, 0, 2)], [(105, 110, 0, 1)], [(100, 110, 0, 2)], -1),
    "more deliveries beyond the end": (
        [(100, 110, 0, 1)], [(105, 115, 0, 2)], [(100, 104, 0, 1), (105, 115, 0, 2)], -1,
    ),
    "fewer deliveries beyond the end": (
        [(100, 110, 0, 2)], [(105, 115, 0, 1)], [(100, 110, 0, 2), (111, 115, 0, 1)], -1,
    ),
    "neighbours that say the same": ([(100, 110, 0, 1)], [(111, 120, 0, 1)], [(100, 120, 0, 1)], -1),
    "neighbours that say something else": (
        [(100, 110, 0, 1)], [(111, 120, 2, 1)], [(100, 110, 0, 1), (111, 120, 2, 1)], -1,
    ),
    "a gap between them": ([(100, 110, 0, 1)], [(112, 120, 0, 1)], [(100, 110, 0, 1), (112, 120, 0, 1)], -1),
    "the same within": ([(100, 120, 0, 1)], [(105, 110, 0, 1)], [(100, 120, 0, 1)], -1),
    "before the start": ([(100, 110, 0, 1)], [(120, 130, 0, 1)], [(120, 130, 0, 1)], 115),
    "over the start": ([(100, 120, 2, 1)], [(130, 140, 0, 1)], [(115, 120, 2, 1), (130, 140, 0, 1)], 115),
    "all before the start": ([(100, 110, 0, 1)], [(111, 114, 0, 1)], [], 115),
    "one that lies over the start alone": ([(100, 120, 2, 1)], [], [(115, 120, 2, 1)], 115),
    "nothing": ([], [], [], 0),
    "several, over all that was": (
        [(100, 101, 0, 1), (105, 106, 2, 2), (110, 111, 0, 1)], [(100, 120, 0, 1)],
        [(100, 104, 0, 1), (105, 106, 2, 2), (107, 120, 0, 1)], -1,
    ),
    "the last offset that there is": (
        [(0, 2**63 - 1, 0, 1)], [(5, 5, 2, 1)], [(0, 4, 0, 1), (5, 5, 2, 1), (6, 2**63 - 1, 0, 1)], 0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_two_lists_are_one(case: tuple[Said, Said, Said, int]) -> None:
    so_far, new, expected, start_offset = case
    found = merged([StateBatch(*one) for one in so_far], [StateBatch(*one) for one in new], start_offset)
    assert found == tuple(StateBatch(*one) for one in expected)


def test_each_offset_has_what_is_said_of_it_with_the_most_weight() -> None:
    random = Random(1)
    for _ in range(300):
        so_far, new = merged((), drawn(random), -1), drawn(random)
        start_offset = random.choice((-1, 0, 5, 12))
        found = merged(so_far, new, start_offset)
        assert by_offset(found) == {
            offset: said for offset, said in by_offset((*so_far, *new)).items() if offset >= start_offset
        }
        assert not any(a.last_offset + 1 == b.first_offset and said_by(a) == said_by(b) for a, b in pairwise(found))
        assert all(a.last_offset < b.first_offset for a, b in pairwise(found))


def drawn(random: Random) -> list[StateBatch]:
    found = []
    for _ in range(random.randrange(5)):
        first = random.randrange(20)
        state, count, held_until_ms = random.choice((0, 2, 4)), random.randrange(1, 4), random.choice((0, 0, 500, 900))
        found.append(StateBatch(first, first + random.randrange(8), state, count, held_until_ms))
    return found


def said_by(batch: StateBatch) -> tuple[int, int, int]:
    return batch.delivery_count, batch.delivery_state, batch.held_until_ms


def by_offset(batches: tuple[StateBatch, ...]) -> dict[int, tuple[int, int, int]]:
    found: dict[int, tuple[int, int, int]] = {}
    for batch in batches:
        for offset in range(batch.first_offset, batch.last_offset + 1):
            found[offset] = max(found.get(offset, (-1, -1, -1)), said_by(batch))
    return found


def test_what_is_added_is_put_where_it_belongs() -> None:
    random = Random(2)
    for _ in range(300):
        start_offset, so_far = 0, merged((), [one for _ in range(3) for one in drawn(random)], 0)
        for _ in range(5):
            new, start_offset = drawn(random), start_offset + random.randrange(3)
            found = merged(so_far, new, start_offset)
            assert found == merged((), [*so_far, *new], start_offset)
            so_far = found
    many = tuple(StateBatch(offset, offset, offset % 2 * 2, 1) for offset in range(2_000))
    assert merged(many, many[::95], 7) == many[7:]


def test_of_thousands_only_those_are_looked_at_that_something_new_is_about(monkeypatch: pytest.MonkeyPatch) -> None:
    state = ShareState(0, 0, 0, 0, 0, tuple(StateBatch(offset, offset, offset % 2 * 2, 1) for offset in range(2_000)))
    looked_at: list[int] = []

    def counted(found: list[StateBatch]) -> list[StateBatch]:
        looked_at.append(len(found))
        return swept(found)

    swept = batches._swept
    monkeypatch.setattr(batches, "_swept", counted)
    update = Update(SharePartitionKey("g", UUID(int=1), 0), 0, 0, 3, 0, (StateBatch(1_000, 1_001, 2, 2),))
    assert len(update.after(state).batches) == 1_996
    assert looked_at == [5]
