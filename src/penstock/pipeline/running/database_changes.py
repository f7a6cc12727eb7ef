"""Changes of a database's rows, as Debezium writes them: the row as columns, and beside it what was done to it.

An envelope has `before`, `after`, `op` and `source`; JSON with its schema has it in `payload`. What deletes a row has
it as it was, of which a database may tell the key alone, or nothing: then the key is that of the record.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.spec.changes import DELETED, OP, POSITION, SOURCE_TS

DELETE: Final = "d"
OF_ROWS: Final = ("c", "r", "u", DELETE)
"""Created, read (when all rows of a table were read first), updated, deleted."""
DIGITS: Final = 20
"""Of the largest number of 64 bits: with zeros before them numbers are in order as texts."""
POSITIONS: Final = (
    ("lsn",),  # PostgreSQL
    ("file", "pos", "row"),  # MySQL, MariaDB
    ("commit_lsn", "change_lsn", "event_serial_no"),  # SQL Server, Db2
    ("scn", "ssn"),  # Oracle
    ("ts_ms",),  # whatever else: within a millisecond the order is unknown
)
"""Fields of `source` that say where in the database's own log a change is; those of the first that it has."""
TEXTS: Final = ("file", "commit_lsn", "change_lsn")
"""These are in order as they are."""


def envelope_of(columns: str) -> str:
    """As DDL, of the row's columns: with and without a schema beside it. Fields of `source` have different types in
    different databases: as texts all can be read.
    """
    source = ", ".join(f"`{name}` STRING" for fields in POSITIONS for name in fields)
    envelope = f"before STRUCT<{columns}>, after STRUCT<{columns}>, op STRING, ts_ms BIGINT, source STRUCT<{source}>"
    return f"{envelope}, payload STRUCT<{envelope}>"


def key_of(raw_key: Column, columns: str) -> Column:
    """What a record's key in JSON says of the row's columns."""
    read = sf.from_json(raw_key.cast("string"), f"{columns}, payload STRUCT<{columns}>")
    row = StructType.fromDDL(columns)
    assert isinstance(row, StructType)
    parts = (sf.coalesce(read["payload"][name], read[name]).alias(name) for name in row.names)
    return sf.struct(*parts)


class Envelope:
    """The column `value` of a frame, a struct; PipelineError where it is no envelope."""

    def __init__(self, declared: StructType, key: Column, key_columns: Sequence[str]) -> None:
        self._declared = declared
        self._key, self._key_columns = key, key_columns
        if not {"op", "after"} <= set(declared.names) or not isinstance(declared["after"].dataType, StructType):
            fields = ", ".join(declared.names)
            raise PipelineError(f"changes: its schema is no envelope of Debezium with op and after; it has {fields}.")
        self._row = declared["after"].dataType
        source = declared["source"].dataType if "source" in declared.names else None
        self._source_fields = source.names if isinstance(source, StructType) else []

    def why_not(self) -> Column:
        """The reason why a value is no change of a row; null if it is one."""
        op = self._part("op")
        no_row = op.isin(*[one for one in OF_ROWS if one != DELETE]) & self._part("after").isNull()
        return (
            sf.when(op.isNull(), sf.lit("the value is no change as Debezium writes them: it has no op"))
            .when(~op.isin(*OF_ROWS), sf.concat(sf.lit("this is no change of a row: op "), op))
            .when(no_row, sf.lit("the change has no row: after is missing"))
        )

    def row(self) -> Column:
        """The row's columns, and what was done to it."""
        return sf.struct(
            *(self._column(name).alias(name) for name in self._row.names),
            self._part("op").alias(OP),
            self._is_delete().alias(DELETED),
            self._changed_at().alias(SOURCE_TS),
            self._position().alias(POSITION),
        )

    def _is_delete(self) -> Column:
        return self._part("op") == DELETE

    def _column(self, name: str) -> Column:
        kind = self._row[name].dataType
        gone = [self._part("before")[name]] if "before" in self._declared.names else []
        gone += [self._key[name].cast(kind)] if name in self._key_columns else []
        return sf.when(self._is_delete(), sf.coalesce(*gone, sf.lit(None).cast(kind))).otherwise(
            self._part("after")[name]
        )

    def _changed_at(self) -> Column:
        is_known = "ts_ms" in self._source_fields
        return sf.timestamp_millis((self._source("ts_ms") if is_known else sf.lit(None)).cast("long"))

    def _position(self) -> Column:
        found = [_joined(known) for fields in POSITIONS if (known := self._known(fields))]
        return sf.coalesce(*found, sf.lit(None).cast("string"))

    def _known(self, fields: tuple[str, ...]) -> list[Column]:
        """As texts in their order; none if the first one is not there."""
        if fields[0] not in self._source_fields:
            return []
        texts = ((name, self._source(name).cast("string")) for name in fields if name in self._source_fields)
        return [text if name in TEXTS else sf.lpad(text, DIGITS, "0") for name, text in texts]

    def _source(self, name: str) -> Column:
        return self._part("source")[name]

    def _part(self, name: str) -> Column:
        bare = sf.col("value")[name]
        return sf.coalesce(sf.col("value")["payload"][name], bare) if "payload" in self._declared.names else bare


def _joined(parts: Sequence[Column]) -> Column:
    """Null where the first part is."""
    return sf.when(parts[0].isNotNull(), reduce(lambda before, part: sf.concat_ws("/", before, part), parts))
