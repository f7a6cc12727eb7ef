"""Whatever keys and values there are, a file that Java would write is read back as it was meant."""

from hypothesis import example, given
from hypothesis import strategies as st

from penstock.metadata.configs.pairs import decode_properties, parse_properties, properties_text

_TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
_KEYS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
_ESCAPES = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f", "\\": "\\\\"}


def escape(text: str, *, is_key: bool, unicode: bool) -> str:
    """Write a key or a value as Java's Properties.store does."""
    out = []
    for position, character in enumerate(text):
        if character in _ESCAPES:
            out.append(_ESCAPES[character])
        elif character == " ":
            out.append("\\ " if is_key or position == 0 else " ")
        elif character in "=:#!":
            out.append("\\" + character)
        elif unicode and not " " <= character <= "~":
            units = character.encode("utf-16-be")
            out += [f"\\u{units[at]:02x}{units[at + 1]:02X}" for at in range(0, len(units), 2)]
        else:
            out.append(character)
    return "".join(out)


@given(
    settings=st.dictionaries(_KEYS, _TEXT, max_size=6),
    separator=st.sampled_from(["=", ":", " = ", "\t:", " "]),
    newline=st.sampled_from(["\n", "\r\n", "\r"]),
    comment=st.sampled_from(["", "# a comment\\", "! another", "   "]),
    unicode=st.booleans(),
)
def test_what_java_writes_is_read_back(
    settings: dict[str, str], separator: str, newline: str, comment: str, unicode: bool
) -> None:
    lines = []
    for key, value in settings.items():
        lines += [
            comment,
            f" {escape(key, is_key=True, unicode=unicode)}{separator}{escape(value, is_key=False, unicode=unicode)}",
        ]
    assert parse_properties(newline.join(lines)) == settings


@given(settings=st.dictionaries(_KEYS, _TEXT, max_size=6), comments=st.lists(st.sampled_from(["", "one\\"])))
@example(settings={"path": "C:\\temp\\new", "pattern": r"\d+\.log", " a=b:c#!": " \u00e9\U0001f600 "}, comments=[])
def test_what_is_written_is_read_back(settings: dict[str, str], comments: list[str]) -> None:
    written = properties_text(settings, *comments).encode("ascii")
    assert decode_properties(written) == parse_properties(written.decode("latin-1")) == settings


@given(value=st.text("ab \\=:#!", max_size=30), cuts=st.sets(st.integers(0, 30)), indent=st.text(" \t", max_size=3))
def test_a_value_may_be_cut_into_lines_anywhere(value: str, cuts: set[int], indent: str) -> None:
    pieces, last = [], 0
    for cut in sorted(cut for cut in cuts if cut < len(value)):
        pieces.append(value[last:cut])
        last = cut
    pieces.append(value[last:])
    written = ("\\\n" + indent).join(escape(piece, is_key=True, unicode=False) for piece in pieces)
    assert parse_properties("key=" + written) == {"key": value}


@given(text=st.text("ab=:#!\\ \t\n\ru0", max_size=40).filter(lambda text: "\\u" not in text))
def test_any_text_is_read_without_an_error(text: str) -> None:
    parse_properties(text)
