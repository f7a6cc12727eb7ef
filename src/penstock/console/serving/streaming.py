"""Answers that go on: server-sent events. A reader that takes nothing for too long is left."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final

from aiohttp import web

from penstock.console.serving.live import Stream

QUIET_S: Final = 15.0
"""After so long a comment is sent, by which a connection that is gone is noticed."""
STUCK_S: Final = 60.0


async def begin_events(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
    await response.prepare(request)
    await write(response, b"retry: 1000\n\n")
    return response


async def write(response: web.StreamResponse, data: bytes) -> None:
    """Waits while the reader is slow, so that nothing piles up. TimeoutError for one that is stuck."""
    async with asyncio.timeout(STUCK_S):
        await response.write(data)


def event(document: Any) -> bytes:
    return f"data: {json.dumps(document)}\n\n".encode()


async def send_events(request: web.Request, stream: Stream, is_in: Callable[[web.Request], bool]) -> web.StreamResponse:
    """The paths of views that have changed, until the reader goes or has logged out."""
    response = await begin_events(request)
    try:
        while is_in(request):
            paths = await stream.next(QUIET_S)
            await write(response, event(paths) if paths else b": quiet\n\n")
        return response
    except (TimeoutError, ConnectionError):
        return response
