"""Whatever one client asks, nothing holds the event loop for long: each API, with the largest that it takes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.slices.measured import Case, ask, cases, full_node, name_of
from tests.slices.monitor import WatchedNode
from tests.slices.requests import There

MANY = 2_000
"""Things that a request asks about: so many that an API that does all of it in one go takes too long."""
MOST_LINES = 50_000
"""Of one slice: some 3 ms."""

Full = tuple[WatchedNode, There]


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Full]:
    with full_node(str(tmp_path_factory.mktemp("watched")), MANY, counts_lines=True) as full:
        yield full


@pytest.mark.xdist_group("longest-slice")
@pytest.mark.parametrize("case", list(cases(MANY, all_versions=False)), ids=name_of)
def test_no_slice_is_long(full: Full, case: Case) -> None:
    node, there = full
    ask(node, there, case)
    assert node.longest <= MOST_LINES, node.where
