"""The data source `penstock` as Spark sees it: checks the options, then hands over to readers and writers.

Spark imports this in each session and worker that looks for data sources, so what is heavy is imported at first use.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from pyspark import __version__
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from penstock.pipeline.datasource.columns import READ_COLUMN_TYPES, READ_COLUMNS, READ_COLUMNS_WITH_HEADERS
from penstock.pipeline.errors import PipelineError, plain_errors

if TYPE_CHECKING:
    from penstock.pipeline.datasource.exactly_once import ExactlyOnceWriter
    from penstock.pipeline.datasource.writer import PenstockWriter
    from penstock.pipeline.options.sink import SinkOptions

ADMISSION_CONTROL: Final = "pyspark.sql.streaming.datasource"
"""There from Spark 4.2 on."""
LIMITS: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "maxBytesPerTrigger")


class PenstockDataSource(DataSource):
    """For any Kafka cluster, in batches and streams."""

    def __init__(self, options: Mapping[str, str]) -> None:
        from penstock.pipeline.options.table import read_options

        with plain_errors():
            self._options = read_options(dict(options))

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> str:
        """The columns of a read; the same names and types as the JVM connector's.

        Spark asks when a frame is made. That is the time to tell of wrong options, but it is not known yet whether the
        frame is a stream: what is wrong for both is told here, the rest when the query starts.
        """
        from penstock.pipeline.options.source import source_options

        with plain_errors():
            try:
                source_options(self._options, streaming=False)
            except PipelineError:
                source_options(self._options, streaming=True)
            return READ_COLUMNS_WITH_HEADERS if self._options.boolean("includeHeaders", False) else READ_COLUMNS

    def reader(self, schema: StructType) -> DataSourceReader:
        from penstock.pipeline.datasource.batch_reader import PenstockBatchReader
        from penstock.pipeline.options.source import source_options

        with plain_errors():
            self._check_columns(schema)
            return PenstockBatchReader(source_options(self._options, streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Spark hides what is raised here, so a reader is returned that raises it when it is used."""
        from penstock.pipeline.datasource.stream_reader import PenstockStreamReader, RefusedStreamReader
        from penstock.pipeline.options.source import source_options

        try:
            self._check_columns(schema)
            source = source_options(self._options, streaming=True)
            if find_spec(ADMISSION_CONTROL) is None:
                self._check_without_limits()
                return PenstockStreamReader(source.replace(max_bytes_per_trigger=0))
            from penstock.pipeline.datasource.limited_reader import LimitedStreamReader

            return LimitedStreamReader(source)
        except PipelineError as error:
            return RefusedStreamReader(str(error))

    def _check_without_limits(self) -> None:
        given = [option for option in LIMITS if self._options.text(option) is not None]
        if given:
            raise PipelineError(
                f"Option {given[0]} needs Spark 4.2 or newer, and this is {__version__}: it does not tell sources "
                "where a batch begins. Leave it out, and each batch takes all that is there."
            )

    def _check_columns(self, schema: StructType) -> None:
        """PipelineError for columns of a user's own, which Spark passes instead of ours."""
        types = {field.name: field.dataType.simpleString() for field in schema.fields}
        expected = READ_COLUMN_TYPES if self._options.boolean("includeHeaders", False) else READ_COLUMN_TYPES[:-1]
        if list(types.items()) != list(expected):
            names = ", ".join(name for name, _ in expected)
            raise PipelineError(f'The columns of format("penstock") are always {names}; leave .schema(…) out.')

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """It can only append."""
        with plain_errors():
            if overwrite:
                raise PipelineError('A topic cannot be overwritten; use mode("append").')
            return self._writer(schema, is_stream=False)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        """In any output mode: each row becomes a record."""
        with plain_errors():
            return self._writer(schema, is_stream=True)

    def _writer(self, schema: StructType, *, is_stream: bool) -> "PenstockWriter | ExactlyOnceWriter":
        sink = self._sink(schema)
        if sink.is_exactly_once:
            from penstock.pipeline.datasource.exactly_once import ExactlyOnceWriter

            return ExactlyOnceWriter(sink, is_stream=is_stream)
        from penstock.pipeline.datasource.writer import PenstockWriter

        return PenstockWriter(sink)

    def _sink(self, schema: StructType) -> "SinkOptions":
        from penstock.pipeline.datasource.writer import check_topic
        from penstock.pipeline.datasource.written_columns import check_written_columns
        from penstock.pipeline.options.sink import sink_options

        check_written_columns(schema, self._options.text("topic"))
        sink = sink_options(self._options)
        check_topic(sink)
        return sink
