import pytest

from penstock.console.serving import reading
from penstock.console.shown import MOST_BYTES, shown


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        (None, "null", ""),
        (b"", "text", ""),
        ("héllo\tworld\n".encode(), "text", "héllo\tworld\n"),
        (b'{"id": 9223372036854775807, "x": 1.10}', "json", '{"id": 9223372036854775807, "x": 1.10}'),
        (b"{not json", "text", "{not json"),
        (b"\x00\x01\xff", "hex", "0001ff"),
        (b"nul\x00", "hex", "6e756c00"),
        (b"[" * 2_000, "text", "[" * 2_000),
    ],
)
def test_what_it_is(data: bytes | None, kind: str, text: str) -> None:
    assert shown(data) == {"kind": kind, "text": text, "size": len(data or b""), "cut": False}


def test_nesting_without_end_is_text() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    assert shown(deep, len(deep))["kind"] == "text"


@pytest.mark.parametrize("before", range(4))
def test_a_cut_goes_through_no_character(before: int) -> None:
    data = b"x" * (MOST_BYTES - before) + "🙂".encode() * 2
    found = shown(data)
    assert found["kind"] == "text"
    assert found["cut"]
    assert found["size"] == len(data)
    assert found["text"] == "x" * (MOST_BYTES - before)


def test_a_file_s_name_is_plain_in_its_header() -> None:
    headers = reading._file('t_1-0.é"\r\nX-A: b.bin', "application/octet-stream")
    assert headers["Content-Disposition"] == 'attachment; filename="t_1-0.____X-A__b.bin"'
