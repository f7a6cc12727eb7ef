"""Consoles that are asked over HTTP by the steps of a transcript.

A step is a console (`open`, `users`, `reading` or `proxied`), a method, a path, headers in brackets, and a body. What
an answer gave is `$token`, `$cookie` and `$tag` from then on. Headers that each answer has are not shown.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any, Final, cast

from aiohttp import ClientError, ClientResponse, ClientSession, DummyCookieJar
from tests.golden.console_cluster import ShownCluster

from penstock import __version__
from penstock.client.settings import ClientSettings
from penstock.console.serving.guard import HEADERS
from penstock.console.serving.server import ConsoleServer
from penstock.console.serving.settings import ConsoleSettings
from penstock.console.serving.site import DOCS_HEADERS
from penstock.protocol.secret import Secret

PLAIN: Final = ConsoleSettings(bootstrap_servers="127.0.0.1:1", client=ClientSettings(), port=0)
CONSOLES: Final = {
    "open": PLAIN,
    "users": PLAIN.replace(users={"ada": Secret("lovelace"), "bob": Secret("builder")}),
    "reading": PLAIN.replace(read_only=True, worker="http://127.0.0.1:1", schema_registry="http://127.0.0.1:1/"),
    "proxied": PLAIN.replace(host="0.0.0.0", allowed_hosts=("Console.Example",)),
}
STEP: Final = re.compile(r"(\w+) (\w+) (\S+)(?: \[([^\]]*)\])?(?: (.*))?")
ALWAYS: Final = {**HEADERS, "Content-Length": None, "Date": None, "Server": None}
SHOWN: Final = {"application/json": 9_000, "application/x-ndjson": 4_000, "text/event-stream": 4_000}
OTHERS_SHOWN: Final = 16


class HttpLecture:
    def __init__(self, loop: asyncio.Runner, heard: Callable[[], Sequence[str]]) -> None:
        """`heard` are lines that stand under an answer."""
        self._loop, self._heard = loop, heard
        self.servers = {name: ConsoleServer(settings, 0.0) for name, settings in CONSOLES.items()}
        self._known = {"$version": __version__}
        self._session: ClientSession | None = None
        self.now_s = 0.0

    def __enter__(self) -> HttpLecture:
        self._loop.run(self._begin())
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.run(self._end())

    async def _begin(self) -> None:
        self._session = ClientSession(cookie_jar=DummyCookieJar(), auto_decompress=False)
        for server in self.servers.values():
            cluster = ShownCluster()
            server._watched.admin, server._watched._of_all = cluster.watched.admin, cluster.watched._of_all
            server._watched.looks = cluster.watched.looks
            server._guard._now_s = lambda: self.now_s
            await server.__aenter__()

    async def _end(self) -> None:
        assert self._session is not None
        await self._session.close()
        for server in self.servers.values():
            server._watched.admin = server._watched._of_all = cast("Any", SimpleNamespace(cluster=Closed()))
            await server.__aexit__()

    def handle(self, line: str) -> Iterable[str]:
        return self._loop.run(self._asked(line))

    async def _asked(self, line: str) -> list[str]:
        if line.startswith("later "):
            self.now_s += float(line.split()[1])
            return []
        found = STEP.fullmatch(line)
        assert found is not None, line
        name, method, path, headers, body = found.groups()
        for word, value in self._known.items():
            headers, body = (text and text.replace(word, value) for text in (headers, body))
        port = self.servers[name].url.rpartition(":")[2]
        given = dict(one.split(": ", 1) for one in (headers or "").replace("$port", port).split("; ") if one)
        if body is not None:
            given.setdefault("Content-Type", "application/json")
        assert self._session is not None
        url = f"http://127.0.0.1:{port}{path}"
        async with self._session.request(method, url, headers=given, data=body, allow_redirects=False) as answer:
            data, breaks = bytearray(), False
            try:
                async for piece in answer.content.iter_any():
                    data += piece
            except ClientError:
                breaks = True
            lines = [*self._said(answer, bytes(data))]
        return [*lines, *(["the connection breaks"] if breaks else []), *self._heard()]

    def _said(self, answer: ClientResponse, data: bytes) -> Iterable[str]:
        yield f"{answer.status} {answer.reason}"
        is_page = answer.url.path.startswith("/docs/") and answer.status == 200
        for name, value in (DOCS_HEADERS if is_page else HEADERS).items():
            assert answer.headers[name] == value, name
        text = data.decode("utf-8", "backslashreplace").replace("\0", "\\0")
        if '"token"' in text:
            self._known["$token"] = json.loads(text)["token"]
        if "ETag" in answer.headers:
            self._known["$tag"] = answer.headers["ETag"]
        for name, value in answer.headers.items():
            if name == "Set-Cookie" and (cookie := re.search(r'penstock-console="?([\w-]{20,})', value)) is not None:
                self._known["$cookie"] = cookie[1]
            if name not in ALWAYS:
                yield f"{name}: {self._hidden(value)}"
        text = text.replace('"records": [{', '"records": [\n{').replace("0}, {", "0},\n{")  # a row has a line
        shown = self._hidden(text[: SHOWN.get(answer.content_type, OTHERS_SHOWN)])
        yield from (line for line in shown.splitlines() if line)

    def _hidden(self, text: str) -> str:
        for word, value in self._known.items():
            text = text.replace(value, word)
        text = re.sub(r"(expires=)[^;]*", r"\1…", text)
        return re.sub(r"\(Cannot connect to .*\)|<urlopen .*>", "(…)", text)


class Closed:
    async def close(self) -> None:
        pass
