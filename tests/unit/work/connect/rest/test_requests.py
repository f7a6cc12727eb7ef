"""Requests over HTTP as they come: who is heard, what is refused with which words, and what goes to another worker."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest

from penstock.client.errors import ClientError
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.work.connect.config import ConfigError
from penstock.work.connect.distributed.settings import parse_settings
from penstock.work.connect.rest import server as rest_server
from penstock.work.connect.rest.basic import BASIC, CLASSES_KEY, FILE_KEY, WRITERS_KEY, header_of
from penstock.work.connect.rest.errors import ElsewhereError, RestError
from penstock.work.connect.rest.routes import ROUTES, RestAnswer
from penstock.work.connect.rest.server import RestServer, _matches, _parse_listener
from penstock.work.connect.rest.signatures import HandedOn, signed
from penstock.work.connect.runtime.session_keys import new_key

KEY = new_key(b"k" * 32, "HmacSHA256", 1)
NONE: Mapping[str, Any] = MappingProxyType({})
JSON = {"Content-Type": "application/json"}


class Doing:
    """Stands for the herder: `set_target` does what a test says, and notes of which connector."""

    def __init__(self, keys: tuple[Any, ...] = (KEY,)) -> None:
        self.raises: list[Exception | None] = []
        self.done: list[str] = []
        self.caught_up = 0
        log = SimpleNamespace(read_to_end=self._read_to_end)
        self.worker = SimpleNamespace(state=SimpleNamespace(session_keys=keys), config_log=log, is_ready=True)

    async def set_target(self, name: str, target: object) -> None:
        self.done.append(name)
        if self.raises and (error := self.raises.pop(0)) is not None:
            raise error

    def server_info(self) -> Any:
        return {"who": "it"}

    async def create(self, name: str, config: object, target: object) -> Any:
        return {"name": name}

    async def _read_to_end(self) -> None:
        self.caught_up += 1


def settings(more: Mapping[str, str] = NONE) -> dict[str, Any]:
    config = {
        "bootstrap.servers": "x:1",
        "group.id": "g",
        "key.converter": "StringConverter",
        "value.converter": "StringConverter",
        "listeners": "http://127.0.0.1:0",
        **{f"{store}.storage.topic": store for store in ("config", "offset", "status")},
    }
    return parse_settings({**config, **more})


@asynccontextmanager
async def serving(doing: Doing | None, more: Mapping[str, str] = NONE) -> AsyncIterator[str]:
    server = RestServer(settings(more))
    await server.start()
    try:
        if doing is not None:
            server.served = cast("Any", SimpleNamespace(herder=doing, offsets=None))
        yield server.urls[0]
    finally:
        await server.stop()


async def asked(url: str, verb: str, path: str, headers: Mapping[str, str] = NONE, body: bytes | None = None) -> Any:
    """The status, the headers and the body."""
    async with (
        aiohttp.ClientSession() as session,
        session.request(verb, f"{url}{path}", headers=dict(headers), data=body) as answer,
    ):
        text = await answer.text()
        found = await answer.json() if answer.content_type == "application/json" and text else text
        return answer.status, answer.headers, found


@pytest.mark.parametrize(
    ("verb", "path", "headers", "body", "status", "answer"),
    [
        ("GET", "/", {}, None, 200, {"who": "it"}),
        ("HEAD", "/", {}, None, 200, ""),
        ("GET", "/health", {}, None, 200, {"status": "healthy", "message": "the worker is a member of its group"}),
        ("GET", "/health/", {}, None, 200, {"status": "healthy", "message": "the worker is a member of its group"}),
        ("PUT", "/connectors/c/pause", {}, None, 202, ""),
        ("PUT", "/connectors/c/stop/", {}, None, 204, ""),
        ("POST", "/connectors", JSON, b'{"name": "a b", "config": {}}', 201, {"name": "a b"}),
        ("OPTIONS", "/", {}, None, 200, ""),
        ("OPTIONS", "/connectors/x/config", {}, None, 200, ""),
        ("OPTIONS", "/nothing", {}, None, 404, "HTTP 404 Not Found"),
        ("GET", "/nothing", {}, None, 404, "HTTP 404 Not Found"),
        ("GET", "/connectors/a/nothing", {}, None, 404, "HTTP 404 Not Found"),
        ("DELETE", "/", {}, None, 405, "HTTP 405 Method Not Allowed"),
        ("GET", "/connectors/x/pause", {}, None, 405, "HTTP 405 Method Not Allowed"),
        ("POST", "/connectors", {}, b"{}", 415, "a body is application/json"),
        ("POST", "/connectors", {"Content-Type": "text/plain"}, b"{}", 415, "a body is application/json"),
        ("POST", "/connectors", JSON | {"Content-Encoding": "gzip"}, b"{}", 415, "a body is not compressed"),
        ("POST", "/connectors", JSON | {"Content-Encoding": "identity"}, b"{}", 400, "the connector needs a name"),
        ("POST", "/connectors", JSON, b"{", 400, "the body is not JSON: "),
        ("POST", "/connectors", JSON, b"[" * 99_999, 400, "the body is nested too deeply"),
        ("GET", "/", {"Accept": "text/html"}, None, 406, "the answer is application/json"),
        ("GET", "/", {"Accept": "text/html, */*;q=0.1"}, None, 200, {"who": "it"}),
        ("GET", "/", {"Accept": "Application/* ;q=1"}, None, 200, {"who": "it"}),
        ("GET", "/", {"Accept": "application/json"}, None, 200, {"who": "it"}),
        ("GET", "/", {"Accept": ""}, None, 200, {"who": "it"}),
        ("GET", "/", {"Host": "page.example"}, None, 403, "rest.allowed.hosts does not name page.example"),
        ("GET", "/", {"Origin": "http://p"}, None, 403, "access.control.allow.origin does not name http://p"),
    ],
)
async def test_what_is_answered(
    verb: str, path: str, headers: dict[str, str], body: bytes | None, status: int, answer: Any
) -> None:
    async with serving(Doing()) as url:
        got, head, found = await asked(url, verb, path, headers, body)
    if isinstance(answer, str) and answer:
        assert (got, found["error_code"]) == (status, status)
        assert found["message"].startswith(answer)
    else:
        assert (got, found) == (status, answer)
    assert head.get("Location") == ("/connectors/a%20b" if status == 201 else None)
    allowed = {"/": "GET,HEAD,OPTIONS", "/connectors/x/config": "GET,PATCH,PUT,HEAD,OPTIONS"}
    assert head.get("Allow") == (allowed.get(path) if verb == "OPTIONS" else None)
    assert "WWW-Authenticate" not in head


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (RestError(HTTPStatus.CONFLICT, "no"), 409, "no"),
        (ConfigError({"a": ["a is wrong"]}), 400, "a is wrong"),
        (TimeoutError(), 500, "the cluster has not answered in time"),
        (KafkaError(ErrorCode.NOT_COORDINATOR), 500, "NOT_COORDINATOR"),
        (ClientError("not now"), 500, "not now"),
        (RecursionError(), 400, "the body is nested too deeply"),
        (ValueError("odd"), 500, "ValueError: odd"),
    ],
)
async def test_what_becomes_of_errors(error: Exception, status: int, words: str) -> None:
    doing = Doing()
    doing.raises = [error]
    async with serving(doing) as url:
        got, _, found = await asked(url, "PUT", "/connectors/c/stop")
    assert (got, found["error_code"]) == (status, status)
    assert words in found["message"]


async def test_a_worker_that_starts_is_not_asked() -> None:
    async with serving(None) as url:
        assert (await asked(url, "GET", "/health"))[::2] == (
            503,
            {"status": "starting", "message": "the worker starts"},
        )
        got, _, found = await asked(url, "GET", "/")
        assert (got, found["message"]) == (503, "the worker starts")


USERS = {CLASSES_KEY: BASIC, WRITERS_KEY: "ada"}
ADA, BOB = header_of("ada:a"), header_of("bob:b")
PAUSE = ("PUT", "/connectors/c/pause")


def with_users(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "users").write_text("ada=a\nbob=b\n")
    return USERS | {FILE_KEY: str(tmp_path / "users")}


def named(user: str, verb: str, path: str, body: bytes = b"") -> Mapping[str, str]:
    return signed(HandedOn(user, verb, path, body), (KEY,), "HmacSHA256")


async def test_who_may_do_what(tmp_path: Path) -> None:
    doing = Doing()
    async with serving(doing, with_users(tmp_path)) as url:
        for headers, look, change in (
            ({}, 401, 401),
            ({"Authorization": ADA}, 200, 202),
            ({"Authorization": BOB}, 200, 403),
            ({"Authorization": header_of("bob:a")}, 401, 401),
            (named("ada", *PAUSE), 403, 202),
            (named("bob", *PAUSE), 403, 403),
            (named("eve", *PAUSE), 403, 403),
            (named("ada", "GET", "/"), 200, 403),
            (named("bob", "GET", "/"), 200, 403),
        ):
            before = len(doing.done)
            found = [await asked(url, verb, path, headers) for verb, path in (("GET", "/"), PAUSE)]
            assert [status for status, _, _ in found] == [look, change], headers
            assert len(doing.done) - before == (change == 202)
            for status, head, _ in found:
                assert head.get("WWW-Authenticate") == (
                    'Basic realm="connect", charset="UTF-8"' * (status == 401) or None
                )


async def test_a_signature_counts_where_workers_have_a_worker_to_hand_on_alone(tmp_path: Path) -> None:
    async with serving(None, with_users(tmp_path)) as url:
        assert (await asked(url, *PAUSE, named("ada", *PAUSE)))[0] == 503, "its keys are not known yet"
        assert (await asked(url, *PAUSE, {"Authorization": ADA}))[0] == 503
        assert (await asked(url, *PAUSE))[0] == 401


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_server, "REBALANCE_LIMIT_S", 0.0)


async def test_a_request_goes_to_another_worker_and_once_more(tmp_path: Path, impatient: None) -> None:
    one, two = Doing(), Doing()
    async with serving(one) as first, serving(two) as second:
        one.raises = [ElsewhereError(second)]
        assert (await asked(first, *PAUSE))[::2] == (202, "")
        assert (one.done, two.done, one.caught_up, two.caught_up) == (["c"], ["c"], 1, 0)
        one.raises, two.raises = [ElsewhereError(second), None], [ElsewhereError(first)]
        assert (await asked(first, *PAUSE))[0] == 202, "the second one knows better"
        one.raises, two.raises = [ElsewhereError(second)] * 2, [ElsewhereError(first)]
        status, _, found = await asked(first, *PAUSE)
        words = "the workers do not agree on who has to do this: they rebalance"
        assert (status, found) == (409, {"error_code": 409, "message": words}), "a third time would be a circle"
        one.raises = [ElsewhereError(None)]
        status, _, found = await asked(first, *PAUSE)
        words = "it is not known at the moment who has to do this: the workers rebalance"
        assert (status, found["message"]) == (409, words)
        one.raises, two.raises = [ElsewhereError(second)], [ValueError("odd")]
        status, _, found = await asked(first, *PAUSE)
        assert (status, found["message"]) == (500, "ValueError: odd")


async def test_what_another_worker_answers_comes_as_it_is(impatient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = Doing(), Doing()

    async def elsewhere(*_: object) -> Any:
        raise ElsewhereError(there)

    monkeypatch.setattr(one, "create", elsewhere)
    async with serving(one) as first, serving(two) as there:
        body = b'{"name": "n", "config": {}}'
        status, head, found = await asked(first, "POST", "/connectors?x=1", JSON, body)
        assert (status, head["Location"], found) == (201, "/connectors/n", {"name": "n"})
        assert head["Content-Type"].startswith("application/json")
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        there = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        async with serving(one) as first:
            status, _, found = await asked(first, "POST", "/connectors", JSON, body)
            assert status == 500
            assert found["message"].startswith(f"worker {there} does not answer: ")


async def test_who_has_it_may_be_known_in_a_moment() -> None:
    doing = Doing()
    doing.raises = [ElsewhereError(None), ElsewhereError(None)]
    async with serving(doing) as url:
        assert (await asked(url, *PAUSE))[0] == 202
        assert len(doing.done) == 3


ORIGIN = {"access.control.allow.origin": "http://*.example"}


@pytest.mark.parametrize(
    ("more", "verb", "origin", "methods"),
    [
        (ORIGIN, "GET", "http://a.example", None),
        (ORIGIN, "OPTIONS", "http://a.example", "GET,POST,HEAD"),
        (ORIGIN | {"access.control.allow.methods": "PUT, GET"}, "OPTIONS", "http://a.example", "PUT,GET"),
    ],
)
async def test_a_page_that_may_ask_is_told_so(
    more: dict[str, str], verb: str, origin: str, methods: str | None
) -> None:
    async with serving(Doing(), more) as url:
        _, head, _ = await asked(url, verb, "/", {"Origin": origin})
        _, plain, _ = await asked(url, verb, "/")
        _, refused, _ = await asked(url, "GET", "/", {"Origin": "http://else"})
    allow = "Access-Control-Allow-"
    assert (head[f"{allow}Origin"], head["Vary"], head.get(f"{allow}Methods")) == (origin, "Origin", methods)
    wanted = ("X-Requested-With,Content-Type,Accept,Origin", "1800") if methods else (None, None)
    assert (head.get(f"{allow}Headers"), head.get("Access-Control-Max-Age")) == wanted
    for other in (plain, refused):
        assert not [name for name in other if name.startswith("Access-Control")]


@pytest.mark.parametrize(
    ("listener", "parsed"),
    [
        ("http://a:1", ("http", "a", 1)),
        ("https://a:0/", ("https", "a", 0)),
        ("http://a", ("http", "a", 8083)),
        ("http://:5", ("http", "", 5)),
        ("http://[::1]:5", ("http", "::1", 5)),
        *((listener, None) for listener in ("a:1", "ftp://a:1", "http://a:x", "http://a:65536", "http://a:1/x")),
    ],
)
def test_where_to_listen(listener: str, parsed: tuple[str, str, int] | None) -> None:
    if parsed is not None:
        assert _parse_listener(listener) == parsed
        return
    with pytest.raises(ConfigError, match=f"^listeners: {listener} is neither http://host:port nor https://host:port$"):
        _parse_listener(listener)


@pytest.mark.parametrize(
    ("more", "advertised"),
    [
        ({}, "127.0.0.1:{port}"),
        ({"rest.advertised.host.name": "me", "rest.advertised.port": "7"}, "me:7"),
        ({"rest.advertised.host.name": "::2"}, "[::2]:{port}"),
        ({"listeners": "http://0.0.0.0:0"}, f"{socket.getfqdn()}:{{port}}"),
    ],
)
async def test_where_others_are_told_to_ask(more: dict[str, str], advertised: str) -> None:
    server = RestServer(settings(more))
    await server.start()
    try:
        port = server.urls[0].rpartition(":")[2]
        told = server.advertised()
        assert told == advertised.format(port=port)
        server.served = cast("Any", SimpleNamespace(herder=Doing(), offsets=None))
        assert (await asked(f"http://127.0.0.1:{port}", "GET", "/", {"Host": told}))[0] == 200
    finally:
        await server.stop()


async def test_a_port_that_another_one_has() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        listener = f"http://127.0.0.1:{taken.getsockname()[1]}"
        server = RestServer(settings({"listeners": listener}))
        with pytest.raises(ConfigError) as raised:
            await server.start()
        await server.stop()
        why = "stop what uses the address, or set listeners"
        assert str(raised.value) == f"cannot listen on {listener} (Address already in use): {why}"


def test_which_requests_change_something() -> None:
    looking = {(route.verb, route.path) for route in ROUTES if not route.changes}
    plugin = ("GET", "/connector-plugins/{plugin}/config")
    assert looking == {(route.verb, route.path) for route in ROUTES if route.verb == "GET"} - {plugin}


@pytest.mark.parametrize(
    ("path", "given", "matches"),
    [
        ("/", "", True),
        ("/a/{b}", "/a/x", True),
        ("/a/{b}", "/a", False),
        ("/a/{b}", "/a/x/y", False),
        ("/a/{b}/c", "/a/x/d", False),
        ("/a/{b}/c", "/b/x/c", False),
    ],
)
def test_paths_of_routes(path: str, given: str, matches: bool) -> None:
    assert _matches(path, given) is matches


def test_an_answer_is_good_unless_it_says_otherwise() -> None:
    assert (RestAnswer().status, RestAnswer().location, RestAnswer().kind) == (200, "", "")
