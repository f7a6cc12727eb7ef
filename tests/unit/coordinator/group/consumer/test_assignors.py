"""What assignors give whom: the examples of Kafka's tests, and what holds for any group."""

from random import Random
from uuid import UUID

import pytest

from penstock.coordinator.group.consumer.assignors import range as by_range
from penstock.coordinator.group.consumer.assignors import uniform
from penstock.coordinator.group.consumer.assignors.spec import Reader, Spec, Target, Targets

A, B, C = UUID(int=1), UUID(int=2), UUID(int=3)


def spec(readers: dict[str, str], partitions: dict[UUID, int], targets: Targets | None = None, **static: str) -> Spec:
    """Members with the topics that they read: `ab`."""
    names = {"a": A, "b": B, "c": C}
    return Spec(
        {
            member: Reader(
                static.get(member), frozenset(names[name] for name in topics), (targets or {}).get(member, {})
            )
            for member, topics in readers.items()
        },
        partitions,
    )


def test_range_gives_the_same_numbers_of_each_topic() -> None:
    found = by_range.assign(spec({"x": "ab", "y": "ab"}, {A: 3, B: 3}))
    assert found == {"x": {A: (0, 1), B: (0, 1)}, "y": {A: (2,), B: (2,)}}


def test_range_counts_only_who_reads_a_topic() -> None:
    found = by_range.assign(spec({"x": "ab", "y": "c", "z": "bc"}, {A: 3, B: 3, C: 2}))
    assert found == {"x": {A: (0, 1, 2), B: (0, 1)}, "y": {C: (0,)}, "z": {B: (2,), C: (1,)}}


def test_range_counts_static_members_first() -> None:
    found = by_range.assign(spec({"x": "a", "y": "a"}, {A: 2}, y="0"))
    assert found == {"x": {A: (1,)}, "y": {A: (0,)}}


def test_range_leaves_members_without_anything_where_there_is_too_little() -> None:
    assert by_range.assign(spec({"x": "a", "y": "a", "z": "a"}, {A: 2})) == {"x": {A: (0,)}, "y": {A: (1,)}, "z": {}}


@pytest.mark.parametrize("assignor", [uniform, by_range])
def test_nobody_gets_what_is_not_there(assignor: object) -> None:
    assign = assignor.assign  # type: ignore[attr-defined]
    assert assign(spec({"x": "", "y": ""}, {})) == {"x": {}, "y": {}}
    assert assign(spec({"x": ""}, {}, {"x": {A: (0, 1)}})) == {"x": {}}


def test_uniform_moves_no_more_than_it_must() -> None:
    before: Targets = {"x": {A: (0, 1), B: (0, 1)}, "y": {A: (2,), B: (2,)}}
    found = uniform.assign(spec({"x": "ab", "y": "ab", "z": "ab"}, {A: 3, B: 3}, before))
    assert found == {"x": {A: (0, 1)}, "y": {A: (2,), B: (2,)}, "z": {B: (0, 1)}}


def test_uniform_gives_what_somebody_left_to_those_who_stay() -> None:
    before: Targets = {"x": {A: (0,)}, "y": {A: (1,)}}
    assert uniform.assign(spec({"x": "a", "y": "a"}, {A: 4}, before)) == {"x": {A: (0, 2)}, "y": {A: (1, 3)}}


def test_uniform_for_members_that_read_different_topics() -> None:
    found = uniform.assign(spec({"x": "a", "y": "ab", "z": "b"}, {A: 4, B: 2}))
    assert [sum(map(len, target.values())) for target in found.values()] == [2, 2, 2]
    before: Targets = {"x": {A: (0, 1, 2)}, "y": {A: (3,)}}
    assert uniform.assign(spec({"x": "a", "y": "ab"}, {A: 4, B: 2}, before))["x"] == {A: (0, 1, 2)}
    before = {"x": {A: (0, 1, 2, 3)}}
    assert uniform.assign(spec({"x": "a", "y": "ab"}, {A: 4, B: 1}, before))["x"] == {A: (0, 1, 2)}


def sizes(target: Target) -> int:
    return sum(map(len, target.values()))


@pytest.mark.parametrize("seed", range(60))
def test_what_holds_for_any_group(seed: int) -> None:
    """Each partition of what is read has one owner, who reads it; uniform is even among alike; nothing moves twice."""
    random = Random(seed)
    partitions = {topic: random.randrange(1, 9) for topic in (A, B, C)}
    is_alike = random.random() < 0.5
    topics = random.choice(("a", "ab", "abc"))
    readers = {
        f"m{n}": topics if is_alike else random.choice(("a", "ab", "bc", "c")) for n in range(random.randrange(1, 7))
    }
    read = {
        topic for topic, name in ((A, "a"), (B, "b"), (C, "c")) if any(name in wanted for wanted in readers.values())
    }
    present = {topic: count for topic, count in partitions.items() if topic in read}
    targets: Targets = {}
    for _ in range(3):
        for assignor in (by_range, uniform):
            given = spec(readers, present, targets)
            found = assignor.assign(given)
            owned = [(topic, one) for target in found.values() for topic, ones in target.items() for one in ones]
            assert sorted(owned) == sorted((topic, one) for topic, count in present.items() for one in range(count))
            assert all(target.keys() <= given.readers[member].topics for member, target in found.items())
        targets = found
        assert uniform.assign(spec(readers, present, targets)) == targets
        if is_alike:
            assert max(map(sizes, targets.values())) - min(map(sizes, targets.values())) <= 1
        if len(readers) > 1:
            readers.pop(next(iter(readers)))
            targets = {member: target for member, target in targets.items() if member in readers}
            gone = {
                topic for topic in present if not any("abc"[topic.int - 1] in wanted for wanted in readers.values())
            }
            present = {topic: count for topic, count in present.items() if topic not in gone}
