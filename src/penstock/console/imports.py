"""Records out of a file: a page sends it piece by piece, whole lines at a time, and each piece is read by itself."""

from __future__ import annotations

import asyncio
import base64
import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from http import HTTPStatus
from typing import Any, Final

from penstock.client.producer import Producer
from penstock.client.properties import with_properties
from penstock.client.settings import ProducerSettings
from penstock.console import verbatim
from penstock.console.asked import Asked, Means, bytes_of, number_of, one_of, text_of
from penstock.console.by_schema import NotMadeError, by_schema
from penstock.console.errors import ConsoleError, bad_request
from penstock.console.shown import shown
from penstock.console.watched import REFUSALS
from penstock.protocol.value import Value

SHOWN: Final = 5
"""Records of a preview,"""
SHOWN_BYTES: Final = 300
"""and so much of each key and value."""
MOST_COLUMNS: Final = 1_000
IMPORTED_AT_ONCE: Final = 2
SENT_TOGETHER: Final = 1_000
"""Records: more of them would keep other pages waiting."""
NAMED: Final = 100
"""Characters of a name that an error tells."""
CSV: Final = "csv"
OF_A_RECORD: Final = frozenset({"topic", "partition", "offset", "timestamp", "key", "value", "headers"})
"""As an export writes them; of the first four nothing is taken over."""
TOLD: Final = ("topic", "kind", "line", "key_schema", "value_schema")
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
        self._reading = asyncio.Semaphore(IMPORTED_AT_ONCE)
        self._importing = asyncio.Semaphore(IMPORTED_AT_ONCE)

    async def preview(self, asked: Asked) -> dict[str, Any]:
        """The first records of a piece. ConsoleError 400 names a line that is wrong, or one of those that is no value
        of the schema; 503 one that could not be made.
        """
        records, columns = await self._read(asked)
        await self._made(asked, records[:SHOWN])
        first = [
            {"key": shown(one.key, SHOWN_BYTES), "value": shown(one.value, SHOWN_BYTES), "headers": len(one.headers)}
            for one in records[:SHOWN]
        ]
        return {"records": len(records), "columns": columns, "first": first}

    async def send(self, asked: Asked) -> dict[str, Any]:
        """A piece is read as a whole before any of it is sent. ConsoleError 502 says how far it came."""
        topic = text_of(asked, "topic")
        settings = with_properties(ProducerSettings(client_id="penstock-console"), self._means.properties)
        async with self._importing:
            read_records, columns = await self._read(asked)
            records = await self._made(asked, read_records)
            async with Producer(self._means.watched.bootstrap_servers, settings) as producer:
                await producer.cluster.topic(topic)  # one that is not there is not made
                failed = await sent(producer, topic, records)
        if failed:
            line, why = failed[0]
            words = f"line {line}: {why}; of the {len(records)} records that were sent with it {len(failed)} failed"
            raise ConsoleError(HTTPStatus.BAD_GATEWAY, words)
        return {"records": len(records), "columns": columns}

    async def _made(self, asked: Asked, records: Sequence[Read]) -> Sequence[Read]:
        """By the schemas that are asked for, if any. ConsoleError names a line that could not be made."""
        try:
            keys = await by_schema(self._means, asked, "key", [one.key for one in records])
            values = await by_schema(self._means, asked, "value", [one.value for one in records])
        except NotMadeError as error:
            raise ConsoleError(error.status, f"line {records[error.place].line}: {error}") from None
        return [Read(one.line, key, value, one.headers) for one, key, value in zip(records, keys, values, strict=True)]

    async def _read(self, asked: Asked) -> tuple[list[Read], list[str]]:
        """In a thread: a piece may have very many lines, and other pages are not to wait for them."""
        async with self._reading:
            return await asyncio.to_thread(read, asked)


async def sent(producer: Producer, topic: str, records: Sequence[Read]) -> list[tuple[int, BaseException]]:
    """Lines of records that were not delivered, and why. Behind one that the client itself refuses none is sent."""
    failed: list[tuple[int, BaseException]] = []
    for first in range(0, len(records), SENT_TOGETHER):
        queued: list[asyncio.Future[Any]] = []
        refused: BaseException | None = None
        for one in records[first : first + SENT_TOGETHER]:
            try:
                queued.append(await producer.send(topic, one.value, key=one.key, headers=one.headers))
            except REFUSALS as error:
                refused = error
                break
        await producer.flush()
        outcomes = (
            (one.line, future.exception())
            for one, future in zip(records[first : first + len(queued)], queued, strict=True)
        )
        failed += [(line, why) for line, why in outcomes if why is not None]
        if refused is not None:
            return failed + [(left.line, refused) for left in records[first + len(queued) :]]
    return failed


def told(asked: Asked) -> dict[str, Any]:
    """What the audit log has of a piece, whatever else the question names."""
    return {"action": "import", **{name: asked[name] for name in TOLD if name in asked}}


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
    return _data(found.get("key")), _data(found.get("value")), _headers(pairs)


def _check(names: Sequence[str] | dict[str, str]) -> None:
    if other := sorted(set(names) - OF_A_RECORD):
        raise ValueError(f"{other[0][:NAMED]!r} is no part of a record (key, value, headers): is each line a value?")
    if not {"key", "value"} & set(names):
        raise ValueError("there is neither a key nor a value: is each line a value?")


def _elements(text: str | None) -> list[str]:
    return [] if text in (None, "null") else [one for _, one in verbatim.elements(str(text))]


def _pair(text: str) -> tuple[str, str]:
    match _elements(text):
        case [name, value]:
            return str(json.loads(name)), value
    raise ValueError("a header is [name, value]")


def _headers(pairs: Iterable[tuple[str, str]]) -> Headers:
    """A name that has half a character of UTF-16 could not be sent."""
    return [(name.encode().decode(), _data(value)) for name, value in pairs]


def _data(text: str | None) -> bytes | None:
    """A text, `{"base64": …}` or null as an export writes them; anything else as it is written."""
    if text is None or text == "null":
        return None
    if text.startswith('"'):
        return str(json.loads(text)).encode()
    match verbatim.members(text) if text.startswith("{") else {}:
        case {"base64": data, **others} if not others and data.startswith('"'):
            return base64.b64decode(json.loads(data), validate=True)
    return text.encode()


def _rows(text: str, before: int, columns: Any, *, is_record: bool) -> tuple[list[Read], list[str]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    lines = _cells(reader, before)
    if not before:
        columns = next((cells for _, cells in lines), [])
    names = [one for one in columns if isinstance(one, str)] if isinstance(columns, list) else []
    if not 0 < len(names) <= MOST_COLUMNS or len(set(names)) < len(columns):
        raise bad_request(f"the first line of CSV has 1 to {MOST_COLUMNS} names of columns, each once")

    def record(cells: Sequence[str]) -> Parts:
        if len(cells) != len(names):
            raise ValueError(f"it has {len(cells)} cells for {len(names)} columns")
        row = dict(zip(names, cells, strict=True))
        if not is_record:
            return None, json.dumps(row, ensure_ascii=False).encode(), []
        _check(names)
        key = row.get("key") or None
        value, cell = row.get("value"), row.get("headers")
        headers = _headers(verbatim.members(cell).items()) if cell else []
        return key and key.encode(), None if value is None else value.encode(), headers

    return list(_all(lines, record)), names


def _cells(reader: Any, before: int) -> Iterator[tuple[int, list[str]]]:
    """A line is that where a row ends."""
    try:
        for cells in reader:
            if cells:
                yield before + reader.line_num, cells
    except csv.Error as error:
        raise bad_request(f"line {before + reader.line_num}: {error}") from None
