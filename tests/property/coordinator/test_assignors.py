"""Assignors of consumer and share groups with any old targets: of several assignments, and so with the same partitions.

Targets are written some at a time, and another coordinator may go on between them. Those of streams groups are drawn in
`test_streams_assignor`.
"""

from collections import Counter
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.group.consumer.assigning import ASSIGNORS
from penstock.coordinator.group.consumer.assignors.spec import Reader, Spec, Target, Targets
from penstock.coordinator.group.share import assignor as by_share

TOPICS = tuple(UUID(int=number) for number in range(1, 4))
HELD = st.dictionaries(
    st.sampled_from((*TOPICS, UUID(int=9))),
    st.lists(st.integers(0, 7), unique=True, min_size=1, max_size=6).map(lambda some: tuple(sorted(some))),
    max_size=3,
)
READ = st.frozensets(st.sampled_from(TOPICS), min_size=1)


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    every = draw(st.one_of(st.none(), READ))
    readers = {
        f"m{number}": Reader(None, draw(READ) if every is None else every, draw(HELD))
        for number in range(draw(st.integers(1, 8)))
    }
    read = frozenset[UUID]().union(*(reader.topics for reader in readers.values()))
    return Spec(readers, {topic: draw(st.integers(1, 9)) for topic in TOPICS if topic in read})


def places(spec: Spec) -> list[tuple[UUID, int]]:
    return [(topic, one) for topic, count in spec.partitions.items() for one in range(count)]


def readers_of(spec: Spec, targets: Targets) -> Counter[tuple[UUID, int]]:
    """How many have each partition; all of them read it."""
    assert targets.keys() == spec.readers.keys()
    assert all(target.keys() <= spec.readers[member_id].topics for member_id, target in targets.items())
    return Counter((topic, one) for target in targets.values() for topic, ones in target.items() for one in ones)


@pytest.mark.parametrize("name", ASSIGNORS)
@given(specs())
def test_each_partition_has_one_reader_in_a_consumer_group(name: str, spec: Spec) -> None:
    found = ASSIGNORS[name](spec)
    assert readers_of(spec, found) == dict.fromkeys(places(spec), 1)
    if spec.is_homogeneous and name == "uniform":
        sizes = {member_id: sum(map(len, target.values())) for member_id, target in found.items()}
        assert max(sizes.values()) - min(sizes.values()) <= 1


@given(specs())
def test_each_partition_has_a_reader_in_a_share_group_and_nobody_has_it_twice(spec: Spec) -> None:
    readers = {member_id: by_share.Reader(one.topics, one.target) for member_id, one in spec.readers.items()}
    partitions = {topic: tuple(range(count)) for topic, count in spec.partitions.items()}
    found = by_share.assign(by_share.Spec(readers, partitions))
    assert readers_of(spec, found).keys() == {*places(spec)}
    assert all(_is_ascending(target) for target in found.values())


def _is_ascending(target: Target) -> bool:
    return all(list(ones) == sorted({*ones}) for ones in target.values())
