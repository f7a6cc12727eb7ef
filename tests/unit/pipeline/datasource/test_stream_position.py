import json
from uuid import UUID

import pytest

from penstock.pipeline.datasource.stream_position import (
    FROM,
    UNBEGUN,
    StreamPosition,
    beginning_of,
    from_json,
    to_json,
    with_beginning,
)

A1, A10, B2 = ("a", 1), ("a", 10), ("b", 2)
FIRST, SECOND = UUID(int=1), UUID(int=2)


def test_json_has_sorted_keys_and_comes_back() -> None:
    position = StreamPosition({B2: 5, A10: 7, A1: 6}, {"b": SECOND, "a": FIRST})
    ids = '"#ids": {"a": "AAAAAAAAAAAAAAAAAAAAAQ", "b": "AAAAAAAAAAAAAAAAAAAAAg"}'
    assert json.dumps(to_json(position)) == f'{{{ids}, "a": {{"1": 6, "10": 7}}, "b": {{"2": 5}}}}'
    assert from_json(to_json(position)) == position


def test_a_checkpoint_without_ids_has_the_layout_of_the_jvm_connector() -> None:
    position = from_json({"a": {"1": 6}})
    assert position == StreamPosition({A1: 6})
    assert to_json(position) == {"a": {"1": 6}}


def test_a_topic_with_another_id_carries_nothing_on() -> None:
    position = StreamPosition({A1: 6, B2: 5}, {"a": FIRST, "b": FIRST})
    assert position.carried({"a": FIRST, "b": SECOND}) == {A1: 6}
    assert position.recreated({"a": FIRST, "b": SECOND}) == {"b"}


@pytest.mark.parametrize("topic_ids", [{}, {"a": SECOND}])
def test_an_id_that_one_side_does_not_know_says_nothing(topic_ids: dict[str, UUID]) -> None:
    assert StreamPosition({A1: 6}).carried(topic_ids) == {A1: 6}
    assert StreamPosition({B2: 5}, {"b": FIRST}).carried(topic_ids) == {B2: 5}


def test_the_end_of_a_first_batch_tells_where_it_begins() -> None:
    begin, end = StreamPosition({A1: 3}, {"a": FIRST}), StreamPosition({A1: 6}, {"a": FIRST})
    stored = with_beginning(end, begin)
    assert (from_json(stored), from_json(stored[FROM])) == (end, begin)
    assert from_json(with_beginning(begin, StreamPosition({}))[FROM]) == StreamPosition({})


def test_a_batch_begins_where_the_one_before_ended_but_where_that_found_no_beginning() -> None:
    before, first = StreamPosition({A1: 6, A10: 2}, {"a": FIRST}), StreamPosition({A1: 3, A10: 4, B2: 5}, {"a": FIRST})
    start, end = to_json(before), with_beginning(StreamPosition({A1: 9, A10: 9, B2: 9}), first)
    assert beginning_of({}, to_json(first)) is None
    assert beginning_of({}, end) == first
    assert beginning_of(start, to_json(first)) == beginning_of(start, end) == before
    assert beginning_of(start, end | {UNBEGUN: True}) == StreamPosition({A1: 6, A10: 4, B2: 5}, {"a": FIRST})
    again = to_json(StreamPosition(before.offsets, {"a": SECOND}))
    assert beginning_of(again, end | {UNBEGUN: True}) == first
    assert from_json(end | {UNBEGUN: True}) == from_json(end)
