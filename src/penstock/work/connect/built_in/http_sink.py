"""Records as requests to a web server: one by one, or many in one as a JSON array.

| what the server says | what happens |
| --- | --- |
| 2xx | the records have been taken |
| 408, 425, 429, 5xx, or nothing | it is sent again, later and later, `max.retries` times; then the task fails |
| 400, 413, 422 | of several records each half is sent again; a single one is refused |
| anything else | all records of the request are refused |

What becomes of refused records is said by `errors.tolerance`. A server may get records twice: after a crash, or where
its answer was lost.
"""

import asyncio
import base64
import json
import random
import ssl
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import groupby
from typing import Any, ClassVar, Final
from urllib.parse import quote, urlsplit

from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector

from penstock.client.values import TopicPartition
from penstock.work.connect.api import RetriableError, SinkConnector, SinkContext, SinkRecord, SinkTask
from penstock.work.connect.config import ConfigError, ConfigKey, bare, parse
from penstock.work.connect.schemas import to_json

KEYS: Final = (
    ConfigKey("http.url", required=True, documentation="where to send records; ${topic} and ${key} are theirs"),
    ConfigKey("http.method", default="POST", documentation="The verb.", choices=("POST", "PUT", "PATCH")),
    ConfigKey("http.timeout", "int", 30, "How many seconds a request may take.", least=1),
    ConfigKey("http.headers.content.type", default="application/json", documentation="The type of the body."),
    ConfigKey("http.headers.additional", "password", "", "More headers, as name:value."),
    ConfigKey(
        "http.authorization.type",
        default="none",
        documentation="static sends http.headers.authorization, basic a user and a password.",
        choices=("none", "static", "basic"),
    ),
    ConfigKey("http.headers.authorization", "password", documentation="The header Authorization."),
    ConfigKey("http.authorization.user", documentation="The user, for basic."),
    ConfigKey("http.authorization.password", "password", documentation="The password, for basic."),
    ConfigKey("http.ssl.ca.location", documentation="A file of PEM with the authorities that https is to trust."),
    ConfigKey("batching.enabled", "boolean", False, "Whether a request has several records, as a JSON array."),
    ConfigKey("batch.max.size", "int", 500, "The most records of a request.", least=1),
    ConfigKey("max.retries", "int", 10, "How often a request is sent again.", least=0),
    ConfigKey("retry.backoff.ms", "int", 500, "The first pause before that; each is twice as long.", least=1),
)
NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "none": (),
    "static": ("http.headers.authorization",),
    "basic": ("http.authorization.user", "http.authorization.password"),
}
LATER: Final = (408, 425, 429)
ONE_IS_BAD: Final = (400, 413, 422)
LONGEST_PAUSE_MS: Final = 60_000
SHOWN: Final = 300
"""How many characters of an answer are logged."""


class RefusedError(Exception):
    def __init__(self, status: int, words: str) -> None:
        super().__init__(f"the server said {status}: {words}")
        self.status = status


class LaterError(Exception):
    """`after_ms` is what the server asks for."""

    def __init__(self, words: str, after_ms: int = 0) -> None:
        super().__init__(words)
        self.after_ms = after_ms


