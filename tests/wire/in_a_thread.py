"""A server of aiohttp in a thread of its own, for those who wait for its answers."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp.test_utils import TestServer


@contextmanager
def running(server: TestServer) -> Iterator[None]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.start_server(), loop).result()
        yield
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
