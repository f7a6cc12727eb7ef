"""Reads YAML with the place of each value, and refuses at once what a pipeline never has.

| what | why it is refused |
| --- | --- |
| a key that is there twice | YAML lets the last one win, in silence |
| an alias within what it stands for | it has no end |
| more than `MOST_VALUES` values, each alias counted as what it stands for | half a kilobyte may be a billion |
| more than `DEEPEST` levels, `MOST_BYTES` | nobody writes that |
"""

from collections.abc import Iterator
from typing import Any, Final

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.spec.places import Place, Places, Way

MOST_BYTES: Final = 1 << 18
MOST_VALUES: Final = 20_000
DEEPEST: Final = 30
MERGE: Final = "tag:yaml.org,2002:merge"


def read_yaml(text: str, file: str) -> tuple[object, Places]:
    """PipelineError has a line for each mistake in the YAML itself."""
    try:
        import yaml
    except ImportError:
        raise PipelineError("Reading YAML needs PyYAML; install it with: pip install 'penstock[spark]'") from None
    if len(text) > MOST_BYTES:
        raise PipelineError(f"{file}: a pipeline of {len(text):,} characters; {MOST_BYTES:,} are the most.")
    try:
        _check_depth(yaml.parse(text, Loader=yaml.SafeLoader), file)
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        reader = _Reader(loader, file, text.splitlines())
        value = None if node is None else reader.value(node, ())
    except yaml.MarkedYAMLError as error:
        what = " ".join(filter(None, (error.context, error.problem)))
        mark = error.problem_mark or error.context_mark
        raise PipelineError(f"{file}{'' if mark is None else f', {_place(mark)}'}: {what}.") from None
    except (yaml.YAMLError, ValueError) as error:  # the latter: a date that is none
        raise PipelineError(f"{file}: {' '.join(str(error).split())}.") from None
    if reader.problems:
        raise PipelineError("\n".join(reader.problems))
    return value, Places(file, reader.places, reader.texts)


def _check_depth(events: Any, file: str) -> None:
    """Before anything is built of them, which goes down level by level."""
    depth = 0
    for event in events:
        name = type(event).__name__
        depth += name in ("MappingStartEvent", "SequenceStartEvent")
        depth -= name in ("MappingEndEvent", "SequenceEndEvent")
        if depth > DEEPEST:
            raise PipelineError(f"{file}, {_place(event.start_mark)}: more than {DEEPEST} levels.")


def _place(mark: Any) -> Place:
    return Place(mark.line + 1, mark.column + 1)


class _Reader:
    def __init__(self, loader: Any, file: str, lines: list[str]) -> None:
        self.problems: list[str] = []
        self.places: dict[Way, Place] = {}
        self.texts: dict[Way, tuple[Place, ...]] = {}
        self._lines = lines
        self._loader = loader
        self._file = file
        self._left = MOST_VALUES
        self._around: list[Any] = []

    def value(self, node: Any, way: Way) -> object:
        self.places.setdefault(way, _place(node.start_mark))
        self._left -= 1
        if self._left < 0:
            raise PipelineError(f"{self._file}: more than {MOST_VALUES:,} values, with what aliases stand for.")
        if any(node is one for one in self._around) or len(self._around) > DEEPEST:
            raise PipelineError(f"{self._file}, {_place(node.start_mark)}: an alias stands within itself, or too deep.")
        if not isinstance(node.value, list):
            scalar: object = self._loader.construct_object(node)
            if isinstance(scalar, str):
                self.texts[way] = tuple(self._text_lines(node))
            return scalar
        self._around.append(node)
        try:
            return self._table(node, way) if node.id == "mapping" else self._list(node, way)
        finally:
            self._around.pop()

    def _text_lines(self, node: Any) -> Iterator[Place]:
        begin = _place(node.start_mark)
        if node.style != "|":
            yield begin.replace(column=begin.column + (node.style in ("'", '"')))
            return
        lines = self._lines[begin.line : node.end_mark.line]
        filled = next((line for line in lines if line.strip()), "")
        indent = len(filled) - len(filled.lstrip())
        yield from (Place(begin.line + number, indent + 1) for number in range(1, len(lines) + 1))

    def _list(self, node: Any, way: Way) -> list[object]:
        return [self.value(item, (*way, number)) for number, item in enumerate(node.value)]

    def _table(self, node: Any, way: Way) -> dict[str, object]:
        found: dict[str, object] = {}
        merged: dict[str, object] = {}
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            if key_node.tag == MERGE:
                merged = self._merged(value_node, way) | merged
                continue
            place = _place(key_node.start_mark)
            if key_node.id != "scalar":
                self.problems.append(f"{self._file}, {place}: a key must be a word.")
                continue
            key = str(self._loader.construct_object(key_node))
            if key in found:
                self.problems.append(f"{self._file}, {place}: {key} is there twice, first in line {lines[key]}.")
            lines[key] = place.line
            self.places[(*way, key)] = place
            found[key] = self.value(value_node, (*way, key))
        return merged | found

    def _merged(self, node: Any, way: Way) -> dict[str, object]:
        """What `<<` takes from other tables, of which the first counts most."""
        found: dict[str, object] = {}
        for one in node.value if node.id == "sequence" else [node]:
            table = self.value(one, way)
            if not isinstance(table, dict):
                self.problems.append(f"{self._file}, {_place(one.start_mark)}: << takes tables only.")
                continue
            found = table | found
        return found
