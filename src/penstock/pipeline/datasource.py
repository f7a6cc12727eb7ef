"""The data source `penstock` as Spark sees it: checks the options, then hands over to readers and writers.

Spark imports this in each session and worker that looks for data sources, so what is heavy is imported at first use.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
    )


class PenstockDataSource(DataSource):
    """Reads from and writes to any Kafka cluster, in batches and streams."""

    def __init__(self, options: Mapping[str, str]) -> None:
        from penstock.pipeline.errors import plain_errors
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
        from penstock.pipeline.errors import plain_errors

        with plain_errors():
            return READ_COLUMNS_WITH_HEADERS if self._options.boolean("includeHeaders", False) else READ_COLUMNS

    def reader(self, schema: StructType) -> "DataSourceReader":
        """A batch read."""
        from penstock.pipeline.errors import plain_errors
        from penstock.pipeline.source_batch import PenstockBatchReader
        from penstock.pipeline.source_options import source_options

        with plain_errors():
            return PenstockBatchReader(source_options(self._options, streaming=False))
