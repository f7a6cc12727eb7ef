"""Fields of a key or value, by their paths: what transforms name, at the top level or within other fields (KIP-821).

With `field.syntax.version=V1` a path is a name. With `V2` it is names with dots between them, and a name that has dots
itself stands in backticks: `address.city` and ``address.`postal.code` ``. A backtick within such a name that a dot
follows has a backslash before it.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock.work.connect.config import ConfigKey

SYNTAX: Final = ConfigKey(
    "field.syntax.version",
    default="V1",
    documentation="V2: names with dots between them lead into fields; V1: a name is one of the top level.",
    choices=("V1", "V2"),
    any_case=True,
    importance="high",
)
Path = tuple[str, ...]
_NAME: Final = re.compile(r"`(.*?)(?<!\\)`(?=\.|\Z)|([^`.][^.]*|)(?=\.|\Z)", re.DOTALL)


class TransformError(ValueError):
    pass


def path_of(text: str, syntax: str) -> Path:
    """ValueError."""
    if syntax == "V1":
        return (text,)
    names: list[str] = []
    start = 0
    while start <= len(text):
        found = _NAME.match(text, start)
        if found is None:
            raise ValueError(f"{text}: no backtick ends the name that begins with the one at {start}")
        quoted, bare = found.groups()
        names.append(bare if quoted is None else quoted.replace("\\`.", "`."))
        start = found.end() + 1
    return tuple(names)


def value_at(content: Any, path: Path) -> Any:
    """None within what is null; KeyError if there is no such field, TransformError if one on the way has none."""
    for name in path:
        if content is None:
            return None
        content = _fields(content, path)[name]
    return content


def schema_at(schema: Mapping[str, Any] | None, path: Path) -> Mapping[str, Any] | None:
    """None if it is not known."""
    for name in path:
        fields = (schema or {}).get("fields", ())
        schema = next((field for field in fields if field["field"] == name), None)
    return None if schema is None else {key: word for key, word in schema.items() if key != "field"}


def changed_at(content: Mapping[str, Any], path: Path, change: Callable[[Any], Any]) -> dict[str, Any]:
    """A field that is not there, or is null, stays so."""
    first, rest = path[0], path[1:]
    if content.get(first) is None:
        return dict(content)
    inner = content[first]
    return {**content, first: changed_at(_fields(inner, path), rest, change) if rest else change(inner)}


def _fields(content: Any, path: Path) -> Mapping[str, Any]:
    if not isinstance(content, Mapping):
        raise TransformError(f"{'.'.join(path)} leads into {content!r}, which has no fields")
    return content
