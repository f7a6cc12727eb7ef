"""What the console keeps of a schema registry, for how long, and what its pages are told."""

from __future__ import annotations

import base64
import time
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from threading import Event
from typing import Any

import pytest
from tests.stand_in import stand_in
from tests.wire.schema_registry import SchemaRegistry as There
from tests.wire.schema_registry import served

from penstock.console import schemas
from penstock.console.apart.schema import AVRO, JSON, PROTOBUF, KnownSchema
from penstock.console.errors import ConsoleError
from penstock.console.schemas import FORGOTTEN_S, MOST_SAID, MOST_TEXT, WHOLE_S, SchemaRegistry, number_of
from penstock.console.views.registry import subject, subjects
from penstock.work.connect.api import RetriableError


@pytest.fixture
async def there() -> AsyncIterator[There]:
    with served() as registry:
        yield registry


@pytest.fixture
async def registry(there: There) -> AsyncIterator[SchemaRegistry]:
    found = SchemaRegistry(f"{there.url}/")
    yield found
    found.close()


@pytest.mark.parametrize(
    ("url", "shown", "user_info"),
    [
        ("http://h:1", "http://h:1", None),
        ("http://h:1/", "http://h:1", None),
        ("https://ada:s@c@h/base/", "https://h/base", "ada:s@c"),
        ("http://@h", "http://h", None),
    ],
)
def test_a_password_is_told_nobody(url: str, shown: str, user_info: str | None) -> None:
    assert schemas._without_user(url) == (shown, user_info)
    found = SchemaRegistry(url)
    assert (found.shown, found.is_there) == (shown, True)
    found.close()
    with pytest.raises(RuntimeError):
        found._threads.submit(int)


def test_questions_that_wait_when_it_is_closed_are_not_asked() -> None:
    found, let = SchemaRegistry("http://h"), Event()
    asked = [found._threads.submit(let.wait, 20) for _ in range(5)]
    found.close()
    assert [one.cancelled() for one in asked] == [False, False, True, True, True]
    let.set()
    assert [one.result(20) for one in asked[:2]] == [True, True]


async def test_without_a_registry_nothing_is_asked() -> None:
    found = SchemaRegistry(None)
    assert (found.shown, found.is_there) == ("", False)
    assert await found.of_values([b"\0\0\0\0\x07x"]) == {}
    with pytest.raises(ConsoleError, match="there is no schema registry: --schema-registry URL names one") as refused:
        await found.subjects()
    assert refused.value.status == 404


@pytest.mark.parametrize(
    ("data", "number"),
    [
        (None, None),
        (b"", None),
        (b"\0\0\0\1", None),
        (b"\0\0\0\0\0", 0),
        (b"\0\0\0\1\2", 258),
        (b"\0\x7f\xff\xff\xffmore", 2**31 - 1),
        (b"\1\0\0\1\2", None),
    ],
)
def test_the_number_of_a_schema(data: bytes | None, number: int | None) -> None:
    assert number_of(data) == number


async def test_pages_of_subjects(there: There, registry: SchemaRegistry) -> None:
    there.register("money", "long")
    refers = {"name": "n" * 201, "subject": "money", "version": 1}
    there.register("Orders", "int", schemaType="PROTOBUF", references=[refers])
    there.register("Orders", "x" * MOST_TEXT, schemaType="T" * 51)
    assert await subjects(registry, {}) == {
        "registry": there.url,
        "total": 2,
        "from": 0,
        "subjects": ["Orders", "money"],
    }
    assert (await subjects(registry, {"q": "ORD"}))["subjects"] == ["Orders"]
    assert (await subjects(registry, {"from": "1"}))["subjects"] == ["money"]
    assert (await subjects(registry, {"limit": "1"}))["subjects"] == ["Orders"]
    assert await subject(registry, {"name": "money"}) == {
        "name": "money",
        "id": "100000",
        "version": "1",
        "kind": AVRO,
        "schema": '"long"',
        "versions": ["1"],
        "references": (),
    }
    found = await subject(registry, {"name": "Orders"})
    assert (found["kind"], len(found["schema"]), found["versions"]) == ("T" * 50, MOST_TEXT, ["1", "2"])
    del there.subjects["Orders"][1]
    found = await subject(registry, {"name": "Orders"})
    assert (found["references"], found["kind"]) == (("n" * 200,), PROTOBUF)
    with pytest.raises(ConsoleError):
        await subject(registry, {})


async def test_schemas_come_with_what_they_refer_to(there: There, registry: SchemaRegistry) -> None:
    number = there.register("money", "long")
    refers = [{"name": "m", "subject": "money", "version": 1}]
    document = there.register("doc", {"$ref": "m"}, schemaType="JSON", references=refers)
    assert await registry.schema(number) == KnownSchema(number, AVRO, b'"long"')
    known = KnownSchema(document, JSON, b'{"$ref": "m"}', (("m", b'"long"'),))
    assert await registry.schema(document) == known
    assert await registry.latest("doc") == known
    there.register("wire", "text", schemaType="PROTOBUF", references=refers)
    there.serialized |= {name: base64.b64encode(name.encode()).decode() for name in ("text", "long")}
    wire = await registry.latest("wire")
    text, long = (base64.b64encode(name) for name in (b"text", b"long"))
    assert (wire.kind, wire.text, wire.references) == (PROTOBUF, text, (("m", long),))
    there.register("odd", "x", schemaType="X" * 60)
    with pytest.raises(ConsoleError, match=f"odd is of {'X' * 50}, which nothing here reads"):
        await registry.latest("odd")


