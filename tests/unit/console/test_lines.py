"""Exported lines are JSON, whatever is in a record and wherever a piece ends."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from penstock.client.values import ConsumedRecord
from penstock.console.matching import Found, Wanted
from penstock.console.serving import lines

EURO = 'a\u20ac\U0001f600"\\\n\x00'.encode()


def record(value: bytes | None, headers: list[tuple[str, bytes | None]] | None = None) -> ConsumedRecord:
    return ConsumedRecord("t", 3, 2**62, 17, b"k", value, headers or [], False)


def exported(found: Found) -> Any:
    written = b"".join(lines.line(found))
    assert written.endswith(b"}\n")
    return json.loads(written)


@pytest.mark.parametrize("piece_bytes", [3, 6, 9, 1 << 20])
@pytest.mark.parametrize("value", [None, b"", EURO * 3, EURO * 3 + b"\xff", EURO[:-4] + b"\xf0\x9f", b"\xff\x00" * 5])
def test_a_value_has_all_its_bytes(monkeypatch: pytest.MonkeyPatch, piece_bytes: int, value: bytes | None) -> None:
    monkeypatch.setattr(lines, "PIECE_BYTES", piece_bytes)
    row = exported(Found(record(value, [('h"', value), ("i", None)])))
    assert (row["partition"], row["offset"], row["key"]) == (3, str(2**62), "k")
    for found in (row["value"], row["headers"][0][1]):
        whole = base64.b64decode(found["base64"]) if isinstance(found, dict) else found
        assert (whole.encode() if isinstance(whole, str) else whole) == value
    assert row["headers"][1] == ["i", None]


def test_what_a_schema_made_is_told_unless_it_was_cut() -> None:
    decoded = {"text": '{"n": 9007199254740993}', "cut": False}
    assert exported(Found(record(b"\x00"), value=decoded))["value"] == decoded["text"]
    assert exported(Found(record(b"\x00"), value={**decoded, "cut": True}))["value"] == "\x00"


def test_words_are_found_where_pieces_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.console.matching.PIECE_BYTES", 4)
    for words, is_there in ((b"cdefghij", True), (b"j", True), (b"cdx", False), (b"a", True)):
        want = Wanted("t", None, "latest", 0, 1, b"", words, "", False)
        assert want.has_words(record(b"ABCDEFGHIJ")) is is_there
