"""Two versions of a pipeline over the same records: which rows come out otherwise, and how long each takes.

Both run as a batch over the offsets that were there when the trial began, into a folder of its own. Neither what they
write to nor their checkpoints are touched. As all records are one batch, what only a stream has (triggers, output
modes, watermarks, state of before) has no effect; where the two differ in it that is told.
"""

import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType

from penstock.pipeline.datasource.stream_position import StreamPosition, to_json
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jvm import TextFiles
from penstock.pipeline.running.backfill import read_options_of
from penstock.pipeline.running.frames import frames_of_sinks
from penstock.pipeline.running.pinned_schemas import with_pinned_schemas
from penstock.pipeline.running.run import in_a_sentence
from penstock.pipeline.running.stored import position_of
from penstock.pipeline.spec.pipeline import PENSTOCK, PipelineSpec, SourceSpec, is_bootstrap
from penstock.protocol.value import Value

SAMPLES: Final = 10
ROW, OLD, NEW, MORE = "row", "old", "new", "more"
"""Columns of what is compared: a row as text, and how often it is there."""

Told = Callable[[str, str], None]
"""Gets the name of a sink and whether it is "old" or "new", before its rows are made."""


class SinkTrial(Value):
    """What came out for a sink: rows with the same columns are compared as text, each as often as it is there.

    `old_rows` is None where the old pipeline has no such sink, `new_rows` where the new one has none.
    """

    sink: str
    old_rows: int | None = None
    new_rows: int | None = None
    gone: int = 0
    come: int = 0
    samples: tuple[str, ...] = ()
    """Rows, in JSON, that are gone (`- `) or have come (`+ `): the first of each in their order."""
    columns: tuple[str, ...] = ()
    """What is otherwise about its columns; these are left out where rows are compared."""
    old_s: float | None = None
    new_s: float | None = None

    @property
    def is_same(self) -> bool:
        return None not in (self.old_rows, self.new_rows) and not (self.gone or self.come or self.columns)


class Trial(Value):
    """`records` are those that the sources of the new pipeline read, by their names."""

    records: Mapping[str, int]
    sinks: tuple[SinkTrial, ...]
    untried: tuple[str, ...]
    """In what else the two differ, which a batch does not show."""

    @property
    def is_same(self) -> bool:
        return all(sink.is_same for sink in self.sinks)


def try_pipeline(
    old: PipelineSpec,
    new: PipelineSpec,
    starting: Mapping[str, str],
    *,
    session: SparkSession,
    samples: int = SAMPLES,
    told: Told = lambda sink, which: None,
) -> Trial:
    """Compare what `new` makes of the records from `starting` (options of a source) up to now with what `old` does.

    At most `samples` rows that are gone, and as many that have come, are shown of a sink. PipelineError says in a
    sentence what is wrong with either.
    """
    master = str(session.conf.get("spark.master", ""))
    if not master.startswith("local"):
        raise PipelineError(f"A trial runs on this machine, where it compares what came out: master is {master}.")
    ranges = _Ranges(session, starting)
    with tempfile.TemporaryDirectory(prefix="penstock-trial-", ignore_cleanup_errors=True) as folder:
        made = []
        for which, spec in (("old", old), ("new", new)):
            with in_a_sentence(spec.file):
                made.append(_Side(session, spec, ranges, Path(folder) / which))
        before, after = made
        before.warm_up()
        shared = [name for name in before.frames if name in after.frames]
        columns = {name: _same_columns(before.frames[name], after.frames[name]) for name in shared}
        for which, side in (("old", before), ("new", after)):
            for name in side.frames:
                told(name, which)
                with in_a_sentence(side.spec.file):
                    side.make(name, columns.get(name))
        names = dict.fromkeys((*after.frames, *before.frames))
        sinks = tuple(_compared(name, before, after, samples) for name in names)
    return Trial(after.records, sinks, tuple(_untried(old, new)))


