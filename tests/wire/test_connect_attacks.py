"""What strangers may try at the REST interface of a worker, and what they get."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.wire.connect_asking import Asking, one_alone
from tests.wire.connect_workers import LIMIT_S

from penstock.work.connect.rest import server
from penstock.work.connect.rest.routes import ROUTES

SECRET = "Bearer sesame-open"


def sink(topic: str, **more: str) -> dict[str, str]:
    own = {"http.authorization.type": "static", "http.headers.authorization": SECRET, "http.url": "http://127.0.0.1:1"}
    return {"connector.class": "HttpSink", "topics": topic, **own} | {
        key.replace("_", "."): value for key, value in more.items()
    }


@asynccontextmanager
async def raw(asking: Asking) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    at = urlsplit(asking.other.server.urls[0])
    reader, writer = await asyncio.open_connection(at.hostname, at.port)
    try:
        async with asyncio.timeout(LIMIT_S):
            yield reader, writer
    finally:
        writer.close()


async def closed(reader: asyncio.StreamReader) -> bytes:
    """What came until the other end closed."""
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_LIMIT_S", 0.05)
    monkeypatch.setattr(server, "BODY_LIMIT_S", 0.05)


# Names


async def test_a_name_that_was_made_to_lead_here_is_not_answered(asking: Asking) -> None:
    for host in ("evil.example", "evil.example:8083", "localhost.evil.example", "127.0.0.1.evil.example"):
        for path in ("/", "/connectors?expand=info", "/connectors/x/config", "/metrics"):
            status, said = await asking.ask("GET", path, headers={"Host": host})
            assert (status, said["message"]) == (403, f"rest.allowed.hosts does not name {host}")
    assert (await asking.ask("GET", "/", headers={"Host": "localhost"}))[0] == 200


async def test_a_name_with_control_characters_is_refused(asking: Asking, topic: str) -> None:
    for name in ("a\r\nX-Evil: yes", "a\x00b", "a\x1b[31mb", "a\x9bb", "\n"):
        for body in ({"name": name, "config": sink(topic)}, {"name": name, "config": {**sink(topic), "name": name}}):
            assert (await asking.ask("POST", "/connectors", body))[0] == 400
    assert (await asking.ask("GET", "/connectors"))[1] == []


async def test_the_location_of_a_connector_leads_to_it(asking: Asking, topic: str) -> None:
    url = asking.other.server.urls[0]
    for name in ("a/b", "größe", "a b?c#d%e", "\u202eabc"):
        status, location = 409, ""
        while status == 409:  # the workers share out the connector before
            made = {"name": name, "config": sink(topic)}
            async with asking.session.post(f"{url}/connectors", json=made) as answer:
                status, location = answer.status, answer.headers.get("Location", "")
        assert status == 201
        assert location.isascii()
        async with asking.session.get(f"{url}{location}") as answer:
            assert (answer.status, (await answer.json())["name"]) == (200, name)


# Secrets


async def test_no_answer_tells_a_password(asking: Asking, topic: str) -> None:
    config = sink(topic)
    said = [await asking.ask("POST", "/connectors", {"name": "quiet", "config": config})]
    await asking.until_running("quiet")
    paths = ("", "/config", "/tasks", "/tasks-config", "/status", "/offsets", "/tasks/0/status", "?expand=info")
    said += [await asking.ask("GET", f"/connectors/quiet{path}") for path in paths]
    said.append(await asking.ask("GET", "/connectors?expand=info&expand=status"))
    said.append(await asking.ask("PATCH", "/connectors/quiet/config", {"max.retries": "3"}))
    said.append(await asking.ask("PUT", "/connectors/quiet/config", said[2][1] | {"max.retries": "4"}))
    said.append(await asking.ask("PUT", "/connector-plugins/HttpSink/config/validate", {"name": "quiet", **config}))
    assert [status for status, _ in said if status not in (200, 201)] == []
    assert SECRET not in json.dumps(said)
    assert said[2][1]["http.headers.authorization"] == "[hidden]"
    stored = asking.other.worker.state.connectors["quiet"].config  # type: ignore[union-attr]
    assert stored["http.headers.authorization"] == SECRET, "what was written back hidden stays as it is"
    assert stored["max.retries"] == "4"


async def test_a_hidden_password_of_a_new_connector_is_refused(asking: Asking, topic: str) -> None:
    config = sink(topic, http_headers_authorization="[hidden]")
    for verb, path, body in (
        ("POST", "/connectors", {"name": "new", "config": config}),
        ("PUT", "/connectors/new/config", config),
    ):
        status, said = await asking.ask(verb, path, body)
        assert (status, "give the value" in said["message"]) == (400, True)


# Bodies


BODIES = (
    ("POST", "/connectors"),
    ("PUT", "/connectors/x/config"),
    ("PATCH", "/connectors/x/config"),
    ("PATCH", "/connectors/x/offsets"),
    ("PUT", "/connector-plugins/HttpSink/config/validate"),
    ("PUT", "/admin/loggers/x"),
)


async def test_deep_json_is_a_bad_request(asking: Asking) -> None:
    assert {(route.verb, len(route.path.split("/"))) for route in ROUTES if route.body} == {
        (verb, len(path.split("/"))) for verb, path in BODIES
    }
    for depth in (900, 5_000, 200_000):
        data = '{"name":"n","offsets":' + "[" * depth + "]" * depth + ',"config":' + "[" * depth + "]" * depth + "}"
        for verb, path in BODIES:
            headers = {"Content-Type": "application/json"}
            url = f"{asking.other.server.urls[0]}{path}"
            async with asking.session.request(verb, url, data=data, headers=headers) as answer:
                assert answer.status in (400, 404), await answer.text()


async def test_a_body_is_neither_unpacked_nor_larger_than_a_record(asking: Asking) -> None:
    url = f"{asking.other.server.urls[0]}/connectors"
    bomb = gzip.compress(b"[" + b" " * 20_000_000 + b"]")
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    async with asking.session.post(url, data=bomb, headers=headers) as answer:
        assert (answer.status, (await answer.json())["message"]) == (415, "a body is not compressed")
    async with asking.session.post(url, json={"name": "x" * server.LARGEST_BODY}) as answer:
        assert answer.status == 413


async def test_fields_that_are_not_known_are_refused(asking: Asking, topic: str) -> None:
    body = {"name": "n", "config": sink(topic), "initial.state": "STOPPED"}
    assert (await asking.ask("POST", "/connectors", body))[0] == 400
    assert (await asking.ask("GET", "/connectors"))[1] == []


async def test_a_pattern_that_is_none_is_refused(asking: Asking, topic: str) -> None:
    config = {key: value for key, value in sink(topic).items() if key != "topics"}
    for pattern in ("(", "*", "[a", "a{99999999999}"):
        body = {"name": "n", "config": config | {"topics.regex": pattern}}
        status, said = await asking.ask("POST", "/connectors", body)
        assert (status, "topics.regex" in said["message"]) == (400, True)


async def test_who_accepts_no_json_gets_none(asking: Asking) -> None:
    for accept, path, status in (
        ("text/html", "/connectors", 406),
        ("application/xml, text/*;q=0.5", "/connectors", 406),
        ("application/json", "/connectors", 200),
        ("text/html, application/*;q=0.1", "/connectors", 200),
        ("*/*", "/connectors", 200),
        ("text/plain;version=0.0.4", "/metrics", 200),
        ("application/json", "/metrics", 406),
    ):
        url = f"{asking.other.server.urls[0]}{path}"
        async with asking.session.get(url, headers={"Accept": accept}) as answer:
            assert answer.status == status, (accept, path)


# Half a request


async def test_half_a_head_is_not_waited_for(impatient: None, bootstrap: str, tmp_path: Path) -> None:
    whole = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    async with one_alone(bootstrap, tmp_path) as asking:
        for before in (b"", whole):
            for half in (b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: y"):
                async with raw(asking) as (reader, writer):
                    writer.write(before + half)
                    assert (await closed(reader)).count(b"HTTP/1.1 200 OK") == (1 if before else 0)


async def test_half_a_body_is_not_waited_for(impatient: None, bootstrap: str, tmp_path: Path) -> None:
    head = b"POST /connectors HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    async with one_alone(bootstrap, tmp_path) as asking, raw(asking) as (reader, writer):
        writer.write(head + b'Content-Length: 9\r\n\r\n{"na')
        assert b"408 Request Timeout" in await closed(reader)


async def test_connections_are_bounded(monkeypatch: pytest.MonkeyPatch, bootstrap: str, tmp_path: Path) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 3)
    async with one_alone(bootstrap, tmp_path) as asking, raw(asking) as (reader, writer), raw(asking), raw(asking):
        async with raw(asking) as (one_too_many, _):
            assert await closed(one_too_many) == b""
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
