"""Expressions match whole names, as RE2 has it, and none takes long."""

import re
from random import Random

import pytest

from penstock.protocol.expressions.matcher import A_SET, MOST_REMEMBERED, MOST_STATES, Matcher
from penstock.protocol.expressions.parse import Chars, ExpressionError, parse

NAMES = (
    "",
    "a",
    "b",
    "foo",
    "FOO",
    "foobar",
    "bar-12",
    "bar-1234",
    "a.b",
    "axb",
    "aaaaab",
    "ababc",
    "a-b",
    "x_1",
    "xx",
)
ALIKE = (
    "foo.*", "^foo$", "a|b", "(foo|bar)-[0-9]{1,3}", "[^a]+", "foo*", "(?i)FOO", "x{2}", r"\bfoo\b", "(a*)*b", "",
    r"fo\boo", r"a\b\.b", r"a\b-\bb", r"a\B-b", r"\Bfoo", r"foo\B", r"f\Boo", "fo^o", "f$oo", r"f\Aoo", "a|b$",
    "(?:a|b)+c?", "[a-c-]+", r"\w+\.\w", r"\Aa\Wb", r"(?P<name>a)\.b", "a{1,}b", "[]a]+", "a??b", r"\d|\D{2}", r"x\B_1",
)  # fmt: skip


@pytest.mark.parametrize("text", ALIKE)
def test_whole_names_as_python_would(text: str) -> None:
    found = Matcher(text)
    assert [found.matches(name) for name in NAMES] == [bool(re.fullmatch(text, name)) for name in NAMES]


@pytest.mark.parametrize(
    ("text", "matched"),
    [
        (r"\Qa.b\E", ["a.b"]),
        (r"\Qa.b", ["a.b"]),
        (r"\Qfo\E{2}", ["foo"]),
        (r"\Qaaaa\E+b", ["aaaaab"]),
        (r"\Qa.\E?\Qb\E*?", ["a", "a.b"]),
        ("[[:alpha:]]+", ["a", "b", "foo", "FOO", "foobar", "axb", "aaaaab", "ababc", "xx"]),
        (r"\p{Lu}+", ["FOO"]),
        (r"\PL+", [""][1:]),
        (r"[\p{Ll}]{2}", ["xx"]),
        ("(?i:foo)bar", ["foobar"]),
        (r"\x61|\x{62}", ["a", "b"]),
        ("a(?i)XB", ["axb"]),
        ("(?<name>xx)", ["xx"]),
        ("a{,2}", []),
    ],
)
def test_what_python_says_otherwise(text: str, matched: list[str]) -> None:
    assert list(filter(Matcher(text).matches, NAMES)) == matched


@pytest.mark.parametrize(
    "text",
    ["(", "a**", "[b", "(?=a)", r"\1", "x{1001}", "(?<!a)", r"\p{Foo}", r"\p{Cn}", r"\p{}", "*", "a)",
     "[z-a]", r"\Qa\E**", "(?x)a", "(" * 200, "a\\",
     "((a{100}){100}){10}", r"\x{zz}", "(?P<1>a)", "x{3,2}"],
)  # fmt: skip
def test_what_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        Matcher(text)


@pytest.mark.parametrize(
    "text", ["(a*)*c", "(a|aa)+c", "(a|a?)+c", "(.*)(.*)(.*)(.*)c", "(a+)+" * 10 + "c", ".?" * 20 + "c"]
)
def test_none_is_catastrophic(text: str) -> None:
    found = Matcher(text)
    assert not found.matches("a" * 249)
    assert found.work < 100_000


def test_all_together_have_a_limit() -> None:
    found = Matcher("(a|b){0,200}", most_work=30)
    assert found.matches("a")
    with pytest.raises(ExpressionError, match="too long"):
        list(map(found.matches, ("ab", "ba", "aab", "bab")))


def test_the_limit_holds_within_a_long_name() -> None:
    """A transactional id may have 32,767 letters, each of which leads to another set of states."""
    random = Random(1)
    found = Matcher("[ab]*a" + ".{1000}" * 4, most_work=50_000)
    with pytest.raises(ExpressionError, match="too long"):
        found.matches("".join(random.choices("ab", k=6_000)))
    assert found.work < 50_000 + MOST_STATES


@pytest.mark.parametrize(
    "text", ["(((){1000}){1000}){1000}", "((?:(?i)){1000}){1000}", "(()()){1000}" * 8, "[" + "a" * 5_000 + "]"]
)
def test_what_would_take_long_to_be_made_is_refused(text: str) -> None:
    """What makes no state as well, however often it is repeated: clients are answered meanwhile."""
    with pytest.raises(ExpressionError, match=r"too large|more than"):
        Matcher(text)


@pytest.mark.parametrize(
    ("name", "letters"),
    [
        ("alnum", "[0-9A-Za-z]"),
        ("alpha", "[A-Za-z]"),
        ("ascii", r"[\x00-\x7f]"),
        ("blank", r"[\t ]"),
        ("cntrl", r"[\x00-\x1f\x7f]"),
        ("digit", "[0-9]"),
        ("graph", "[!-~]"),
        ("lower", "[a-z]"),
        ("print", "[ -~]"),
        ("punct", "[!-/:-@[-`{-~]"),
        ("space", r"[\t\n\v\f\r ]"),
        ("upper", "[A-Z]"),
        ("word", "[0-9A-Za-z_]"),
        ("xdigit", "[0-9A-Fa-f]"),
    ],
)
def test_named_classes_have_the_letters_of_re2(name: str, letters: str) -> None:
    every = [chr(number) for number in range(256)]
    assert [it for it in every if Matcher(f"[[:{name}:]]").matches(it)] == [it for it in every if re.match(letters, it)]


