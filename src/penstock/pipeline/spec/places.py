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


class Places(Value):
    file: str = ""
    known: Mapping[Way, Place] = fresh(dict)

    def of(self, way: Way) -> str:
        """The file and the place of the value, or of the nearest one around it; empty where none is known."""
        while way and way not in self.known:
            way = way[:-1]
        return f"{self.file}, {self.known[way]}" if way in self.known else ""


NOWHERE: Final = Places()


def places_of_literals(file: str, module: ast.Module, names: Mapping[str, str]) -> Places:
    """Of the parts that a Python file assigns as literals; `names` are the parts by their names there."""
    known: dict[Way, Place] = {}
    for statement in module.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            part = names.get(statement.targets[0].id)
            if part is not None:
                known[(part,)] = Place(statement.lineno, statement.col_offset + 1)
                known.update(_within(statement.value, (part,)))
    return Places(file, known)


def _within(node: ast.expr, way: Way) -> Iterator[tuple[Way, Place]]:
    inner: list[tuple[str | int, ast.expr, ast.expr]] = []
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        inner = [(str(key.value), key, value) for key, value in pairs if isinstance(key, ast.Constant)]
    elif isinstance(node, ast.List | ast.Tuple):
        inner = [(number, item, item) for number, item in enumerate(node.elts)]
    for name, at, value in inner:
        yield (*way, name), Place(at.lineno, at.col_offset + 1)
        yield from _within(value, (*way, name))
