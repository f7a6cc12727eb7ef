"""Pushes a node's figures to a collector over HTTP, as OpenTelemetry's protocol has it (OTLP).

| what happens                     | what follows                                                                    |
| -------------------------------- | ------------------------------------------------------------------------------- |
| an interval is over              | the figures of that moment are sent, one request after the other                |
| a request is refused, or fails   | what is left of this push is dropped: totals go on, so the next one says it all |
| it failed again                  | the next push is later each time, by `LONGEST_MS` at most; the log says it once |
| the collector names a time       | the next push is not before that (`Retry-After`), within the same limit         |

Requests are packed and sent by a thread, which waits `PATIENCE_S` at most; nothing is kept for later.
"""

import asyncio
import gzip
import http.client
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from penstock.node.environment.tasks import Tasks
from penstock.node.metrics.registry import Counter, Group, Registry

PATIENCE_S: Final = 5
"""So long a node that stops may wait for the thread."""
LONGEST_MS: Final = 600_000
PATH: Final = "/v1/metrics"
HEADERS: Final = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip", "User-Agent": "penstock"}
LEVEL: Final = 1
CURES: Final[dict[int, str]] = {
    HTTPStatus.NOT_FOUND: "; is its path right?",
    HTTPStatus.UNAUTHORIZED: "; is the log-in in penstock.otlp.headers right?",
    HTTPStatus.FORBIDDEN: "; is the log-in in penstock.otlp.headers right?",
}

logger = logging.getLogger(__name__)


class RefusedError(Exception):
    """Why a push did not arrive, and the pause that the collector asks for, if it does."""

    def __init__(self, why: str, retry_after_ms: int = 0) -> None:
        super().__init__(why)
        self.retry_after_ms = retry_after_ms


class Pushing:
    """`make` gives the requests of one push, which have these `headers` besides their own."""

    def __init__(
        self,
        endpoint: str,
        headers: Mapping[str, str],
        interval_ms: int,
        make: Callable[[], Awaitable[Sequence[bytes]]],
    ) -> None:
        self.pushes = self.failures = 0
        self._endpoint = endpoint
        self._headers = {**headers, **HEADERS}
        self._interval_ms = interval_ms
        self._make = make
        self._tasks = Tasks()
        self._in_a_row = 0

    def register(self, registry: Registry) -> None:
        registry.add(
            Counter(Group.NODE, "OtlpPushCount", "Pushes that a collector took", lambda: self.pushes),
            Counter(Group.NODE, "OtlpFailureCount", "Pushes that did not arrive", lambda: self.failures),
        )

    def start(self) -> None:
        self._tasks.keep(self._go_on, "pushing figures to a collector")

    async def stop(self) -> None:
        """A request that is under way ends by itself."""
        await self._tasks.stop()

    async def _go_on(self) -> None:
        pause_ms = self._interval_ms
        while True:
            await asyncio.sleep(pause_ms / 1000)
            pause_ms = await self.push()

    async def push(self) -> int:
        """Once; the pause until the next."""
        requests = await self._make()
        loop = asyncio.get_running_loop()
        try:
            for request in requests:
                await loop.run_in_executor(None, send, self._endpoint, self._headers, request)
        except RefusedError as refused:
            return self._has_failed(refused)
        if self._in_a_row:
            logger.warning("figures arrive at %s again", self._endpoint)
        self.pushes, self._in_a_row = self.pushes + 1, 0
        return self._interval_ms

    def _has_failed(self, refused: RefusedError) -> int:
        if not self._in_a_row:
            logger.warning("figures do not arrive at %s: %s", self._endpoint, refused)
        self.failures, self._in_a_row = self.failures + 1, self._in_a_row + 1
        longest_ms = max(self._interval_ms, LONGEST_MS)
        later_ms = self._interval_ms << min(self._in_a_row, 10)
        return min(max(later_ms, refused.retry_after_ms), longest_ms)


def send(endpoint: str, headers: Mapping[str, str], request: bytes) -> None:
    """For a thread. Raises RefusedError."""
    parts = urlsplit(endpoint)
    host, path = parts.hostname or "", parts.path if parts.path not in ("", "/") else PATH
    if parts.scheme == "https":
        secured = http.client.HTTPSConnection(
            host, parts.port, timeout=PATIENCE_S, context=ssl.create_default_context()
        )
        connection: http.client.HTTPConnection = secured
    else:
        connection = http.client.HTTPConnection(host, parts.port, timeout=PATIENCE_S)
    try:
        connection.request("POST", path, gzip.compress(request, LEVEL), headers)
        answer = connection.getresponse()
        status, after = answer.status, answer.headers.get("Retry-After", "")
    except (OSError, http.client.HTTPException) as error:
        raise RefusedError(str(error) or type(error).__name__) from None
    finally:
        connection.close()
    if status != HTTPStatus.OK:
        after_ms = int(after[:9]) * 1000 if after.isdecimal() else 0
        raise RefusedError(f"it answers {status}{CURES.get(status, '')}", after_ms)
