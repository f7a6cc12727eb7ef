from pathlib import Path

from penstock.pipeline.spec.user_code import described

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
