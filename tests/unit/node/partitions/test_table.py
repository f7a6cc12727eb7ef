"""The table of partitions is gone through at once: that must take no time, however many topics there are."""

from __future__ import annotations

import gc
import sys
from random import Random
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from penstock.node.partitions.partition import Partition
from penstock.node.partitions.table import PartitionTable


def partition(topic: int, index: int) -> Partition:
    return cast("Partition", SimpleNamespace(topic=f"t-{topic}", topic_id=UUID(int=topic), index=index, traffic=None))


def lines_of(table: PartitionTable) -> int:
    """That Python runs."""
    count = 0

    def trace(*event: object) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    gc.disable()  # what other tests have left would be ended meanwhile
    sys.settrace(trace)
    try:
        iter(table)
    finally:
        sys.settrace(before)
        gc.enable()
    return count


def test_a_list_of_all_takes_as_many_lines_of_many_topics_as_of_one() -> None:
    table = PartitionTable()
    few = [partition(0, index) for index in range(2)]
    for one in few:
        table.add(one)
    lines = lines_of(table)
    many = [partition(topic, index) for topic in range(1, 100) for index in range(2)]
    for one in many:
        table.add(one)
    assert list(table) == few + many
    assert lines_of(table) == lines
    for one in few:
        table.remove(one)
    assert list(table) == many


def test_what_is_counted_of_a_topic_is_as_of_its_partitions() -> None:
    told: list[tuple[str, str, object]] = []
    traffic = object()

    class Counts:
        def enter(self, topic: str) -> object:
            told.append(("enter", topic, None))
            return traffic

        def leave(self, topic: str, left: object) -> None:
            told.append(("leave", topic, left))

    table = PartitionTable(cast("Any", Counts()))
    one = cast("Any", SimpleNamespace(topic="orders", index=0, topic_id=UUID(int=7), traffic=None))
    table.add(one)
    assert one.traffic is traffic
    table.remove(one)
    assert told == [("enter", "orders", None), ("leave", "orders", traffic)]
    assert (list(table), table.by_topic(), table.get(one.topic_id, 0)) == ([], [], None)


class Noting:
    """How many of each topic there are."""

    def __init__(self) -> None:
        self.held: dict[str, int] = {}

    def enter(self, topic: str) -> str:
        self.held[topic] = self.held.get(topic, 0) + 1
        return f"traffic of {topic}"

    def leave(self, topic: str, traffic: str) -> None:
        assert traffic == f"traffic of {topic}"
        self.held[topic] -= 1


@pytest.mark.parametrize("seed", range(5))
def test_a_table_has_what_was_added_and_not_removed(seed: int) -> None:
    """Beside plain dicts; what is added is no longer known by its log alone."""
    random, counts = Random(seed), Noting()
    table = PartitionTable(cast("Any", counts))
    assert cast("Any", table._counts) is counts
    held: dict[tuple[int, int], Partition] = {}
    waiting: dict[tuple[int, int], Any] = {}
    for _ in range(120):
        topic, index = key = random.randrange(3), random.randrange(3)
        match random.randrange(4):
            case 0 if key not in held:
                held[key] = partition(topic, index)
                waiting.pop(key, None)
                table.add(held[key])
                assert held[key].traffic == cast("Any", f"traffic of t-{topic}")
            case 1 if key in held:
                table.remove(held.pop(key))
            case 2 if key not in held:
                waiting[key] = SimpleNamespace(partition=index)
                table.add_untouched(UUID(int=topic), waiting[key])
            case 3:
                waiting.pop(key, None)
                table.forget_untouched(UUID(int=topic), index)
        assert sorted(map(id, table)) == sorted(map(id, held.values()))
        assert sorted(map(id, (log for _, log in table.untouched()))) == sorted(map(id, waiting.values()))
        topics = {number: [at for (of, at) in waiting if of == number] for number in range(3)}
        assert dict(table.untouched_counts()) == {UUID(int=of): len(some) for of, some in topics.items() if some}
        for name in (f"t-{topic}", UUID(int=topic)):
            assert table.get(name, index) is held.get(key)
            assert {one.index for one in table.of_topic(name)} == {at for of, at in held if of == topic}
        assert table.get_untouched(UUID(int=topic), index) is waiting.get(key)
        assert {one.partition for one in table.untouched_of(UUID(int=topic))} == set(topics[topic])
        assert len(table.by_topic()) == len({of for of, _ in held})
        assert {name: count for name, count in counts.held.items() if count} == {
            f"t-{of}": len(table.of_topic(f"t-{of}")) for of in {of for of, _ in held}
        }


def test_a_table_counts_its_own_where_nobody_else_does() -> None:
    assert PartitionTable()._counts is not None
