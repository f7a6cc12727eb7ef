"""Records over HTTP: a window of them, the end of a topic as it grows, a file of lines, one value as it is."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from http import HTTPStatus
from itertools import chain
from typing import Final

from aiohttp import web

from penstock.console.errors import ConsoleError
from penstock.console.matching import Found, wanted
from penstock.console.query import MAX_ROWS, needed, number, one_of
from penstock.console.records import EXPORTED, Records
from penstock.console.serving.lines import line
from penstock.console.serving.streaming import begin_events, event, write
from penstock.console.shown import shown
from penstock.console.watched import REFUSALS

MAX_TAILS: Final = 8
MAX_EXPORTS: Final = 2
WHOLE_BYTES: Final = 1024 * 1024
"""What a page shows of one value; a file has all of it,"""
PART_BYTES: Final = 64 * 1024
"""a part after the other."""


class Reading:
    def __init__(self, records: Records, is_in: Callable[[web.Request], bool]) -> None:
        self._records = records
        self._is_in = is_in
        self.tails = 0
        self._exports = 0

    async def window(self, request: web.Request) -> web.Response:
        return web.json_response(await self._records.window(wanted(request.query, MAX_ROWS)))

    async def tail(self, request: web.Request) -> web.StreamResponse:
        """Each event is a list of records; an empty one says that nothing came. Until the reader has logged out."""
        want = wanted(request.query, MAX_ROWS)
        if self.tails >= MAX_TAILS:
            raise ConsoleError(HTTPStatus.SERVICE_UNAVAILABLE, f"{MAX_TAILS} pages watch records come: close some")
        self.tails += 1
        try:
            async with aclosing(self._records.tail(want)) as parts:
                first = await anext(parts)
                response = await begin_events(request)
                with _broken_where_it_fails(request):
                    await write(response, event(first))
                    async for rows in parts:
                        if not self._is_in(request):
                            break
                        await write(response, event(rows))
            return response
        finally:
            self.tails -= 1

    async def export(self, request: web.Request) -> web.StreamResponse:
        """JSON lines: what is no text is in base64."""
        want = wanted(request.query, EXPORTED)
        if self._exports >= MAX_EXPORTS:
            raise ConsoleError(HTTPStatus.SERVICE_UNAVAILABLE, f"{MAX_EXPORTS} exports are under way: wait for them")
        self._exports += 1
        try:
            async with aclosing(self._records.export(want)) as parts:
                nothing: list[Found] = []
                first = await anext(parts, nothing)
                response = web.StreamResponse(headers=_file(f"{want.topic}.jsonl", "application/x-ndjson"))
                await response.prepare(request)
                with _broken_where_it_fails(request):
                    await _write_lines(response, first)
                    async for part in parts:
                        await _write_lines(response, part)
                    await response.write_eof()
            return response
        finally:
            self._exports -= 1

    async def value(self, request: web.Request) -> web.StreamResponse:
        """`part` is value or key; `as` is json, to show up to 1 MiB, or file."""
        query = request.query
        topic, offset = needed(query, "topic"), number(query, "offset", 0)
        found = await self._records.one(topic, number(query, "partition", 0, 2**31 - 1), offset, WHOLE_BYTES)
        record, is_key = found.record, one_of(query, "part", "value", "key") == "key"
        data = record.key if is_key else record.value
        if one_of(query, "as", "json", "file") == "json":
            return web.json_response((found.key if is_key else found.value) or shown(data, WHOLE_BYTES))
        name = f"{topic}-{record.partition}-{record.offset}.bin"
        response = web.StreamResponse(headers=_file(name, "application/octet-stream"))
        response.content_length = len(data or b"")
        await response.prepare(request)
        with _broken_where_it_fails(request), memoryview(data or b"") as view:
            for start in range(0, len(view), PART_BYTES):
                await write(response, bytes(view[start : start + PART_BYTES]))
            await response.write_eof()
        return response


@contextmanager
def _broken_where_it_fails(request: web.Request) -> Iterator[None]:
    """An answer that has begun cannot say what went wrong: its connection breaks, so that nobody takes it for whole."""
    try:
        yield
    except (*REFUSALS, ConsoleError, ConnectionError) as error:
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError(str(error)) from error


async def _write_lines(response: web.StreamResponse, records: Sequence[Found]) -> None:
    waiting = bytearray()
    for piece in chain.from_iterable(map(line, records)):
        waiting += piece
        if len(waiting) >= PART_BYTES:
            await write(response, bytes(waiting))
            waiting.clear()
    if waiting:
        await write(response, bytes(waiting))


def _file(name: str, kind: str) -> dict[str, str]:
    plain = "".join(it if it.isascii() and (it.isalnum() or it in "._-") else "_" for it in name)
    return {"Content-Type": kind, "Content-Disposition": f'attachment; filename="{plain}"'}
