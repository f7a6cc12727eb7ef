"""A schema registry by Confluent's REST interface, and what its clients put before values: a zero byte and an id.

It is asked within the call: whoever may not wait calls from a thread.
"""

import base64
import json
import struct
import urllib.error
import urllib.request
from typing import Any, Final
from urllib.parse import quote

from penstock.work.connect.api import RetriableError
from penstock.work.connect.converters import ConversionError

MAGIC: Final = 0
HEAD: Final = struct.Struct(">bI")
SERIALIZED: Final = "serialized"
"""Protobuf's schemas in this form are descriptors in base64, which need no compiler."""
TIMEOUT_S: Final = 30
MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"


class RegistryError(ConversionError):
    """The registry does not do it; its `status` is 404 for what it does not have."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Registry:
    """Schemas by their ids, and ids of schemas; RetriableError if none of the addresses answers, else RegistryError."""

    def __init__(self, urls: tuple[str, ...], user_info: str | None) -> None:
        self._urls = [url.rstrip("/") for url in urls]
        self._headers = {"Content-Type": MEDIA_TYPE, "Accept": f"{MEDIA_TYPE}, application/json"}
        if user_info is not None:
            self._headers["Authorization"] = f"Basic {base64.b64encode(user_info.encode()).decode()}"

    def schema(self, number: int, form: str = "") -> Any:
        """What is known of the schema of that id."""
        return self._ask(f"/schemas/ids/{number}{_query(form)}")

    def version(self, subject: str, version: str = "latest", form: str = "") -> Any:
        """What is known of a version of a subject, with its id."""
        return self._ask(f"/subjects/{quote(subject, '')}/versions/{version}{_query(form)}")

    def id_of(self, subject: str, schema: Any, *, registers: bool) -> int:
        """The id of a schema of Avro, which is registered where it is not known."""
        path = f"/subjects/{quote(subject, '')}" + ("/versions" if registers else "")
        return int(self._ask(path, {"schema": json.dumps(schema)})["id"])

    def _ask(self, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        error: Exception | None = None
        for url in self._urls:
            request = urllib.request.Request(f"{url}{path}", data, self._headers)
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


def schema_id(data: bytes) -> int | None:
    """The id before a value; None where there is none."""
    return HEAD.unpack_from(data)[1] if len(data) >= HEAD.size and data[0] == MAGIC else None


def avro_of(answer: Any, name: str) -> Any:
    """The schema of Avro that the registry has told; ConversionError."""
    if answer.get("schemaType", "AVRO") != "AVRO" or answer.get("references"):
        raise ConversionError(f"{name} is no Avro, or refers to other schemas, which is not supported")
    return json.loads(answer["schema"])


def _query(form: str) -> str:
    return f"?format={form}" if form else ""
