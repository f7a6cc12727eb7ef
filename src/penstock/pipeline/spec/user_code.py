"""Where in a person's own pipeline file an error arose: on the driver, or in a function that Spark ran elsewhere."""

import re
import traceback
from pathlib import Path


def described(error: BaseException, file: Path | None) -> str | None:
    """File, line and error in a sentence; None where the error has nothing to do with the file."""
    if file is None:
        return None
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return f"{file}, line {error.lineno}: {type(error).__name__}: {error.msg}."
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    if lines:
        return f"{file}, line {lines[-1]}: {type(error).__name__}: {first_line(str(error))}"
    trace = str(error).rpartition(f'File "{file}", line ')[2]  # of a worker, in Spark's text
    found = re.match(r"(\d+).*(?:\n\s.*)*\n(\S.*)", trace)
    return f"{file}, line {found[1]}: {found[2].strip()}" if found else None


def first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
