"""The documentation under `/docs`, as `make site` wrote it into the package: offline, and of the version that runs.

What can be asked for are the files that were there at the start, and nothing that lies beside them.
"""

import asyncio
import html
from http import HTTPStatus
from pathlib import Path
from typing import Final

from aiohttp import web

from penstock.console.errors import ConsoleError
from penstock.console.serving.guard import HEADERS

KINDS: Final = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".png": "image/png",
    ".svg": "image/svg+xml",
}
POLICY: Final = "Content-Security-Policy"
DOCS_HEADERS: Final = {POLICY: HEADERS[POLICY].replace("form-action 'none'", "form-action 'self'")}
"""The search of these pages is a form, which works without a script of ours; all else is as for the console."""
NOT_THERE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Documentation · Penstock</title><link rel="icon" href="/icon.svg"><link rel="stylesheet" href="/style.css">
</head>
<body><main><h1>The documentation is not here yet</h1>
<p>{why} In the checkout, this writes it, and the console has it when it is started again:</p>
<pre class="command">make site</pre><p><a href="/">Back to the console</a></p></main></body></html>
"""


class Site:
    """`folder` is where the pages are, None where there are none; `version` is the one that runs."""

    def __init__(self, folder: Path | None, version: str) -> None:
        self._files: dict[str, Path] = {}
        self._why = "This package was made without it."
        if folder is None:
            return
        made_of = _version_of(folder)
        if made_of != version:
            self._why = f"What is there is of version {made_of or 'nobody knows which'}, and this is {version}."
            return
        self._files = {
            path.relative_to(folder).as_posix(): path
            for path in sorted(folder.rglob("*"))
            if path.suffix in KINDS and path.is_file() and not path.is_symlink()
        }

    async def page(self, request: web.Request) -> web.Response:
        """One of its files; without any, a page that tells how to have them."""
        name = request.match_info["name"] or "index.html"
        if not self._files:
            text = NOT_THERE.format(why=html.escape(self._why))
            return web.Response(text=text, content_type="text/html", status=HTTPStatus.NOT_FOUND)
        path = self._files.get(name)
        if path is None:
            raise ConsoleError(HTTPStatus.NOT_FOUND, "there is no such page: /docs/ has all of them")
        data = await asyncio.to_thread(path.read_bytes)
        headers = {"Cache-Control": "no-cache", **DOCS_HEADERS}
        return web.Response(body=data, content_type=KINDS[path.suffix], charset="utf-8", headers=headers)

    async def front(self, _: web.Request) -> web.Response:
        """Its pages refer to each other from their folder."""
        return web.Response(status=HTTPStatus.PERMANENT_REDIRECT, headers={"Location": "/docs/"})


def _version_of(folder: Path) -> str | None:
    try:
        return (folder / "version.txt").read_text(encoding="utf-8").strip()
    except OSError:
        return None
