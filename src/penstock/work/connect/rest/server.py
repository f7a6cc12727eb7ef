"""The REST interface over HTTP: requests in, JSON out, and on to another worker where that one has to do it.

A page of a browser may not ask unless `access.control.allow.origin` says so: to create a connector is to run code.
"""

import asyncio
import json
import logging
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector, web
from yarl import URL

from penstock.client.errors import ClientError as KafkaClientError
from penstock.protocol.errors import KafkaError
from penstock.tls.layer import TlsBuffers
from penstock.tls.web import over_tls
from penstock.work.connect.config import ConfigError
from penstock.work.connect.rest.basic import ASKS, users_of
from penstock.work.connect.rest.errors import ElsewhereError, RestError, bad_request
from penstock.work.connect.rest.guard import Guard
from penstock.work.connect.rest.loading import LIMIT_S
from penstock.work.connect.rest.routes import NOTHING, ROUTES, RestAnswer, RestRequest, Route, Served
from penstock.work.connect.rest.signatures import NO_KEY, SIGNATURE, HandedOn, signed, user_in, verify
from penstock.work.connect.rest.tls import Tls

LARGEST_BODY: Final = 1024 * 1024
"""A record of the topic that has connectors may be no larger, and more JSON would hold the worker's event loop."""
HEAD_LIMIT_S: Final = 10.0
"""How long a connection may be without a whole head of a request, at first, its handshake included, and between two."""
BODY_LIMIT_S: Final = 10.0
MAX_CONNECTIONS: Final = 500
"""A process has often 1,024 files in all."""
BACKLOG: Final = 128
REBALANCE_LIMIT_S: Final = 10.0
"""How long a request waits while workers rebalance; then it is answered with 409 and may be repeated."""
REBALANCE_PAUSE_S: Final = 0.02
HTTPS: Final = "https"
ANYWHERE: Final = ("", "0.0.0.0", "::")
logger = logging.getLogger(__name__)


