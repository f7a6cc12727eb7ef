"""Changes of a database's rows: the columns that a source of changes has, and what a sink with keys does with them.

The words of a sink are those of Spark's AUTO CDC.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from penstock.pipeline.options.table import known_name
from penstock.pipeline.options.values import nearest
from penstock.pipeline.spec.notes import Notes
from penstock.pipeline.spec.pipeline import DELTA, ICEBERG, SQL, ChangesSpec, PipelineSpec, SinkSpec, SqlText
from penstock.pipeline.spec.places import Way
from penstock.protocol.value import Value

DEBEZIUM: Final = "debezium"
OP: Final = "__op"
DELETED: Final = "__deleted"
SOURCE_TS: Final = "__source_ts"
POSITION: Final = "__position"
START_AT: Final = "__START_AT"
END_AT: Final = "__END_AT"
"""Between which positions a version of a row counts; of the last one the end is null."""

WITH_KEYS: Final = (SQL, DELTA, ICEBERG)
"""The formats of sinks that change rows by their keys."""
OF_CHANGES: Final = ("keys", "sequence_by", "apply_as_deletes", "deletes", "stored_as_scd_type")
CUT: Final = ("minPartitions", "maxRecordsPerPartition")
"""Options by which several tasks read what one partition has for a batch."""
MARK, REMOVE = DELETES = ("mark", "remove")


class TableTarget(Value):
    """`name` is the sink's. A row counts if its `sequence` is larger than that of its `keys`; or each is a version."""

    name: str
    url: str
    table: str
    keys: tuple[str, ...]
    sequence: str
    removes: bool
    keeps_history: bool = False

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns of which no two rows have the same values."""
        return (*self.keys, self.sequence) if self.keeps_history else self.keys


def take_source_changes(notes: Notes, options: dict[str, str], way: Way, *, has_values: bool) -> bool:
    """Whether the values of a source are changes; `has_values`: it is said what they are."""
    changes = options.pop("changes", None)
    if changes is None:
        return False
    if changes != DEBEZIUM:
        notes.note(f"changes: {changes} must be {DEBEZIUM}.{nearest(changes.lower(), [DEBEZIUM])}", *way, "changes")
    if not has_values:
        what = "json (the columns of the table), or avro, protobuf or json_schema (of the whole envelope)"
        notes.note(f"changes: {changes} needs {what}.", *way, "changes")
    return True


def take_changes(notes: Notes, options: dict[str, str], kind: str, way: Way) -> ChangesSpec | None:
    """What a sink does by keys; None where it only adds rows."""
    given: dict[str, str] = {name: options.pop(name) for name in OF_CHANGES if name in options}
    if not given and kind != SQL:
        return None
    if kind not in WITH_KEYS:
        notes.note(
            f"{next(iter(given))} is for sinks of {', '.join(WITH_KEYS)}, not for {kind}.", *way, next(iter(given))
        )
        return None
    keys = _names(given.get("keys", ""))
    if not keys:
        notes.note("it needs keys, the columns by which a row is found again.", *way)
    removes, keeps_history = _kinds(notes, given, way)
    if kind == SQL:
        for option in ("connection.url", "table"):
            if option not in options:
                notes.note(f"format: {SQL} needs {option}.", *way)
    condition = given.get("apply_as_deletes")
    return ChangesSpec(
        keys=keys,
        sequence_by=given.get("sequence_by", POSITION),
        apply_as_deletes=None
        if condition is None
        else SqlText(condition, notes.places.of_text((*way, "apply_as_deletes"))),
        removes=removes,
        keeps_history=keeps_history,
    )


def order_problems(spec: PipelineSpec, sinks: Sequence[tuple[SinkSpec, Way]]) -> Iterator[tuple[Way, str]]:
    """Where a sink that removes rows may get an earlier change of one after the deletion: it would bring it back."""
    for sink, way in sinks:
        if sink.format != SQL or sink.changes is None or not sink.changes.removes:
            continue
        for name, source in spec.sources.items():
            for option in source.options:
                if known_name(option) in CUT:
                    yield (
                        (*way, "deletes"),
                        f"deletes: {REMOVE} needs the changes of a row in their order, and with {option} of {name} "
                        f"several tasks read a partition: leave it out, or say deletes: {MARK}.",
                    )


def _kinds(notes: Notes, given: Mapping[str, str], way: Way) -> tuple[bool, bool]:
    """Whether deleted rows are removed, and whether all versions are kept."""
    deletes, scd_type = given.get("deletes", MARK), given.get("stored_as_scd_type", "1")
    if deletes not in DELETES:
        notes.note(f"deletes: {deletes} must be {' or '.join(DELETES)}.{nearest(deletes, DELETES)}", *way, "deletes")
    if scd_type not in ("1", "2"):
        notes.note(f"stored_as_scd_type: {scd_type} must be 1 or 2.", *way, "stored_as_scd_type")
    if scd_type == "2" and deletes == REMOVE:
        notes.note("deletes: remove is not for stored_as_scd_type: 2, which keeps all versions.", *way, "deletes")
    return deletes == REMOVE, scd_type == "2"


def _names(text: str) -> tuple[str, ...]:
    """Of a list, or with commas between."""
    names = json.loads(text) if text.startswith("[") else text.split(",")
    return tuple(str(name).strip() for name in names if str(name).strip())
