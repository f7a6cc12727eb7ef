"""What a batch of keyed rows does to a table of Delta Lake or Iceberg: one MERGE, however often it runs the same.

SCD type 1: the newest row of each key replaces an older one. Type 2: each row is a version, which ends where the next
one of its key begins; one that comes late ends the one before it, and has its own end at once.
"""

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from penstock.pipeline.spec.changes import DELETED, END_AT, POSITION, START_AT
from penstock.pipeline.spec.pipeline import ChangesSpec
from penstock.protocol.value import Value

Quote = Callable[[str], str]
"""A column's name as the engine writes it."""
ROW_NUMBER = "_penstock_row_number"


class Merge(Value):
    """Conditions are about `s`, the batch, and `t`, the table; columns are the batch's. Empty ones are always true."""

    on: tuple[str, ...]
    columns: tuple[str, ...]
    updated: tuple[str, ...]
    update_if: str
    delete_if: str = ""
    insert_if: str = ""


def newest(frame: DataFrame, changes: ChangesSpec) -> DataFrame:
    """A row of each key."""
    return _first(frame, changes.keys, sf.col(changes.sequence_by).desc())


def merge_of_newest(changes: ChangesSpec, columns: Sequence[str], quote: Quote) -> Merge:
    sequence, deleted = quote(changes.sequence_by), quote(DELETED)
    is_newer = f"(t.{sequence} IS NULL OR t.{sequence} < s.{sequence})"
    stored = tuple(name for name in columns if not (changes.removes and name == DELETED))
    updated = tuple(name for name in stored if name not in changes.keys)
    if not changes.removes:
        return Merge(changes.keys, stored, updated, is_newer)
    gone = f"s.{deleted} AND (t.{sequence} IS NULL OR t.{sequence} <= s.{sequence})"
    return Merge(changes.keys, stored, updated, f"NOT s.{deleted} AND {is_newer}", gone, f"NOT s.{deleted}")


def versions(frame: DataFrame, changes: ChangesSpec) -> DataFrame:
    """Rows as versions, without their ends."""
    begun = frame.withColumn(START_AT, sf.col(changes.sequence_by))
    return begun.drop(POSITION) if changes.sequence_by == POSITION else begun


def with_ends(new: DataFrame, known: DataFrame, changes: ChangesSpec) -> DataFrame:
    """All versions of the keys of `new`, with those that the table has."""
    by_key = Window.partitionBy(*changes.keys).orderBy(START_AT)
    both = new.unionByName(known.select(*new.columns))
    one_each = _first(both, (*changes.keys, START_AT), sf.lit(0))
    return one_each.withColumn(END_AT, sf.lead(START_AT).over(by_key))


def merge_of_versions(changes: ChangesSpec, columns: Sequence[str], quote: Quote) -> Merge:
    end = quote(END_AT)
    has_other_end = f"s.{end} IS NOT NULL AND (t.{end} IS NULL OR t.{end} <> s.{end})"
    return Merge((*changes.keys, START_AT), tuple(columns), (END_AT,), has_other_end)


def statement(table: str, source: str, merge: Merge) -> str:
    """Of Spark's SQL."""
    lines = [f"MERGE INTO {table} t USING {source} s ON {condition(merge, in_spark)}"]
    if merge.delete_if:
        lines.append(f"WHEN MATCHED AND {merge.delete_if} THEN DELETE")
    changed = ", ".join(f"t.{in_spark(name)} = s.{in_spark(name)}" for name in merge.updated)
    lines.append(f"WHEN MATCHED AND {merge.update_if} THEN UPDATE SET {changed}")
    names = ", ".join(map(in_spark, merge.columns))
    values = ", ".join(f"s.{in_spark(name)}" for name in merge.columns)
    only = f" AND {merge.insert_if}" if merge.insert_if else ""
    lines.append(f"WHEN NOT MATCHED{only} THEN INSERT ({names}) VALUES ({values})")
    return "\n".join(lines)


def condition(merge: Merge, quote: Quote) -> str:
    """By which a row of the batch and one of the table are the same."""
    return " AND ".join(f"t.{quote(name)} = s.{quote(name)}" for name in merge.on)


def in_spark(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def in_deltalake(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _first(frame: DataFrame, keys: Sequence[str], order: Column) -> DataFrame:
    numbered = frame.withColumn(ROW_NUMBER, sf.row_number().over(Window.partitionBy(*keys).orderBy(order)))
    return numbered.where(sf.col(ROW_NUMBER) == 1).drop(ROW_NUMBER)
