"""Where in its file each part of a pipeline stands, so that what is wrong is said with a line and a column."""

import ast
from collections.abc import Iterator, Mapping
from typing import Final

from penstock.protocol.value import Value, fresh

Way = tuple[str | int, ...]
"""From the top of the file to a value: names of keys, and numbers in lists."""


class Place(Value):
    """Both count from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


class TextPlace(Value):
    """Where each line of a text of several lines begins; the first only, where the others cannot be told."""

    file: str
    lines: tuple[Place, ...]

    def of(self, line: int, column: int) -> str:
        """The file and the place of a character of the text, both counted from 0."""
        if line >= len(self.lines):
            return f"{self.file}, {self.lines[0]}"
        begin = self.lines[line]
        return f"{self.file}, {begin.replace(column=begin.column + column)}"


class Places(Value):
    """`texts` are values that are a text."""

    file: str = ""
    known: Mapping[Way, Place] = fresh(dict)
    texts: Mapping[Way, tuple[Place, ...]] = fresh(dict)

    def of_text(self, way: Way) -> TextPlace | None:
        return TextPlace(self.file, self.texts[way]) if way in self.texts else None

    def of(self, way: Way) -> str:
        """The file and the place of the value, or of the nearest one around it; empty where none is known."""
        while way and way not in self.known:
            way = way[:-1]
        return f"{self.file}, {self.known[way]}" if way in self.known else ""


NOWHERE: Final = Places()


def places_of_literals(file: str, module: ast.Module, names: Mapping[str, str]) -> Places:
    """Of the parts that a Python file assigns as literals; `names` are the parts by their names there."""
    known: dict[Way, Place] = {}
    texts: dict[Way, tuple[Place, ...]] = {}
    for statement in module.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            part = names.get(statement.targets[0].id)
            if part is not None:
                for way, at, value in _within(statement, statement.value, (part,)):
                    known[way] = Place(at.lineno, at.col_offset + 1)
                    if isinstance(value, ast.Constant) and isinstance(value.value, str):
                        texts[way] = tuple(_lines(value, value.value))
    return Places(file, known, texts)


def _lines(node: ast.expr, text: str) -> Iterator[Place]:
    """Of a literal without a prefix, in three quotes where it has several lines."""
    quotes = 3 if node.end_lineno != node.lineno else 1
    yield Place(node.lineno, node.col_offset + 1 + quotes)
    if text.count("\n") == (node.end_lineno or 0) - node.lineno:
        yield from (Place(node.lineno + number, 1) for number in range(1, text.count("\n") + 1))


def _within(at: ast.stmt | ast.expr, node: ast.expr, way: Way) -> Iterator[tuple[Way, ast.stmt | ast.expr, ast.expr]]:
    """The value, which stands `at` a place, and all that is in it."""
    yield way, at, node
    inner: list[tuple[str | int, ast.expr, ast.expr]] = []
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        inner = [(str(key.value), key, value) for key, value in pairs if isinstance(key, ast.Constant)]
    elif isinstance(node, ast.List | ast.Tuple):
        inner = [(number, item, item) for number, item in enumerate(node.elts)]
    for name, place, value in inner:
        yield from _within(place, value, (*way, name))
