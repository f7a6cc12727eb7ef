"""When share coordinators are asked again that refuse: after pauses that double, from the first one on each time."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from tests.unit.coordinator.group.share.bench import GROUP, Bench, topic_id

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.delete_share_group_state import DeleteShareGroupStateRequest
from penstock.protocol.messages.initialize_share_group_state import InitializeShareGroupStateRequest

REFUSED = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
DOUBLED = [100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000]


class Asked(Bench):
    """Remembers when the share coordinator was asked what."""

    def __init__(self) -> None:
        self.at_ms: list[tuple[type[Any], int]] = []
        super().__init__(a=1)
        asked = self.states.asked

        def noted(job: Any) -> Any:
            self.at_ms.append((type(job.request), self.now_ms))
            return asked(job)

        self.states.asked = noted  # type: ignore[method-assign]

    def pauses(self, kind: type[Any]) -> list[int]:
        times = [at_ms for of, at_ms in self.at_ms if of is kind]
        return [later - earlier for earlier, later in pairwise(times)]

    def restart(self) -> None:
        self.at_ms.clear()
        super().restart()


def joins(bench: Asked) -> None:
    bench.states.refuses = REFUSED
    bench.join("m", "a")


def forgets(bench: Asked) -> None:
    bench.alter(a={0: 5})
    bench.states.refuses = REFUSED
    bench.delete_offsets("a")


WAYS: dict[str, tuple[Callable[[Asked], None], type[Any]]] = {
    "begins": (joins, InitializeShareGroupStateRequest),
    "deletes": (forgets, DeleteShareGroupStateRequest),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_another", [False, True])
def test_pauses_double_up_to_the_longest(way: str, is_another: bool) -> None:
    """`is_another`: a coordinator that takes over begins anew."""
    begin, kind = WAYS[way]
    bench = Asked()
    bench.at_ms.clear()
    begin(bench)
    if is_another:
        bench.advance(1_000)
        bench.restart()
    bench.advance(120_000)
    assert bench.pauses(kind)[: len(DOUBLED)] == DOUBLED
    bench.states.refuses = None
    bench.advance(30_000)
    bench.at_ms.clear()
    bench.advance(120_000)
    assert bench.at_ms == [], "what is done is not asked for again"


@pytest.mark.parametrize("way", WAYS)
def test_what_was_done_and_cannot_be_written_is_done_again_after_the_first_pause(way: str) -> None:
    begin, kind = WAYS[way]
    bench = Asked()
    begin(bench)
    bench.at_ms.clear()
    bench.states.refuses = None
    bench.advance(50)
    bench.holds = True
    while not bench.under_way:
        bench.advance(10)
    assert [of for of, _ in bench.at_ms] == [kind]
    bench.fail()
    failed_ms = bench.now_ms
    bench.holds = False
    bench.advance(99)
    assert len(bench.at_ms) == 1
    bench.advance(1)
    assert bench.at_ms[1:] == [(kind, failed_ms + 100)]
    bench.advance(120_000)
    assert len(bench.at_ms) == 2
    known = bench.group.state.partitions
    assert (list(known.initialized), list(known.deleting)) == ([topic_id("a")] if way == "begins" else [], [])


def test_a_topic_that_is_gone_is_asked_for_no_more() -> None:
    bench = Asked()
    joins(bench)
    bench.remove("a")
    bench.at_ms.clear()
    bench.advance(120_000)
    assert bench.at_ms == []
    assert bench.group.state.partitions.is_empty


def test_a_group_that_is_gone_asks_no_more() -> None:
    bench = Asked()
    joins(bench)
    bench.beat("m", -1)
    bench.shard._table.groups[GROUP].kill(bench.now_ms)
    bench.at_ms.clear()
    bench.states.refuses = None
    bench.advance(120_000)
    assert bench.at_ms == []
