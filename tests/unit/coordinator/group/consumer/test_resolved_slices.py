"""What is written of topics that expressions match: how much at once, when the group's epoch moves, and when nothing
is, as the group is gone.
"""

from collections import deque
from collections.abc import Mapping

import pytest
from tests.unit.coordinator.group.consumer.bench import AT_ONCE, GROUP, Bench, told

from penstock.coordinator.group.consumer import resolving
from penstock.protocol.errors import ErrorCode

REFRESH_MS = AT_ONCE.consumer.regex_refresh_interval_ms


def matching(*expressions: str, **topics: int) -> Bench:
    """A group whose members ask for an expression each, all of which are resolved."""
    bench = Bench(AT_ONCE, **(topics or {"a": 1, "b": 1}))
    for number, expression in enumerate(expressions):
        bench.join(f"m{number}", subscribed_topic_regex=expression)
    bench.come_back()
    if len(expressions) > 1:
        bench.advance(resolving.LEAST_PAUSE_MS + 1)
        bench.beat("m0", 1)
        bench.come_back()
    bench.advance(1_000)
    bench.log.clear()
    return bench


def found(bench: Bench, matches: Mapping[str, tuple[str, ...]]) -> list[list[str]]:
    """What comes of it: the expressions that each write has."""
    house = bench.shard.consumers._house
    written = len(bench.log)
    resolving._write_some(house, bench.group, lambda _: True, 9, bench.now_ms, deque(matches.items()), bench.now_ms)
    bench.take(house.table.take_effects())
    bench.advance(1_000)
    return [expressions_in(append.records) for append in bench.log[written:]]


def expressions_in(records: object) -> list[str]:
    assert isinstance(records, list | tuple)
    return [key.decode("utf-8", "replace")[-1] for key, _ in records if key[1] == 16]


def epoch(bench: Bench) -> int:
    return int(bench.described().group_epoch)


@pytest.mark.parametrize(
    ("later_ms", "new_topics", "is_matched"),
    [
        (resolving.LEAST_PAUSE_MS, True, False),
        (resolving.LEAST_PAUSE_MS + 1, True, True),
        (resolving.LEAST_PAUSE_MS + 1, False, False),
        (REFRESH_MS, False, False),
        (REFRESH_MS + 1, False, True),
    ],
)
def test_when_it_is_matched_again(later_ms: int, new_topics: bool, is_matched: bool) -> None:
    bench = Bench(AT_ONCE, a=1)
    bench.join("m0", subscribed_topic_regex="[ac]")
    bench.come_back()
    if new_topics:
        bench.grow("c", 1)
    before, house = bench.described(), bench.shard.consumers._house
    bench.now_ms += later_ms
    resolving.resolve_if_due(house, bench.group, lambda _: True, bench.now_ms)
    bench.take(house.table.take_effects())
    assert bool(bench.errands) is is_matched
    if is_matched and not new_topics:
        bench.come_back()
        assert bench.described() == before, "nothing has changed by it"


def test_what_could_not_be_looked_for_is_looked_for_again() -> None:
    bench = Bench(AT_ONCE, a=1)
    bench.join("m0", subscribed_topic_regex="[ac]")
    errand = bench.errands.pop()
    bench.take(bench.shard.came_back(errand.errand_id, None, ErrorCode.NETWORK_EXCEPTION, bench.now_ms))
    bench.beat("m0", 1)
    bench.come_back()
    assert told(bench.beat("m0", 1)) == {"a": [0]}


def test_what_nobody_asks_for_any_more_is_not_written_and_the_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = matching("a|1", "b|2")
    assert found(bench, {"x": ("a",), "b|2": (), "y": ("b",), "a|1": ()}) == [["2", "1"]]
    monkeypatch.setattr(resolving, "BYTES_AT_ONCE", 6)
    left = deque[tuple[str, tuple[str, ...]]]([("x", ("a", "b")), ("b|2", ("a", "b"))])
    house = bench.shard.consumers._house
    resolving._write_some(house, bench.group, lambda _: True, 9, bench.now_ms, left, bench.now_ms)
    assert not left, "what is not written takes no room"


@pytest.mark.parametrize(("room", "writes"), [(5, [["1"], ["2"]]), (6, [["1", "2"]]), (7, [["1", "2"]])])
def test_one_write_has_as_many_names_as_there_is_room(
    room: int, writes: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = matching("a|1", "b|2")
    monkeypatch.setattr(resolving, "BYTES_AT_ONCE", room)
    assert found(bench, {"a|1": ("a",), "b|2": ("b",)}) == writes


@pytest.mark.parametrize(("names", "writes"), [(2, [["1"], ["2"]]), (3, [["1", "2"]]), (4, [["1", "2"]])])
def test_some_names_are_looked_at_before_the_others_have_their_turn(
    names: int, writes: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = matching("a|1", "b|2")
    monkeypatch.setattr(resolving, "NAMES_AT_ONCE", names)
    assert found(bench, {"a|1": ("a",), "b|2": ("b",)}) == writes


@pytest.mark.parametrize(("topics", "moves"), [(("a",), 0), (("a", "b"), 1), ((), 1)])
def test_the_epoch_moves_where_an_expression_matches_others(topics: tuple[str, ...], moves: int) -> None:
    bench = matching("a|1")
    before = epoch(bench)
    assert found(bench, {"a|1": topics}) == [["1"]]
    assert epoch(bench) == before + moves


def test_the_epoch_moves_once_where_topics_are_not_what_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """It moves when all is written."""
    bench = matching("a|1", "b|2")
    monkeypatch.setattr(resolving, "NAMES_AT_ONCE", 1)
    before, bench.holds = epoch(bench), True
    bench.grow("a", 1)
    house = bench.shard.consumers._house
    left = deque[tuple[str, tuple[str, ...]]]([("a|1", ("a",)), ("b|2", ("b",))])
    resolving._write_some(house, bench.group, lambda _: True, 9, bench.now_ms, left, bench.now_ms)
    bench.take(house.table.take_effects())
    assert (bench.group.state.epoch, bench.group.is_resolving) == (before, True)
    bench.advance(1_000)
    assert (bench.group.state.epoch, bench.group.is_resolving) == (before + 1, False)


def test_nothing_is_written_for_a_group_that_is_being_deleted() -> None:
    bench = matching("a|1")
    group = bench.group
    group.kill(bench.now_ms)
    before = bench.shard.next_deadline_ms()
    assert found(bench, {"a|1": ("a", "b")}) == []
    assert (group.is_resolving, bench.shard.next_deadline_ms()) == (False, before)


def test_nothing_is_written_for_a_group_of_which_no_record_is_left() -> None:
    bench = matching("a|1")
    group = bench.group
    bench.shard._table.image.of_kind(group.kind).pop(GROUP)
    group.sessions.clear()
    before = bench.shard.next_deadline_ms()
    assert found(bench, {"a|1": ("a", "b")}) == []
    assert (group.is_resolving, bench.shard.next_deadline_ms(), group.exists) == (False, before, False)