def known(number: int, size: int) -> KnownSchema:
    return KnownSchema(number, AVRO, bytes(size))


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [
        ([1, 1, 1], [0, 1, 2]),
        ([1, 1, 1, 1], [1, 2, 3]),
        ([6, 2, 2], [0, 1, 2]),
        ([6, 2, 3], [1, 2]),
        ([6, 2, 11], [2]),
        ([11], [0]),
        ([3, 3, 3, 8], [3]),
        ([3, 3, 3, 7], [2, 3]),
    ],
)
def test_as_much_is_kept(monkeypatch: pytest.MonkeyPatch, sizes: list[int], kept: list[int]) -> None:
    monkeypatch.setattr(schemas, "MOST_KEPT", 3)
    monkeypatch.setattr(schemas, "MOST_KEPT_BYTES", 10)
    registry = SchemaRegistry("http://h")
    for number, size in enumerate(sizes):
        registry._keep(known(number, size))
    assert list(registry._known) == kept
    registry.close()


async def test_what_cannot_be_had_is_asked_for_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, asked = 0.0, 0
    monkeypatch.setattr(schemas, "time", stand_in(time, monotonic=lambda: now_s))
    monkeypatch.setattr(schemas, "MOST_KEPT", 2)
    registry = SchemaRegistry("http://h")

    async def ask(_: Any) -> Any:
        nonlocal asked
        asked += 1
        raise ConsoleError(HTTPStatus.BAD_GATEWAY, f"away {asked}")

    monkeypatch.setattr(registry, "_ask", ask)
    values = [b"\0\0\0\0\x07", b"\0\0\0\0\x08"]
    assert await registry.of_values(values[:1]) == {}
    now_s = FORGOTTEN_S - 1
    assert await registry.of_values(values) == {}
    assert asked == 2
    with pytest.raises(ConsoleError, match="away 1") as refused:
        await registry.schema(7)
    assert (asked, refused.value.status) == (2, 502)
    now_s = FORGOTTEN_S
    assert await registry.of_values(values) == {}
    assert asked == 3
    assert {number: why for number, (_, why) in registry._missing.items()} == {8: "away 2", 7: "away 3"}
    await registry.of_values([b"\0\0\0\0\x09"])
    assert list(registry._missing) == [7, 9], "the oldest is forgotten"
    registry.close()


async def test_of_many_only_those_known_are_waited_for_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(schemas, "time", stand_in(time, monotonic=lambda: now_s))
    registry = SchemaRegistry("http://h")
    registry._keep(known(3, 1))
    asked: list[int] = []

    async def schema(number: int) -> KnownSchema:
        nonlocal now_s
        asked.append(number)
        now_s += WHOLE_S
        return known(number, 1)

    monkeypatch.setattr(registry, "schema", schema)
    values = [b"\0\0\0\0" + bytes([number]) for number in (4, 3, 2, 1, 0)]
    assert list(await registry.of_values(values)) == [0, 1, 3]
    registry.close()


class Refusing:
    def __getattr__(self, _: str) -> Any:
        def ask(*_: object) -> None:
            raise AssertionError("it is asked after its time")

        return ask


async def test_nothing_is_asked_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 5.0
    monkeypatch.setattr(schemas, "time", stand_in(time, monotonic=lambda: now_s))
    hurried: Any = schemas.Hurried(Refusing(), 4.9)  # type: ignore[arg-type]
    calls: tuple[Callable[[], object], ...] = (
        lambda: hurried.schema(1),
        lambda: hurried.version("s"),
        lambda: hurried.subjects(),
        lambda: hurried.versions("s"),
        lambda: hurried.misfits("s", {}),
        lambda: hurried.register("s", {}),
    )
    for call in calls:
        with pytest.raises(TimeoutError):
            call()
    now_s = 4.9
    with pytest.raises(AssertionError):
        hurried.subjects()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RetriableError("x" * 501), "x" * 500),
        (TimeoutError(), "the schema registry at http://h has not answered within 8 s"),
        (KeyError("a"), "what answers at http://h is no schema registry (KeyError)"),
        (TypeError("a"), "what answers at http://h is no schema registry (TypeError)"),
        (ValueError("a"), "what answers at http://h is no schema registry (ValueError)"),
    ],
)
async def test_what_is_wrong_is_told_in_words(error: Exception, words: str) -> None:
    registry = SchemaRegistry("http://ada:secret@h")

    def fails(_: Any) -> Any:
        raise error

    with pytest.raises(ConsoleError) as told:
        await registry._ask(fails)
    assert (str(told.value), told.value.status) == (words, 502)
    registry.close()


async def test_why_a_schema_is_not_taken_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = SchemaRegistry("http://h")
    monkeypatch.setattr(schemas, "next_version", lambda *_: {})
    monkeypatch.setattr(schemas.Hurried, "misfits", lambda *_: ["a" * MOST_SAID, "b"])
    with pytest.raises(ConsoleError) as told:
        await registry.register("s", None, "")
    assert str(told.value) == f"it does not fit the latest version of s: {'a' * MOST_SAID}"
    registry.close()
