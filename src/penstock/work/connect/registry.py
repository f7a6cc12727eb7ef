"""A schema registry by Confluent's REST interface, and what its clients put before values: a zero byte and an id.

Calls block until the registry answers: coroutines must call from a thread.
"""

import base64
import json
import struct
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from time import monotonic
from typing import Any, Final, Protocol
from urllib.parse import quote

from penstock.protocol.value import Value
from penstock.work.connect.api import RetriableError
from penstock.work.connect.converters import ConversionError

MAGIC: Final = 0
HEAD: Final = struct.Struct(">bI")
SERIALIZED: Final = "serialized"
"""Protobuf's schemas in this form are descriptors in base64, which need no compiler."""
UNKNOWN: Final = 404
TIMEOUT_S: Final = 30
"""For all of an answer; one that comes by drops may take as long again."""
MOST_BYTES: Final = 16 * 1024 * 1024
"""Of an answer."""
MOST_REFERENCES: Final = 1_000
"""Of a schema, those of its references included,"""
DEEPEST: Final = 100
"""and one behind the other."""
PART_BYTES: Final = 64 * 1024
MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"


class RegistryError(ConversionError):
    """`status` is 404 where the registry has no such schema or subject."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class ReadSchemas(Protocol):
    """Schemas as documents of Confluent's: `schema`, `schemaType`, `references`."""

    def schema(self, number: int, form: str = "") -> Any:
        """By id; RegistryError."""

    def version(self, subject: str, version: str = "latest", form: str = "") -> Any:
        """A version of a subject, with its id; RegistryError."""


class Schemas(ReadSchemas, Protocol):
    """The same, also to write."""

    def id_of(self, subject: str, document: Mapping[str, Any], *, registers: bool) -> int:
        """The id of a schema (`schema`, `schemaType`, `references`), which is registered if it is unknown."""

    def version_of(self, subject: str, document: Mapping[str, Any]) -> int:
        """Of a schema that is registered there."""

    def fits(self, subject: str, document: Mapping[str, Any]) -> bool:
        """Whether it could be registered; also where there is no such subject yet."""


class Registry(Value):
    """RetriableError if none of the addresses answers, else RegistryError."""

    urls: tuple[str, ...]
    user_info: str | None = None
    timeout_s: float = TIMEOUT_S

    def schema(self, number: int, form: str = "") -> Any:
        return self._ask(f"/schemas/ids/{number}{_query(form)}")

    def version(self, subject: str, version: str = "latest", form: str = "") -> Any:
        return self._ask(f"/subjects/{quote(subject, '')}/versions/{version}{_query(form)}")

    def id_of(self, subject: str, document: Mapping[str, Any], *, registers: bool) -> int:
        path = f"/subjects/{quote(subject, '')}" + ("/versions" if registers else "")
        return int(self._ask(path, document)["id"])

    def subjects(self) -> Any:
        """A list of names."""
        return self._ask("/subjects")

    def versions(self, subject: str) -> Any:
        """A list of numbers."""
        return self._ask(f"/subjects/{quote(subject, '')}/versions")

    def version_of(self, subject: str, document: Mapping[str, Any]) -> int:
        return int(self._ask(f"/subjects/{quote(subject, '')}", document)["version"])

    def fits(self, subject: str, document: Mapping[str, Any]) -> bool:
        return not self.misfits(subject, document)

    def misfits(self, subject: str, document: Mapping[str, Any]) -> list[str]:
        """Why it could not be registered, in the registry's words; nothing where there is no such subject yet."""
        path = f"/compatibility/subjects/{quote(subject, '')}/versions/latest?verbose=true"
        try:
            answer = self._ask(path, document)
        except RegistryError as error:
            if error.status == UNKNOWN:
                return []
            raise
        if answer["is_compatible"]:
            return []
        return [str(one) for one in answer.get("messages") or ()] or [
            "its compatibility level does not allow the change"
        ]

    def _ask(self, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        error: Exception | None = None
        headers = {"Content-Type": MEDIA_TYPE, "Accept": f"{MEDIA_TYPE}, application/json"}
        if self.user_info is not None:
            headers["Authorization"] = f"Basic {base64.b64encode(self.user_info.encode()).decode()}"
        for url in self.urls:
            request = urllib.request.Request(f"{url.rstrip('/')}{path}", data, headers)
            try:
                with urllib.request.urlopen(request, timeout=self.timeout_s) as answer:
                    return json.loads(_whole(answer, monotonic() + self.timeout_s))
            except urllib.error.HTTPError as refusal:
                words = refusal.read(1_000).decode("utf-8", "replace")
                if refusal.code < 500 and refusal.code != 429:
                    said = f"the schema registry said {refusal.code} to {path}: {words}"
                    raise RegistryError(refusal.code, said) from refusal
                error = refusal
            except (OSError, ValueError, RecursionError, HTTPException) as failure:
                error = failure
        raise RetriableError(f"the schema registry has not answered {path}: {error}") from error


def _whole(answer: Any, until_s: float) -> bytes:
    """OSError for an answer that is too long, or not there in time."""
    found = bytearray()
    while part := answer.read1(PART_BYTES):
        found += part
        if len(found) > MOST_BYTES:
            raise OSError(f"the answer is longer than {MOST_BYTES} bytes")
        if monotonic() > until_s:
            raise TimeoutError("the answer does not come to its end")
    return bytes(found)


def schema_id(data: bytes) -> int:
    """The id before a value; ConversionError where there is none."""
    if len(data) < HEAD.size or data[0] != MAGIC:
        raise ConversionError("no zero byte and the id of a schema before the value")
    number: int = HEAD.unpack_from(data)[1]
    return number


def references_of(registry: ReadSchemas, answer: Mapping[str, Any], form: str = "") -> dict[str, Any]:
    """All that a schema refers to, by the names it uses; a schema stands behind those that it needs.

    ConversionError where there are too many, or one needs itself.
    """
    found: dict[str, Any] = {}
    _refer(registry, answer, form, found, ())
    return found


def next_version(registry: ReadSchemas, subject: str, kind: str | None, text: str) -> dict[str, Any]:
    """The document of a version that follows: of the latest one's kind (or Avro) where none is given, and with its
    references.
    """
    try:
        latest = registry.version(subject)
    except RegistryError as error:
        if error.status != UNKNOWN:
            raise
        latest = {}
    found = {"schema": text, "schemaType": kind or latest.get("schemaType") or "AVRO"}
    return found | ({"references": latest["references"]} if latest.get("references") else {})


def _refer(
    registry: ReadSchemas, answer: Mapping[str, Any], form: str, found: dict[str, Any], outer: tuple[str, ...]
) -> None:
    for reference in answer.get("references") or ():
        name = reference["name"]
        if name in outer:
            raise ConversionError(f"the schema {name} refers to itself")
        if name not in found:
            if len(found) >= MOST_REFERENCES or len(outer) >= DEEPEST:
                raise ConversionError(f"it refers to more than {MOST_REFERENCES} others, or {DEEPEST} in a row")
            other = registry.version(reference["subject"], str(reference["version"]), form)
            _refer(registry, other, form, found, (*outer, name))
            found[name] = other


def _query(form: str) -> str:
    return f"?format={form}" if form else ""
