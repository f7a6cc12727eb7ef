"""The table of partitions is gone through at once: that must take no time, however many topics there are."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

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
    sys.settrace(trace)
    try:
        iter(table)
    finally:
        sys.settrace(before)
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
