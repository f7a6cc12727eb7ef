"""The transcripts of share partitions: the cases of Kafka's SharePartitionTest, as tables."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from tests.golden.share_lecture import ShareLecture

TABLES = sorted(path.name for path in (Path(__file__).parent / "share_partitions").glob("*.txt"))


@pytest.mark.parametrize("name", TABLES)
def test_table(name: str, transcript: Callable[[str, Callable[[str], Iterable[object]]], None]) -> None:
    transcript(f"share_partitions/{name}", ShareLecture().handle)
