"""Where in a person's own pipeline file an error arose: on the driver, or in a function that Spark ran elsewhere."""

import re
import traceback
from pathlib import Path

from penstock.pipeline.errors import NO_ANSWER, OUT_OF_REACH, message_in


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


def plain_message(error: Exception) -> str:
    """Our own sentence within Spark's text if there is one, else what Python raised, else the text's first line."""
    text = str(error)
    if OUT_OF_REACH in text:
        return NO_ANSWER
    _, is_there, trace = text.partition("Traceback (most recent call last):\n")
    raised = next((line for line in trace.splitlines() if line.strip() and not line.startswith(" ")), "")
    return message_in(text) or (raised if is_there else "") or first_line(text) or type(error).__name__
