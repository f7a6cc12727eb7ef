"""Errors for people: one sentence that says what is wrong and what to do, also at the front of Spark's long traces.

Spark prints the whole Python traceback of its driver-side workers. For our errors the traceback says nothing, so
`plain_errors` asks Spark to leave it out; the worker process ends with the error, so that no other error is affected.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.protocol.errors import DecodeError, KafkaError

WORKER_VARIABLE = "SPARK_BUFFER_SIZE"
"""Spark sets it in each of its Python workers."""
HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"

OUT_OF_REACH = "StatusCode.UNAVAILABLE"
"""In the text of Spark's error where a server of Spark Connect does not answer."""
NO_ANSWER = "the server of Spark Connect does not answer"


class PipelineError(Exception):
    """The text is one or two whole sentences for people. `option` is the one that is wrong, where it is one."""

    def __init__(self, text: str, *, option: str = "") -> None:
        super().__init__(text)
        self.option = option


class UnfitSchemaError(ValueError):
    """A schema that cannot be read, or has no column type."""


PipelineError.__module__ = "penstock"

IN_A_TRACE = re.compile(r"penstock\.PipelineError: (?P<message>[^\n]+)")


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn errors of the cluster and of users into a PipelineError; within a Spark worker hide its traceback."""
    try:
        yield
    except (PipelineError, KafkaError, OSError, DecodeError) as error:
        if WORKER_VARIABLE in os.environ:
            os.environ[HIDE_TRACEBACK] = "1"
        if isinstance(error, PipelineError):
            raise
        raise PipelineError(str(error) or type(error).__name__) from error


def message_in(text: str) -> str | None:
    """The sentence of a PipelineError within any trace that Spark made of it; None if there is none."""
    found = IN_A_TRACE.search(text)
    return found.group("message").strip() if found else None
