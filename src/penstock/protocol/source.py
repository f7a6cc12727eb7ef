"""What the compilers of readers and writers share: wire kinds, and Python source in the making."""

from collections.abc import Callable
from functools import cache
from struct import Struct, calcsize
from typing import Any, Final

from penstock.protocol.schema import Field, Message, parse_versions

FIXED: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
FIXED_SIZE: Final = {kind: calcsize(f">{code}") for kind, code in FIXED.items()}
PACKED_ARRAYS: Final = frozenset(FIXED) - {"bool", "uuid"}
SHORT_ARRAY: Final = 16


@cache
def short_arrays(kind: str) -> tuple[Struct, ...]:
    """Most arrays of numbers have fewer than SHORT_ARRAY items (replicas, isr)."""
    return tuple(Struct(f">{length}{FIXED[kind]}") for length in range(SHORT_ARRAY))


class Version:
    """Flexible versions have short lengths and tagged fields."""

    __slots__ = ("flexible", "number")

    def __init__(self, cls: type[Message], number: int) -> None:
        if number not in parse_versions(cls.__versions__):
            raise ValueError(f"{cls.__name__} has the versions {cls.__versions__}, not {number}")
        self.number = number
        self.flexible = number in parse_versions(cls.__flexible__)


class Source:
    """Lines of a function in the making, and the objects that they name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.scope: dict[str, Any] = {}
        self.depth = 1
        self._names = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def constant(self, prefix: str, value: object) -> str:
        """The name under which the function finds an object."""
        name = self.name(prefix)
        self.scope[name] = value
        return name

    def function(self, signature: str) -> Callable[..., Any]:
        """Compile the lines under a signature such as `read(buf, pos)`."""
        exec(f"def {signature}:\n" + "\n".join(self.lines), self.scope)
        compiled: Callable[..., Any] = self.scope[signature.partition("(")[0]]
        return compiled


def fields_in(cls: type[Message], version: Version) -> tuple[dict[str, Field], dict[str, Field], dict[str, Field]]:
    """Returns the plain, tagged (in the order of tags), and absent fields."""
    plain: dict[str, Field] = {}
    tagged: dict[str, Field] = {}
    absent: dict[str, Field] = {}
    for name, item in cls.__fields__.items():
        if not item.is_in(version.number):
            absent[name] = item
        elif item.is_tagged_in(version.number):
            tagged[name] = item
        else:
            plain[name] = item
    return plain, dict(sorted(tagged.items(), key=lambda pair: pair[1].tag or 0)), absent


def min_size(cls: type[Message], version: Version) -> int:
    """It bounds an array of structures before that is allocated."""
    plain, _, _ = fields_in(cls, version)
    size = int(version.flexible)
    for item in plain.values():
        if item.is_array:
            size += 1 if version.flexible and item.flexible else 4
        elif not isinstance(item.kind, str):
            size += 1 if item.is_nullable_in(version.number) else min_size(item.kind, version)
        else:
            size += min_size_of(item.kind, version.flexible and item.flexible)
    return size


def min_size_of(kind: str, flexible: bool) -> int:
    if kind in FIXED_SIZE:
        return FIXED_SIZE[kind]
    if flexible:
        return 1
    return 2 if kind == "string" else 4
