from collections.abc import Callable, Iterable

from tests.golden.kinds_lecture import KindsLecture


def test_drawn(transcript: Callable[[str, Callable[[str], Iterable[object]]], None]) -> None:
    transcript("kinds_drawn.txt", KindsLecture().handle)
