"""The console over HTTP: pages out of the package, views as JSON, events, records, and changes.

Everything a browser may send has a limit: connections, streams, the size of a request, the time it takes.
"""

import asyncio
import json
import logging
import os
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

from penstock import __version__
from penstock.console.asked import Means
from penstock.console.changes import MOST_TOLD, Changes, tell
from penstock.console.errors import ConsoleError, bad_request
from penstock.console.imports import Importer, told
from penstock.console.records import Records
from penstock.console.schemas import SchemaRegistry
from penstock.console.serving.assets import INDEX, read_assets
from penstock.console.serving.connections import Connection, OneTooMany
from penstock.console.serving.guard import ANYWHERE, COOKIE, HEADERS, SESSION_S, Guard
from penstock.console.serving.live import Live
from penstock.console.serving.reading import Reading
from penstock.console.serving.sampling import UNWATCHED_S, keep_sampling
from penstock.console.serving.settings import ConsoleSettings, NotServedError
from penstock.console.serving.site import Site
from penstock.console.serving.streaming import STUCK_S, send_events
from penstock.console.serving.tls import tls_of
from penstock.console.views.cluster import broker, overview, quorum
from penstock.console.views.connect import ConnectWorker
from penstock.console.views.groups import group, groups
from penstock.console.views.registry import subject, subjects
from penstock.console.views.replicas import leaders, moves, storage_groups
from penstock.console.views.security import security
from penstock.console.views.topics import consumers, topic, topic_configs, topics
from penstock.console.watched import REFUSALS, WatchedCluster
from penstock.tls.layer import TlsBuffers
from penstock.tls.web import over_tls

