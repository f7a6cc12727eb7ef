from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from tests.golden.transcript import play


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write the answers of golden transcripts anew")


@pytest.fixture
def transcript(request: pytest.FixtureRequest) -> Callable[[str, Callable[[str], Iterable[object]]], None]:
    """Plays the transcript of that name in this folder: `transcript("smooth_transfer.txt", handle)`."""
    folder = Path(__file__).parent
    rewrite = bool(request.config.getoption("--rewrite", default=False))

    def play_file(name: str, handle: Callable[[str], Iterable[object]]) -> None:
        play(folder / name, handle, rewrite=rewrite)

    return play_file
