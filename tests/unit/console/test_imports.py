"""Files of records are read piece by piece: every digit stays, and a line that is wrong is named."""

import json
import re
from typing import Any

import pytest

from penstock.client.values import ConsumedRecord
from penstock.console import verbatim
from penstock.console.errors import ConsoleError
from penstock.console.imports import MOST_COLUMNS, Read, read
from penstock.console.matching import Found
from penstock.console.serving.lines import line


def records(text: str, kind: str = "jsonl", shape: str = "records", **more: Any) -> list[Read]:
    return read({"text": text, "kind": kind, "shape": shape, **more})[0]


def refused(text: str, kind: str = "jsonl", shape: str = "records", **more: Any) -> str:
    with pytest.raises(ConsoleError) as caught:
        records(text, kind, shape, **more)
    assert caught.value.status == 400
    return str(caught.value)


def test_what_an_export_writes_comes_back_as_it_was() -> None:
    headers = [("a", b"x"), ("a", None), ("b", b"\xff")]
    for key, value in ((b"k", b'{"n": 1.10}'), (None, b"\x00\xff"), (b"", None), ("ä\n".encode(), b'"')):
        record = ConsumedRecord("t", 3, 9, 1, key, value, headers)
        (found,) = records(b"".join(line(Found(record))).decode())
        assert (found.key, found.value, found.headers) == (key, value, headers)


def test_values_have_all_their_digits() -> None:
    exact = '{"n":12345678901234567890.10, "e": 1e999}'
    assert [one.value for one in records(f"{exact}\r\n\n 7 \n", shape="values")] == [exact.encode(), b"7"]
    assert [(one.line, one.value) for one in records(f"[\n{exact},\n[1.0]]", "json", "values")] == [
        (2, exact.encode()),
        (3, b"[1.0]"),
    ]
    (found,) = records('{"value": {"n": 1.10}, "headers": {"h": "x"}, "offset": "7"}')
    assert (found.value, found.headers) == (b'{"n": 1.10}', [("h", b"x")])
    assert records("[]", "json") == []


def test_csv_has_its_columns_in_the_first_piece_alone() -> None:
    found, columns = read(
        {"text": '\ufeffkey,value,headers\na,"x\n""y""",\n,,"{""h"": null}"\n', "kind": "csv", "shape": "records"}
    )
    assert [(one.line, one.key, one.value, one.headers) for one in found] == [
        (3, b"a", b'x\n"y"', []),
        (4, None, b"", [("h", None)]),
    ]
    (later,) = records("b,z,\n", "csv", line="4", columns=columns)
    assert (later.line, later.key, later.value) == (5, b"b", b"z")
    (row,) = records("id,name\n01,ä\n", "csv", "values")
    assert json.loads(row.value or b"") == {"id": "01", "name": "ä"}


@pytest.mark.parametrize(
    ("text", "kind", "why"),
    [
        ('{"value": "a"}\n{"value": }', "jsonl", "line 2: "),
        ('{"value": "a"}\n{"valeu": "b"}', "jsonl", "line 2: 'valeu' is no part of a record"),
        ("{}", "jsonl", "line 1: there is neither a key nor a value"),
        ("[1]", "jsonl", r"line 1: { is missing"),
        ('{"value": "a"} x', "jsonl", "line 1: something follows"),
        ('{"value": {"base64": "?"}}', "jsonl", "line 1: "),
        ('{"value": "\\ud800"}', "jsonl", "line 1: "),
        ('{"value": "a", "headers": [["h"]]}', "jsonl", r"line 1: a header is \[name, value\]"),
        ("[" * 100_000, "jsonl", "line 1: "),
        ('{"value": ' + "[" * 100_000, "jsonl", "line 1: it is nested too deep"),
        ('{"value": "a"}\n{"value": "b"}', "json", "is no array of JSON: .* it is JSON lines"),
        ("[" * 100_000, "json", "is no array of JSON: it is nested too deep"),
        ('[{"value": "a"},\n\n{"n": 1}]', "json", "line 3: 'n' is no part of a record"),
        ("key,value\na", "csv", "line 2: it has 1 cells for 2 columns"),
        ('key,value\na,"b"c', "csv", "line 2: "),
        ("key,key\na,b", "csv", "the first line of CSV"),
        ("", "csv", "the first line of CSV"),
        (",".join(map(str, range(MOST_COLUMNS + 1))), "csv", "the first line of CSV"),
        ("n,value\na,b", "csv", "line 2: 'n' is no part"),
    ],
)
def test_the_first_line_that_is_wrong_is_named(text: str, kind: str, why: str) -> None:
    message = refused(text, kind)
    assert re.search(why, message), message


def test_lines_are_counted_on_in_later_pieces() -> None:
    assert refused('{"value": 1}\n{', line="40").startswith("line 42: ")
    assert refused("a,b\n", "csv", line="7", columns=["value"]).startswith("line 8: ")
    assert "the first line of CSV" in refused("a,b\n", "csv", line="7")


@pytest.mark.parametrize("more", [{"kind": "xml"}, {"shape": "odd"}, {"text": 5}, {"text": "x" * 600_001}])
def test_other_questions_are_refused(more: dict[str, Any]) -> None:
    with pytest.raises(ConsoleError):
        read({"text": "", "kind": "jsonl", "shape": "records"} | more)


def test_parts_of_json_stay_as_they_are() -> None:
    assert verbatim.members('{"a": 1.0 , "b":[ 1 ],"a":null}') == {"a": "null", "b": "[ 1 ]"}
    assert verbatim.members(" { } ") == {}
    assert verbatim.value(" 1.50 ") == "1.50"
    for text in ("", "{", '{"a"}', '{"a": 1,}', "{1: 2}", "{} 1"):
        with pytest.raises(ValueError, match=r".+"):
            verbatim.members(text)
    for text in ("[1,]", "[1 2]", "[1]]"):
        with pytest.raises(ValueError, match=r".+"):
            list(verbatim.elements(text))
