"""What stands behind the question mark of an address, checked: each value has a limit, and a wrong one is refused."""

from collections.abc import Mapping
from typing import Final

from penstock.console.errors import bad_request

LONGEST: Final = 1_000
MAX_ROWS: Final = 500
"""In one answer."""

Query = Mapping[str, str]


def text(query: Query, name: str, default: str = "") -> str:
    value = query.get(name, default)
    if len(value) > LONGEST:
        raise bad_request(f"{name} is longer than {LONGEST} characters")
    return value


def needed(query: Query, name: str) -> str:
    value = text(query, name)
    if not value:
        raise bad_request(f"{name} is missing")
    return value


def number(query: Query, name: str, default: int, most: int = 2**63 - 1) -> int:
    value = text(query, name)
    if not value:
        return default
    if not value.isascii() or not value.isdigit() or int(value) > most:
        raise bad_request(f"{name} is a number from 0 to {most}")
    return int(value)


def one_of(query: Query, name: str, *words: str) -> str:
    """The first is the default."""
    value = text(query, name) or words[0]
    if value not in words:
        raise bad_request(f"{name} is one of {', '.join(words)}")
    return value
