"""The transcript of expressions: the tree that each text becomes, with all the characters that it takes, or its fault.

A step is a text as JSON. Of characters ranges are shown; `~` stands for others, `i` for any case of letters.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from penstock.protocol.expressions.matcher import Matcher
from penstock.protocol.expressions.parse import Chars, Choice, ExpressionError, Node, Place, Repeat, parse


def told(node: Node) -> str:
    if isinstance(node, Chars):
        rows = [*((ord(one), ord(one)) for one in node.chars if len(one) == 1), *node.ranges]
        parts = [f"{low:x}" if low == high else f"{low:x}-{high:x}" for low, high in joined(sorted(rows))]
        parts += sorted(one for one in node.chars if len(one) > 1)
        return f"{'~' * node.negated}{'i' * node.folds}[{' '.join([*parts, *sorted(node.categories)])}]"
    if isinstance(node, Place):
        return node.what
    if isinstance(node, Repeat):
        return f"{told(node.part)}{{{node.least},{'' if node.most is None else node.most}}}"
    mark = "|" if isinstance(node, Choice) else " "
    return f"({mark.join(map(told, node.parts))})"


def joined(rows: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for low, high in rows:
        if found and found[-1][1] + 1 == low:
            found[-1] = found[-1][0], high
        else:
            found.append((low, high))
    return found


def handle(line: str) -> Iterable[str]:
    text = json.loads(line)
    try:
        tree = told(parse(text))
        states = len(Matcher(text)._next)
    except ExpressionError as error:
        return [f"refused: {error}"]
    return [tree, f"{states} states"]


def test_expressions(transcript: Callable[[str, Callable[[str], Iterable[object]]], None]) -> None:
    transcript("expressions.txt", handle)
