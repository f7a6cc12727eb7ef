"""What a partition of `__consumer_offsets` knows of offsets, pending ones too, and of histories, beside plain lists."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest

from penstock.coordinator.group.image import GroupImage, Histories, Place
from penstock.coordinator.group.records import CommittedOffset, HistoryRecord, OffsetRecord, PendingRecord

GROUPS, TOPICS, INDEXES = ("g", "h"), ("s", "t"), (0, 1)
PLACES = [(group, topic, index) for group in GROUPS for topic in TOPICS for index in INDEXES]
PRODUCERS = (1, 2, 3)
STEPS = 300


class Model:
    """`pending`: by when they were written, who has written where, and what; None where it comes to nothing."""

    def __init__(self) -> None:
        self.offsets: dict[Place, CommittedOffset] = {}
        self.pending: list[tuple[int, Place, PendingRecord | None]] = []

    def put(self, place: Place, value: CommittedOffset | None) -> None:
        self.offsets.pop(place, None)
        if value is not None:
            self.offsets[place] = value

    def overtake(self, place: Place) -> None:
        self.pending = [(who, at, None if at == place else record) for who, at, record in self.pending]

    def add(self, record: PendingRecord) -> None:
        place = record.group_id, record.topic, record.partition
        self.pending = [one for one in self.pending if one[:2] != (record.producer_id, place)]
        self.pending.append((record.producer_id, place, record))

    def end(self, producer_id: int, *, is_commit: bool) -> list[PendingRecord]:
        ended = [record for who, _, record in self.pending if who == producer_id and record is not None]
        at = {place: number for number, (who, place, _) in enumerate(self.pending) if who == producer_id}
        self.pending = [
            (who, place, None if is_commit and number < at.get(place, -1) else record)
            for number, (who, place, record) in enumerate(self.pending)
            if who != producer_id
        ]
        return ended

    def coming(self) -> list[Place]:
        return list(dict.fromkeys(place for _, place, record in self.pending if record is not None))

    def known(self) -> list[Place]:
        return list(dict.fromkeys([*self.offsets, *self.coming()]))


def same(found: Iterable[object], expected: Iterable[object]) -> bool:
    """In any order, and none twice."""
    some = list(found)
    return len(some) == len(set(some)) and set(some) == set(expected)


def check(image: GroupImage, model: Model) -> None:
    pending, coming, known = image.pending, model.coming(), model.known()
    written = {place for _, place, _ in model.pending}
    assert same(pending.places(), coming)
    assert same(pending.topics(), {topic for _, topic, _ in coming})
    assert len(pending) == len({group for group, _, _ in written})
    assert set(image.topics()) == {topic for _, topic, _ in known}
    assert same(image.group_ids(), {group for group, _, _ in known})
    for topic in (*TOPICS, "other"):
        assert same(pending.places_in(topic), [one for one in coming if one[1] == topic])
        assert same(image.places_in(topic), [one for one in known if one[1] == topic])
        assert same(image.readers(topic), {group for group, name, _ in known if name == topic})
    for group in (*GROUPS, "other"):
        assert same(pending.places(group), [one for one in coming if one[0] == group])
        assert pending.has_group(group) is any(one[0] == group for one in written)
        assert same(image.places(group), [one for one in known if one[0] == group])
        assert same(image.offset_places(group), [one for one in model.offsets if one[0] == group])
        assert image.is_known(group) is any(one[0] == group for one in (*model.offsets, *written))
        for topic in TOPICS:
            assert image.reads(group, topic) is any(one[:2] == (group, topic) for one in known)
            expected = {one[2]: value for one, value in model.offsets.items() if one[:2] == (group, topic)}
            assert image.offsets(group).get(topic, {}) == expected
            assert (topic in image.offsets(group)) is bool(expected)
    for place in PLACES:
        assert pending.has(*place) is (place in written)
        assert pending.may_come(place) is (place in coming)
        assert pending.at(place) == [record for _, at, record in model.pending if at == place and record is not None]
        assert image.may_have(place) is (place in known)
        assert image.offset_at(place) == model.offsets.get(place)


@pytest.mark.parametrize("seed", range(4))
def test_offsets_count_as_they_were_written(seed: int) -> None:
    random, image, model = Random(seed), GroupImage(), Model()
    for number in range(STEPS):
        place, producer_id = random.choice(PLACES), random.choice(PRODUCERS)
        value = CommittedOffset(number, -1, "", 0)
        kind = random.choice(("put", "put", "remove", "remove", "add", "add", "add", "end", "overtake"))
        if kind in ("put", "remove"):
            before = model.offsets.get(place)
            record = OffsetRecord(*place, value if kind == "put" else None)
            assert image.apply(record) == before
            model.put(place, record.value)
            if random.random() < 0.3:  # it could not be written
                image.apply(image.undoing(record, before))
                model.put(place, before)
            elif random.random() < 0.5:
                image.committed([record])
                model.overtake(place)
        elif kind == "overtake":
            image.committed([OffsetRecord(*place, value)])
            model.overtake(place)
        elif kind == "add":
            pending = PendingRecord(producer_id, *place, value)
            assert image.apply(pending) is None
            assert image.undoing(pending, None) is pending
            image.committed([pending])
            model.add(pending)
        else:
            is_commit = random.random() < 0.6
            found = image.pending.end(producer_id, is_commit=is_commit)
            assert same(found, model.end(producer_id, is_commit=is_commit))
        check(image, model)
    for producer_id in PRODUCERS:
        image.pending.end(producer_id, is_commit=False)
    assert (image.pending._of, image.pending._producers, image.pending._places) == ({}, {}, {})


def test_histories_are_kept_in_the_order_in_which_they_were_written() -> None:
    random, histories, written = Random(3), Histories(), dict[tuple[str, int], bytes]()
    for _ in range(STEPS):
        place = random.choice(("g", "a longer name")), random.randrange(3)
        value = random.choice([None, b"", b"x", b"longer"])
        assert histories.put(HistoryRecord(*place, value)) == written.pop(place, None)
        if value is not None:
            written[place] = value
        assert list(histories.oldest()) == list(written)
        assert histories.bytes == sum(len(group) + len(value) for (group, _), value in written.items())
        assert same(histories.group_ids(), {group for group, _ in written})
        for name in ("g", "a longer name", "other"):
            slots = {slot: value for (group, slot), value in written.items() if group == name}
            assert histories.of(name) == slots
            assert same(histories.tombstones(name), [HistoryRecord(name, slot, None) for slot in slots])
