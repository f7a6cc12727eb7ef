"""Tests of a pipeline with rows in and rows out: neither a cluster nor a checkpoint, the same parsing, SQL and sinks.

    out = outcome("delays.yaml", {"source": [{"carrier": "AA", "dep_delay": 3}]})
    assert out["delays"] == [{"key": "AA", "value": {"carrier": "AA", "delay": 3}}]

Rows of a topic whose values are typed by Avro, Protobuf or JSON Schema are objects, too; they are encoded as a producer
would do it. Where the pipeline has a schema registry, one in memory stands for it, with `schemas` by their subjects.

The rows are one batch, and all there will ever be: windows are complete, and nothing is late. The first call takes the
seconds in which Spark starts; the others use the same session.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.pipeline.datasource.columns import READ_COLUMNS_WITH_HEADERS
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.session import spark_session
from penstock.pipeline.spec.files import load_spec, session_spec
from penstock.pipeline.spec.pipeline import PENSTOCK, PipelineSpec, SourceSpec
from penstock.protocol.value import Value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CREATE_TIME: Final = 0


class Message(Value):
    """A record of a topic with more than its value. An object or a list becomes JSON, or what its schema says."""

    value: Any
    key: Any = None
    timestamp_ms: int = 0
    headers: tuple[tuple[str, bytes], ...] = ()


Rows = Mapping[str, Sequence[Any]]


def outcome(
    pipeline: str | Path | PipelineSpec,
    rows: Rows,
    *,
    schemas: Mapping[str, Any] | None = None,
    session: "SparkSession | None" = None,
) -> dict[str, list[dict[str, Any]]]:
    """What each sink would get, by its name, when sources and tables have these rows.

    A row of a topic is a value (an object becomes JSON, or what the source's schema says; text and bytes stay) or a
    Message; what is in a topic comes back as `key` and `value`, JSON as objects. A row of a table or of another source
    is an object with its columns. A table without rows here is read from where it is. PipelineError.

    Of `schemas` each may refer to those before it, by their names here: Avro and JSON Schema as objects, as text or as
    names of files, Protobuf as descriptors or names of files with such.
    """
    if session is None:
        declared = pipeline if isinstance(pipeline, PipelineSpec) else session_spec(Path(pipeline))
        session = spark_session(declared.name, master="local[1]", config=declared.spark)
    spec = pipeline if isinstance(pipeline, PipelineSpec) else load_spec(Path(pipeline))
    unknown = [name for name in rows if name not in spec.sources and name not in spec.tables]
    if unknown:
        known = ", ".join([*spec.sources, *spec.tables])
        raise PipelineError(f"Pipeline {spec.name} has no {unknown[0]}; there are {known}.")
    return _outcome(session, spec, rows, schemas or {})


def _outcome(
    session: "SparkSession", spec: PipelineSpec, rows: Rows, schemas: Mapping[str, Any]
) -> dict[str, list[dict[str, Any]]]:
    from penstock.pipeline.running.frames import frames_of_sinks
    from penstock.testing.typed_rows import decoded, encoded, in_memory

    spec = in_memory(spec, schemas)

    def raw(name: str, source: SourceSpec) -> "DataFrame":
        given = rows.get(name, ())
        if source.format != PENSTOCK:
            return session.createDataFrame(list(given))
        messages = [one if isinstance(one, Message) else Message(one) for one in given]
        values = encoded(name, source.typed, [message.value for message in messages])
        keys = encoded(name, source.typed_key, [message.key for message in messages])
        parts = zip(messages, keys, values, strict=True)
        return _topic(session, source, [one.replace(key=key, value=value) for one, key, value in parts])

    tables = {name: session.createDataFrame(list(rows[name])) for name in spec.tables if name in rows}
    return {
        sink.name: [
            _said(decoded(sink, row.asDict(recursive=True))) if sink.format == PENSTOCK else row.asDict(recursive=True)
            for row in frame.collect()
        ]
        for sink, frame in frames_of_sinks(session, spec, raw, tables)
    }


def _topic(session: "SparkSession", source: SourceSpec, messages: Sequence[Message]) -> "DataFrame":
    topic = source.options.get("subscribe", "topic")
    rows = [
        (
            _bytes(message.key),
            _bytes(message.value),
            topic,
            0,
            offset,
            datetime.fromtimestamp(message.timestamp_ms / 1000, UTC),
            CREATE_TIME,
            list(message.headers),
        )
        for offset, message in enumerate(messages)
    ]
    return session.createDataFrame(rows, READ_COLUMNS_WITH_HEADERS)


def _bytes(content: Any) -> bytes | None:
    if content is None or isinstance(content, bytes):
        return content
    return (content if isinstance(content, str) else json.dumps(content)).encode()


def _said(row: dict[str, Any]) -> dict[str, Any]:
    return {name: _plain(cell) for name, cell in row.items()}


def _plain(cell: Any) -> Any:
    if isinstance(cell, list):
        return [(one["key"], _plain(one["value"])) for one in cell]
    text = bytes(cell).decode("utf-8", "replace") if isinstance(cell, bytes | bytearray) else cell
    if not isinstance(text, str) or not text.startswith(("{", "[")):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
