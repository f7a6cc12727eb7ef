"""Tables of Delta Lake by `deltalake`: a batch is in the table as a whole, and once, for the table keeps its number."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import fs
from pyspark.sql import DataFrame

from penstock.pipeline.datasource.exactly_once import QUERY_ID
from penstock.pipeline.datasource.writer import in_chunks
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jvm import of_this_run
from penstock.pipeline.running.lake_merges import (
    ROW_NUMBER,
    condition,
    in_deltalake,
    merge_of_newest,
    merge_of_versions,
    newest,
    versions,
    with_ends,
)
from penstock.pipeline.spec.changes import END_AT, START_AT
from penstock.pipeline.spec.pipeline import ChangesSpec, SinkSpec
from penstock.protocol.value import Value

WRITTEN_FILE: Final = "path STRING, size BIGINT, rows BIGINT, parts STRING"
NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
Parts = Mapping[str, str | None]
"""The values of a file's rows in the columns by which the table is partitioned."""


class DeltaTarget(Value):
    name: str
    uri: str
    partitioned_by: tuple[str, ...]

    @classmethod
    def of(cls, sink: SinkSpec) -> DeltaTarget:
        """PipelineError for a sink that names no place, or one that replaces all rows."""
        path = sink.option("path")
        if not path:
            raise PipelineError(f"Sink {sink.name}: a table of Delta Lake needs a path, as Spark knows none here.")
        if sink.mode == "complete":
            raise PipelineError(f"Sink {sink.name}: a table of Delta Lake takes mode: append or update.")
        return cls(sink.name, path if "://" in path else str(Path(path).resolve()), tuple(sink.partitioned_by))


def append(target: DeltaTarget, batch: DataFrame, batch_id: int) -> None:
    """The tasks write files, of which none counts before the driver has committed all."""
    schema = _schema(batch.limit(0).toArrow().schema)
    table, query = _table(target, schema), _query(batch)
    if not _has(table, query, batch_id):
        files = batch.mapInArrow(_writing(target, schema), WRITTEN_FILE).collect()
        added: list[AddAction | RemoveAction] = [
            _action(one.path, one.size, one.rows, json.loads(one.parts)) for one in files
        ]
        if added:
            how = _commit(query, batch_id)
            table.create_write_transaction(
                added, "append", Schema.from_arrow(schema), list(target.partitioned_by), commit_properties=how
            )


def merge(target: DeltaTarget, changes: ChangesSpec, batch: DataFrame, batch_id: int) -> None:
    """What is to be merged goes through the driver: of each key one row, or with history its versions."""
    query = _query(batch)
    if changes.keeps_history:
        new = versions(batch, changes)
        empty = new.limit(0).toArrow().schema
        table = _table(target, _schema(empty.append(pa.field(END_AT, empty.field(START_AT).type))))
        known = _known(table, new.select(*changes.keys).distinct().toArrow(), new.columns)
        session = batch.sparkSession
        stored = session.createDataFrame(known, schema=new.schema) if known.num_rows else new.limit(0)
        rows = with_ends(new, stored, changes)
        how = merge_of_versions(changes, rows.columns, in_deltalake)
    else:
        rows = newest(batch, changes)
        how = merge_of_newest(changes, rows.columns, in_deltalake)
        table = _table(target, _schema(rows.select(*how.columns).limit(0).toArrow().schema))
    if _has(table, query, batch_id):
        return
    source = rows.toArrow()
    source = source.cast(_schema(source.schema))
    merger = table.merge(source, condition(how, in_deltalake), "s", "t", commit_properties=_commit(query, batch_id))
    if how.delete_if:
        merger = merger.when_matched_delete(how.delete_if)
    merger = merger.when_matched_update(_from_batch(how.updated), how.update_if)
    merger.when_not_matched_insert(_from_batch(how.columns), how.insert_if or None).execute()


def _from_batch(columns: Sequence[str]) -> dict[str, str]:
    return {in_deltalake(name): f"s.{in_deltalake(name)}" for name in columns}