class _Ranges:
    """From where to where topics are read: the same for all sources of both pipelines, however each of them reads."""

    def __init__(self, session: SparkSession, starting: Mapping[str, str]) -> None:
        self._session = session
        self._starting = {"startingOffsetsByTimestampStrategy": "latest", **starting}
        self._known: dict[frozenset[tuple[str, str]], tuple[StreamPosition, StreamPosition]] = {}
        self._first: dict[tuple[str, str, int], tuple[int, int]] = {}
        """Of each partition of a cluster: from where to where it was to be read when it was looked at first."""

    def of(self, options: Mapping[str, str]) -> tuple[StreamPosition, StreamPosition]:
        key = frozenset(options.items())
        if key not in self._known:
            self._known[key] = self._look(options)
        return self._known[key]

    def _look(self, options: Mapping[str, str]) -> tuple[StreamPosition, StreamPosition]:
        servers = ",".join(value for name, value in options.items() if is_bootstrap(name))
        ends = position_of(options, {"startingOffsets": "latest"}).offsets
        begins, until = {}, {}
        for partition, at in position_of(options, self._starting).offsets.items():
            end = max(ends.get(partition, 0), at)
            begin, first_end = self._first.setdefault((servers, *partition), (at, end))
            begins[partition] = begin
            until[partition] = max(min(first_end, end), begin)  # not all read up to the same: what is not committed
        return StreamPosition(begins), StreamPosition(until)

    def read(self, options: Mapping[str, str]) -> DataFrame:
        begin, end = self.of(options)
        given = {"startingOffsets": _text(begin), "endingOffsets": _text(end)}
        return self._session.read.format(PENSTOCK).options(**options, **given).load()


def _text(position: StreamPosition) -> str:
    return json.dumps(to_json(StreamPosition(position.offsets)))


class _Side:
    """One of the two pipelines: the frame of each of its sinks, and what came of it."""

    def __init__(self, session: SparkSession, spec: PipelineSpec, ranges: _Ranges, folder: Path) -> None:
        self._session, self._ranges, self._folder = session, ranges, folder
        self.spec = with_pinned_schemas(spec, TextFiles(session), writes=False)
        self.records: dict[str, int] = {}
        self.frames = {sink.name: frame for sink, frame in frames_of_sinks(session, self.spec, self._raw)}
        self.seconds: dict[str, float] = {}

    def _raw(self, name: str, source: SourceSpec) -> DataFrame:
        if source.format != PENSTOCK:
            raise PipelineError(
                f"Source {name} is of the format {source.format}: only topics keep what came before, to be tried with."
            )
        options = read_options_of(source)
        begin, end = self._ranges.of(options)
        self.records[name] = sum(end.offsets[it] - at for it, at in begin.offsets.items())
        return self._ranges.read(options)

    def warm_up(self) -> None:
        """Let Spark and its workers begin, before anything is timed."""
        for frame in list(self.frames.values())[:1]:
            _text_rows(frame.limit(1), frame.columns).write.parquet(str(self._folder / "warm"))

    def make(self, name: str, columns: Sequence[str] | None) -> None:
        """Write the rows of a sink as text, with these columns or all."""
        frame = self.frames[name]
        rows = _text_rows(frame, frame.columns if columns is None else columns)
        begun_s = time.monotonic()
        rows.write.parquet(self._place(name))
        self.seconds[name] = round(time.monotonic() - begun_s, 3)

    def rows(self, name: str) -> DataFrame:
        return self._session.read.schema(f"{ROW} STRING").parquet(self._place(name))

    def _place(self, name: str) -> str:
        return str(self._folder / str(list(self.frames).index(name)))


