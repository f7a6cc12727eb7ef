"""A schema registry as small as it can be, with the documented REST of Confluent's."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.wire.in_a_thread import running

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"


class SchemaRegistry:
    """Subjects have versions; the same schema has the same id everywhere. `asked` are the requests so far.

    `serialized` is what schemas of Protobuf are in that form, by the text that they are registered with, unless that
    is this form. Into `incompatible` subjects no new schema fits.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.authorization: str | None = None
        self.statuses: list[int] = []
        self.incompatible: set[str] = set()
        self.serialized: dict[str, str] = {}
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        app = web.Application()
        app.router.add_get("/schemas/ids/{id}", self._schema)
        app.router.add_get("/subjects", self._subjects)
        app.router.add_get("/subjects/{subject}/versions", self._versions)
        app.router.add_post("/subjects/{subject}/versions", self._register)
        app.router.add_post("/subjects/{subject}", self._look_up)
        app.router.add_get("/subjects/{subject}/versions/{version}", self._version)
        app.router.add_post("/compatibility/subjects/{subject}/versions/{version}", self._compatibility)
        app.middlewares.append(self._watch)
        self.server = TestServer(app)

    @property
    def url(self) -> str:
        return str(self.server.make_url("/")).rstrip("/")

    def register(self, subject: str, schema: Any, **more: Any) -> int:
        return self._number(subject, {"schema": json.dumps(schema), **more})

    def _number(self, subject: str, document: dict[str, Any]) -> int:
        number = next((known for known, one in self.schemas.items() if one == document), len(self.schemas) + 100_000)
        self.schemas[number] = document
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    @web.middleware
    async def _watch(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.asked.append(f"{request.method} {request.path}")
        self.authorization = request.headers.get("Authorization")
        if self.statuses and (status := self.statuses.pop(0)) != 200:
            return _json({"error_code": status, "message": f"status {status}"}, status)
        response: web.StreamResponse = await handler(request)
        return response

    async def _schema(self, request: web.Request) -> web.Response:
        found = self.schemas.get(int(request.match_info["id"]))
        if not found:
            return _json({"error_code": 40403, "message": "Schema not found"}, 404)
        return _json(self._in_form(request, found))

    def _in_form(self, request: web.Request, document: dict[str, Any]) -> dict[str, Any]:
        if request.query.get("format") != "serialized":
            return document
        text = document["schema"]
        return document | {"schema": self.serialized[json.loads(text)] if text.startswith('"') else text}

    async def _register(self, request: web.Request) -> web.Response:
        assert request.content_type == MEDIA_TYPE
        subject = request.match_info["subject"]
        if subject in self.incompatible:
            return _json({"error_code": 409, "message": "Schema being registered is incompatible"}, 409)
        return _json({"id": self._number(subject, await request.json())})

    async def _compatibility(self, request: web.Request) -> web.Response:
        subject = request.match_info["subject"]
        if subject not in self.subjects:
            return _json({"error_code": 40401, "message": "Subject not found"}, 404)
        return _json({"is_compatible": subject not in self.incompatible})

    async def _look_up(self, request: web.Request) -> web.Response:
        document = await request.json()
        for version, number in enumerate(self.subjects.get(request.match_info["subject"], ()), 1):
            if self.schemas[number]["schema"] == document["schema"]:
                return _json({"id": number, "version": version, **document})
        return _json({"error_code": 40403, "message": "Schema not found"}, 404)

    async def _subjects(self, _: web.Request) -> web.Response:
        return _json(list(self.subjects))

    async def _versions(self, request: web.Request) -> web.Response:
        return _json(list(range(1, len(self.subjects[request.match_info["subject"]]) + 1)))

    async def _version(self, request: web.Request) -> web.Response:
        subject = request.match_info["subject"]
        if subject not in self.subjects:
            return _json({"error_code": 40401, "message": "Subject not found"}, 404)
        version = request.match_info["version"]
        place = len(self.subjects[subject]) if version == "latest" else int(version)
        number = self.subjects[subject][place - 1]
        return _json(
            {"subject": subject, "version": place, "id": number, **self._in_form(request, self.schemas[number])}
        )


@contextmanager
def served() -> Iterator[SchemaRegistry]:
    """A registry in a thread of its own, for those who wait for its answers."""
    registry = SchemaRegistry()
    with running(registry.server):
        yield registry


def _json(document: Any, status: int = 200) -> web.Response:
    return web.Response(text=json.dumps(document), status=status, content_type=MEDIA_TYPE)
