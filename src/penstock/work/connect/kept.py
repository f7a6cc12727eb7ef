"""Tables of what was looked up or made once: they keep so many of it, and what came first goes first."""

from typing import Final, TypeVar

MOST: Final = 1_000
Key = TypeVar("Key")
Value = TypeVar("Value")


def keep(table: dict[Key, Value], key: Key, value: Value) -> Value:
    if key not in table and len(table) >= MOST:
        del table[next(iter(table))]
    table[key] = value
    return value
