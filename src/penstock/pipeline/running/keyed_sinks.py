"""Rows that replace those of their keys: what a sink with `keys` gets, and a table of a database that has them."""

from functools import reduce
from importlib.util import find_spec
from operator import and_
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from penstock.pipeline.datasource.writer import WRITTEN
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jvm import JOIN, SUBQUERY, moved_by
from penstock.pipeline.running.lake_merges import versions
from penstock.pipeline.running.rules import failure
from penstock.pipeline.running.views import planned
from penstock.pipeline.spec.changes import DELETED, OP, SOURCE_TS, START_AT, TableTarget
from penstock.pipeline.spec.pipeline import SQL, ChangesSpec, SinkSpec

BROADCAST: Final = "join a table as broadcast(table), in SQL with /*+ BROADCAST(table) */, "


def keyed_rows(frame: DataFrame, sink: SinkSpec, changes: ChangesSpec) -> DataFrame:
    """With whether it is deleted in a column, and without what was said of the change itself."""
    needed = (*changes.keys, changes.sequence_by)
    for column in needed:
        if column not in frame.columns:
            there = ", ".join(frame.columns)
            raise PipelineError(f"Sink {sink.name}: there is no column {column} to find rows by; there are {there}.")
    if changes.apply_as_deletes is not None:
        planned(changes.apply_as_deletes, frame.where)
        is_deleted = sf.expr(changes.apply_as_deletes.text)
    else:
        is_deleted = sf.col(DELETED) if DELETED in frame.columns else sf.lit(False)
    moved = moved_by(frame) if sink.format == SQL and changes.removes else []
    if moved:
        cure = BROADCAST if moved[0] in (JOIN, SUBQUERY) else ""
        raise PipelineError(
            f"Sink {sink.name}: deletes: remove needs the changes of a row in their order, and its query has a "
            f"{moved[0]}, which hands rows from task to task: leave it out, {cure}or say deletes: mark."
        )
    has_all = reduce(and_, (sf.col(name).isNotNull() for name in needed))
    missing = failure(sink, f"a row has no {' or no '.join(needed)} (bad values go to a source's dead_letter)")
    frame = frame.where(sf.when(has_all, sf.lit(True)).otherwise(missing))
    return frame.withColumn(DELETED, sf.coalesce(is_deleted, sf.lit(False))).drop(OP, SOURCE_TS)


def stored_rows(frame: DataFrame, sink: SinkSpec) -> DataFrame:
    """A row without content for each that the database has taken; the tasks that make rows store them."""
    target = _target(sink)
    from penstock.pipeline.running.database_tables import storing

    return _rows(frame, sink).mapInArrow(storing(target), f"{WRITTEN} BOOLEAN")


def check_table(sink: SinkSpec, frame: DataFrame) -> None:
    """The table is there with the frame's columns, or is made (`auto.create`); PipelineError."""
    target = _target(sink)
    from penstock.pipeline.running.database_tables import ready

    columns = {field.name: field.dataType.simpleString() for field in _rows(frame, sink).schema.fields}
    ready(target, columns, may_create=(sink.option("auto.create") or "").lower() == "true")


def _rows(frame: DataFrame, sink: SinkSpec) -> DataFrame:
    assert sink.changes is not None
    return versions(frame, sink.changes) if sink.changes.keeps_history else frame


def _target(sink: SinkSpec) -> TableTarget:
    if find_spec("sqlalchemy") is None:
        how = "pip install 'penstock[work]', and the driver of the database"
        raise PipelineError(f"Sink {sink.name}: format: {SQL} needs SQLAlchemy; install it with: {how}")
    assert sink.changes is not None
    url, table = sink.option("connection.url") or "", sink.option("table") or ""
    keeps_history = sink.changes.keeps_history
    sequence = START_AT if keeps_history else sink.changes.sequence_by
    return TableTarget(sink.name, url, table, sink.changes.keys, sequence, sink.changes.removes, keeps_history)
