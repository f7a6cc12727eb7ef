"""The schema registry as the console asks it: in a thread, each schema once, and never for long.

What it says is believed as little as what is in records: it becomes a `KnownSchema`, which the process apart reads.
"""

import asyncio
import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from penstock.console.apart.schema import AVRO, HEAD_BYTES, JSON, PROTOBUF, KnownSchema
from penstock.console.errors import ConsoleError
from penstock.console.query import MAX_ROWS
from penstock.protocol.value import Value
from penstock.work.connect.api import RetriableError
from penstock.work.connect.converters import ConversionError
from penstock.work.connect.registry import SERIALIZED, ReadSchemas, Registry, RegistryError, next_version, references_of
from penstock.work.connect.registry_avro import avro_of

ANSWER_S: Final = 3.0
"""How long the registry has for one answer,"""
WHOLE_S: Final = 8.0
"""and for all that are needed for a schema."""
ASKED_AT_ONCE: Final = 2
MOST_KEPT: Final = 1_000
MOST_KEPT_BYTES: Final = 32 * 1024 * 1024
FORGOTTEN_S: Final = 60.0
"""After so long a schema that could not be had is asked for again."""
MOST_TEXT: Final = 256 * 1024
"""Characters of a schema that a page shows."""
MOST_SAID: Final = 2_000
"""Characters of why a schema is not taken."""
Answer = TypeVar("Answer")


class Subject(Value):
    """`versions` may be empty, `text` is what the registry has of the latest one, cut."""

    name: str
    number: int
    version: int
    kind: str
    text: str
    versions: tuple[int, ...]
    references: tuple[str, ...]


class Hurried:
    """A registry until a moment, after which nothing more is asked: a schema may refer to very many others."""

    def __init__(self, registry: Registry, until_s: float) -> None:
        self._registry = registry
        self._until_s = until_s

    def schema(self, number: int, form: str = "") -> Any:
        return self._in_time(lambda: self._registry.schema(number, form))

    def version(self, subject: str, version: str = "latest", form: str = "") -> Any:
        return self._in_time(lambda: self._registry.version(subject, version, form))

    def subjects(self) -> Any:
        return self._in_time(self._registry.subjects)

    def versions(self, subject: str) -> Any:
        return self._in_time(lambda: self._registry.versions(subject))

    def misfits(self, subject: str, document: Mapping[str, Any]) -> list[str]:
        return self._in_time(lambda: self._registry.misfits(subject, document))

    def register(self, subject: str, document: Mapping[str, Any]) -> tuple[int, int]:
        """Its id and its version."""
        number = self._in_time(lambda: self._registry.id_of(subject, document, registers=True))
        return number, self._in_time(lambda: self._registry.version_of(subject, document))

    def _in_time(self, ask: Callable[[], Answer]) -> Answer:
        if time.monotonic() > self._until_s:
            raise TimeoutError
        return ask()


class SchemaRegistry:
    """`url` may have a user and a password; None where there is no registry."""

    def __init__(self, url: str | None) -> None:
        self.shown, user_info = ("", None) if url is None else _without_user(url)
        self._registry = Registry((self.shown,), user_info, ANSWER_S) if url is not None else None
        self._known: dict[int, KnownSchema] = {}
        self._missing: dict[int, tuple[float, str]] = {}
        """Until when, and why."""
        self._asking: dict[int, asyncio.Task[KnownSchema]] = {}
        self._threads = ThreadPoolExecutor(ASKED_AT_ONCE, "schema registry")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    @property
    def is_there(self) -> bool:
        return self._registry is not None

    async def of_values(self, values: Collection[bytes | None]) -> dict[int, KnownSchema]:
        """By number, the schemas of those that begin with the number of one; what cannot be had in time is left out."""
        numbers = {number for data in values if (number := number_of(data)) is not None} if self.is_there else set()
        found, until_s = {}, time.monotonic() + WHOLE_S
        for number in sorted(numbers):
            if number not in self._known and time.monotonic() > until_s:
                continue
            try:
                found[number] = await self.schema(number)
            except ConsoleError as error:
                self._miss(number, str(error))
        return found

    def _miss(self, number: int, why: str) -> None:
        if number not in self._missing:
            while len(self._missing) >= MOST_KEPT:
                del self._missing[next(iter(self._missing))]
            self._missing[number] = time.monotonic() + FORGOTTEN_S, why

    async def schema(self, number: int) -> KnownSchema:
        """ConsoleError says why there is none."""
        if number in self._known:
            return self._known[number]
        until_s, why = self._missing.get(number, (0.0, ""))
        if time.monotonic() < until_s:
            raise ConsoleError(HTTPStatus.BAD_GATEWAY, why)
        self._missing.pop(number, None)
        if number not in self._asking:
            self._asking[number] = asyncio.create_task(self._ask(lambda one: _known(one, number)))
            self._asking[number].add_done_callback(lambda _: self._asking.pop(number, None))
        schema = await asyncio.shield(self._asking[number])
        self._keep(schema)
        return schema

    async def latest(self, subject: str) -> KnownSchema:
        """Of its latest version."""
        return await self._ask(lambda one: _latest(one, subject))

    async def subjects(self) -> list[str]:
        """Sorted."""
        return await self._ask(lambda one: sorted(str(name) for name in _list_of(one.subjects())))

    async def subject(self, name: str) -> Subject:
        return await self._ask(lambda one: _subject(one, name))

    async def misfits(self, subject: str, kind: str | None, text: str) -> list[str]:
        """Why a schema cannot be the subject's next version; nothing where it can, or there is no such subject yet."""
        return await self._ask(lambda one: _misfits(one, subject, kind, text))

    async def register(self, subject: str, kind: str | None, text: str) -> tuple[int, int]:
        """As its next version, of the latest one's kind unless one is given; the id and the version.

        ConsoleError 409 says why not.
        """
        return await self._ask(lambda one: _register(one, subject, kind, text))

    def _keep(self, schema: KnownSchema) -> None:
        self._known[schema.number] = schema
        size = sum(len(one.text) for one in self._known.values())
        while len(self._known) > 1 and (len(self._known) > MOST_KEPT or size > MOST_KEPT_BYTES):
            oldest = self._known.pop(next(iter(self._known)))
            size -= len(oldest.text)

    async def _ask(self, question: Callable[[Hurried], Answer]) -> Answer:
        if self._registry is None:
            raise ConsoleError(HTTPStatus.NOT_FOUND, "there is no schema registry: --schema-registry URL names one")
        try:
            hurried = Hurried(self._registry, time.monotonic() + WHOLE_S)
            async with asyncio.timeout(WHOLE_S):
                return await asyncio.get_running_loop().run_in_executor(self._threads, question, hurried)
        except (ConversionError, RetriableError) as error:
            raise ConsoleError(HTTPStatus.BAD_GATEWAY, str(error)[:500]) from None
        except TimeoutError:
            why = f"the schema registry at {self.shown} has not answered within {WHOLE_S:.0f} s"
            raise ConsoleError(HTTPStatus.BAD_GATEWAY, why) from None
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            why = f"what answers at {self.shown} is no schema registry ({type(error).__name__})"
            raise ConsoleError(HTTPStatus.BAD_GATEWAY, why) from None


