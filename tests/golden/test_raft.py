from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from tests.golden.raft_lecture import RaftLecture
from tests.golden.transcript import play
from tests.simulation import planted

LECTURES = sorted(path.name for path in (Path(__file__).parent / "raft").glob("*.txt"))


@pytest.mark.parametrize("name", LECTURES)
def test_lecture(name: str, transcript: Callable[[str, Callable[[str], Iterable[object]]], None]) -> None:
    transcript(f"raft/{name}", RaftLecture().handle)


def test_figure_8_tells_who_commits_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record of an older epoch that is taken for committed, and then is overwritten."""
    planted.high_watermark_of_older_epochs(monkeypatch)
    path = Path(__file__).parent / "raft" / "05_figure_8_overwritten.txt"
    with pytest.raises(AssertionError, match="commits up to 2"):
        play(path, RaftLecture().handle)