BEYOND = ("é", "É", "ü", "aé", "a", "-", "ß", "中")


@pytest.mark.parametrize(
    "text",
    ["é", "[é]", "[^é]", "[à-ü]+", r"[\D]", r"[^\W]", r"[\Da]", r"\W", "(?i)É", "(?i)[^é]", "a?[éa]", ".", "[^a]{1,2}"],
)
def test_characters_that_are_not_ascii_stand_for_themselves(text: str) -> None:
    found = Matcher(text)
    flags = re.NOFLAG if "(?i)" in text else re.ASCII
    assert [found.matches(name) for name in BEYOND] == [bool(re.fullmatch(text, name, flags)) for name in BEYOND]


AROUND = ("é", "É", "ß", "中", "Я", "٣", "€", "ǅ", "aé", "a", "A", "1", "_", "-", "σ", "ς", "\U0001d400", "ª")


@pytest.mark.parametrize(
    ("text", "matched"),
    [
        (r"[^\x00-\x{10FFFF}]*", ""),
        (r"[\x{4e00}-\x{9fff}]+", "中"),
        (r"[\x{80}-\x{10ffff}]", "é É ß 中 Я ٣ € ǅ σ ς \U0001d400 ª"),
        (r"\pL+", "é É ß 中 Я ǅ aé a A σ ς \U0001d400 ª"),
        (r"\PL", "٣ € 1 _ -"),
        (r"\p{Lu}", "É Я A \U0001d400"),
        (r"[^\P{Lu}]", "É Я A \U0001d400"),
        (r"(?i)[\p{Lu}ß]", "é É ß Я ǅ a A σ ς \U0001d400"),
        (r"(?i)\P{Lu}", "中 ٣ € 1 _ - ª"),
        (r"\p{^L}", "٣ € 1 _ -"),
        (r"[\p{Nd}_]", "٣ 1 _"),
        (r"\p{Latin}+", "é É ß ǅ aé a A ª"),
        (r"\P{Latin}", "中 Я ٣ € 1 _ - σ ς \U0001d400"),
        (r"\p{Any}", "é É ß 中 Я ٣ € ǅ a A 1 _ - σ ς \U0001d400 ª"),
        (r"\P{Any}", ""),
        (r"\p{S}", "€"),
        ("[[:alpha:]]", "a A"),
        ("[[:^alpha:]]", "é É ß 中 Я ٣ € ǅ 1 _ - σ ς \U0001d400 ª"),
        ("[^[:^alpha:]é]", "a A"),
        ("(?i)[[:^lower:]]", "é É ß 中 Я ٣ € ǅ 1 _ - σ ς \U0001d400 ª"),
        ("(?i)[а-я]", "Я"),
        ("(?i)[^а-я]", "é É ß 中 ٣ € ǅ a A 1 _ - σ ς \U0001d400 ª"),
        ("(?i)ς", "σ ς"),
    ],
)
def test_characters_beyond_ascii_are_in_classes_and_ranges_as_in_re2(text: str, matched: str) -> None:
    """What is matched is what Go's package for them says."""
    assert list(filter(Matcher(text).matches, AROUND)) == matched.split()


def test_an_expression_with_very_many_ranges_is_quick() -> None:
    """A character is looked for among them by halves, and the number of characters in them does not count."""
    text = "".join(f"\\x{{{low:x}}}-\\x{{{low + 99:x}}}" for low in range(256, 30_000, 200))
    found = Matcher(f"[{text}]*")
    (chars,) = [chars for chars in found._chars if chars is not None]
    assert len(chars.ranges) == 149
    assert [found.matches(chr(256 + place)) for place in (0, 99, 100, 199, 200)] == [True, True, False, False, True]


def test_ranges_that_meet_are_one() -> None:
    (chars,) = [chars for chars in Matcher("[а-нл-яб-вg-ia-f]")._chars if chars is not None]
    assert chars.ranges == ((ord("a"), ord("i")), (ord("а"), ord("я")))


def test_an_expression_may_have_fewer_states() -> None:
    assert Matcher("a" * 299, most_states=300).matches("a" * 299)
    with pytest.raises(ExpressionError, match="too large"):
        Matcher("a" * 300, most_states=300)


def test_what_is_remembered_has_a_limit() -> None:
    found = Matcher("(a|b)*a(a|b){30}")
    for number in range(2_000):
        found.matches(f"{number:032b}".replace("0", "a").replace("1", "b"))
        sets = [following for following, _ in found._steps.values()]
        assert sum(map(len, sets)) + A_SET * len(sets) <= MOST_REMEMBERED


LATIN_OF_UNICODE_14 = 1475


def test_latin_has_as_many_characters_as_unicode_says() -> None:
    latin, others = parse(r"\p{Latin}"), parse(r"\P{Latin}")
    assert isinstance(latin, Chars)
    assert isinstance(others, Chars)
    assert sum(high - low + 1 for low, high in latin.ranges) == LATIN_OF_UNICODE_14
    assert sum(high - low + 1 for low, high in others.ranges) == 0x110000 - LATIN_OF_UNICODE_14
    assert all(high < low for (_, high), (low, _) in zip(latin.ranges, latin.ranges[1:], strict=False))


def test_each_step_is_looked_up_once() -> None:
    found = Matcher("ab*")
    for name, steps in (("a", 1), ("ab", 2), ("abb", 2), ("abbb", 2), ("x", 3)):
        found.matches(name)
        assert len(found._steps) == steps
