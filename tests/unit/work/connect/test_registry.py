"""The client of a schema registry: what it asks and makes of each answer, and which references it follows."""

import io
import json
import math
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from penstock.work.connect import registry as module
from penstock.work.connect.api import RetriableError
from penstock.work.connect.converters import ConversionError
from penstock.work.connect.registry import (
    DEEPEST,
    MOST_REFERENCES,
    Registry,
    RegistryError,
    _whole,
    next_version,
    references_of,
    schema_id,
)

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"


class Scripted:
    """A web server that gives these answers one after the other, and notes what it is asked."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, Any]] = []
        self.asked: list[tuple[str, Any]] = []
        self.headers: list[Mapping[str, str]] = []
        scripted = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                scripted.asked.append((f"{self.command} {self.path}", json.loads(body) if body else None))
                scripted.headers.append(dict(self.headers))
                status, answer = scripted.answers.pop(0)
                data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_POST = do_GET  # noqa: N815

            def log_message(self, *args: Any) -> None: ...

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    scripted = Scripted()
    thread = threading.Thread(target=scripted.server.serve_forever, args=(0.01,))
    thread.start()
    yield scripted
    scripted.server.shutdown()
    thread.join()
    scripted.server.server_close()


DOCUMENT = {"schema": "{}", "schemaType": "JSON"}


def test_what_is_asked_for_each_call(scripted: Scripted) -> None:
    registry = Registry((f"{scripted.url}/",), "ada:secret")
    scripted.answers = [
        *((200, answer) for answer in ({"schema": "a"}, {"schema": "b"}, {"id": 1}, {"id": 2}, {"id": "3"}, {"id": 4})),
        *((200, answer) for answer in (["s"], [1, 2], {"version": "5"}, {"is_compatible": True})),
    ]
    assert [registry.schema(7), registry.schema(8, "serialized")] == [{"schema": "a"}, {"schema": "b"}]
    assert [registry.version("a/b"), registry.version("s", "3", "f")] == [{"id": 1}, {"id": 2}]
    assert [registry.id_of("a/b", DOCUMENT, registers=one) for one in (True, False)] == [3, 4]
    assert (registry.subjects(), registry.versions("a/b"), registry.version_of("a/b", DOCUMENT)) == (["s"], [1, 2], 5)
    assert registry.fits("a/b", DOCUMENT)
    assert scripted.asked == [
        ("GET /schemas/ids/7", None),
        ("GET /schemas/ids/8?format=serialized", None),
        ("GET /subjects/a%2Fb/versions/latest", None),
        ("GET /subjects/s/versions/3?format=f", None),
        ("POST /subjects/a%2Fb/versions", DOCUMENT),
        ("POST /subjects/a%2Fb", DOCUMENT),
        ("GET /subjects", None),
        ("GET /subjects/a%2Fb/versions", None),
        ("POST /subjects/a%2Fb", DOCUMENT),
        ("POST /compatibility/subjects/a%2Fb/versions/latest?verbose=true", DOCUMENT),
    ]
    said = scripted.headers[4]
    assert (said["Content-Type"], said["Accept"]) == (MEDIA_TYPE, f"{MEDIA_TYPE}, application/json")
    assert {one["Authorization"] for one in scripted.headers} == {"Basic YWRhOnNlY3JldA=="}


def test_nobody_is_named_where_nobody_is_given(scripted: Scripted) -> None:
    scripted.answers = [(200, [])]
    Registry((scripted.url,)).subjects()
    assert "Authorization" not in scripted.headers[0]


@pytest.mark.parametrize(
    ("status", "answer", "misfits"),
    [
        (200, {"is_compatible": True, "messages": ["no matter"]}, []),
        (200, {"is_compatible": False, "messages": ["a is gone", 7]}, ["a is gone", "7"]),
        (200, {"is_compatible": False, "messages": None}, ["its compatibility level does not allow the change"]),
        (200, {"is_compatible": False}, ["its compatibility level does not allow the change"]),
        (404, {"error_code": 40401}, []),
    ],
)
def test_what_does_not_fit_is_said_in_the_registrys_words(
    scripted: Scripted, status: int, answer: Any, misfits: list[str]
) -> None:
    scripted.answers = [(status, answer)] * 2
    registry = Registry((scripted.url,))
    assert registry.misfits("s", DOCUMENT) == misfits
    assert registry.fits("s", DOCUMENT) is (misfits == [])


@pytest.mark.parametrize("status", [400, 401, 404, 409, 422, 428, 430, 499])
def test_a_refusal_is_final(scripted: Scripted, status: int) -> None:
    scripted.answers = [(status, b"why \xff")] * 2
    with pytest.raises(RegistryError) as raised:
        Registry((scripted.url, scripted.url)).schema(1)
    assert (raised.value.status, len(scripted.asked)) == (status, 1)
    assert str(raised.value) == f"the schema registry said {status} to /schemas/ids/1: why �"
    if status != 404:
        with pytest.raises(RegistryError):
            Registry((scripted.url,)).misfits("s", DOCUMENT)


@pytest.mark.parametrize(
    ("status", "answer"), [(429, {}), (500, {}), (503, {}), (200, b"no JSON"), (200, b"[" * 99999)]
)
def test_what_may_pass_is_asked_of_the_next_one_and_then_later(scripted: Scripted, status: int, answer: Any) -> None:
    scripted.answers = [(status, answer), (200, {"id": 7}), (status, answer), (status, answer)]
    registry = Registry((scripted.url, scripted.url))
    assert registry.version("s") == {"id": 7}
    with pytest.raises(RetriableError, match=r"^the schema registry has not answered /subjects/s/versions/latest: "):
        registry.version("s")
    assert len(scripted.asked) == 4


def test_an_answer_has_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 10)
    monkeypatch.setattr(module, "PART_BYTES", 4)
    assert _whole(io.BufferedReader(io.BytesIO(b"0123456789")), math.inf) == b"0123456789"
    with pytest.raises(OSError, match=r"^the answer is longer than 10 bytes$"):
        _whole(io.BufferedReader(io.BytesIO(b"0123456789a")), math.inf)
    with pytest.raises(TimeoutError, match=r"^the answer does not come to its end$"):
        _whole(io.BufferedReader(io.BytesIO(b"0")), -math.inf)
    assert _whole(io.BufferedReader(io.BytesIO(b"")), -math.inf) == b""


def test_the_id_before_a_value() -> None:
    assert schema_id(b"\0\0\0\x01\x02") == 258
    assert schema_id(b"\0\xff\xff\xff\xffvalue") == 2**32 - 1
    for data in (b"", b"\0\0\0\x01", b"\x01\0\0\0\x01", b"text and more"):
        with pytest.raises(ConversionError, match="no zero byte and the id"):
            schema_id(data)


class Held:
    """Schemas by their subjects: which others each refers to."""

    def __init__(self, references: Mapping[str, list[str]]) -> None:
        self.references = references
        self.asked: list[tuple[str, str, str]] = []

    def schema(self, number: int, form: str = "") -> Any:
        raise NotImplementedError

    def version(self, subject: str, version: str = "latest", form: str = "") -> Any:
        self.asked.append((subject, version, form))
        if subject not in self.references:
            raise RegistryError(404, "no such subject")
        return refers(subject, *self.references[subject])


def refers(subject: str, *others: str) -> dict[str, Any]:
    return {"schema": subject, "references": [{"name": one.upper(), "subject": one, "version": 3} for one in others]}


def test_what_a_schema_refers_to_comes_after_what_that_needs() -> None:
    held = Held({"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []})
    found = references_of(held, refers("it", "a", "d"), "serialized")
    assert list(found) == ["D", "B", "C", "A"]
    assert found["B"] == refers("b", "d")
    assert held.asked == [(one, "3", "serialized") for one in ("a", "b", "d", "c")], "each once"
    assert references_of(held, {"schema": "x"}) == references_of(held, {"references": None}) == {}


@pytest.mark.parametrize("circle", [{"a": ["a"]}, {"a": ["b"], "b": ["a"]}, {"a": ["b"], "b": ["c"], "c": ["a"]}])
def test_a_schema_that_needs_itself(circle: Mapping[str, list[str]]) -> None:
    with pytest.raises(ConversionError, match=r"^the schema A refers to itself$"):
        references_of(Held(circle), refers("it", "a"))


def test_references_have_their_limits() -> None:
    words = f"^it refers to more than {MOST_REFERENCES} others, or {DEEPEST} in a row$"
    for count, row in ((MOST_REFERENCES, False), (DEEPEST, True)):
        names = [f"n{number}" for number in range(count + 1)]
        needs = {one: [names[at + 1]] if row and at + 1 < count else [] for at, one in enumerate(names)}
        first = refers("it", *(names[:1] if row else names[:count]))
        assert len(references_of(Held(needs), first)) == count
        needs[names[count - 1]] = names[count:] if row else []
        with pytest.raises(ConversionError, match=words):
            references_of(Held(needs), first if row else refers("it", *names))


class Latest(Held):
    def __init__(self, answer: Any) -> None:
        super().__init__({})
        self.answer = answer

    def version(self, subject: str, version: str = "latest", form: str = "") -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("latest", "kind", "follows"),
    [
        (RegistryError(404, "none"), None, {"schemaType": "AVRO"}),
        (RegistryError(404, "none"), "JSON", {"schemaType": "JSON"}),
        ({"schema": "old"}, None, {"schemaType": "AVRO"}),
        ({"schemaType": "PROTOBUF"}, None, {"schemaType": "PROTOBUF"}),
        ({"schemaType": "PROTOBUF", "references": []}, "JSON", {"schemaType": "JSON"}),
        ({"references": [{"name": "a"}]}, None, {"schemaType": "AVRO", "references": [{"name": "a"}]}),
    ],
)
def test_the_next_version_is_like_the_latest(latest: Any, kind: str | None, follows: Any) -> None:
    assert next_version(Latest(latest), "s", kind, "new") == {"schema": "new", **follows}


def test_another_refusal_is_not_taken_for_no_version() -> None:
    with pytest.raises(RegistryError, match=r"^forbidden$"):
        next_version(Latest(RegistryError(403, "forbidden")), "s", None, "new")
