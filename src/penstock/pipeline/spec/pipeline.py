"""What a pipeline is: sources, a transformation, one or more sinks, when to run, where to remember how far it came.

| part       | in YAML                                       | in Python                                         |
| ---------- | --------------------------------------------- | ------------------------------------------------- |
| name       | `name: delays` (or the file's name)           | `NAME = "delays"`                                 |
| source     | `source:` options of `format("penstock")`     | `SOURCE = {…}`                                    |
| sources    | `sources:` a table of such by their names     | `SOURCES = {"clicks": {…}, "views": {…}}`         |
| tables     | `tables:` what rows are looked up in          | `TABLES = {"users": {"format": "csv", …}}`        |
| steps      | `steps:` SQL or a function by their names     | `STEPS = {"late": "SELECT … FROM source"}`        |
| transform  | `sql: SELECT … FROM source`                   | `def pipeline(source: DataFrame) -> DataFrame`    |
| sink       | `sink:` options, or a list of such            | `SINK = {…}` or `[{…}, {…}]`                      |
| trigger    | `trigger: 5 seconds`, `available-now`, …      | `TRIGGER = "5 seconds"`                           |
| checkpoint | `checkpoint: ./checkpoints/delays`            | `CHECKPOINT = "./checkpoints/delays"`             |
| spark      | `spark:` settings of the session              | `SPARK = {…}`                                     |

Besides options a source knows `format` (penstock), `json` (the fields of the values, as DDL), `json_schema`, `avro` or
`protobuf` (with `message`), of which the last three know `schema.registry.url`, `subject` and `basic.auth.user.info`;
`changes` (debezium), `watermark` ("column, delay") and `dead_letter` (the topic for values that are none); a sink knows
`name` (else its topic, its table, or the last part of its path), `format` (penstock, or foreachBatch with `function`),
`mode` (append, update, complete), `key` (the column that is the key), `delivery` (at-least-once, exactly-once),
`partitionBy` (columns whose values are directories), and `keys` with what goes with them (`spec/changes.py`). Sources
and tables are views in SQL, and arguments of the function by their names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.options.sink import DELIVERY, EXACTLY_ONCE
from penstock.pipeline.options.table import known_name
from penstock.pipeline.spec.places import TextPlace
from penstock.pipeline.values.kinds import TypedValues
from penstock.protocol.value import Value, fresh

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PENSTOCK = "penstock"
KAFKA = "kafka"
"""The format of Spark's own connector."""
FOREACH_BATCH = "foreachBatch"
"""The format of a sink whose `function` (module:function) gets each batch, with its number."""
SQL = "sql"
"""The format of a sink that is a table of a database, by SQLAlchemy."""
DELTA, ICEBERG = "delta", "iceberg"
BOOTSTRAP = "bootstrap.servers"
SOURCE = "source"
"""The name of a source that is the only one."""
MODES = ("append", "update", "complete")
WARN, DROP, DEAD_LETTER, FAIL = ON_FAIL = ("warn", "drop", "dead_letter", "fail")
"""What becomes of a row that breaks a rule; in each case it is counted."""
AVAILABLE_NOW, ONCE, REAL_TIME = "available-now", "once", "real-time"
ASYNC = "asyncProgressTrackingEnabled"
OF_THE_QUERY = (ASYNC, "asyncProgressTrackingCheckpointIntervalMs")
"""Options of Spark's for any sink, which `format("penstock")` itself does not know."""
CHECKPOINTS = Path("penstock-checkpoints")

Transform = Callable[..., "DataFrame"]


class SourceSpec(Value):
    options: Mapping[str, str]
    format: str = PENSTOCK
    json: str | None = None
    typed: TypedValues | None = None
    typed_key: TypedValues | None = None
    watermark: tuple[str, str] | None = None
    dead_letter: str | None = None
    is_changes: bool = False
    """Whether its values are changes of a database's rows, as Debezium writes them."""

    @property
    def topics(self) -> list[str]:
        """Those that it names; by a pattern it names none."""
        if self.format not in (PENSTOCK, KAFKA):
            return []
        given = {name.lower(): value for name, value in self.options.items()}
        named = [topic.strip() for topic in given.get("subscribe", "").split(",") if topic.strip()]
        with suppress(ValueError, AttributeError):  # what is wrong is told when it is read
            named += json.loads(given.get("assign", "{}")).keys()
        return named


class TableSpec(Value):
    """For look-ups: read anew for each batch of a query."""

    options: Mapping[str, str]
    format: str


class SqlText(Value):
    text: str
    place: TextPlace | None = None


class StepSpec(Value):
    """A view of `sql` about the views before it, or what a `function` (module:function) makes of those in `inputs`."""

    sql: SqlText | None = None
    function: str = ""
    inputs: tuple[str, ...] = ()


class RuleSpec(Value):
    """What each row of a sink is expected to be; null is not."""

    name: str
    condition: SqlText
    on_fail: str


