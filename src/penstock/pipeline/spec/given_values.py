"""`${NAME}` within the values of a pipeline's file: what `--set NAME=value` says, else the part `set` of the file.

Spark's own variables in SQL, which have a dot or a colon, are left to Spark; and so are references of workers, such as
`${file:/secrets:password}`.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from penstock.pipeline.options.values import nearest
from penstock.pipeline.spec.places import Way

SET: Final = "set"
"""The part of a file that has defaults: null for a name that must be given."""
REFERENCE: Final = re.compile(r"\$\{([A-Za-z_]\w*)\}", re.ASCII)


def with_values(parts: Mapping[str, object], given: Mapping[str, str]) -> tuple[dict[str, Any], list[tuple[Way, str]]]:
    """The parts with values in place of names, without `set`; and what is wrong, with its place."""
    declared = parts.get(SET)
    defaults = declared if isinstance(declared, Mapping) else {}
    filling = _Filling({name: str(value) for name, value in defaults.items() if value is not None} | dict(given))
    if declared is not defaults and declared is not None:
        filling.problems.append(((SET,), "set must be a table of names with their values."))
    filled = {part: filling.of(value, (part,)) for part, value in parts.items() if part != SET}
    known = {*defaults, *filling.names}
    for name in given:
        if name not in known:
            hint = nearest(name, known) or f" It has {', '.join(sorted(known)) or 'no names'}."
            filling.problems.append(((), f"--set {name}: the file has no ${{{name}}}.{hint}"))
    return filled, filling.problems


class _Filling:
    def __init__(self, values: Mapping[str, str]) -> None:
        self.problems: list[tuple[Way, str]] = []
        self.names: set[str] = set()
        self._values = values

    def of(self, value: object, way: Way) -> object:
        if isinstance(value, Mapping):
            return {key: self.of(item, (*way, str(key))) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.of(item, (*way, number)) for number, item in enumerate(value)]
        return REFERENCE.sub(lambda found: self._value(found, way), value) if isinstance(value, str) else value

    def _value(self, found: re.Match[str], way: Way) -> str:
        name = found[1]
        self.names.add(name)
        if name not in self._values:
            self.problems.append((way, f"${{{name}}} has no value: say --set {name}=…, or one in the part set."))
        return self._values.get(name, name)