class RestServer:
    """Listens from `start` on, and answers 503 until `served` is set. `settings` are the worker's."""

    def __init__(self, settings: Mapping[str, Any], make_tls: Callable[[], Tls] | None = None) -> None:
        self.served: Served | None = None
        self.urls: list[str] = []
        self._settings = settings
        self._listeners = [_parse_listener(listener) for listener in settings["listeners"]]
        self._tls = make_tls() if make_tls and any(scheme == HTTPS for scheme, _, _ in self._listeners) else None
        self._buffers = TlsBuffers()
        self._guard = Guard(settings, [host for _, host, _ in self._listeners])
        self._users = users_of(settings)
        self._runner: web.AppRunner | None = None
        self._listening: list[asyncio.Server] = []
        self._session: ClientSession | None = None

    async def start(self) -> None:
        """ConfigError names the address."""
        app = web.Application(client_max_size=LARGEST_BODY)
        app.on_response_prepare.append(self._guard.allow_origin)
        for route in ROUTES:
            handle = self._handler(route)
            for path in (route.path,) if route.path == "/" else (route.path, f"{route.path}/"):
                for verb in (route.verb, "HEAD") if route.verb == "GET" else (route.verb,):
                    app.router.add_route(verb, path, handle)
        app.router.add_route("*", "/{anything:.*}", self._no_such_path)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=1,
            keepalive_timeout=HEAD_LIMIT_S,
            lingering_time=1,
            auto_decompress=False,  # a small body may become a large one
        )
        await self._runner.setup()
        for scheme, host, port in self._listeners:
            accept = self._secured_connection if scheme == HTTPS else self._connection
            try:
                listening = await asyncio.get_running_loop().create_server(accept, host, port, backlog=BACKLOG)
            except OSError as error:
                raise ConfigError({"listeners": [_why_not(f"{scheme}://{host}:{port}", error)]}) from None
            self._listening.append(listening)
            for address in (one.getsockname() for one in listening.sockets):
                name = f"[{address[0]}]" if ":" in address[0] else address[0]
                self.urls.append(f"{scheme}://{name}:{address[1]}")
        asking = TCPConnector(ssl=self._tls.asking) if self._tls is not None else None
        self._session = ClientSession(timeout=ClientTimeout(total=LIMIT_S), connector=asking)

    async def stop(self) -> None:
        if self._session is not None:
            await self._session.close()
        for listening in self._listening:
            listening.close()
        if self._runner is not None:
            await self._runner.cleanup()

    def advertised(self) -> str:
        """The host and port for other workers."""
        listens_at = self._listeners[0][1]
        name = self._settings["rest.advertised.host.name"]
        name = name or (socket.getfqdn() if listens_at in ANYWHERE else listens_at)
        self._guard.know(name)
        port = self._settings["rest.advertised.port"] or urlsplit(self.urls[0]).port
        return f"{f'[{name}]' if ':' in name else name}:{port}"

    def _connection(self) -> asyncio.Protocol:
        assert self._runner is not None
        assert self._runner.server is not None
        if len(self._runner.server.connections) >= MAX_CONNECTIONS:
            return _OneTooMany()
        return self._runner.server()

    def _secured_connection(self) -> asyncio.BaseProtocol:
        assert self._tls is not None
        return over_tls(self._connection(), self._tls.listening, self._buffers)

    def _handler(self, route: Route) -> Any:
        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                return await self._heard(route, request)
            except RestError as error:
                return _error(error.status, str(error))
            except ConfigError as error:
                return _error(HTTPStatus.BAD_REQUEST, str(error))
            except (TimeoutError, KafkaError, KafkaClientError) as error:
                return _error(HTTPStatus.INTERNAL_SERVER_ERROR, str(error) or "the cluster has not answered in time")
            except RecursionError:
                return _error(HTTPStatus.BAD_REQUEST, "the body is nested too deeply")
            except web.HTTPException:
                raise
            except Exception as error:
                logger.exception("%s %s failed", request.method, request.path)
                return _error(HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")

        return handle

    async def _heard(self, route: Route, request: web.Request) -> web.Response:
        """RestError, and errors of what does the work."""
        self._guard.check(request)
        user = await self._user(request, changes=route.changes)
        _check_accepted(request, route.produces)
        try:
            return await self._answer_when_known(route, request)
        except ElsewhereError as elsewhere:
            return await self._forward(request, elsewhere.url, user)

    async def _user(self, request: web.Request, *, changes: bool) -> str | None:
        """Who asks, and may; None where workers have no users. RestError."""
        if self._users is None:
            return None
        algorithms = self._settings.get("inter.worker.verification.algorithms", ())
        if algorithms and SIGNATURE in request.headers:
            if self.served is None:
                raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, "the worker starts")
            user = user_in(request.headers)
            asked = HandedOn(user, request.method, request.raw_path, await _read(request))
            verify(asked, request.headers, self.served.herder.worker.state.session_keys, algorithms)
        else:
            user = self._users.check(request.headers)
        self._users.check_right(user, changes=changes)
        return user

    async def _answer_when_known(self, route: Route, request: web.Request) -> web.Response:
        """Wait while the leader or owner is unknown or workers rebalance: nothing has been done yet."""
        until = asyncio.get_running_loop().time() + REBALANCE_LIMIT_S
        while True:
            try:
                return await self._answer(route, request)
            except ElsewhereError as elsewhere:
                may_go_on = elsewhere.url is not None and request.query.get("forward") != "false"
                if may_go_on or asyncio.get_running_loop().time() >= until:
                    raise
            await asyncio.sleep(REBALANCE_PAUSE_S)

    async def _answer(self, route: Route, request: web.Request) -> web.Response:
        if self.served is None:
            if route.path == "/health":
                starting = {"status": "starting", "message": "the worker starts"}
                return _response(RestAnswer(starting, HTTPStatus.SERVICE_UNAVAILABLE))
            raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, "the worker starts")
        query = {name: request.query.getall(name) for name in request.query}
        asked = RestRequest(dict(request.match_info), query, await _body(request) if route.body else None)
        async with asyncio.timeout(LIMIT_S):
            return _response(await route.answer(self.served, asked))

    async def _forward(self, request: web.Request, url: str | None, user: str | None) -> web.Response:
        """Let the right worker answer; a request is forwarded twice at most."""
        hops = request.query.get("forward")
        if hops == "false":
            return _error(HTTPStatus.CONFLICT, "the workers do not agree on who has to do this: they rebalance")
        if url is None:
            return _error(
                HTTPStatus.CONFLICT, "it is not known at the moment who has to do this: the workers rebalance"
            )
        target = request.url.update_query({"forward": "true" if hops is None else "false"}).raw_path_qs
        body = await _read(request)
        headers = {"Content-Type": "application/json"} if body else {}
        if user is not None:
            headers |= self._in_the_name_of(HandedOn(user, request.method, target, body))
        assert self._session is not None
        where = URL(f"{URL(url).origin()}{target}", encoded=True)  # as it stands: written otherwise, it is another path
        try:
            async with self._session.request(request.method, where, data=body, headers=headers) as answer:
                kept = {name: answer.headers[name] for name in ("Location",) if name in answer.headers}
                said = await answer.read()
                await self._catch_up()
                kind = "application/json" if said else None
                return web.Response(status=answer.status, body=said or None, content_type=kind, headers=kept)
        except (ClientError, TimeoutError) as error:
            return _error(
                HTTPStatus.INTERNAL_SERVER_ERROR, f"worker {url} does not answer: {str(error) or type(error).__name__}"
            )

    def _in_the_name_of(self, asked: HandedOn) -> Mapping[str, str]:
        """Headers. RestError where the leader has written no key yet: the client's password goes to no other worker."""
        assert self.served is not None
        keys = self.served.herder.worker.state.session_keys
        if not keys:
            raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, NO_KEY)
        return signed(asked, keys, self._settings["inter.worker.signature.algorithm"])

    async def _catch_up(self) -> None:
        """The next request to this worker has to see what another worker has just changed."""
        if self.served is not None:
            with suppress(TimeoutError, KafkaError, KafkaClientError):  # it was changed all the same
                await self.served.herder.worker.config_log.read_to_end()

    async def _no_such_path(self, request: web.Request) -> web.Response:
        """Unknown paths, unknown verbs, and OPTIONS."""
        path = request.path.rstrip("/")
        verbs = sorted({route.verb for route in ROUTES if _matches(route.path, path)})
        if request.method == "OPTIONS" and verbs:
            allowed = ",".join([*verbs, *(["HEAD"] if "GET" in verbs else []), "OPTIONS"])
            return web.Response(headers={"Allow": allowed})
        status = HTTPStatus.METHOD_NOT_ALLOWED if verbs else HTTPStatus.NOT_FOUND
        return _error(status, f"HTTP {status.value} {status.phrase}")


