"""Records out of a file: a page sends it piece by piece, whole lines at a time, and each piece is read by itself."""

import asyncio
import base64
import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from typing import Any, Final

from penstock.client.producer import Producer
from penstock.client.properties import with_properties
from penstock.client.settings import ProducerSettings
from penstock.console import verbatim
from penstock.console.asked import Asked, Means, bytes_of, number_of, one_of, text_of
from penstock.console.errors import ConsoleError, bad_request
from penstock.console.shown import shown
from penstock.protocol.value import Value

SHOWN: Final = 5
"""Records of a preview,"""
SHOWN_BYTES: Final = 300
"""and so much of each key and value."""
MOST_COLUMNS: Final = 1_000
IMPORTED_AT_ONCE: Final = 2
CSV: Final = "csv"
OF_A_RECORD: Final = frozenset({"topic", "partition", "offset", "timestamp", "key", "value", "headers"})
"""As an export writes them; of the first four nothing is taken over."""
SHAPES: Final = {"records": True, "values": False}

Headers = list[tuple[str, bytes | None]]
Parts = tuple[bytes | None, bytes | None, Headers]
Lines = Iterator[tuple[int, str]]


class Read(Value):
    """`line` is that of the file where it stands."""

    line: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Importer:
    def __init__(self, means: Means) -> None:
        self._means = means
        self._importing = asyncio.Semaphore(IMPORTED_AT_ONCE)

    def preview(self, asked: Asked) -> dict[str, Any]:
        """The first records of a piece. ConsoleError 400 names the first line that is wrong."""
        records, columns = read(asked)
        first = [
            {"key": shown(one.key, SHOWN_BYTES), "value": shown(one.value, SHOWN_BYTES), "headers": len(one.headers)}
            for one in records[:SHOWN]
        ]
        return {"records": len(records), "columns": columns, "first": first}

    async def send(self, asked: Asked) -> dict[str, Any]:
        """A piece is read as a whole before any of it is sent. ConsoleError 502 says how far it came."""
        topic = text_of(asked, "topic")
        records, columns = read(asked)
        settings = with_properties(ProducerSettings(client_id="penstock-console"), self._means.properties)
        async with self._importing, Producer(self._means.watched.bootstrap_servers, settings) as producer:
            await producer.cluster.topic(topic)  # one that is not there is not made
            sent = [await producer.send(topic, one.value, key=one.key, headers=one.headers) for one in records]
            await producer.flush()
            outcomes = await asyncio.gather(*sent, return_exceptions=True)
        failed = [(one.line, why) for one, why in zip(records, outcomes, strict=True) if isinstance(why, BaseException)]
        if failed:
            line, why = failed[0]
            words = f"line {line}: {why}; of the {len(records)} records that were sent with it {len(failed)} failed"
            raise ConsoleError(HTTPStatus.BAD_GATEWAY, words)
        return {"records": len(records), "columns": columns}


def read(asked: Asked) -> tuple[list[Read], list[str]]:
    """Records, and of CSV the columns: the first piece has them in its first line, for others `columns` says them.

    `kind` is jsonl, json or csv, `shape` records or values, `line` how many lines came before.
    """
    text = (bytes_of(asked, "text") or b"").decode()
    before, is_record = number_of(asked, "line", 0), one_of(asked, "shape", SHAPES)
    if not before:
        text = text.removeprefix("\ufeff")
    kind = one_of(asked, "kind", {CSV: None, "json": _array, "jsonl": _lines})
    if kind is None:
        return _rows(text, before, asked.get("columns"), is_record=is_record)
    return list(_all(kind(text, before), _record if is_record else _value)), []


def _all(lines: Iterator[tuple[int, Any]], parts: Callable[[Any], Parts]) -> Iterator[Read]:
    line = 0
    try:
        for line, found in lines:
            yield Read(line, *parts(found))
    except (ValueError, RecursionError) as error:
        raise bad_request(f"line {line}: {error}") from None


def _lines(text: str, before: int) -> Lines:
    return ((line, one) for line, one in enumerate(text.split("\n"), before + 1) if one.strip())


def _array(text: str, _: int) -> Lines:
    """A line is that where an element begins."""
    line, since = 1, 0
    try:
        for at, found in verbatim.elements(text):
            line += text.count("\n", since, at)
            since = at
            yield line, found
    except ValueError as error:
        raise bad_request(f"the file is no array of JSON: {error}; where each line is JSON, it is JSON lines") from None


def _value(text: str) -> Parts:
    return None, verbatim.value(text).encode(), []


def _record(text: str) -> Parts:
    found = verbatim.members(text)
    _check(found)
    headers = verbatim.members(found["headers"]) if found.get("headers", "[").startswith("{") else None
    pairs = list(headers.items()) if headers is not None else [_pair(one) for one in _elements(found.get("headers"))]
    return _data(found.get("key")), _data(found.get("value")), [(name, _data(value)) for name, value in pairs]


def _check(names: Sequence[str] | dict[str, str]) -> None:
    if other := sorted(set(names) - OF_A_RECORD):
        raise ValueError(f"{other[0]!r} is no part of a record (key, value, headers): is each line a value?")
    if not {"key", "value"} & set(names):
        raise ValueError("there is neither a key nor a value: is each line a value?")


def _elements(text: str | None) -> list[str]:
    return [] if text in (None, "null") else [one for _, one in verbatim.elements(str(text))]


def _pair(text: str) -> tuple[str, str]:
    match _elements(text):
        case [name, value]:
            return str(json.loads(name)), value
    raise ValueError("a header is [name, value]")


def _data(text: str | None) -> bytes | None:
    """A text, `{"base64": …}` or null as an export writes them; anything else as it is written."""
    if text in (None, "null"):
        return None
    found = json.loads(text or "")
    if isinstance(found, str):
        return found.encode()
    if isinstance(found, dict) and list(found) == ["base64"] and isinstance(found["base64"], str):
        return base64.b64decode(found["base64"], validate=True)
    return (text or "").encode()


def _rows(text: str, before: int, columns: Any, *, is_record: bool) -> tuple[list[Read], list[str]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    lines = _cells(reader, before)
    if not before:
        _, columns = next(lines, (1, []))
    if not isinstance(columns, list) or not 0 < len(columns) <= MOST_COLUMNS or len(set(columns)) < len(columns):
        raise bad_request(f"the first line of CSV has 1 to {MOST_COLUMNS} names of columns, each once")
    names = [str(one) for one in columns]

    def record(cells: Sequence[str]) -> Parts:
        if len(cells) != len(names):
            raise ValueError(f"it has {len(cells)} cells for {len(names)} columns")
        row = dict(zip(names, cells, strict=True))
        if not is_record:
            return None, json.dumps(row, ensure_ascii=False).encode(), []
        _check(names)
        key = row.get("key") or None
        value = row.get("value")
        return key and key.encode(), None if value is None else value.encode(), _headers(row.get("headers"))

    def _headers(cell: str | None) -> Headers:
        return [(name, _data(value)) for name, value in verbatim.members(cell).items()] if cell else []

    return list(_all(lines, record)), names


def _cells(reader: Any, before: int) -> Iterator[tuple[int, list[str]]]:
    """A line is that where a row ends."""
    try:
        for cells in reader:
            if cells:
                yield before + reader.line_num, cells
    except csv.Error as error:
        raise bad_request(f"line {before + reader.line_num}: {error}") from None
