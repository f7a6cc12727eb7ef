"""`penstock produce` by the schemas of a registry, and what it says of lines and records that fail."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest
from click.testing import CliRunner, Result
from tests.stand_in import stand_in
from tests.wire.schema_registry import SchemaRegistry, served

from penstock.cli.main import main
from penstock.cli.records import produce
from penstock.client.errors import ClientError

RECORD = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]}


class FakeProducer:
    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.failing: set[bytes | None] = set()

    def __call__(self, servers: str, settings: Any) -> "FakeProducer":
        self.sent.append((servers, settings.client_id))
        return self

    async def __aenter__(self) -> "FakeProducer":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.sent.append("close")

    async def send(
        self, topic: str, value: bytes | None, *, key: bytes | None, headers: Any, callback: Callable[..., None]
    ) -> None:
        self.sent.append((topic, key, value, headers))
        callback(None, ClientError(f"no room for {value!r}") if value in self.failing else None)

    async def send_and_wait(self, topic: str, value: bytes | None, *, key: bytes | None, headers: Any) -> None:
        self.sent.append(("wait", topic, key, value, headers))

    async def flush(self) -> None:
        self.sent.append("flush")


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> FakeProducer:
    found = FakeProducer()
    monkeypatch.setattr(produce, "Producer", found)
    return found


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with served() as found:
        found.register("keys", "long")
        found.register("values", RECORD)
        yield found


def run(text: str, *words: str) -> Result:
    return CliRunner().invoke(main, ["produce", "--topic", "t", "--bootstrap-server", "h:1", *words], input=text)


KEYED = ("--property", "parse.key=true", "--property", "key.separator=;")
KEY_7, VALUE_5 = (b"\0" + number.to_bytes(4, "big") + data for number, data in ((100_000, b"\x0e"), (100_001, b"\x0a")))


@pytest.mark.parametrize(
    ("words", "key", "value"),
    [
        (("--key-schema", "keys", "--value-schema", "values"), KEY_7, VALUE_5),
        (("--key-schema", "keys"), KEY_7, b'{"n": 5}'),
        (("--value-schema", "values"), b"7", VALUE_5),
    ],
)
def test_keys_and_values_by_their_schemas(
    words: tuple[str, ...], key: bytes, value: bytes, registry: SchemaRegistry, producer: FakeProducer
) -> None:
    result = run('7;{"n": 5}\n', *KEYED, "--schema-registry", registry.url, *words)
    assert (result.exit_code, result.output) == (0, "")
    assert producer.sent == [("h:1", "console-producer"), ("t", key, value, []), "flush", "close"]


@pytest.mark.parametrize("subject", ["values", "nothing"])
def test_the_registry_is_let_go_when_it_was_asked(
    subject: str, registry: SchemaRegistry, producer: FakeProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []
    monkeypatch.setattr("penstock.cli.records.by_schema.SchemaRegistry.close", lambda _: closed.append(subject))
    run("", "--schema-registry", registry.url, "--value-schema", subject)
    assert closed == [subject]


def test_what_is_not_there_has_no_schema(registry: SchemaRegistry, producer: FakeProducer) -> None:
    words = ("--property", "null.marker=-", "--schema-registry", registry.url, "--value-schema", "values")
    run("7;-\n", *KEYED, *words)
    assert producer.sent[1] == ("t", b"7", None, [])


@pytest.mark.parametrize("words", [("--key-schema", "keys"), ("--value-schema", "values")])
def test_a_subject_needs_a_registry(words: tuple[str, ...], producer: FakeProducer) -> None:
    result = run("", *words)
    assert result.exit_code == 2
    assert result.stderr.endswith("Error: --key-schema and --value-schema are subjects of a --schema-registry URL\n")


def test_a_registry_alone_is_not_asked(producer: FakeProducer) -> None:
    assert run("a\n", "--schema-registry", "http://127.0.0.1:1").exit_code == 0
    assert producer.sent[1] == ("t", None, b"a", [])


def test_a_subject_that_there_is_not(registry: SchemaRegistry, producer: FakeProducer) -> None:
    result = run("1\n", "--schema-registry", registry.url, "--value-schema", "nothing")
    assert result.exit_code == 1
    assert "nothing" in result.stderr
    assert producer.sent == []


def test_a_line_that_is_no_value_of_its_schema(registry: SchemaRegistry, producer: FakeProducer) -> None:
    words = ("--schema-registry", registry.url, "--value-schema", "values")
    result = run('{"n": 5}\n{"n": "x"}\n', *words)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: line 2: it is no value of its schema: ")
    result = run('{"n": "x"}\n{"n": 5}\n', *words, "--property", "ignore.error=true")
    assert (result.exit_code, producer.sent[-3]) == (0, ("t", None, VALUE_5, []))


def test_records_that_fail_are_counted_and_the_first_is_told(producer: FakeProducer) -> None:
    producer.failing = {b"b", b"d"}
    result = run("a\nb\nc\nd", "--json")
    assert (result.exit_code, result.stderr) == (1, "Error: no room for b'b'\n")
    assert result.stdout == '{\n  "topic": "t",\n  "sent": 4,\n  "failed": 2\n}\n'
    assert [one[2] for one in producer.sent[1:-2]] == [b"a", b"b", b"c", b"d"]


def test_one_after_the_other(producer: FakeProducer) -> None:
    result = run("a\r\nb\n\n", "--sync")
    assert (result.exit_code, result.output) == (0, "")
    assert producer.sent[1:-2] == [("wait", "t", None, value, []) for value in (b"a", b"b", b"")]


def test_who_reads_the_lines_ends_silently_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop takes no more: it is closed, or what was put last is cancelled as it closes."""
    chunks: asyncio.Queue[bytes] = asyncio.Queue()
    stream = SimpleNamespace(fileno=_no_file, read=lambda _: b"more")
    stdin = SimpleNamespace(buffer=stream, isatty=lambda: False)
    monkeypatch.setattr(produce, "sys", stand_in(sys, stdin=stdin))
    ended: Future[None] = Future()
    ended.cancel()
    for put in (lambda *_: ended, _closed):
        monkeypatch.setattr(produce, "asyncio", stand_in(asyncio, run_coroutine_threadsafe=put))
        produce._read(cast("asyncio.AbstractEventLoop", None), chunks)
    assert chunks.empty()


def _no_file() -> int:
    raise OSError


def _closed(*_: object) -> None:
    raise RuntimeError("the loop is closed")
