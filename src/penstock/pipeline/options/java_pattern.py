"""`subscribePattern`, which is written in Java's syntax, as a pattern of Python's `re`.

Names of topics hold ASCII letters, digits, dots, underscores and dashes only. So every class of characters becomes the
plain list of those that it has among them: `\\p{Alpha}`, `[a-z&&[^x]]` and their like need no counterpart in Python.
What is left over and cannot be said in Python is refused.
"""

import re
import string
from typing import NoReturn

from penstock.pipeline.errors import PipelineError

ALPHABET = string.ascii_letters + string.digits + "._-"
LETTERS, DIGITS = frozenset(string.ascii_letters), frozenset(string.digits)
ALL, NONE = frozenset(ALPHABET), frozenset[str]()
LOWER, UPPER, PUNCTUATION = frozenset(string.ascii_lowercase), frozenset(string.ascii_uppercase), frozenset("._-")
WORD = LETTERS | DIGITS | {"_"}

PROPERTIES = {
    "lower": LOWER, "upper": UPPER, "ascii": ALL, "alpha": LETTERS, "digit": DIGITS, "alnum": LETTERS | DIGITS,
    "punct": PUNCTUATION, "graph": ALL, "print": ALL, "blank": NONE, "cntrl": NONE, "space": NONE,
    "xdigit": frozenset(string.hexdigits), "l": LETTERS, "lu": UPPER, "ll": LOWER, "lt": NONE, "lm": NONE, "lo": NONE,
    "n": DIGITS, "nd": DIGITS, "p": PUNCTUATION, "pc": frozenset("_"), "pd": frozenset("-"), "po": frozenset("."),
    "s": NONE, "z": NONE, "c": NONE, "m": NONE, "alphabetic": LETTERS, "letter": LETTERS, "lowercase": LOWER,
    "uppercase": UPPER, "punctuation": PUNCTUATION, "latin": LETTERS, "letterordigit": LETTERS | DIGITS,
}  # fmt: skip
"""Properties in `\\p{…}`, without `Is`, `java` and `general_category=` before them."""
CLASSES = {"d": DIGITS, "w": WORD, "s": NONE, "h": NONE, "v": NONE}
"""Escapes that stand for several characters; in upper case for all others."""
CONTROL = dict.fromkeys("tnrfae", NONE)
PROPERTY = re.compile(r"\{(?:Is|java|general_category=|gc=)?(\w+)\}|(\w)")
FLAGS = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])")
NAMED = re.compile(r"\(\?<([a-zA-Z]\w*)>")
OTHER_GROUP = re.compile(r"\(\?(?:[:=!>]|<=|<!)")
REPETITION = re.compile(r"\{\d+(?:,\d*)?\}")
REFERENCE, NUMBERED = re.compile(r"\\k<\w+>"), re.compile(r"\\\d+")
CODE = re.compile(r"x\{([0-9a-fA-F]+)\}|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})")
WITHOUT_MEANING = "dmuU"
"""Flags about lines and about letters beyond ASCII."""


def python_pattern(java: str) -> str:
    """For the names of topics; PipelineError says what is wrong or has no counterpart."""
    translated = _Translation(java).whole()
    try:
        re.compile(translated)
    except re.error as error:
        raise PipelineError(f"Option subscribePattern={java}: {error.msg}.", option="subscribePattern") from None
    return translated