def _known(table: DeltaTable, keys: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Rows of the table with one of these keys, or a few more; `with_ends` looks at all columns of a key."""
    by_first = pc.field(keys.column_names[0]).isin(keys.column(0))
    found = table.to_pyarrow_dataset().to_table(columns=list(columns), filter=by_first)
    if not found.num_rows:
        return found
    numbered = found.select(keys.column_names).append_column(ROW_NUMBER, pa.array(np.arange(found.num_rows)))
    wanted = numbered.join(keys, keys.column_names, join_type="left semi")  # which takes no nested columns
    return found.take(wanted.column(ROW_NUMBER))


def _query(batch: DataFrame) -> str:
    return of_this_run(batch.sparkSession, QUERY_ID) or "penstock"


def _has(table: DeltaTable, query: str, batch_id: int) -> bool:
    last = table.transaction_version(query)
    return last is not None and last >= batch_id


def _commit(query: str, batch_id: int) -> CommitProperties:
    return CommitProperties(app_transactions=[Transaction(query, batch_id)])


def _table(target: DeltaTarget, schema: pa.Schema) -> DeltaTable:
    """Made with this schema if it is not there; PipelineError for one that is another."""
    wanted = Schema.from_arrow(schema)
    if not DeltaTable.is_deltatable(target.uri):
        DeltaTable.create(target.uri, wanted, mode="ignore", partition_by=list(target.partitioned_by))
    table = DeltaTable(target.uri)
    there, given = _kinds(table.schema()), _kinds(wanted)
    parts = tuple(table.metadata().partition_columns)
    if there != given or parts != target.partitioned_by:
        raise PipelineError(
            f"Sink {target.name}: the table in {target.uri} has {_said(there, parts)}, and not "
            f"{_said(given, target.partitioned_by)}: cast by SQL, or choose another path."
        )
    return table


def _kinds(schema: Schema) -> dict[str, Any]:
    return {field["name"]: field["type"] for field in json.loads(schema.to_json())["fields"]}


def _said(kinds: Mapping[str, Any], parts: Sequence[str]) -> str:
    columns = ", ".join(f"{name} {kind if isinstance(kind, str) else kind['type']}" for name, kind in kinds.items())
    return f"{columns}{' by ' if parts else ''}{', '.join(parts)}"


def _schema(schema: pa.Schema) -> pa.Schema:
    """As Delta has it: moments in UTC, and all may be null."""
    return pa.schema([pa.field(field.name, _in_utc(field.type)) for field in schema])


def _in_utc(kind: pa.DataType) -> pa.DataType:
    return pa.timestamp("us", "UTC") if pa.types.is_timestamp(kind) and kind.tz is not None else kind


def _writing(target: DeltaTarget, schema: pa.Schema) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow`: a row for each file that it has written."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files, folder = fs.FileSystem.from_uri(target.uri)
        kept = pa.schema([field for field in schema if field.name not in target.partitioned_by])
        opened: dict[str, tuple[Parts, pq.ParquetWriter]] = {}
        rows: dict[str, int] = {}
        name = f"part-{uuid.uuid4()}.parquet"
        try:
            for chunk in in_chunks(batches):
                for parts, part in _by_parts(pa.Table.from_batches([chunk]).cast(schema), target.partitioned_by):
                    path = "/".join([*(f"{column}={_escaped(value)}" for column, value in parts.items()), name])
                    if path not in opened:
                        if isinstance(files, fs.LocalFileSystem):
                            files.create_dir(f"{folder}/{path}".rpartition("/")[0])
                        opened[path] = parts, pq.ParquetWriter(f"{folder}/{path}", kept, filesystem=files)
                    opened[path][1].write_table(part.select(kept.names))
                    rows[path] = rows.get(path, 0) + part.num_rows
        finally:
            for _, writer in opened.values():
                writer.close()
        for path, (parts, _) in opened.items():
            size = files.get_file_info(f"{folder}/{path}").size
            said = {"path": path, "size": size, "rows": rows[path], "parts": json.dumps(parts)}
            yield pa.RecordBatch.from_pylist([said])

    return write


def _by_parts(rows: pa.Table, columns: Sequence[str]) -> Iterator[tuple[Parts, pa.Table]]:
    if not columns:
        yield {}, rows
        return
    texts = rows.select(columns)
    for one in texts.group_by(list(columns)).aggregate([]).to_pylist():
        mine = None
        for column, value in one.items():
            cells = rows.column(column)
            same = pc.is_null(cells) if value is None else pc.equal(cells, pa.scalar(value, cells.type))
            mine = same if mine is None else pc.and_(mine, same)
        kinds = {column: pa.array([value], rows.schema.field(column).type) for column, value in one.items()}
        yield {column: pc.cast(cell, pa.string())[0].as_py() for column, cell in kinds.items()}, rows.filter(mine)


def _escaped(value: str | None) -> str:
    return NO_VALUE if value is None else quote(value, safe="")


def _action(path: str, size: int, rows: int, parts: Parts) -> AddAction:
    return AddAction(
        path=path,
        size=size,
        partition_values=parts,
        modification_time=int(time.time() * 1000),
        data_change=True,
        stats=json.dumps({"numRecords": rows}),
    )