class ChangesSpec(Value):
    """A row is found by its `keys`, and counts if it has a larger `sequence_by` than what is known of them.

    A row for which `apply_as_deletes` is true deletes the row of its keys, which is marked, or is gone if it `removes`
    them. With `keeps_history` (SCD type 2) each row is a version, with where it begins and ends.
    """

    keys: tuple[str, ...]
    sequence_by: str
    apply_as_deletes: SqlText | None = None
    removes: bool = False
    keeps_history: bool = False


class SinkSpec(Value):
    """It gets the rows of the view `origin`, else those of the query, as far as they are `where`, by its rules.

    A sink with `dead_letter_of` gets that source's bad values; one with `broken_of` the rows that break rules of that
    sink, which are its own as well.
    """

    options: Mapping[str, str]
    format: str = PENSTOCK
    mode: str = "append"
    key: str | None = None
    typed: TypedValues | None = None
    typed_key: TypedValues | None = None
    dead_letter_of: str | None = None
    origin: str | None = None
    where: SqlText | None = None
    expect: tuple[RuleSpec, ...] = ()
    dead_letter: str | None = None
    broken_of: str | None = None
    title: str | None = None
    of_query: Mapping[str, str] = fresh(dict)
    """Options of Spark's, which the format does not know."""
    changes: ChangesSpec | None = None
    """None where rows are only added."""

    @property
    def name(self) -> str:
        """What it says itself, else the topic, the table, the last part of the path, or the format."""
        known = self.title or self.options.get("topic") or self.options.get("table")
        return known or Path(self.options.get("path", self.format)).name

    @property
    def is_async(self) -> bool:
        """Whether Spark writes down how far it came beside the batches, not between them."""
        return self.of_query.get(ASYNC, "").lower() == "true"

    @property
    def is_exactly_once(self) -> bool:
        """Of a topic: whether what runs again is not written again."""
        return self.format == PENSTOCK and (self.option(DELIVERY) or "").lower() == EXACTLY_ONCE

    @property
    def partitioned_by(self) -> list[str]:
        """The columns whose values are directories."""
        return [column.strip() for column in (self.option("partitionBy") or "").split(",") if column.strip()]

    @property
    def topic(self) -> str | None:
        """None where it writes elsewhere, or rows say where they go."""
        return self.option("topic") if self.format in (PENSTOCK, KAFKA) else None

    def option(self, name: str) -> str | None:
        """Without regard to case; an option of `format("penstock")` may have a prefix, too."""
        own = known_name if self.format == PENSTOCK else str
        return next((value for key, value in self.options.items() if (own(key) or key).lower() == name.lower()), None)


class PipelineSpec(Value):
    """`transform` is SQL about the views, or a function; None passes the rows of the source on.

    `file` is the Python file of the function. `chosen` are the names of the sinks that run.
    """

    name: str
    sources: Mapping[str, SourceSpec]
    sinks: tuple[SinkSpec, ...]
    transform: str | Transform | None = None
    tables: Mapping[str, TableSpec] = fresh(dict)
    steps: Mapping[str, StepSpec] = fresh(dict)
    trigger: str | None = None
    checkpoint: str = ""
    spark: Mapping[str, str] = fresh(dict)
    file: Path | None = None
    sql_place: TextPlace | None = None
    chosen: tuple[str, ...] = ()

    def with_bootstrap_servers(self, servers: str) -> PipelineSpec:
        def moved(options: Mapping[str, str]) -> dict[str, str]:
            return {name: value for name, value in options.items() if not is_bootstrap(name)} | {BOOTSTRAP: servers}

        return self.replace(
            sources={
                name: source.replace(options=moved(source.options)) if source.format == PENSTOCK else source
                for name, source in self.sources.items()
            },
            sinks=tuple(
                sink.replace(options=moved(sink.options)) if sink.format == PENSTOCK else sink for sink in self.sinks
            ),
        )

    def only(self, sinks: Collection[str]) -> PipelineSpec:
        """The pipeline with these sinks only; PipelineError if there is no such sink."""
        names = [sink.name for sink in self.sinks]
        for sink in sinks:
            if sink not in names:
                raise PipelineError(f"Pipeline {self.name} has no sink {sink}; its sinks are {', '.join(names)}.")
        return self.replace(chosen=tuple(sinks))

    @property
    def running(self) -> tuple[SinkSpec, ...]:
        return tuple(sink for sink in self.sinks if not self.chosen or sink.name in self.chosen)

    def query_name(self, sink: SinkSpec) -> str:
        return f"{self.name}: {sink.name}"

    @property
    def checkpoint_root(self) -> str:
        return (self.checkpoint or str(CHECKPOINTS / self.name)).rstrip("/")

    def checkpoint_of(self, sink: SinkSpec) -> str:
        """Each sink is a query with a checkpoint of its own, at the same place whatever other sinks there are."""
        return sink.option("checkpointLocation") or f"{self.checkpoint_root}/{sink.name}"


def is_bootstrap(option: str) -> bool:
    return option.lower().removeprefix("kafka.") == BOOTSTRAP
