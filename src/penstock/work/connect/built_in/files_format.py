"""What a file holds: records as lines of JSON, or as rows of Parquet.

A row is the record's value where that is an object, else an object with the value in `value`; columns that begin with
`kafka_` say where it came from.
"""

import gzip
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any, Final

import pyarrow as pa
from pyarrow import parquet

from penstock.protocol.value import Value
from penstock.work.connect.api import SinkRecord
from penstock.work.connect.schemas import Schema, to_json

COLUMNS: Final = ("key", "offset", "partition", "timestamp", "topic")
UNFIT: Final = (ValueError, TypeError, OverflowError, NotImplementedError)
"""What Arrow raises for values that it cannot hold, or not beside each other."""
_TYPES: Final[Mapping[str, Any]] = {
    "boolean": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}
_MOMENTS: Final[Mapping[str, Any]] = {
    "org.apache.kafka.connect.data.Date": pa.date32(),
    "org.apache.kafka.connect.data.Time": pa.time32("ms"),
    "org.apache.kafka.connect.data.Timestamp": pa.timestamp("ms", "UTC"),
}


class FileRow(Value):
    record: SinkRecord
    cells: Mapping[str, Any]
    line: bytes
    size: int


class Format(ABC):
    """`columns` are those of COLUMNS that are wanted."""

    extension: str

    def __init__(self, columns: Sequence[str], compression: str) -> None:
        self._columns = columns
        self._compression = compression

    @abstractmethod
    def row(self, record: SinkRecord) -> FileRow:
        """ValueError."""

    def refused(self, rows: Sequence[FileRow]) -> list[tuple[FileRow, Exception]]:
        """Rows that fit into no file, and why."""
        return []

    @abstractmethod
    def encode(self, rows: Sequence[FileRow]) -> tuple[bytes, int]:
        """A file, and how many of the rows are in it: the first ones, as far as they fit into one file."""

    def _origin(self, record: SinkRecord) -> dict[str, Any]:
        all_of_them = {
            "key": record.key,
            "offset": record.offset,
            "partition": record.original.partition,
            "timestamp": record.timestamp_ms,
            "topic": record.original.topic,
        }
        return {f"kafka_{name}": all_of_them[name] for name in self._columns}


class JsonLines(Format):
    def __init__(self, columns: Sequence[str], compression: str) -> None:
        super().__init__(columns, compression)
        self.extension = ".json.gz" if compression == "gzip" else ".json"

    def row(self, record: SinkRecord) -> FileRow:
        value = to_json(record.value, record.value_schema)
        origin = to_json(self._origin(record), None)
        cells = {**(value if isinstance(value, dict) else {"value": value}), **origin}
        line = json.dumps(cells, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        return FileRow(record, {}, line, len(line))

    def encode(self, rows: Sequence[FileRow]) -> tuple[bytes, int]:
        """All of them fit."""
        data = b"".join(row.line for row in rows)
        return gzip.compress(data, mtime=0) if self._compression == "gzip" else data, len(rows)


class Parquet(Format):
    """Columns by the records' schemas, or by what the values are where they have none."""

    extension = ".parquet"

    def row(self, record: SinkRecord) -> FileRow:
        value = record.value
        return FileRow(record, value if isinstance(value, Mapping) else {"value": value}, b"", len(repr(value)))

    def refused(self, rows: Sequence[FileRow]) -> list[tuple[FileRow, Exception]]:
        try:
            self._table(rows)
            return []
        except UNFIT:
            found = [(row, self._error_of(row)) for row in rows]
            return [(row, error) for row, error in found if error is not None]

    def _error_of(self, row: FileRow) -> Exception | None:
        try:
            self._table([row])
            return None
        except UNFIT as error:
            return ValueError(f"Parquet cannot hold {row.cells!r}: {error}")

    def encode(self, rows: Sequence[FileRow]) -> tuple[bytes, int]:
        """A row whose columns are of other types begins another file; UNFIT if the first fits into none."""
        try:
            return self._encode(rows), len(rows)
        except UNFIT:
            if len(rows) == 1:
                raise
        fits, too_many = 0, len(rows)
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            try:
                self._table(rows[:middle])
                fits = middle
            except UNFIT:
                too_many = middle
        return self.encode(rows[: max(fits, 1)])

    def _encode(self, rows: Sequence[FileRow]) -> bytes:
        sink = BytesIO()
        parquet.write_table(self._table(rows), sink, compression=self._compression)
        return sink.getvalue()

    def _table(self, rows: Sequence[FileRow]) -> Any:
        cells = pa.array([row.cells for row in rows], type=_type_of(rows))
        _check_children(cells.type)
        table = pa.Table.from_struct_array(cells)
        origins = [self._origin(row.record) for row in rows]
        for name in origins[0]:
            table = table.append_column(name, pa.array([origin[name] for origin in origins]))
        return table


def _type_of(rows: Sequence[FileRow]) -> Any:
    """The type that fits the schemas of all rows; None if one of them has none."""
    schemas: list[Schema] = []
    for row in rows:
        schema = row.record.value_schema
        if schema is None:
            return None
        if not schemas or schema != schemas[-1]:
            schemas.append(schema)
    types = [_arrow_type(schema) for schema in schemas]
    as_columns = [one if pa.types.is_struct(one) else pa.struct([("value", one)]) for one in types]
    merged = pa.unify_schemas([pa.schema(list(one)) for one in as_columns], promote_options="permissive")
    return pa.struct(list(merged))


def _arrow_type(schema: Schema) -> Any:
    kind = schema.get("type")
    if kind == "struct":
        return pa.struct([(field["field"], _arrow_type(field)) for field in schema.get("fields", ())])
    if kind == "array":
        return pa.list_(_arrow_type(schema.get("items") or {}))
    if kind == "map":
        return pa.map_(_arrow_type(schema.get("keys") or {}), _arrow_type(schema.get("values") or {}))
    if kind in ("int32", "int64") and schema.get("name") in _MOMENTS:
        return _MOMENTS[str(schema["name"])]
    found = _TYPES.get(str(kind))
    if found is None:
        raise ValueError(f"there is no column of type {kind}")
    return found


def _check_children(kind: Any) -> None:
    """Parquet has no struct without fields; ValueError."""
    children = [kind.field(number) for number in range(kind.num_fields)]
    if pa.types.is_struct(kind) and not children:
        raise ValueError("an object without fields")
    for child in children:
        _check_children(child.type)
