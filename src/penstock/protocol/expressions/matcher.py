"""Whether an expression matches a whole name, in time that grows with the name alone: all ways are gone at once.

The tree becomes an automaton without memory; the sets of its states that a name leads to are remembered as they come
up, so that most characters cost one look-up.
"""

from typing import Final

from penstock.protocol.expressions.parse import (
    WORD,
    Chars,
    Choice,
    ExpressionError,
    Node,
    Place,
    Repeat,
    parse,
)

MOST_STATES: Final = 5_000
"""Of an expression; one with more is refused."""
MOST_PARTS: Final = 10_000
"""Of an expression with what is repeated as often as it is, also what makes no state; one with more is refused."""
MOST_WORK: Final = 20_000_000
"""Looks at a state, over all names, by one expression or all of a group: some seconds of a thread."""
MOST_REMEMBERED: Final = 20_000
"""States in all the sets that are remembered, and `A_SET` for each; then all are forgotten."""
A_SET: Final = 5

_BEGIN: Final = 0
_WORD: Final = 1
_OTHER: Final = 2
_END: Final = ""
"""In place of the next character."""

_Set = tuple[frozenset[int], int]
"""States before what takes no character, and what stands before them."""


class Matcher:
    def __init__(self, text: str, most_states: int = MOST_STATES, most_work: float = MOST_WORK) -> None:
        """Raises ExpressionError."""
        self._most_states = most_states
        self._most_work = most_work
        self._chars: list[Chars | None] = []
        """What a state takes to go on; None if it takes nothing."""
        self._places: list[str] = []
        """What must hold here, where a state takes nothing."""
        self._next: list[list[int]] = []
        self._parts = 0
        end = self._state()
        self._accepts = end
        self._begin: _Set = (frozenset({self._compiled(parse(text), end)}), _BEGIN)
        self._steps: dict[tuple[_Set, str], _Set] = {}
        self._remembered = 0
        self.work = 0
        """Looks at a state so far."""

    def matches(self, name: str) -> bool:
        """Raises ExpressionError as soon as the work of all calls gets too much."""
        at = self._begin
        for char in name:
            following = self._steps.get((at, char))
            if following is None:
                following = self._step(at, char)
            at = following
            if not at[0]:
                return False
        return self._accepts in self._closed(at, _END)

    # -- at run time --------------------------------------------------------------------------------------------------

    def _step(self, at: _Set, char: str) -> _Set:
        reached: set[int] = set()
        for state in self._closed(at, char):
            chars = self._chars[state]
            if chars is not None and chars.has(char):
                reached.update(self._next[state])
        if self._remembered + len(reached) + A_SET > MOST_REMEMBERED:
            self._steps.clear()
            self._remembered = 0
        self._remembered += len(reached) + A_SET
        following = self._steps[at, char] = frozenset(reached), _WORD if char in WORD else _OTHER
        return following

    def _closed(self, at: _Set, char: str) -> set[int]:
        """With all that is reached without a character."""
        if self.work > self._most_work:
            raise ExpressionError("it takes too long")
        states, before = at
        found: set[int] = set()
        to_do = list(states)
        while to_do:
            state = to_do.pop()
            if state in found:
                continue
            found.add(state)
            if self._chars[state] is None and _holds(self._places[state], before, char):
                to_do += self._next[state]
        self.work += len(found)
        return found

    # -- from the tree ------------------------------------------------------------------------------------------------

    def _state(self, chars: Chars | None = None, place: str = "") -> int:
        if len(self._next) >= self._most_states:
            raise ExpressionError("it is too large")
        self._chars.append(chars)
        self._places.append(place)
        self._next.append([])
        return len(self._next) - 1

    def _compiled(self, node: Node, then: int) -> int:
        """The state in which the node begins; it leads to `then`."""
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise ExpressionError("it is too large")
        if isinstance(node, Chars | Place):
            state = self._state(node) if isinstance(node, Chars) else self._state(place=node.what)
            self._next[state].append(then)
            return state
        if isinstance(node, Repeat):
            return self._repeated(node, then)
        if isinstance(node, Choice):
            state = self._state()
            self._next[state] += [self._compiled(part, then) for part in node.parts]
            return state
        for part in reversed(node.parts):
            then = self._compiled(part, then)
        return then

    def _repeated(self, node: Repeat, then: int) -> int:
        if node.most is None:
            loop = self._state()
            self._next[loop] += [self._compiled(node.part, loop), then]
            begin = loop
        else:
            begin = then
            for _ in range(node.most - node.least):
                maybe = self._state()
                self._next[maybe] += [self._compiled(node.part, begin), then]
                begin = maybe
        for _ in range(node.least):
            begin = self._compiled(node.part, begin)
        return begin


def _holds(place: str, before: int, char: str) -> bool:
    if place == "A":
        return before == _BEGIN
    if place == "z":
        return char == _END
    if place in ("b", "B"):
        is_edge = (before == _WORD) != (char in WORD)
        return is_edge == (place == "b")
    return True
