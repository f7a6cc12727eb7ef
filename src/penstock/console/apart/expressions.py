"""An expression of JMESPath that a record has to match: a language of questions alone, which can call nothing."""

import json
from collections.abc import Sequence
from typing import Any, Final

import jmespath
from jmespath.exceptions import JMESPathError

from penstock.protocol.value import Value

FALSE: Final[tuple[object, ...]] = (None, False, "", [], {})
"""What JMESPath takes for no; a number is none of them, also 0."""


class ExpressionError(Exception):
    """It cannot be read, or makes no sense for a record."""


class Looked(Value):
    """A record as an expression sees it. Keys and values are JSON where they can be, else text, else null."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: str | None
    value: str | None
    headers: Sequence[tuple[str, str | None]]


class Expression:
    def __init__(self, text: str) -> None:
        """ExpressionError says where it is wrong."""
        try:
            self._compiled = jmespath.compile(text)
        except RecursionError:
            raise ExpressionError("it is nested too deeply") from None
        except (JMESPathError, ValueError) as error:
            raise ExpressionError(str(error).replace("\n", " ")) from None

    def matches(self, record: Looked) -> bool:
        """ExpressionError where the record has not what the expression needs, as a number to compare."""
        document = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp_ms,
            "key": _document(record.key),
            "value": _document(record.value),
            "headers": dict(record.headers),
        }
        try:
            found = self._compiled.search(document)
        except (JMESPathError, ValueError, TypeError, ArithmeticError, RecursionError) as error:
            raise ExpressionError(str(error)) from None
        return not any(found is one or (found == one and type(found) is type(one)) for one in FALSE)


def _document(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
