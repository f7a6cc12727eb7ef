"""Reads definitions from a table in text: one line for a key, so that three hundred of them stay readable.

A line holds name, type, default, what is allowed, when it can be changed, importance, a bar and the documentation:

    num.partitions  int  1  1..  fixed  medium | Partitions of a topic that is created without a number.

Default: `null` is no default, `""` an empty text. Allowed: `*` for anything of the type, `1..` or `1..9` for a range,
`1..9/-1` for a range and one value beside it, `a/b/c` for one of these words. Changes: `fixed` until a restart,
`broker` for one broker while it runs, `cluster` for one broker or all. A line that begins with a bar goes on with the
documentation of the line above.
"""

from collections.abc import Iterator

from penstock.metadata.configs.definitions import (
    ConfigDefinition,
    ConfigType,
    Importance,
    OneOf,
    Range,
    UpdateMode,
    Validator,
)

_MODES = {"fixed": UpdateMode.READ_ONLY, "broker": UpdateMode.PER_BROKER, "cluster": UpdateMode.CLUSTER_WIDE}
_TYPES = {kind.name.lower(): kind for kind in ConfigType}


def read_table(text: str) -> dict[str, ConfigDefinition]:
    """A mistake in a table is a mistake of ours and raises."""
    definitions: dict[str, ConfigDefinition] = {}
    for facts, documentation in _lines(text):
        name, kind, default, allowed, mode, importance = facts.split()
        assert name not in definitions, f"{name} is defined twice"
        definitions[name] = ConfigDefinition(
            name=name,
            type=_TYPES[kind],
            default=_default(default),
            validator=_validator(allowed),
            documentation=documentation,
            importance=Importance(importance),
            mode=_MODES[mode],
        )
    return definitions


def _lines(text: str) -> Iterator[tuple[str, str]]:
    facts, documentation = "", ""
    for line in text.strip().splitlines():
        left, _, right = line.partition("|")
        if not left.strip():
            documentation += " " + right.strip()
            continue
        if facts:
            yield facts, documentation
        facts, documentation = left, right.strip()
    if facts:
        yield facts, documentation


def _default(text: str) -> str | None:
    if text == "null":
        return None
    return "" if text == '""' else text


def _validator(text: str) -> Validator | None:
    if text == "*":
        return None
    if ".." not in text:
        return OneOf(tuple(text.split("/")))
    numbers, _, also = text.partition("/")
    lower, _, upper = numbers.partition("..")
    return Range(_number(lower), _number(upper), _number(also))


def _number(text: str) -> int | None:
    return int(text) if text else None