class _OneTooMany(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        transport.abort()


def _check_accepted(request: web.Request, kind: str) -> None:
    """RestError."""
    accepted = {part.partition(";")[0].strip().lower() for part in request.headers.get("Accept", "*/*").split(",")}
    if accepted.isdisjoint({"*/*", f"{kind.partition('/')[0]}/*", kind, ""}):
        raise RestError(HTTPStatus.NOT_ACCEPTABLE, f"the answer is {kind}")


async def _read(request: web.Request) -> bytes:
    try:
        async with asyncio.timeout(BODY_LIMIT_S):
            return await request.read()
    except TimeoutError:
        raise RestError(HTTPStatus.REQUEST_TIMEOUT, f"the body has not come within {BODY_LIMIT_S:g} s") from None


async def _body(request: web.Request) -> Any:
    if request.content_type != "application/json":
        raise RestError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a body is application/json")
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise RestError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a body is not compressed")
    try:
        return json.loads(await _read(request))
    except ValueError as error:
        raise bad_request(f"the body is not JSON: {error}") from None


def _response(answer: RestAnswer) -> web.Response:
    headers = {"Location": answer.location} if answer.location else {}
    if answer.body is NOTHING:
        return web.Response(status=answer.status, headers=headers)
    if answer.kind:
        return web.Response(text=answer.body, status=answer.status, headers={**headers, "Content-Type": answer.kind})
    return web.json_response(answer.body, status=answer.status, headers=headers)


def _error(status: HTTPStatus, message: str) -> web.Response:
    headers = ASKS if status is HTTPStatus.UNAUTHORIZED else None
    return web.json_response({"error_code": status.value, "message": message}, status=status, headers=headers)


def _matches(path: str, asked: str) -> bool:
    parts, others = path.rstrip("/").split("/"), asked.split("/")
    return len(parts) == len(others) and all(
        part.startswith("{") or part == other for part, other in zip(parts, others, strict=True)
    )


def _why_not(listener: str, error: OSError) -> str:
    why = error.strerror or str(error)
    if error.errno is not None and not isinstance(error, socket.gaierror):
        why = os.strerror(error.errno)  # asyncio adds words of its own
    return f"cannot listen on {listener} ({why}): stop what uses the address, or set listeners"


def _parse_listener(listener: str) -> tuple[str, str, int]:
    parsed = urlsplit(listener)
    try:
        port = parsed.port if parsed.port is not None else 8083
    except ValueError:
        port = -1
    if parsed.scheme not in ("http", HTTPS) or port < 0 or parsed.path not in ("", "/"):
        raise ConfigError({"listeners": [f"listeners: {listener} is neither http://host:port nor https://host:port"]})
    return parsed.scheme, parsed.hostname or "", port
