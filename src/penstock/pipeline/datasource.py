"""The data source `penstock` as Spark sees it: checks the options, then hands over to readers and writers.

Spark imports this in each session and worker that looks for data sources, so what is heavy is imported at first use.
"""

from collections.abc import Mapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from penstock.pipeline.errors import PipelineError, plain_errors


class PenstockDataSource(DataSource):
    """Reads from and writes to any Kafka cluster, in batches and streams."""

    def __init__(self, options: Mapping[str, str]) -> None:
        from penstock.pipeline.options import read_options

        with plain_errors():
            self._options = read_options(dict(options))

    @classmethod
    def name(cls) -> str:
        """The name in `format(…)`."""
        return "penstock"

    def schema(self) -> str:
        """The columns of a read; the same names and types as the JVM connector's."""
        from penstock.pipeline.columns import READ_COLUMNS, READ_COLUMNS_WITH_HEADERS

        with plain_errors():
            return READ_COLUMNS_WITH_HEADERS if self._options.boolean("includeHeaders", False) else READ_COLUMNS

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch read."""
        from penstock.pipeline.source_batch import PenstockBatchReader
        from penstock.pipeline.source_options import source_options

        with plain_errors():
            return PenstockBatchReader(source_options(self._options, streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """A streaming read."""
        from penstock.pipeline.source_options import source_options
        from penstock.pipeline.source_stream import PenstockStreamReader

        with plain_errors():
            return PenstockStreamReader(source_options(self._options, streaming=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A batch write; it can only append."""
        from penstock.pipeline.sink import PenstockBatchWriter, check_topic
        from penstock.pipeline.sink_options import sink_options

        with plain_errors():
            if overwrite:
                raise PipelineError('A topic cannot be overwritten; use mode("append").')
            sink = sink_options(self._options, schema)
            check_topic(sink)
            return PenstockBatchWriter(sink)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        """A streaming write in any output mode: each row becomes a record."""
        from penstock.pipeline.sink import PenstockStreamWriter, check_topic
        from penstock.pipeline.sink_options import sink_options

        with plain_errors():
            sink = sink_options(self._options, schema)
            check_topic(sink)
            return PenstockStreamWriter(sink)
