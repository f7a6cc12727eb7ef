"""What a page asks to be changed, checked: each value has a type and a limit, and a wrong one is refused."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from penstock.console.errors import bad_request
from penstock.console.schemas import SchemaRegistry
from penstock.console.watched import WatchedCluster
from penstock.protocol.value import Value

MOST_CHARACTERS: Final = 600_000
"""Of a value that is sent."""
INT16: Final = 2**15 - 1
INT32: Final = 2**31 - 1
INT64: Final = 2**63 - 1

Asked = Mapping[str, Any]


class Means(Value):
    """By which changes are made. `properties` are the client's."""

    watched: WatchedCluster
    properties: Mapping[str, str]
    schemas: SchemaRegistry


class Change(Value):
    """`name` is the parameter that has to be typed again where the change is `dangerous`.

    `command` are the words of the command that does the same; it refuses what makes no sense. `apply` says what it did.
    """

    command: Callable[[Means, Asked], list[str]]
    apply: Callable[[Means, Asked], Awaitable[str]]
    name: str
    dangerous: bool = False
    reads: Callable[[Asked], str] | None = None
    """What the command reads from its standard input."""
    asks_cluster: bool = True
    """Whether the command has to know where brokers are."""


def text_of(asked: Asked, name: str) -> str:
    value = asked.get(name)
    if not isinstance(value, str) or not value or len(value) > 1_000:
        raise bad_request(f"{name} is a text of 1 to 1000 characters")
    return value


def one_of(asked: Asked, name: str, words: Mapping[str, Any]) -> Any:
    """What stands behind one of the words."""
    value = asked.get(name)
    if not isinstance(value, str) or value not in words:
        raise bad_request(f"{name} is one of {', '.join(words)}")
    return words[value]


def bytes_of(asked: Asked, name: str) -> bytes | None:
    value = asked.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > MOST_CHARACTERS:
        raise bad_request(f"{name} is a text of at most {MOST_CHARACTERS} characters")
    return value.encode()


def number_of(asked: Asked, name: str, default: int, most: int = INT64) -> int:
    """As a text, so that it has all its digits."""
    value = asked.get(name)
    if value in (None, ""):
        return default
    if not isinstance(value, str) or not value.isascii() or not value.isdigit() or len(value) > 19 or int(value) > most:
        raise bad_request(f"{name} is a text of digits, {most} at most")
    return int(value)


def pairs_of(asked: Asked, name: str) -> dict[str, str]:
    value = asked.get(name) or {}
    if not isinstance(value, dict) or len(value) > 100 or not all(isinstance(one, str) for one in value.values()):
        raise bad_request(f"{name} is an object of at most 100 texts")
    return dict(value)
