import re

import pytest

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.options.java_pattern import python_pattern

NAMES = ("clicks", "Clicks.2", "my-clicks_3", "42", "a.b", "x")
PATTERNS = {
    "clicks": ("clicks", "my-clicks_3"),
    "^clicks$": ("clicks",),
    r"\Aclicks\z": ("clicks",),
    r"^\p{Alpha}+$": ("clicks", "x"),
    r"^\p{IsAlphabetic}+$": ("clicks", "x"),
    r"^\P{L}+$": ("42",),
    r"^\pN+$": ("42",),
    r"^[\p{Lower}&&[^c]]": ("my-clicks_3", "a.b", "x"),
    r"^[a-z&&[^a-w]]$": ("x",),
    r"^[^a-z&&[^C]]": ("Clicks.2", "42"),
    r"^[xyz[0-9]]+$": ("42", "x"),
    r"[\Q.\E]": ("Clicks.2", "a.b"),
    r"\Q.b": ("a.b",),
    r"(?<first>[a-z])\.\w": ("Clicks.2", "a.b"),
    r"(?<n>\d)\k<n>|(c)\w+\2|^x$": ("clicks", "my-clicks_3", "x"),
    "(?i)^clicks": ("clicks", "Clicks.2"),
    "(?i)^[^c]": ("my-clicks_3", "42", "a.b", "x"),
    "^(?i:CLICKS)": ("clicks", "Clicks.2"),
    "^(?i:C)[L]": (),
    "(?is-m)^X$": ("x",),
    r"^\w++\.": ("Clicks.2", "a.b"),
    r"^(?>a|x)": ("a.b", "x"),
    r"(?=.*\d)(?!4)^": ("Clicks.2", "my-clicks_3"),
    r"\x2e\u0062": ("a.b",),
    r"^[\w&&\D]{6,}$": ("clicks",),
    r"\h|\t": (),
    "[]x]": ("x",),
    "[-x]": ("my-clicks_3", "x"),
    "[x-]": ("my-clicks_3", "x"),
}


@pytest.mark.parametrize(("java", "names"), PATTERNS.items())
def test_a_pattern_finds_what_it_finds_in_java(java: str, names: tuple[str, ...]) -> None:
    pattern = re.compile(python_pattern(java))
    assert tuple(name for name in NAMES if pattern.search(name)) == names


@pytest.mark.parametrize(
    ("java", "why"),
    [
        ("a(?i)b", r"write \(\?i:…\) around"),
        ("(?x) a", "the flags in"),
        (r"\p{Foo}", r"the property \\p{Foo} is not known"),
        (r"\R", r"\\R cannot be said in Python"),
        (r"\Gx", r"\\G cannot be said"),
        ("[a", r"a \[ is not closed"),
        ("[z-a]", "runs backwards"),
        ("a{,3}", "repetitions"),
        ("*x", "nothing to repeat"),
        ("(x", "missing"),
        ("x\\", "cannot be said"),
    ],
)
def test_what_cannot_be_said_in_python_is_refused(java: str, why: str) -> None:
    with pytest.raises(PipelineError, match=rf"subscribePattern=.*{why}"):
        python_pattern(java)
