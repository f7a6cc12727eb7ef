"""Files of records are read piece by piece: every digit stays, and a line that is wrong is named."""

import asyncio
import json
import re
import shutil
import sys
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.client.producer import Producer
from penstock.client.values import ConsumedRecord
from penstock.console import imports, verbatim
from penstock.console.apart.schema import AVRO, KnownSchema
from penstock.console.asked import Means
from penstock.console.errors import ConsoleError
from penstock.console.imports import MOST_COLUMNS, Read, read
from penstock.console.matching import Found
from penstock.console.reader import ApartReader
from penstock.console.schemas import SchemaRegistry
from penstock.console.serving.lines import line
from penstock.protocol.errors import ErrorCode, KafkaError


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


@pytest.mark.parametrize("value", ["NaN", '{"n": [-Infinity]}'])
def test_what_python_takes_for_json_is_none(value: str) -> None:
    assert "line 1: " in refused(value, shape="values")
    assert "is no JSON" in refused(f'{{"value": {value}}}')
    assert "is no JSON" in refused(f"[{value}]", "json", "values")


def test_a_number_may_have_any_length() -> None:
    value = '{"n": ' + "9" * 10_000 + "}"
    assert [one.value for one in records(value, shape="values")] == [value.encode()]
    assert [one.value for one in records(f'{{"value": {value}}}')] == [value.encode()]


def test_a_line_that_could_not_be_sent_is_refused_before_any_is() -> None:
    for headers in ('[["\\ud800", "x"]]', '{"\\ud800": "x"}'):
        assert "line 2: " in refused(f'{{"value": 1}}\n{{"value": 1, "headers": {headers}}}')
    assert "line 2: " in refused('value,headers\n1,"{""\\ud800"":1}"', "csv")


def test_names_of_columns_are_texts_and_an_error_tells_a_part_of_a_long_one() -> None:
    wrong: tuple[Any, ...] = ([["a"]], [{}], [1], "ab", {"a": 1}, ["a", 1])
    for columns in wrong:
        assert "names of columns" in refused("a", "csv", "values", line="3", columns=columns)
    assert len(refused(f'{{"{"x" * 10_000}": 1}}')) < 300


async def test_other_pages_do_not_wait_while_a_piece_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = threading.Event()

    def slowly(_: Any) -> tuple[list[Read], list[str]]:
        assert goes_on.wait(30), "the loop is held"
        return [], []

    monkeypatch.setattr(imports, "read", slowly)
    asyncio.get_running_loop().call_soon(goes_on.set)
    assert (await imports.Importer(cast("Means", None)).preview({}))["records"] == 0


SCHEMA = KnownSchema(9, AVRO, b'{"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}')
KEYS = KnownSchema(8, AVRO, b'"string"')


class Registry:
    async def latest(self, subject: str) -> KnownSchema:
        return {"v": SCHEMA, "k": KEYS}[subject]


async def sent_by_schema(text: str, monkeypatch: pytest.MonkeyPatch, *, dry: bool = False, **more: str) -> list[Read]:
    """What would go to the topic."""
    found: list[Read] = []

    class Sends:
        def __init__(self, *_: Any) -> None:
            self.cluster = SimpleNamespace(topic=self.nothing)

        async def nothing(self, *_: Any) -> None:
            pass

        async def begin(self) -> Any:
            return self

        __aenter__, __aexit__ = begin, nothing

    async def sent(_: Any, __: str, those: Sequence[Read]) -> list[tuple[int, BaseException]]:
        found.extend(those)
        return []

    monkeypatch.setattr(imports, "Producer", Sends)
    monkeypatch.setattr(imports, "sent", sent)
    means = Means(cast("Any", SimpleNamespace(bootstrap_servers="")), {}, cast("SchemaRegistry", Registry()))
    asked = {"topic": "t", "text": text, "kind": "jsonl", "shape": "records", **more}
    importer = imports.Importer(means)
    await (importer.preview(asked) if dry else importer.send(asked))
    return found


async def test_values_are_made_by_the_schema_and_what_an_export_wrote_of_them_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    head = b"\0\0\0\0\x09"
    shown = {"text": '{"n": 2}', "size": 8, "cut": False}
    exported = b"".join(line(Found(ConsumedRecord("t", 0, 0, 1, b"\xff", head + b"\x04", []), value=shown))).decode()
    text = f'{{"value": {{"n": 1}}}}\n{{"key": null, "value": null}}\n{exported}'
    found = await sent_by_schema(text, monkeypatch, value_schema="v")
    assert [(one.line, one.key, one.value) for one in found] == [
        (1, None, head + b"\x02"),
        (2, None, None),
        (3, b"\xff", head + b"\x04"),
    ]
    (both,) = await sent_by_schema(
        '{"key": "\\"a\\"", "value": {"n": 1}}', monkeypatch, key_schema="k", value_schema="v"
    )
    assert (both.key, both.value) == (b"\0\0\0\0\x08\x02a", head + b"\x02")


@pytest.mark.parametrize(
    ("dry", "bad", "why"),
    [
        (False, '{"n": "x"}', "line 4: it is no value of schema 9: "),
        (True, '{"base64": "/w=="}', "line 4: it is no text"),
    ],
)
async def test_a_line_that_is_no_value_of_the_schema_is_named(
    monkeypatch: pytest.MonkeyPatch, dry: bool, bad: str, why: str
) -> None:
    text = f'{{"value": null}}\n\n{{"value": {{"n": 1}}}}\n{{"value": {bad}}}\n{{"value": {{"n": 2}}}}'
    with pytest.raises(ConsoleError, match=why) as caught:
        await sent_by_schema(text, monkeypatch, dry=dry, value_schema="v")
    assert caught.value.status == 400


async def test_what_is_no_fault_of_the_text_is_told_as_one_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line is named all the same: what came before it was made."""
    async with ApartReader() as reader:
        await reader._running()
        monkeypatch.setattr("penstock.console.reader.ANSWER_S", 0.0)
        with pytest.raises(ConsoleError, match="other things to do") as silent:
            await anext(reader.make(SCHEMA, ['{"n": 1}']))
    monkeypatch.undo()
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(ConsoleError, match=r"line 2: the process .* does not begin") as not_begun:
        await sent_by_schema('\n{"value": {"n": 1}}', monkeypatch, value_schema="v")
    assert {silent.value.status, not_begun.value.status} == {503}


async def test_behind_a_record_that_the_client_refuses_none_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    queued: list[bytes] = []

    async def send(_: str, value: bytes, **__: Any) -> asyncio.Future[None]:
        if value == b"large":
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, "too large")
        queued.append(value)
        outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        outcome.set_result(None)
        return outcome

    async def flush() -> None:
        pass

    monkeypatch.setattr(imports, "SENT_TOGETHER", 2)
    values = ((1, b"a"), (2, b"b"), (3, b"c"), (4, b"large"), (6, b"d"))
    lines = [Read(line, None, value, []) for line, value in values]
    failed = await imports.sent(cast("Producer", SimpleNamespace(send=send, flush=flush)), "t", lines)
    assert queued == [b"a", b"b", b"c"]
    assert [line for line, _ in failed] == [4, 6]
    assert all("too large" in str(why) for _, why in failed)


async def test_where_no_record_has_a_value_nothing_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    async def running(_: object) -> None:
        raise AssertionError("there is nothing to make")

    monkeypatch.setattr(ApartReader, "_running", running)
    (found,) = await sent_by_schema('{"key": "k", "value": null}', monkeypatch, value_schema="v")
    assert (found.key, found.value) == (b"k", None)
