from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from tests.golden.consumer_lecture import ConsumerLecture

LECTURES = sorted(path.name for path in (Path(__file__).parent / "consumer_groups").glob("*.txt"))


@pytest.mark.parametrize("name", LECTURES)
def test_lecture(name: str, transcript: Callable[[str, Callable[[str], Iterable[object]]], None]) -> None:
    transcript(f"consumer_groups/{name}", ConsumerLecture().handle)
