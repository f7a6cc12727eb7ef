"""Tables that keep so many things, and whose they are: all of them are given more than that here."""

import json
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from penstock.pipeline.values.avro import AvroReader
from penstock.pipeline.values.protobuf import ProtobufReader
from penstock.work.connect import kept
from penstock.work.connect.api import SinkContext, SinkRecord
from penstock.work.connect.avro import AvroConverter
from penstock.work.connect.built_in.sql_sink import SqlSinkTask
from penstock.work.connect.kept import keep
from penstock.work.connect.registry import HEAD, MAGIC


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST", 2)


def test_what_came_first_goes_first() -> None:
    table = dict[str, int]()
    for number, key in enumerate("abbca"):
        assert keep(table, key, number) == number
    assert table == {"c": 3, "a": 4}


def schemas_of(make: Callable[[Any], Any], table: str, data: bytes, document: dict[str, Any]) -> tuple[list[int], Any]:
    """Which schemas it asks for as it reads values of them, and what it has then."""
    asked = list[int]()

    def schema(number: int, *_: object) -> dict[str, Any]:
        asked.append(number)
        return document

    reader = make(SimpleNamespace(schema=schema))
    for number in (1, 2, 2, 3, 3, 2, 1):
        reader(HEAD.pack(MAGIC, number) + data)
    return asked, getattr(reader, table)


RECORD = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}

FILE = b64encode(Duration.DESCRIPTOR.file.serialized_pb).decode()


class Converter(AvroConverter):
    def __init__(self, registry: Any) -> None:
        self.configure({"schema.registry.url": "http://a"}, is_key=False)
        self._registry = registry

    def __call__(self, data: bytes) -> None:
        self.from_bytes("t", data)


@pytest.mark.parametrize(
    ("make", "table", "data", "document"),
    [
        (Converter, "_read", b"\x02", {"schema": json.dumps(RECORD)}),
        (partial(AvroReader, RECORD), "_writers", b"\x02", {"schema": json.dumps(RECORD)}),
        (partial(ProtobufReader, Duration.DESCRIPTOR), "_files", b"\x00", {"schemaType": "PROTOBUF", "schema": FILE}),
    ],
)
def test_schemas_of_values_that_are_read(
    make: Callable[[Any], Any], table: str, data: bytes, document: dict[str, Any]
) -> None:
    asked, left = schemas_of(make, table, data, document)
    assert (asked, list(left)) == ([1, 2, 3, 1], [3, 1])


def test_tables_that_a_sink_writes_to(tmp_path: Path) -> None:
    task, context = SqlSinkTask(), SinkContext(tolerates=False)
    task.start({"connection.url": f"sqlite:///{tmp_path / 'db'}", "auto.create": "true"}, context)
    task.put([SinkRecord(topic, 0, None, {"n": 1}) for topic in ("a", "b", "c", "a")])
    task.put([SinkRecord("b", 0, None, {"n": 1})])
    assert (sorted(task._tables), context.reported) == (["b", "c"], [])
    task.stop()
