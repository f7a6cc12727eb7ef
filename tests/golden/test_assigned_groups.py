from collections.abc import Callable, Iterable

import pytest
from tests.golden.assigned_lecture import AssignedLecture


@pytest.mark.parametrize("kind", ["share", "streams"])
def test_drawn(kind: str, transcript: Callable[[str, Callable[[str], Iterable[object]]], None]) -> None:
    transcript(f"assigned_groups/{kind}_drawn.txt", AssignedLecture().handle)
