"""What the console and its process apart say to each other: a length and so many bytes.

The process believes the console, whose questions are pickled. The console believes nothing of what comes back, for
strangers' bytes were read there: answers are JSON of a bounded length.
"""

import json
import pickle
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, Final

from penstock.console.apart.schema import KnownSchema
from penstock.protocol.value import Value

LENGTH_BYTES: Final = 4
MOST_ANSWERED: Final = 32 * 1024 * 1024
"""Of one record: its key and its value, each escaped as JSON."""


class Raw(Value):
    """A record as it came. Keys and values whose schema is known have its number in `schemas`, key first."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    schemas: tuple[int | None, int | None]


class Begin(Value):
    """With an expression, or the empty text for none. Answered."""

    expression: str


class Learn(Value):
    """Not answered."""

    schema: KnownSchema


class Look(Value):
    """An answer for each record. `most` is how many bytes of a decoded text are sent back."""

    records: Sequence[Raw]
    most: int


class Make(Value):
    """Values of JSON by a schema. An answer for each."""

    schema: KnownSchema
    texts: Sequence[str]


Question = Begin | Learn | Look | Make


def packed(question: Question) -> bytes:
    body = pickle.dumps(question)
    return len(body).to_bytes(LENGTH_BYTES) + body


def read_question(stream: BinaryIO) -> Question | None:
    """None at the end."""
    head = stream.read(LENGTH_BYTES)
    if len(head) < LENGTH_BYTES:
        return None
    question: Question = pickle.loads(stream.read(int.from_bytes(head)))
    return question


def write_answer(stream: BinaryIO, answer: Mapping[str, Any]) -> None:
    body = json.dumps(answer).encode()
    stream.write(len(body).to_bytes(LENGTH_BYTES) + body)
    stream.flush()
