"""From the text of an expression, in the syntax of RE2, to a tree.

Back references and looking around are refused, as RE2 refuses them. Names are mostly of ASCII, so classes of Unicode
stand for what they have of it. Who is greedy makes no difference where only a whole name can match.
"""

import string
from collections.abc import Iterable
from typing import Final

from penstock.protocol.value import Value

MOST_LETTERS: Final = 5_000
MOST_NESTED: Final = 100
MOST_REPEATED: Final = 1000
MOST_BEYOND: Final = 1_000
"""Characters that are not ASCII in all ranges together."""
LONGEST_BOUNDS: Final = 21
"""Of letters, with two numbers of nine digits."""

LETTERS: Final = frozenset(string.ascii_letters)
WORD: Final = frozenset(string.ascii_letters + string.digits + "_")
_ALL: Final = frozenset(map(chr, range(128)))
_CLASSES: Final = {"d": frozenset(string.digits), "w": WORD, "s": frozenset("\t\n\f\r ")}
_NAMED: Final = {
    "alnum": LETTERS | frozenset(string.digits),
    "alpha": LETTERS,
    "ascii": _ALL,
    "blank": frozenset("\t "),
    "cntrl": frozenset(map(chr, (*range(32), 127))),
    "digit": frozenset(string.digits),
    "graph": frozenset(map(chr, range(33, 127))),
    "lower": frozenset(string.ascii_lowercase),
    "print": frozenset(map(chr, range(32, 127))),
    "punct": frozenset(string.punctuation),
    "space": frozenset("\t\n\v\f\r "),
    "upper": frozenset(string.ascii_uppercase),
    "word": WORD,
    "xdigit": frozenset(string.hexdigits),
}
_CATEGORIES: Final = {
    "Any": _ALL,
    "L": LETTERS,
    "Latin": LETTERS,
    "Lu": frozenset(string.ascii_uppercase),
    "Ll": frozenset(string.ascii_lowercase),
    "N": frozenset(string.digits),
    "Nd": frozenset(string.digits),
    "P": frozenset("!\"#%&'()*,-./:;?@[\\]_{}"),
    "Pd": frozenset("-"),
    "Pc": frozenset("_"),
    "S": frozenset("$+<=>^`|~"),
    "Z": frozenset(" "),
    "Zs": frozenset(" "),
}
_ESCAPES: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_PLACES: Final = frozenset("AzbB")


class Chars(Value):
    """One character of these. With `others`, and not ASCII: one that is not of these."""

    chars: frozenset[str]
    others: bool = False

    def has(self, char: str) -> bool:
        return (char in self.chars) != (self.others and not char.isascii())


class Place(Value):
    """Takes no character: A (begin), z (end), b (a word begins or ends), B (neither)."""

    what: str


class Sequence(Value):
    parts: tuple["Node", ...]


class Choice(Value):
    parts: tuple["Node", ...]


class Repeat(Value):
    part: "Node"
    least: int
    most: int | None


Node = Chars | Place | Sequence | Choice | Repeat


class ExpressionError(ValueError):
    """The text is no expression, or one that is refused."""


