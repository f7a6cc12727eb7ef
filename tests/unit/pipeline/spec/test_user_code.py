from pathlib import Path
from typing import Any

import pytest

from penstock.pipeline.errors import NO_ANSWER
from penstock.pipeline.spec.user_code import described, first_line, plain_message

FILE = Path("/jobs/job.py")
SPARKS_TEXT = """[STREAM_FAILED] Query [id = 1] terminated with exception: Traceback (most recent call last):
  File "/lib/pyspark/worker.py", line 4327, in main
    process()
  File "/jobs/job.py", line 16, in number
    return parsed(value)
           ^^^^^^^^^^^^^
  File "/jobs/job.py", line 11, in parsed
    return int(value)
  File "/lib/other.py", line 3, in deeper
    fail()
ValueError: invalid literal: 'v0'

\tat org.apache.spark.api.python.BasePythonRunner
"""


def test_the_innermost_line_of_the_file_is_told() -> None:
    assert described(RuntimeError(SPARKS_TEXT), FILE) == "/jobs/job.py, line 11: ValueError: invalid literal: 'v0'"


def test_an_error_of_somebody_else_is_not_described() -> None:
    assert described(RuntimeError(SPARKS_TEXT), Path("/jobs/other.py")) is None
    assert described(RuntimeError("7\n\nx"), FILE) is None
    assert described(RuntimeError(SPARKS_TEXT), None) is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (SPARKS_TEXT, "ValueError: invalid literal: 'v0'"),
        ("\n  first  \nsecond", "first"),
        ("", "RuntimeError"),
        (" \n ", "RuntimeError"),
        ("org.x: penstock.PipelineError: There is no topic.\n at y", "There is no topic."),
        (f"{SPARKS_TEXT}penstock.PipelineError: There is no topic.\n", "There is no topic."),
        ("StatusCode.UNAVAILABLE: penstock.PipelineError: x", NO_ANSWER),
        ("before\nTraceback (most recent call last):\n  File x\n", "before"),
    ],
)
def test_what_is_told_of_an_error(text: str, told: str) -> None:
    assert plain_message(RuntimeError(text)) == told


def test_the_first_line_that_says_something() -> None:
    assert [first_line(text) for text in ("", "\n", " a \nb", "\n\tb")] == ["", "", "a", "b"]


def test_a_file_that_cannot_be_parsed_is_told_at_its_line(tmp_path: Path) -> None:
    file = tmp_path / "job.py"
    for place, told in ((file, f"{file}, line 2: SyntaxError: invalid syntax."), (tmp_path / "other.py", None)):
        with pytest.raises(SyntaxError) as raised:
            compile("x = 1\ny = = 2\n", str(place), "exec")
        assert described(raised.value, file) == told
    file.write_text("def fails():\n    inner()\n\n\ndef inner():\n    raise ValueError('  bad  ')\n")
    space: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), space)
    with pytest.raises(ValueError, match="bad") as failed:
        space["fails"]()
    assert described(failed.value, file) == f"{file}, line 6: ValueError: bad"
