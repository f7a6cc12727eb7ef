"""From the text of an expression, in the syntax of RE2, to a tree.

Back references and looking around are refused, as RE2 refuses them, and so are scripts of Unicode, but for Latin. Who
is greedy makes no difference where only a whole name can match.
"""

import string
import sys
from bisect import bisect
from collections.abc import Iterable
from typing import Final
from unicodedata import category

from penstock.protocol.value import Value

MOST_LETTERS: Final = 5_000
MOST_NESTED: Final = 100
MOST_REPEATED: Final = 1000
LONGEST_BOUNDS: Final = 21
"""Of letters, with two numbers of nine digits."""

LETTERS: Final = frozenset(string.ascii_letters)
WORD: Final = frozenset(string.ascii_letters + string.digits + "_")
_ALL: Final = frozenset(map(chr, range(128)))
_BEYOND: Final = ((128, sys.maxunicode),)
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
_CATEGORIES: Final = frozenset(
    ("Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm",
     "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn")
)  # fmt: skip
_UNASSIGNED: Final = "Cn"
"""RE2 has no name for these."""
_CASED: Final = frozenset({"Lu", "Ll", "Lt"})
_LATIN: Final = (
    (0x41, 0x5A), (0x61, 0x7A), (0xAA, 0xAA), (0xBA, 0xBA), (0xC0, 0xD6), (0xD8, 0xF6), (0xF8, 0x2B8), (0x2E0, 0x2E4),
    (0x1D00, 0x1D25), (0x1D2C, 0x1D5C), (0x1D62, 0x1D65), (0x1D6B, 0x1D77), (0x1D79, 0x1DBE), (0x1E00, 0x1EFF),
    (0x2071, 0x2071), (0x207F, 0x207F), (0x2090, 0x209C), (0x212A, 0x212B), (0x2132, 0x2132), (0x214E, 0x214E),
    (0x2160, 0x2188), (0x2C60, 0x2C7F), (0xA722, 0xA787), (0xA78B, 0xA7CA), (0xA7D0, 0xA7D1), (0xA7D3, 0xA7D3),
    (0xA7D5, 0xA7D9), (0xA7F2, 0xA7FF), (0xAB30, 0xAB5A), (0xAB5C, 0xAB64), (0xAB66, 0xAB69), (0xFB00, 0xFB06),
    (0xFF21, 0xFF3A), (0xFF41, 0xFF5A), (0x10780, 0x10785), (0x10787, 0x107B0), (0x107B2, 0x107BA), (0x1DF00, 0x1DF1E),
)  # fmt: skip
"""The script, in Unicode 14."""
_ESCAPES: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_PLACES: Final = frozenset("AzbB")


class Chars(Value):
    """One character of these, in these ranges or of these categories of Unicode; any other one if it is `negated`. With
    `folds` upper and lower case are the same.

    Ranges are sorted and do not meet: they stay pairs of bounds, as some have a million characters.
    """

    chars: frozenset[str] = frozenset()
    ranges: tuple[tuple[int, int], ...] = ()
    categories: frozenset[str] = frozenset()
    folds: bool = False
    negated: bool = False

    def has(self, char: str) -> bool:
        found = self._lists(char) or (self.folds and (self._lists(char.lower()) or self._lists(char.upper())))
        return found != self.negated

    def _lists(self, char: str) -> bool:
        if char in self.chars:
            return True
        if len(char) != 1:
            return False  # of some the other case are two
        number = ord(char)
        at = bisect(self.ranges, (number, sys.maxunicode)) - 1
        if at >= 0 and number <= self.ranges[at][1]:
            return True
        return bool(self.categories) and category(char) in self.categories


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
                if literal:
                    parts.append(self.repeated(parts.pop()))
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
            return Chars(frozenset("\n"), negated=True)
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
        return self.literal(self.escaped_char(char)) if found is None else found.replace(folds=self.folds)

    def escaped_class(self, char: str) -> Chars | None:
        if char.lower() in _CLASSES:
            found = Chars(_CLASSES[char.lower()])
        elif char in "pP":
            name = self.until("}") if self.take("{") else self.next()
            found = _of_unicode(name.removeprefix("^"))
            if name.startswith("^"):
                found = self.others(found)
        else:
            return None
        return self.others(found) if char.isupper() else found

    def others(self, found: Chars) -> Chars:
        """What a class does not have, which is of characters, of ranges or of categories."""
        if found.ranges:
            return Chars(ranges=_gaps(found.ranges))
        if found.categories:
            has_case = self.folds and found.categories & _CASED
            return Chars(categories=_CATEGORIES - found.categories - (_CASED if has_case else frozenset()))
        folded = frozenset(map(str.swapcase, found.chars)) if self.folds else frozenset()
        return Chars(_ALL - found.chars - folded, _BEYOND)

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
        return Chars(self.folded(char), folds=self.folds)

    def folded(self, chars: Iterable[str]) -> frozenset[str]:
        """Also characters with a case in common are the same then: the two small sigmas, say."""
        cases = (str, str.lower, str.upper) if self.folds else (str,)
        return frozenset(case(char) for char in chars for case in cases)

    def bracket(self) -> Chars:
        is_negated = self.take("^")
        chars: set[str] = set()
        ranges: list[tuple[int, int]] = []
        categories: set[str] = set()
        is_first = True
        while is_first or not self.ahead("]"):
            is_first = False
            low = self.named() if self.ahead("[:") and self.text.find(":]", self.at) >= 0 else self.member()
            if isinstance(low, Chars):
                chars |= low.chars
                ranges += low.ranges
                categories |= low.categories
            elif self.ahead("-") and not self.ahead("-]"):
                self.at += 1
                high = self.member()
                if isinstance(high, Chars) or high < low:
                    raise ExpressionError("a range is the wrong way round")
                ranges.append((ord(low), ord(high)))
            else:
                chars.add(low)
        self.at += 1
        return Chars(self.folded(chars), _merged(ranges), frozenset(categories), self.folds, is_negated)

    def named(self) -> Chars:
        self.take("[:")
        name = self.until(":]")
        found = _NAMED.get(name.removeprefix("^"))
        if found is None:
            raise ExpressionError(f"the class {name} is not known")
        return self.others(Chars(found)) if name.startswith("^") else Chars(found)

    def member(self) -> str | Chars:
        char = self.next()
        if char != "\\":
            return char
        escaped = self.next()
        found = self.escaped_class(escaped)
        return self.escaped_char(escaped) if found is None else found


def _of_unicode(name: str) -> Chars:
    if name == "Latin":
        return Chars(ranges=_LATIN)
    if name == "Any":
        return Chars(categories=_CATEGORIES)
    found = frozenset(one for one in _CATEGORIES if name in (one, one[0])) - {_UNASSIGNED}
    if not found:
        raise ExpressionError(f"the class {name} is not known")
    return Chars(categories=found)


def _merged(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(high, found[-1][1])
        else:
            found.append((low, high))
    return tuple(found)


def _gaps(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Between these, which are sorted and do not meet."""
    bounds = [-1, *(bound for low, high in ranges for bound in (low, high)), sys.maxunicode + 1]
    return tuple((end + 1, begin - 1) for end, begin in zip(bounds[::2], bounds[1::2], strict=True) if end + 1 < begin)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9