def parse(text: str) -> Node:
    """Raises ExpressionError."""
    if len(text) > MOST_LETTERS:
        raise ExpressionError(f"it has more than {MOST_LETTERS:,} letters")
    parser = _Parser(text)
    node = parser.choice(0)
    if parser.at < len(text):
        raise ExpressionError(f"unexpected {text[parser.at]} at {parser.at}")
    return node


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.folds = False
        """Whether upper and lower case are the same."""
        self.beyond = 0

    def ahead(self, what: str) -> bool:
        return self.text.startswith(what, self.at)

    def take(self, what: str) -> bool:
        found = self.ahead(what)
        if found:
            self.at += len(what)
        return found

    def next(self) -> str:
        if self.at >= len(self.text):
            raise ExpressionError("it ends too early")
        self.at += 1
        return self.text[self.at - 1]

    def until(self, end: str) -> str:
        stop = self.text.find(end, self.at)
        if stop < 0:
            raise ExpressionError(f"missing {end}")
        found, self.at = self.text[self.at : stop], stop + len(end)
        return found

    # -- what binds -----------------------------------------------------------------------------------------------

    def choice(self, depth: int) -> Node:
        if depth > MOST_NESTED:
            raise ExpressionError("it is nested too deeply")
        folds = self.folds
        parts = [self.sequence(depth)]
        while self.take("|"):
            parts.append(self.sequence(depth))
        self.folds = folds
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def sequence(self, depth: int) -> Node:
        parts: list[Node] = []
        while self.at < len(self.text) and not (self.ahead("|") or self.ahead(")")):
            if self.take("\\Q"):
                stop = self.text.find("\\E", self.at)
                literal = self.text[self.at :] if stop < 0 else self.until("\\E")
                self.at = len(self.text) if stop < 0 else self.at
                parts += map(self.literal, literal)
            else:
                parts.append(self.repeated(self.single(depth)))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def repeated(self, node: Node) -> Node:
        found = self.repetition()
        if found is None:
            return node
        self.take("?")
        if self.repetition() is not None:
            raise ExpressionError("a repetition of a repetition")
        least, most = found
        if max(least, most or 0) > MOST_REPEATED or (most is not None and most < least):
            raise ExpressionError(f"a bad repetition: {least} to {most}")
        return Repeat(node, least, most)

    def repetition(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.take(sign):
                return bounds
        if not self.ahead("{") or (stop := self.text.find("}", self.at, self.at + LONGEST_BOUNDS)) < 0:
            return None
        low, comma, high = self.text[self.at + 1 : stop].partition(",")
        if not _is_number(low) or not (_is_number(high) or high == ""):
            return None  # then it stands for itself
        self.at = stop + 1
        return int(low), (int(high) if high else None) if comma else int(low)

    # -- what stands alone ------------------------------------------------------------------------------------------

    def single(self, depth: int) -> Node:
        char = self.next()
        if char == "(":
            return self.group(depth)
        if char == "[":
            return self.bracket()
        if char == ".":
            return Chars(_ALL - {"\n"}, others=True)
        if char in "^$":
            return Place("A" if char == "^" else "z")
        if char in "*+?":
            raise ExpressionError(f"nothing to repeat before {char}")
        if char == "\\":
            return self.escape()
        return self.literal(char)

    def group(self, depth: int) -> Node:
        folds = self.folds
        if self.take("?"):
            if self.take("P<") or (self.ahead("<") and not (self.ahead("<=") or self.ahead("<!")) and self.take("<")):
                if not self.until(">").isidentifier():
                    raise ExpressionError("a group has a bad name")
            elif self.flags():
                return Sequence(())
        node = self.choice(depth + 1)
        if not self.take(")"):
            raise ExpressionError("missing )")
        self.folds = folds
        return node

    def flags(self) -> bool:
        """Whether they hold for what follows, and not for a group of their own."""
        value = True
        while (char := self.next()) not in ":)":
            if char == "-" and value:
                value = False
            elif char == "i":
                self.folds = value
            elif char not in "msU":
                raise ExpressionError(f"(?{char} is not served")
        return char == ")"

    def escape(self) -> Node:
        char = self.next()
        if char in _PLACES:
            return Place(char)
        found = self.escaped_class(char)
        return self.literal(self.escaped_char(char)) if found is None else found

    def escaped_class(self, char: str) -> Chars | None:
        if char.lower() in _CLASSES:
            found = Chars(_CLASSES[char.lower()])
        elif char in "pP":
            name = self.until("}") if self.take("{") else self.next()
            negated = name.startswith("^")
            category = _CATEGORIES.get(name.removeprefix("^"))
            if category is None:
                raise ExpressionError(f"the class {name} is not known")
            found = _negated(Chars(category)) if negated else Chars(category)
        else:
            return None
        return _negated(found) if char.isupper() else found

    def escaped_char(self, char: str) -> str:
        if char in _ESCAPES:
            return _ESCAPES[char]
        if char == "x":
            digits = self.until("}") if self.take("{") else self.next() + self.next()
            try:
                return chr(int(digits, 16))
            except (ValueError, OverflowError) as error:
                raise ExpressionError(f"\\x{digits} is no character") from error
        if char == "0" or (char in "1234567" and self.text[self.at : self.at + 1] in tuple("01234567")):
            digits = char
            while len(digits) < 3 and self.text[self.at : self.at + 1] in tuple("01234567"):
                digits += self.next()
            return chr(int(digits, 8))
        if char.isascii() and char.isalnum():
            raise ExpressionError(f"\\{char} is not served")
        return char

    def literal(self, char: str) -> Chars:
        return self.folded(char)

    def folded(self, chars: Iterable[str], *, others: bool = False) -> Chars:
        found = frozenset(chars)
        if self.folds:
            found = frozenset(case for char in found for case in (char.lower(), char.upper()) if len(case) == 1)
        return Chars(found & _ALL, others=True) if others else Chars(found)

    def bracket(self) -> Chars:
        is_negated = self.take("^")
        chars: set[str] = set()
        is_first, others = True, False
        while is_first or not self.ahead("]"):
            is_first = False
            if self.take("[:"):
                chars |= self.named()
                continue
            low = self.member()
            if isinstance(low, Chars):
                chars |= low.chars
                others |= low.others
            elif self.ahead("-") and not self.ahead("-]"):
                self.at += 1
                high = self.member()
                if isinstance(high, Chars) or high < low:
                    raise ExpressionError("a range is the wrong way round")
                self.beyond += max(ord(high) - max(ord(low), 127), 0)
                if self.beyond > MOST_BEYOND:
                    raise ExpressionError(f"ranges of more than {MOST_BEYOND:,} characters that are not ASCII")
                chars |= {chr(code) for code in range(ord(low), ord(high) + 1)}
            else:
                chars.add(low)
        self.at += 1
        found = self.folded(chars, others=others)
        return _negated(found) if is_negated else found

    def named(self) -> frozenset[str]:
        name = self.until(":]")
        found = _NAMED.get(name.removeprefix("^"))
        if found is None:
            raise ExpressionError(f"the class {name} is not known")
        return _ALL - found if name.startswith("^") else found

    def member(self) -> str | Chars:
        char = self.next()
        if char != "\\":
            return char
        escaped = self.next()
        found = self.escaped_class(escaped)
        return self.escaped_char(escaped) if found is None else found


def _negated(chars: Chars) -> Chars:
    return Chars((_ALL - chars.chars) | (chars.chars - _ALL), others=not chars.others)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9