LARGEST_BODY: Final = 1024 * 1024
BODY_LIMIT_S: Final = 10.0
HEAD_LIMIT_S: Final = 10.0
CHANGE_LIMIT_S: Final = 30.0
MAX_CONNECTIONS: Final = 200
BACKLOG: Final = 64
STOP_S: Final = 1.0
VIEWS: Final = {
    "overview": overview,
    "quorum": quorum,
    "broker": broker,
    "topics": topics,
    "topic": topic,
    "configs": topic_configs,
    "consumers": consumers,
    "groups": groups,
    "group": group,
    "moves": moves,
    "leaders": leaders,
    "storage-groups": storage_groups,
    "security": security,
}
OPEN_TO_ALL: Final = frozenset({"/api/session", "/api/login"})
"""What is answered before a log-in, besides the page's own files."""
logger = logging.getLogger(__name__)
malformed = logging.getLogger("penstock.console.malformed")
"""What is no HTTP gets status 400: strangers do not fill the log with it."""
malformed.setLevel(logging.CRITICAL)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ConsoleServer:
    """`async with` listens and stops. NotServedError names the address that cannot be had."""

    def __init__(self, settings: ConsoleSettings, sample_s: float = UNWATCHED_S) -> None:
        self.url = ""
        self._settings = settings
        self._watched = WatchedCluster(settings.bootstrap_servers, settings.client)
        self._is_tls = settings.is_tls
        schemes = ("https",) if self._is_tls else ("http", "https")
        self._guard = Guard(settings.host, settings.allowed_hosts, settings.users, time.monotonic, schemes=schemes)
        self._schemas = SchemaRegistry(settings.schema_registry)
        worker = ConnectWorker(settings.worker)
        self._views = {**VIEWS, "connect": worker.connectors, "pipelines": worker.pipelines}
        self._live = Live(self._watched, self._views)
        means = Means(self._watched, settings.properties, self._schemas)
        self._changes, self._importer = Changes(means), Importer(means)
        self._reading = Reading(Records(self._watched, settings.properties, self._schemas), self._is_in)
        self._assets = read_assets()
        self._site = Site(settings.site, __version__)
        self._sample_s = sample_s
        self._tasks: list[asyncio.Task[None]] = []
        self._runner: web.AppRunner | None = None
        self._listening: asyncio.Server | None = None

    async def __aenter__(self) -> "ConsoleServer":
        tls = tls_of(self._settings)
        app = web.Application(client_max_size=LARGEST_BODY, middlewares=[self._answer])
        app.on_response_prepare.append(_protect)
        app.router.add_routes(self._routes())
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=STOP_S,
            keepalive_timeout=HEAD_LIMIT_S,
            lingering_time=1,
            auto_decompress=False,  # a small body may become a large one
            logger=malformed,
        )
        await self._runner.setup()
        host, port = self._settings.host, self._settings.port
        try:
            self._listening = await asyncio.get_running_loop().create_server(
                self._connection if tls is None else partial(self._secured_connection, tls, TlsBuffers()),
                host,
                port,
                backlog=BACKLOG,
            )
        except OSError as error:
            await self._runner.cleanup()
            why = os.strerror(error.errno) if error.errno else str(error)
            raise NotServedError(f"cannot listen on {host}:{port} ({why}): --listen HOST:PORT takes another") from None
        address = self._listening.sockets[0].getsockname()
        name = "127.0.0.1" if host in ANYWHERE else f"[{host}]" if ":" in host else host
        self.url = f"{'http' if tls is None else 'https'}://{name}:{address[1]}"
        self._tasks = [
            asyncio.create_task(self._live.run(), name="live views"),
            asyncio.create_task(keep_sampling(self._watched, self._live, self._sample_s), name="samples"),
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._listening is not None:
            self._listening.close()
        if self._runner is not None:
            await self._runner.cleanup()
        self._schemas.close()
        await self._watched.close()

    def _connection(self) -> asyncio.Protocol:
        assert self._runner is not None
        assert self._runner.server is not None
        if len(self._runner.server.connections) >= MAX_CONNECTIONS:
            return OneTooMany()
        return Connection(self._runner.server(), STUCK_S)

    def _secured_connection(self, context: ssl.SSLContext, buffers: TlsBuffers) -> asyncio.BaseProtocol:
        return over_tls(self._connection(), context, buffers)

    def _routes(self) -> list[web.RouteDef]:
        gets: dict[str, Handler] = {
            "/": self._asset,
            "/api/session": self._session,
            "/api/events": self._events,
            "/api/subjects": self._subjects,
            "/api/subject": self._subject,
            "/api/records": self._reading.window,
            "/api/tail": self._reading.tail,
            "/api/export": self._reading.export,
            "/api/value": self._reading.value,
            "/api/{view}": self._view,
            "/docs": self._site.front,
            "/docs/{name:.*}": self._site.page,
            "/{asset}": self._asset,
        }
        posts: dict[str, Handler] = {
            "/api/login": self._log_in,
            "/api/logout": self._log_out,
            "/api/preview": self._preview,
            "/api/change": self._change,
            "/api/import": self._import,
        }
        return [web.get(path, handle, allow_head=False) for path, handle in gets.items()] + [
            web.post(path, handle) for path, handle in posts.items()
        ]

    @web.middleware
    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            self._guard.check(request)
            is_closed = request.path.startswith("/api/") and request.path not in OPEN_TO_ALL
            if is_closed and self._guard.who(request) is None:
                raise ConsoleError(HTTPStatus.UNAUTHORIZED, "log in first")
            if request.method != "GET":
                self._guard.check_change(request)
            return await handler(request)
        except ConsoleError as error:
            return _error(error.status, str(error))
        except REFUSALS as error:
            return _error(HTTPStatus.BAD_GATEWAY, str(error) or "the cluster has not answered in time")
        except web.HTTPException as error:
            return _error(HTTPStatus(error.status), error.reason)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as error:
            logger.exception("%s %r failed", request.method, request.path)
            return _error(
                HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: a fault of the console, see its log"
            )

    def _is_in(self, request: web.Request) -> bool:
        """Whether who asked may still see what there is."""
        return self._guard.who(request) is not None

    async def _asset(self, request: web.Request) -> web.Response:
        asset = self._assets.get(request.match_info.get("asset", INDEX))
        if asset is None:
            raise ConsoleError(HTTPStatus.NOT_FOUND, "there is no such page")
        headers = {"Cache-Control": "no-cache"}
        return web.Response(body=asset.data, content_type=asset.kind, charset="utf-8", headers=headers)

    async def _session(self, request: web.Request) -> web.Response:
        """Who asks, and the token for changes."""
        who = self._guard.who(request)
        return _json(
            {
                "version": __version__,
                "user": who,
                "has_users": bool(self._settings.users),
                "token": self._guard.token,
                "read_only": self._settings.read_only,
                "bootstrap_servers": self._settings.bootstrap_servers if who is not None else None,
                "has_worker": self._settings.worker is not None,
                "has_registry": self._schemas.is_there,
            }
        )

    async def _view(self, request: web.Request) -> web.Response:
        name = request.match_info["view"]
        if name not in self._views:
            raise ConsoleError(HTTPStatus.NOT_FOUND, "there is no such view")
        body = await self._live.ask(request.path_qs, name, request.query)
        headers = {"ETag": f'"{body.tag}"', "Cache-Control": "no-cache"}
        if request.headers.get("If-None-Match") == headers["ETag"]:
            return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
        status = HTTPStatus.OK if body.is_known else HTTPStatus.BAD_GATEWAY
        return web.Response(body=body.data, content_type="application/json", status=status, headers=headers)

    async def _subjects(self, request: web.Request) -> web.Response:
        return _json(await subjects(self._schemas, request.query))

    async def _subject(self, request: web.Request) -> web.Response:
        return _json(await subject(self._schemas, request.query))

    async def _events(self, request: web.Request) -> web.StreamResponse:
        stream = self._live.open()
        try:
            return await send_events(request, stream, self._is_in)
        finally:
            self._live.close(stream)

    async def _log_in(self, request: web.Request) -> web.Response:
        asked = await _body(request)
        user, password = asked.get("user"), asked.get("password")
        if not isinstance(user, str) or not isinstance(password, str):
            raise bad_request("user and password are texts")
        answer = _json({"user": user})
        outcome = "failed"
        try:
            cookie = await self._guard.log_in(user, password, request.remote or "")
            outcome = "done"
        finally:
            tell(f"{user[:MOST_TOLD]} from {request.remote}", outcome, {"action": "log-in"})
        self._guard.log_out(request)  # of what this browser had before
        answer.set_cookie(
            COOKIE,
            cookie,
            httponly=True,
            samesite="Strict",
            secure=self._is_tls or request.headers.get("Origin", "").startswith("https:"),  # by way of a proxy
            max_age=int(SESSION_S),
            path="/",
        )
        return answer

    async def _log_out(self, request: web.Request) -> web.Response:
        self._guard.log_out(request)
        answer = _json({})
        answer.del_cookie(COOKIE, path="/")
        return answer

    async def _preview(self, request: web.Request) -> web.Response:
        return _json(self._changes.preview(await _body(request)))

    async def _change(self, request: web.Request) -> web.Response:
        who = self._changer(request)
        async with asyncio.timeout(CHANGE_LIMIT_S):
            done = await self._changes.apply(await _body(request), who)
        self._live.tell_all()
        return _json(done)

    async def _import(self, request: web.Request) -> web.Response:
        """A piece of a file; with `dry` its first records, and nothing is sent."""
        who, asked = self._changer(request), await _body(request)
        if asked.get("dry"):
            return _json(await self._importer.preview(asked))
        outcome = "failed"
        try:
            async with asyncio.timeout(CHANGE_LIMIT_S):
                done = await self._importer.send(asked)
            outcome = "done"
        finally:
            tell(who, outcome, told(asked))
        return _json(done)

    def _changer(self, request: web.Request) -> str:
        """Who asks for a change. ConsoleError 403 where there are none."""
        if self._settings.read_only:
            raise ConsoleError(HTTPStatus.FORBIDDEN, "this console is read-only")
        return f"{self._guard.who(request)} from {request.remote}"


async def _protect(request: web.Request, response: web.StreamResponse) -> None:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    if request.path.startswith("/api/"):
        response.headers.setdefault("Cache-Control", "no-store")


async def _body(request: web.Request) -> Mapping[str, Any]:
    try:
        async with asyncio.timeout(BODY_LIMIT_S):
            document = json.loads(await request.read())
        json.dumps(document, ensure_ascii=False).encode()  # half a character of UTF-16 cannot be sent on
    except TimeoutError:
        raise ConsoleError(HTTPStatus.REQUEST_TIMEOUT, "the body has not come in time") from None
    except (ValueError, RecursionError):
        raise bad_request("the body is no JSON") from None
    if not isinstance(document, dict):
        raise bad_request("the body is a JSON object")
    return document


def _json(document: Mapping[str, Any]) -> web.Response:
    return web.json_response(dict(document))


def _error(status: HTTPStatus, message: str) -> web.Response:
    return web.json_response({"error": message}, status=status)