class _Translation:
    """One pass over a pattern. `_ignores_case` holds for the open group, with those of outer groups below it."""

    def __init__(self, java: str) -> None:
        self._java, self._at = java, 0
        self._ignores_case = [False]

    def whole(self) -> str:
        out: list[str] = []
        while self._at < len(self._java):
            out.append(self._next())
        return "".join(out)

    def _next(self) -> str:
        character = self._java[self._at]
        if character == "\\":
            return self._escape()
        if character == "[":
            self._at += 1
            return self._shown(self._class())
        if character == "(":
            return self._group()
        if character == ")" and len(self._ignores_case) > 1:
            self._ignores_case.pop()
        if character == "{":
            return self._taken(REPETITION, "a number of repetitions is expected after {")
        self._at += 1
        return character

    def _taken(self, form: re.Pattern[str], otherwise: str) -> str:
        found = form.match(self._java, self._at)
        if found is None:
            self._refuse(otherwise)
        self._at = found.end()
        return found.group()

    def _group(self) -> str:
        ignores_case = self._ignores_case[-1]
        named, flags = NAMED.match(self._java, self._at), FLAGS.match(self._java, self._at)
        if named:
            shown, self._at = f"(?P<{named[1]}>", named.end()
        elif flags and flags[0] != "(?:":
            return self._flags(flags)
        elif self._java.startswith("(?", self._at):
            shown = self._taken(OTHER_GROUP, "this kind of group is not known")
        else:
            shown, self._at = "(", self._at + 1
        self._ignores_case.append(ignores_case)
        return shown

    def _flags(self, found: re.Match[str]) -> str:
        on, off = (_meant(found[1] or ""), _meant(found[2] or ""))
        if set(on + off) - set("is"):
            self._refuse(f"the flags in {found[0]} cannot be said in Python")
        is_whole = found[3] == ")"
        if is_whole and (self._at or off):
            self._refuse(f"{found[0]} may stand at the beginning only; write (?{found[1]}:…) around what it is about")
        self._at = found.end()
        ignores_case = "i" in on or (self._ignores_case[-1] and "i" not in off)
        if is_whole:
            self._ignores_case[-1] = ignores_case
            return f"(?{on})" if on else ""
        self._ignores_case.append(ignores_case)
        return f"(?{on}-{off}:" if off else f"(?{on}:"

    # Escapes

    def _escape(self) -> str:
        following = self._java[self._at + 1 : self._at + 2]
        if following == "Q":
            return re.escape(self._quoted())
        if following in ("z", "Z"):
            self._at += 2
            return r"\Z"
        if following in ("A", "b", "B"):
            self._at += 2
            return f"\\{following}"
        if following == "k":
            return f"(?P={self._taken(REFERENCE, 'a name is expected after k')[3:-1]})"
        if following.isdigit() and following != "0":
            return self._taken(NUMBERED, "a number is expected")
        characters = self._escaped_characters()
        return self._shown(characters) if len(characters) != 1 else re.escape(next(iter(characters)))

    def _quoted(self) -> str:
        begin = self._at + 2
        end = self._java.find("\\E", begin)
        self._at = len(self._java) if end < 0 else end + 2
        return self._java[begin:] if end < 0 else self._java[begin:end]

    def _escaped_characters(self) -> frozenset[str]:
        self._at += 1
        character = self._java[self._at : self._at + 1]
        code = CODE.match(self._java, self._at)
        if code:
            self._at = code.end()
            return frozenset(chr(int(next(filter(None, code.groups())), 16)))
        self._at += 1
        if character in ("p", "P"):
            return self._property(is_negated=character == "P")
        if character.lower() in CLASSES:
            known = CLASSES[character.lower()]
            return ALL - known if character.isupper() else known
        if character in CONTROL:
            return CONTROL[character]
        if not character or character.isalnum():
            self._refuse(f"\\{character} cannot be said in Python")
        return frozenset(character)

    def _property(self, *, is_negated: bool) -> frozenset[str]:
        found = PROPERTY.match(self._java, self._at)
        name = (found[1] or found[2]) if found else ""
        if found is None or name.lower() not in PROPERTIES:
            self._refuse(f"the property \\p{{{name}}} is not known")
        self._at = found.end()
        characters = self._folded(PROPERTIES[name.lower()])
        return ALL - characters if is_negated else characters

    # Classes of characters

    def _class(self) -> frozenset[str]:
        """From behind [ to behind its ]."""
        is_negated = self._java.startswith("^", self._at)
        self._at += is_negated
        characters: frozenset[str] | None = None
        united: frozenset[str] = NONE
        begin = self._at
        while True:
            if self._at >= len(self._java):
                self._refuse("a [ is not closed")
            if self._java.startswith("&&", self._at):
                characters, united = united if characters is None else characters & united, NONE
                self._at += 2
            elif self._java[self._at] == "]" and self._at > begin:
                self._at += 1
                break
            else:
                united |= self._member()
        characters = self._folded(united if characters is None else characters & united)
        return ALL - characters if is_negated else characters

    def _member(self) -> frozenset[str]:
        if self._java.startswith("\\Q", self._at):
            return frozenset(self._quoted())
        if self._java[self._at] == "[":
            self._at += 1
            return self._class()
        first = self._one()
        is_range = self._java.startswith("-", self._at) and self._java[self._at + 1 : self._at + 2] not in (
            "]",
            "[",
            "",
        )
        if not is_range or len(first) != 1:
            return first
        self._at += 1
        last = self._one()
        low, high = min(first), min(last, default="")
        if len(last) != 1 or low > high:
            self._refuse("a range of characters runs backwards")
        return frozenset(character for character in ALPHABET if low <= character <= high)

    def _one(self) -> frozenset[str]:
        if self._java[self._at] == "\\":
            return self._escaped_characters()
        self._at += 1
        return frozenset(self._java[self._at - 1])

    def _folded(self, characters: frozenset[str]) -> frozenset[str]:
        if not self._ignores_case[-1]:
            return characters
        return frozenset(form for character in characters for form in (character.lower(), character.upper()))

    def _shown(self, characters: frozenset[str]) -> str:
        """A class that Python reads; one that no topic's name can match has a character that no name has."""
        within = sorted(characters & ALL)
        return f"[{''.join(map(re.escape, within)) or '/'}]"

    def _refuse(self, why: str) -> NoReturn:
        raise PipelineError(
            f"Option subscribePattern={self._java}: {why} (at position {self._at}).", option="subscribePattern"
        )


def _meant(flags: str) -> str:
    return "".join(flag for flag in flags if flag not in WITHOUT_MEANING)