def number_of(data: bytes | None) -> int | None:
    """None for what does not begin with the number of a schema."""
    if data is None or len(data) < HEAD_BYTES or data[0]:
        return None
    return int.from_bytes(data[1:HEAD_BYTES])


def _known(registry: Hurried, number: int) -> KnownSchema:
    return _whole(registry, number, f"schema {number}", lambda form: registry.schema(number, form))


def _latest(registry: Hurried, subject: str) -> KnownSchema:
    number = int(registry.version(subject)["id"])
    return _whole(registry, number, subject, lambda form: registry.version(subject, form=form))


def _whole(registry: Hurried, number: int, name: str, ask: Callable[[str], Any]) -> KnownSchema:
    answer = ask("")
    kind = answer.get("schemaType") or AVRO
    if kind == AVRO:
        return KnownSchema(number, AVRO, json.dumps(avro_of(registry, answer, name)).encode())
    if kind == JSON:
        return KnownSchema(number, JSON, str(answer["schema"]).encode(), _texts(registry, answer))
    if kind == PROTOBUF:
        answer = ask(SERIALIZED)
        return KnownSchema(number, PROTOBUF, str(answer["schema"]).encode(), _texts(registry, answer, SERIALIZED))
    raise ConversionError(f"{name} is of {str(kind)[:50]}, which nothing here reads")


def _texts(registry: ReadSchemas, answer: Any, form: str = "") -> tuple[tuple[str, bytes], ...]:
    """Of what it refers to, by the names it uses."""
    others = references_of(registry, answer, form)
    return tuple((name, str(other["schema"]).encode()) for name, other in others.items())


def _subject(registry: Hurried, name: str) -> Subject:
    answer = registry.version(name)
    versions = [int(one) for one in _list_of(registry.versions(name))][-MAX_ROWS:]
    return Subject(
        name=name,
        number=int(answer["id"]),
        version=int(answer["version"]),
        kind=str(answer.get("schemaType") or AVRO)[:50],
        text=str(answer["schema"])[:MOST_TEXT],
        versions=tuple(versions),
        references=tuple(str(one["name"])[:200] for one in _list_of(answer.get("references") or [])[:MAX_ROWS]),
    )


def _misfits(registry: Hurried, subject: str, kind: str | None, text: str) -> list[str]:
    with _in_our_words():
        return registry.misfits(subject, next_version(registry, subject, kind, text))


def _register(registry: Hurried, subject: str, kind: str | None, text: str) -> tuple[int, int]:
    with _in_our_words():
        document = next_version(registry, subject, kind, text)
        if why := registry.misfits(subject, document):
            said = "; ".join(why)[:MOST_SAID]
            raise ConsoleError(HTTPStatus.CONFLICT, f"it does not fit the latest version of {subject}: {said}")
        return registry.register(subject, document)


@contextmanager
def _in_our_words() -> Iterator[None]:
    """What the registry refuses was not right in what it was asked."""
    try:
        yield
    except RegistryError as error:
        raise ConsoleError(HTTPStatus.CONFLICT, str(error)[:MOST_SAID]) from None


def _list_of(answer: Any) -> list[Any]:
    if not isinstance(answer, list):
        raise TypeError
    return answer


def _without_user(url: str) -> tuple[str, str | None]:
    """A password may stand in an address, and is told nobody."""
    parts = urlsplit(url)
    user_info, _, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=host).geturl().rstrip("/"), user_info or None
