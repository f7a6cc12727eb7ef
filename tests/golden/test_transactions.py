from collections.abc import Callable, Iterable

from tests.golden.transaction_lecture import TransactionLecture


def test_drawn(transcript: Callable[[str, Callable[[str], Iterable[object]]], None]) -> None:
    transcript("transactions/drawn.txt", TransactionLecture().handle)
