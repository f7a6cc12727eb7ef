"""In which fields two values differ."""

from collections.abc import Iterator, Mapping
from typing import Any

from penstock.protocol.value import Value


def changed(value: Any, other: Any, name: str = "") -> Iterator[str]:
    """`field=value` for each field of `value` that is another one in `other`, down to the smallest."""
    before = f"{name}." if name else ""
    if isinstance(value, Value) and type(value) is type(other):
        names: tuple[str, ...] = type(value).__match_args__
        for one in names:
            yield from changed(getattr(value, one), getattr(other, one), f"{before}{one}")
    elif isinstance(value, Mapping) and isinstance(other, Mapping):
        for key in value:
            yield from changed(value[key], other.get(key), f"{before}{key}")
        yield from (f"{before}{key} is gone" for key in other if key not in value)
    elif isinstance(value, tuple) and isinstance(other, tuple) and len(value) == len(other):
        for number, pair in enumerate(zip(value, other, strict=True)):
            yield from changed(*pair, f"{before}{number}")
    elif value != other:
        yield f"{name}={value!r}"
