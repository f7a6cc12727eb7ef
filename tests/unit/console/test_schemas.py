"""A schema registry that hangs, lies or sends without end: a page says so soon, and what is known goes on."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.wire.schema_registry import served

from penstock.console import schemas
from penstock.console.apart.schema import AVRO, JSON
from penstock.console.errors import ConsoleError
from penstock.console.schemas import SchemaRegistry
from penstock.work.connect import registry as client

LONG = {"schema": '"long"'}
ITSELF = {"schema": '"long"', "references": [{"name": "a", "subject": "a", "version": 1}]}


class Liar:
    """Answers each path as it is told; others hang until the end."""

    def __init__(self) -> None:
        self.answers: dict[str, bytes] = {}
        self.asked: list[str] = []
        self._over = asyncio.Event()
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self.server = TestServer(app)

    async def _answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        if request.path not in self.answers:
            await self._over.wait()
        return web.Response(body=self.answers.get(request.path, b""))

    async def close(self) -> None:
        self._over.set()
        await self.server.close()


@pytest.fixture
async def liar() -> AsyncIterator[Liar]:
    liar = Liar()
    await liar.server.start_server()
    yield liar
    await liar.close()


@pytest.fixture
async def registry(liar: Liar, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SchemaRegistry]:
    monkeypatch.setattr(schemas, "ANSWER_S", 0.3)
    monkeypatch.setattr(schemas, "WHOLE_S", 1.0)
    monkeypatch.setattr(client, "MOST_BYTES", 100_000)
    registry = SchemaRegistry(str(liar.server.make_url("/")).replace("//", "//ada:secret@"))
    yield registry
    registry.close()


def value(number: int) -> bytes:
    return b"\0" + number.to_bytes(4) + b"x"


async def test_each_schema_is_asked_for_once(liar: Liar, registry: SchemaRegistry) -> None:
    liar.answers["/schemas/ids/1"] = json.dumps(LONG).encode()
    liar.answers["/schemas/ids/2"] = json.dumps({"schema": "{}", "schemaType": "JSON"}).encode()
    values = [value(1), value(2), value(1), None, b"", b"\0\0\0", b"{}", b"\1" + value(1)]
    for _ in range(2):
        found = await registry.of_values(values)
        assert {number: schema.kind for number, schema in found.items()} == {1: AVRO, 2: JSON}
    await asyncio.gather(*(registry.schema(1) for _ in range(5)))
    assert liar.asked == ["/schemas/ids/1", "/schemas/ids/2"]


async def test_one_that_hangs_is_left_and_not_asked_again_at_once(liar: Liar, registry: SchemaRegistry) -> None:
    assert await registry.of_values([value(7)]) == {}
    assert await registry.of_values([value(7)]) == {}
    assert liar.asked == ["/schemas/ids/7"]
    with pytest.raises(ConsoleError, match="has not answered"):
        await registry.subjects()


async def test_many_schemas_of_one_that_hangs_are_not_waited_for_one_after_the_other(
    liar: Liar, registry: SchemaRegistry
) -> None:
    assert await registry.of_values([value(number) for number in range(50)]) == {}
    assert len(liar.asked) < 10


@pytest.mark.parametrize(
    "answer",
    [
        *(b"", b"[]", b"null", b"5", b"{}", b"{", b"[" * 90_000, b"x" * 200_000, b'{"schema": 5}', b'{"schema": "{"}'),
        *(
            b'{"schema": {}, "references": 5}',
            b'{"schema": "5", "references": [5]}',
            b'{"schema": "5", "references": [{}]}',
        ),
        b'{"schema": "x", "schemaType": "LIES"}',
        b'{"schema": "x", "schemaType": ["JSON"]}',
        json.dumps(ITSELF).encode(),
    ],
    ids=range(16),
)
async def test_lies_are_told_in_words(liar: Liar, registry: SchemaRegistry, answer: bytes) -> None:
    liar.answers = dict.fromkeys(("/schemas/ids/1", "/subjects/a/versions/1"), answer)
    with pytest.raises(ConsoleError, match=r"\w") as refused:
        await registry.schema(1)
    assert "secret" not in str(refused.value)
    assert len(liar.asked) <= 3


@pytest.mark.parametrize("answer", [b"{}", b"5", b'"ab"'])
async def test_subjects_that_are_no_list_are_none(liar: Liar, registry: SchemaRegistry, answer: bytes) -> None:
    liar.answers["/subjects"] = answer
    with pytest.raises(ConsoleError):
        await registry.subjects()


async def test_schemas_that_refer_to_ever_more_are_given_up(
    liar: Liar, registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "DEEPEST", 5)
    for number in range(20):
        more: Any = LONG | {"references": [{"name": f"{number}", "subject": f"{number}", "version": 1}]}
        liar.answers[f"/subjects/{number - 1}/versions/1"] = json.dumps(more).encode()
    liar.answers["/schemas/ids/1"] = liar.answers["/subjects/-1/versions/1"]
    with pytest.raises(ConsoleError, match="refers to more than"):
        await registry.schema(1)
    assert len(liar.asked) <= 7


async def test_what_is_kept_has_a_limit(liar: Liar, registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "MOST_KEPT", 2)
    for number in (1, 2, 3):
        liar.answers[f"/schemas/ids/{number}"] = json.dumps(LONG).encode()
        await registry.schema(number)
    await registry.schema(1)
    assert liar.asked == [f"/schemas/ids/{number}" for number in (1, 2, 3, 1)]


FITS = "/compatibility/subjects/orders/versions/latest"
LATEST = "/subjects/orders/versions/latest"


async def test_what_does_not_fit_is_not_registered_and_the_registry_says_why(
    liar: Liar, registry: SchemaRegistry
) -> None:
    liar.answers[LATEST] = json.dumps({"id": 7, "version": 3, "schema": '"long"', "schemaType": "AVRO"}).encode()
    liar.answers[FITS] = json.dumps({"is_compatible": False, "messages": ["READER_FIELD_MISSING at /n"]}).encode()
    assert await registry.misfits("orders", None, '"int"') == ["READER_FIELD_MISSING at /n"]
    with pytest.raises(ConsoleError, match="does not fit the latest version of orders: READER_FIELD_MISSING") as told:
        await registry.register("orders", None, '"int"')
    assert told.value.status == 409
    assert liar.asked == [LATEST, FITS] * 2


async def test_a_next_version_is_of_the_kind_of_the_last_and_keeps_its_references() -> None:
    with served() as there:
        there.register("money", "long")
        refers = {"name": "a", "subject": "money", "version": 1}
        there.register("orders", "int", schemaType="PROTOBUF", references=[refers])
        registry = SchemaRegistry(there.url)
        assert await registry.register("orders", None, '"long"') == (100_002, 2)
        assert there.schemas[100_002]["schemaType"] == "PROTOBUF"
        assert there.schemas[100_002]["references"] == [refers]
        assert await registry.register("new", None, '"long"') == (100_003, 1)
        assert there.schemas[100_003] == {"schema": '"long"', "schemaType": "AVRO"}
        there.incompatible.add("new")
        with pytest.raises(ConsoleError, match="compatibility level"):
            await registry.register("new", "AVRO", '"int"')
        registry.close()
