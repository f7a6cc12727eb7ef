"""A schema registry by Confluent's REST interface, and what its clients put before values: a zero byte and an id.

Calls block until the registry answers: coroutines must call from a thread.
"""

import base64
import json
import struct
import urllib.error
import urllib.request
from collections.abc import Mapping
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
MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"


class RegistryError(ConversionError):
    """`status` is 404 where the registry has no such schema or subject."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Schemas(Protocol):
    """Schemas as documents of Confluent's: `schema`, `schemaType`, `references`."""

    def schema(self, number: int, form: str = "") -> Any:
        """By id; RegistryError."""

    def version(self, subject: str, version: str = "latest", form: str = "") -> Any:
        """A version of a subject, with its id; RegistryError."""

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

    def schema(self, number: int, form: str = "") -> Any:
        return self._ask(f"/schemas/ids/{number}{_query(form)}")

    def version(self, subject: str, version: str = "latest", form: str = "") -> Any:
        return self._ask(f"/subjects/{quote(subject, '')}/versions/{version}{_query(form)}")

    def id_of(self, subject: str, document: Mapping[str, Any], *, registers: bool) -> int:
        path = f"/subjects/{quote(subject, '')}" + ("/versions" if registers else "")
        return int(self._ask(path, document)["id"])

    def version_of(self, subject: str, document: Mapping[str, Any]) -> int:
        return int(self._ask(f"/subjects/{quote(subject, '')}", document)["version"])

    def fits(self, subject: str, document: Mapping[str, Any]) -> bool:
        try:
            path = f"/compatibility/subjects/{quote(subject, '')}/versions/latest"
            return bool(self._ask(path, document)["is_compatible"])
        except RegistryError as error:
            if error.status == UNKNOWN:
                return True
            raise

    def _ask(self, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        error: Exception | None = None
        headers = {"Content-Type": MEDIA_TYPE, "Accept": f"{MEDIA_TYPE}, application/json"}
        if self.user_info is not None:
            headers["Authorization"] = f"Basic {base64.b64encode(self.user_info.encode()).decode()}"
        for url in self.urls:
            request = urllib.request.Request(f"{url.rstrip('/')}{path}", data, headers)
            try:
                with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                    return json.loads(answer.read())
            except urllib.error.HTTPError as refusal:
                words = refusal.read(1_000).decode("utf-8", "replace")
                if refusal.code < 500 and refusal.code != 429:
                    said = f"the schema registry said {refusal.code} to {path}: {words}"
                    raise RegistryError(refusal.code, said) from refusal
                error = refusal
            except (OSError, ValueError) as failure:
                error = failure
        raise RetriableError(f"the schema registry has not answered {path}: {error}") from error


def schema_id(data: bytes) -> int:
    """The id before a value; ConversionError where there is none."""
    if len(data) < HEAD.size or data[0] != MAGIC:
        raise ConversionError("no zero byte and the id of a schema before the value")
    number: int = HEAD.unpack_from(data)[1]
    return number


def references_of(registry: Schemas, answer: Mapping[str, Any], form: str = "") -> dict[str, Any]:
    """All that a schema refers to, by the names it uses; a schema stands behind those that it needs."""
    found: dict[str, Any] = {}
    for reference in answer.get("references") or ():
        if reference["name"] not in found:
            other = registry.version(reference["subject"], str(reference["version"]), form)
            found = found | references_of(registry, other, form) | {reference["name"]: other}
    return found


def _query(form: str) -> str:
    return f"?format={form}" if form else ""
