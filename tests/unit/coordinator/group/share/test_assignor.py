"""The simple assignor: everything is read, everybody reads, and as little moves as can be (Kafka's SimpleAssignor)."""

from collections import Counter
from random import Random
from uuid import UUID

import pytest

from penstock.coordinator.group.consumer.assignors.spec import Target, Targets
from penstock.coordinator.group.share.assignor import Reader, Spec, assign

A, B, C = (UUID(int=number) for number in (1, 2, 3))


def spec(partitions: dict[UUID, int], **members: tuple[set[UUID], Target]) -> Spec:
    readers = {name: Reader(frozenset(topics), target) for name, (topics, target) in members.items()}
    return Spec(readers, {topic: tuple(range(count)) for topic, count in partitions.items()})


def test_nobody_and_nothing() -> None:
    assert assign(spec({A: 2})) == {}
    assert assign(spec({}, m1=({A}, {}))) == {"m1": {}}
    assert assign(spec({A: 2}, m1=(set(), {}), m2=(set(), {}))) == {"m1": {}, "m2": {}}


def test_fewer_members_than_partitions_have_all_between_them() -> None:
    found = assign(spec({A: 3, B: 2}, m1=({A, B}, {}), m2=({A, B}, {})))
    assert sorted(sum(map(len, one.values())) for one in found.values()) == [2, 3]
    assert counted(found) == Counter({(A, 0): 1, (A, 1): 1, (A, 2): 1, (B, 0): 1, (B, 1): 1})


def test_more_members_than_partitions_share_them() -> None:
    found = assign(spec({A: 2}, **{f"m{number}": ({A}, {}) for number in range(5)}))
    assert sorted(counted(found).values()) == [3, 3]
    assert all(found.values())


def test_members_that_read_different_topics_have_each_what_they_read() -> None:
    found = assign(spec({A: 2, B: 2, C: 1}, m1=({A}, {}), m2=({A, B}, {}), m3=({C}, {})))
    assert set(counted(found)) == {(A, 0), (A, 1), (B, 0), (B, 1), (C, 0)}
    assert set(found["m3"]) == {C}
    assert set(found["m1"]) == {A}


def test_who_comes_takes_what_is_too_much_for_others() -> None:
    before: Target = {A: (0, 1, 2, 3)}
    found = assign(spec({A: 4}, m1=({A}, before), m2=({A}, {})))
    assert {name: len(one[A]) for name, one in found.items()} == {"m1": 2, "m2": 2}
    assert set(found["m1"][A]) <= {0, 1, 2, 3}


def test_what_is_read_no_more_or_is_not_there_is_taken_away() -> None:
    found = assign(spec({A: 1, B: 1}, m1=({A}, {A: (0, 7), B: (0,)}), m2=({B}, {})))
    assert found == {"m1": {A: (0,)}, "m2": {B: (0,)}}


def test_what_fits_stays() -> None:
    before: Targets = {"m1": {A: (0, 2)}, "m2": {A: (1, 3)}}
    found = assign(spec({A: 4}, **{name: ({A}, target) for name, target in before.items()}))
    assert found == before


@pytest.mark.parametrize("seed", range(40))
def test_all_is_read_by_members_that_read_it_and_evenly(seed: int) -> None:
    random = Random(seed)
    topics = {UUID(int=number): random.randrange(1, 7) for number in range(1, random.randrange(2, 5))}
    members: dict[str, tuple[set[UUID], Target]] = {}
    is_same = random.random() < 0.5
    for number in range(random.randrange(1, 9)):
        read = set(topics) if is_same else set(random.sample(list(topics), random.randrange(1, len(topics) + 1)))
        members[f"m{number}"] = read, {}
    found: Targets = {}
    for _ in range(3):
        wanted = spec(topics, **members)
        found = assign(wanted)
        counts = counted(found)
        read_at_all = {topic for read, _ in members.values() for topic in read}
        assert set(counts) == {(topic, index) for topic in read_at_all for index in range(topics[topic])}
        for name, (read, _) in members.items():
            assert set(found[name]) <= read
        if is_same:
            per_member = [sum(map(len, one.values())) for one in found.values()]
            assert max(per_member) - min(per_member) <= 2
            assert min(per_member) > 0
        members = {name: (read, found[name]) for name, (read, _) in members.items()}
        gone = random.choice(list(members))
        if len(members) > 1:
            del members[gone]
        members[gone + "x"] = (set(topics), {})


def counted(found: Targets) -> Counter[tuple[UUID, int]]:
    return Counter((topic, index) for one in found.values() for topic, indexes in one.items() for index in indexes)