class HttpSinkTask(SinkTask):
    _session: ClientSession | None = None

    async def start(self, config: Mapping[str, str], context: SinkContext) -> None:
        self._settings = _checked(config)
        self._context = context
        self._settled: dict[tuple[TopicPartition, int], Exception | None] = {}
        """What the `put` under way has brought to its end: records that were taken, and why others were refused."""
        self._failures = 0
        self._tried: TopicPartition | None = None
        """That of the first record of the last request."""
        settings = self._settings
        headers = {"Content-Type": settings["http.headers.content.type"], **_additional(settings)}
        self._session = ClientSession(
            headers={**headers, **_authorization(settings)},
            timeout=ClientTimeout(total=settings["http.timeout"]),
            connector=TCPConnector(ssl=await asyncio.to_thread(_trust, settings["http.ssl.ca.location"])),
        )

    async def put(self, records: Sequence[SinkRecord]) -> None:
        """A retry leaves out what has been taken, and reports again what was refused. It may bring fewer records, where
        partitions went meanwhile.
        """
        size = self._settings["batch.max.size"] if self._settings["batching.enabled"] else 1
        for record in records:
            if (error := self._settled.get(record.place)) is not None:
                self._context.report(record, error)
        left = [record for record in records if record.place not in self._settled]
        try:
            for url, some in groupby(left, self._url):
                mine = list(some)
                for start in range(0, len(mine), size):
                    await self._send(url, mine[start : start + size])
        except LaterError as error:
            self._failures += 1
            if self._failures > self._settings["max.retries"]:
                raise RuntimeError(f"max.retries={self._settings['max.retries']} are used up: {error}") from error
            self._context.timeout(error.after_ms or self._pause_ms())
            raise RetriableError(str(error)) from error
        self._settled = {}

    async def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Whoever has them next gets all records of a `put` that has not returned. What is tried instead of a request
        that went with them has all retries.
        """
        self._settled = {place: error for place, error in self._settled.items() if place[0] not in partitions}
        if self._tried in partitions:
            self._failures = 0

    async def stop(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _send(self, url: str, records: Sequence[SinkRecord]) -> None:
        """LaterError. What is refused is reported."""
        self._tried = records[0].original
        refused: Exception | None = None
        try:
            await self._request(url, self._body(records))
        except (RefusedError, ValueError) as error:
            is_one = isinstance(error, ValueError) or error.status in ONE_IS_BAD
            if is_one and len(records) > 1:
                middle = len(records) // 2
                await self._send(url, records[:middle])
                await self._send(url, records[middle:])
                return
            for record in records:
                self._context.report(record, error)
            refused = error
        self._settled |= dict.fromkeys((record.place for record in records), refused)
        self._failures = 0

    async def _request(self, url: str, body: bytes) -> None:
        assert self._session is not None
        try:
            async with self._session.request(
                self._settings["http.method"], url, data=body, allow_redirects=False
            ) as answer:
                status, wanted = answer.status, answer.headers.get("Retry-After", "")
                if 200 <= status < 300:
                    return
                words = (await answer.content.read(SHOWN)).decode("utf-8", "replace")
        except (ClientError, TimeoutError) as error:
            reason = repr(error).replace(url, bare(url))
            raise LaterError(f"{bare(url)} has not answered: {reason}") from error
        if status in LATER or status >= 500:
            raise LaterError(f"the server said {status}: {words}", _ms_of(wanted))
        raise RefusedError(status, words)

    def _url(self, record: SinkRecord) -> str:
        key = record.key.decode("utf-8", "replace") if isinstance(record.key, bytes) else record.key
        text: str = self._settings["http.url"]
        return text.replace("${topic}", quote(record.topic, "")).replace("${key}", quote(str(key), ""))

    def _body(self, records: Sequence[SinkRecord]) -> bytes:
        """Text and bytes as they are, all else as JSON; ValueError."""
        bodies = [_content(record) for record in records]
        return b"[" + b",".join(bodies) + b"]" if self._settings["batching.enabled"] else bodies[0]

    def _pause_ms(self) -> int:
        longest: int = min(self._settings["retry.backoff.ms"] << min(self._failures - 1, 20), LONGEST_PAUSE_MS)
        return round(longest * (0.8 + 0.4 * random.random()))


def _content(record: SinkRecord) -> bytes:
    value = record.value
    if isinstance(value, str | bytes):
        return value.encode() if isinstance(value, str) else value
    return json.dumps(to_json(value, record.value_schema), ensure_ascii=False, separators=(",", ":")).encode()


def _ms_of(wanted: str) -> int:
    """What a Retry-After header asks for, within limits; 0 if nothing."""
    try:
        seconds = float(wanted) if wanted.isdecimal() else _seconds_until(wanted)
    except (TypeError, ValueError):
        return 0
    return min(max(round(seconds * 1000), 0), LONGEST_PAUSE_MS)


def _seconds_until(date: str) -> float:
    moment = parsedate_to_datetime(date)
    return (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds()


def _trust(path: str | None) -> ssl.SSLContext | bool:
    return ssl.create_default_context(cafile=path) if path else True


def _authorization(settings: Mapping[str, Any]) -> dict[str, str]:
    match settings["http.authorization.type"]:
        case "static":
            return {"Authorization": settings["http.headers.authorization"]}
        case "basic":
            pair = f"{settings['http.authorization.user']}:{settings['http.authorization.password']}"
            return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
        case _:
            return {}


def _additional(settings: Mapping[str, Any]) -> dict[str, str]:
    pairs = [text.partition(":") for text in _headers(settings)]
    return {name.strip(): value.strip() for name, _, value in pairs}


def _headers(settings: Mapping[str, Any]) -> list[str]:
    return [text for text in settings["http.headers.additional"].split(",") if text.strip()]


def _checked(config: Mapping[str, str]) -> dict[str, Any]:
    """ConfigError."""
    settings = parse(KEYS, config)
    missing = [key for key in NEEDED[settings["http.authorization.type"]] if settings[key] is None]
    if missing:
        kind = settings["http.authorization.type"]
        raise ConfigError({key: [f"http.authorization.type={kind} needs {key}"] for key in missing})
    if urlsplit(settings["http.url"]).scheme not in ("http", "https"):
        raise ConfigError({"http.url": [f"http.url={bare(settings['http.url'])} is neither http:// nor https://"]})
    if not all(":" in text for text in _headers(settings)):  # which one is not is told to nobody: it may be a password
        raise ConfigError({"http.headers.additional": ["http.headers.additional: one of them is not name:value"]})
    return settings


class HttpSinkConnector(SinkConnector):
    """As many tasks as are allowed: the partitions are spread over them."""

    config_keys = KEYS
    task_class: ClassVar[type[SinkTask]] = HttpSinkTask

    def start(self, config: Mapping[str, str]) -> None:
        super().start(config)
        _checked(config)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.config) for _ in range(max_tasks)]
