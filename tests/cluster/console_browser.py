"""Asks the console as a browser does."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from aiohttp import ClientResponse, ClientSession

from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.client.producer import Producer
from penstock.client.settings import ClientSettings
from penstock.console.serving.guard import TOKEN
from penstock.console.serving.server import ConsoleServer
from penstock.console.serving.settings import ConsoleSettings
from penstock.testing import Cluster

QUICK = ClientSettings(default_api_timeout_ms=2_000, request_timeout_ms=2_000)


class Browser:
    """Asks as our own page does, unless told otherwise."""

    def __init__(self, url: str, session: ClientSession) -> None:
        self.url = url
        self.session = session

    async def get(self, path: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Any:
        async with self.session.get(f"{self.url}{path}", headers=headers) as answer:
            body = await answer.read()
            assert answer.status == status, body
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert (
                "require-trusted-types-for 'script'; trusted-types 'none'" in answer.headers["Content-Security-Policy"]
            )
            return json.loads(body) if answer.content_type == "application/json" else body

    async def post(self, path: str, document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Any:
        own = {TOKEN: (await self.get("/api/session"))["token"], "Content-Type": "application/json"}
        data = document if isinstance(document, bytes) else json.dumps(document).encode()
        given = {name: value for name, value in {**own, **(headers or {})}.items() if value}
        async with self.session.post(f"{self.url}{path}", data=data, headers=given) as answer:
            assert answer.status == status, await answer.text()
            return await answer.json()

    async def change(self, status: int = 200, **asked: Any) -> Any:
        return await self.post("/api/change", asked, status)


async def browser_of(settings: ConsoleSettings) -> AsyncIterator[Browser]:
    async with ConsoleServer(settings, sample_s=0) as server, ClientSession() as session:
        yield Browser(server.url, session)


async def fill(cluster: Cluster, topic: str, count: int) -> None:
    async with Admin(cluster.bootstrap_servers) as admin, Producer(cluster.bootstrap_servers) as producer:
        await admin.topics.create_unless_there(NewTopic(name=topic, partitions=2))
        for number in range(count):
            await producer.send(topic, b'{"n": %d}' % number, key=b"key-%d" % number, partition=number % 2)


async def event(answer: ClientResponse) -> Any:
    """The next one of a stream."""
    async with asyncio.timeout(20):
        while not (line := await answer.content.readline()).startswith(b"data: "):
            pass
    return json.loads(line[6:])
