"""What is wrong with a pipeline, all at once: it is planned by Spark; no cluster is asked, and nothing is written."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

from penstock.pipeline.datasource.columns import READ_COLUMN_TYPES
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jvm import TextFiles, check_as_stream, file_lister
from penstock.pipeline.running.checkpoints import checkpoints_of
from penstock.pipeline.running.frames import (
    check_reads,
    dead_letters,
    frame_of_sink,
    named_sources,
    rows_of,
    sink_writer,
    stream_of,
    table_of,
)
from penstock.pipeline.running.pinned_schemas import AFTER_ALL_MS, with_pinned_schemas
from penstock.pipeline.running.settings import misspelt_settings
from penstock.pipeline.running.stored import check_partitions
from penstock.pipeline.running.views import Views
from penstock.pipeline.spec.pipeline import PENSTOCK, PipelineSpec, SinkSpec, SourceSpec
from penstock.pipeline.spec.user_code import described, plain_message


def problems_of(session: SparkSession, spec: PipelineSpec) -> list[str]:
    """One sentence per problem; parts that depend on a wrong one are not checked. What can be wrong with options was
    told when the file was read.
    """
    check = _Check(session, spec)
    with named_sources(session):
        check.sources()
        check.sinks(check.views())
    return list(dict.fromkeys((*misspelt_settings(session, spec.spark), *check.problems)))


def stored_problems(session: SparkSession, spec: PipelineSpec) -> list[str]:
    """Why the pipeline would not go on from its checkpoints, as far as this machine sees them. Nothing is written."""
    problems: list[str] = []
    for look in (
        lambda: checkpoints_of(spec, file_lister(session)),
        lambda: check_partitions(session, spec),
        lambda: with_pinned_schemas(spec, TextFiles(session), AFTER_ALL_MS, writes=False),
    ):
        try:
            look()
        except PipelineError as error:
            problems.append(str(error))
    return problems


class _Check:
    def __init__(self, session: SparkSession, spec: PipelineSpec) -> None:
        self.problems: list[str] = []
        self._session = session
        self._spec = spec
        self._raw: dict[str, DataFrame] = {}
        self._frames: dict[str, DataFrame] = {}

    def sources(self) -> None:
        for name, source in self._spec.sources.items():
            with self._noting(f"source {name}"):
                self._raw[name] = self._stream(name, source)
                self._frames[name] = rows_of(self._raw[name], source)
        for name, table in self._spec.tables.items():
            with self._noting(f"table {name}"):
                self._frames[name] = table_of(self._session, table)

    def views(self) -> Views | None:
        if len(self._frames) < len(self._spec.sources) + len(self._spec.tables):
            return None
        views, known = Views(self._session, self._spec, self._frames), len(self.problems)
        for name, step in self._spec.steps.items():
            with self._noting(f"step {name}"):
                views.add_step(name, step)
            if len(self.problems) > known:
                return None
        if all(sink.origin or sink.dead_letter_of for sink in self._spec.sinks):
            return views
        with self._noting("sql" if isinstance(self._spec.transform, str) else "the function"):
            views.query()
            return views
        return None

    def sinks(self, views: Views | None) -> None:
        """Includes whether Spark can run them as a stream."""
        for sink in self._spec.sinks:
            with self._noting(f"sink {sink.name}"):
                frame = self._frame_of(sink, views)
                if frame is not None:
                    self._check_sink(sink, frame)

    def _frame_of(self, sink: SinkSpec, views: Views | None) -> DataFrame | None:
        if sink.dead_letter_of is None:
            return None if views is None else frame_of_sink(views, sink)
        raw = self._raw.get(sink.dead_letter_of)
        return None if raw is None else dead_letters(raw, self._spec.sources[sink.dead_letter_of])

    def _check_sink(self, sink: SinkSpec, frame: DataFrame) -> None:
        sink_writer(frame, self._spec, sink, "unused")
        if not frame.isStreaming:
            raise PipelineError("what goes there is no stream: only tables are read.")
        check_reads(frame)
        check_as_stream(self._session, frame, sink.mode)

    def _stream(self, name: str, source: SourceSpec) -> DataFrame:
        """A stream with the source's columns; without rows, for a topic."""
        if source.format != PENSTOCK:
            return stream_of(self._session)(name, source)
        has_headers = source.options.get("includeHeaders", "false").lower() == "true"
        columns = READ_COLUMN_TYPES if has_headers else READ_COLUMN_TYPES[:-1]
        rate = self._session.readStream.format("rate").name(name).load()
        return rate.selectExpr(*(f"CAST(NULL AS {kind}) AS `{column}`" for column, kind in columns))

    @contextmanager
    def _noting(self, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            said = described(error, self._spec.file) or plain_message(error)
            self.problems.append(f"{what}: {said}")
