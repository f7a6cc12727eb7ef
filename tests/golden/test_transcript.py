from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.golden.transcript import play

LECTURE = """# A counter counts.
# It starts at nought.
add 2
add 3
----
2
5

Prose between steps is left alone.

nothing
----
ok
"""


class Counter:
    def __init__(self) -> None:
        self.total = 0

    def handle(self, line: str) -> Iterable[object]:
        word, _, number = line.partition(" ")
        if word == "add":
            self.total += int(number)
            yield self.total


@pytest.fixture
def lecture(tmp_path: Path) -> Path:
    path = tmp_path / "lecture.txt"
    path.write_text(LECTURE)
    return path


def test_a_true_transcript_passes(lecture: Path) -> None:
    play(lecture, Counter().handle)


def test_a_wrong_answer_fails_and_shows_what_was_said(lecture: Path) -> None:
    lecture.write_text(LECTURE.replace("2\n5", "2\n6"))
    with pytest.raises(AssertionError, match="add 3"):
        play(lecture, Counter().handle)


def test_rewriting_changes_answers_only(lecture: Path) -> None:
    lecture.write_text(LECTURE.replace("2\n5", "7"))
    play(lecture, Counter().handle, rewrite=True)
    assert lecture.read_text() == LECTURE


def test_a_text_without_steps_proves_nothing(lecture: Path) -> None:
    lecture.write_text("# only prose\n")
    with pytest.raises(AssertionError, match="no step"):
        play(lecture, Counter().handle)