def _text_rows(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    shown = [_shown(frame, column) for column in columns]
    text = sf.to_json(sf.struct(*shown), {"ignoreNullFields": "false"}) if shown else sf.lit("{}")
    return frame.select(text.alias(ROW))


def _shown(frame: DataFrame, name: str) -> Column:
    """Bytes that are text as such: JSON has them in Base64."""
    column = frame[f"`{name}`"]
    if isinstance(frame.schema[name].dataType, BinaryType):
        text = column.cast("string")
        column = sf.when(sf.is_valid_utf8(text), text).otherwise(sf.base64(column))
    return column.alias(name)


def _same_columns(old: DataFrame, new: DataFrame) -> list[str]:
    """Those that both have, of the same type, in the order of the new ones."""
    before = _types(old)
    return [name for name, kind in _types(new).items() if before.get(name) == kind]


def _types(frame: DataFrame) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in frame.schema}


def _other_columns(old: DataFrame, new: DataFrame) -> list[str]:
    before, after = _types(old), _types(new)
    told = [f"column {name} is new: {kind}" for name, kind in after.items() if name not in before]
    told += [f"column {name} is gone: {kind}" for name, kind in before.items() if name not in after]
    both = ((name, before[name], kind) for name, kind in after.items() if name in before)
    return told + [f"column {name}: {kind} was {past}" for name, past, kind in both if past != kind]


def _compared(name: str, old: _Side, new: _Side, samples: int) -> SinkTrial:
    if name not in new.frames:
        return SinkTrial(name, old_rows=old.rows(name).count(), old_s=old.seconds[name])
    if name not in old.frames:
        return SinkTrial(name, new_rows=new.rows(name).count(), new_s=new.seconds[name])
    before = old.rows(name).groupBy(ROW).agg(sf.count("*").alias(OLD))
    after = new.rows(name).groupBy(ROW).agg(sf.count("*").alias(NEW))
    more = sf.col(NEW) - sf.col(OLD)
    both = before.join(after, ROW, "full").na.fill(0, [OLD, NEW]).withColumn(MORE, more).persist()
    try:
        none = sf.lit(0)
        counted = (sf.col(OLD), sf.col(NEW), sf.greatest(-sf.col(MORE), none), sf.greatest(sf.col(MORE), none))
        (totals,) = both.agg(*(sf.coalesce(sf.sum(one), none) for one in counted)).collect()
        differing = {"-": both.where(sf.col(MORE) < 0), "+": both.where(sf.col(MORE) > 0)}
        shown = [
            f"{sign} {row[ROW]}"
            for sign, rows in differing.items()
            for row in rows.orderBy(ROW).limit(samples).collect()
        ]
    finally:
        both.unpersist()
    old_rows, new_rows, gone, come = totals
    return SinkTrial(
        name,
        old_rows=old_rows,
        new_rows=new_rows,
        gone=gone,
        come=come,
        samples=tuple(shown),
        columns=tuple(_other_columns(old.frames[name], new.frames[name])),
        old_s=old.seconds[name],
        new_s=new.seconds[name],
    )


def _untried(old: PipelineSpec, new: PipelineSpec) -> list[str]:
    """What the two say otherwise and a batch cannot tell apart; of options only their names, as they may be secret."""
    told = [] if old.trigger == new.trigger else [f"trigger: {new.trigger} was {old.trigger}"]
    for name in old.sources.keys() & new.sources.keys():
        past, now = old.sources[name].watermark, new.sources[name].watermark
        if past != now:
            told.append(f"source {name}: watermark {_words(now)} was {_words(past)}")
    sinks = {sink.name: sink for sink in old.sinks}
    for sink in new.sinks:
        before = sinks.get(sink.name)
        if before is None:
            continue
        if before.mode != sink.mode:
            told.append(f"sink {sink.name}: mode {sink.mode} was {before.mode}")
        changed = {key for key, _ in before.options.items() ^ sink.options.items()}
        told += [f"sink {sink.name}: {key} is another one" for key in sorted(changed)]
    settings = {key for key, _ in old.spark.items() ^ new.spark.items()}
    return told + [f"spark: {key} is another one, and both ran with that of the new file" for key in sorted(settings)]


def _words(watermark: tuple[str, str] | None) -> str:
    return "none" if watermark is None else ", ".join(watermark)
