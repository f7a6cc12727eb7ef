"""What a user's own program does with `format("penstock")`, in any Spark: batches and streams, read and written.

`spark_versions` runs it with other Pythons than ours, by `python`, `spark-submit` and through Spark Connect, so
it imports PySpark alone. What it finds wrong is an AssertionError; the last line it prints is JSON with seconds.
"""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession

ROWS = 20_000
MORE = 5_000


class Trial:
    def __init__(self, spark: Any, servers: str, topic: str, folder: str) -> None:
        self._spark, self._servers, self._topic, self._folder = spark, servers, topic, folder
        self.seconds: dict[str, float] = {}

    def run(self) -> None:
        with self._timed("batch sink"):
            self._write(self._topic, ROWS)
        with self._timed("batch source"):
            assert self._count(self._topic) == ROWS
        with self._timed("stream"):
            self._copy()
            assert self._count(f"{self._topic}-copy") == ROWS
        self._write(self._topic, MORE)
        with self._timed("stream again"):
            self._copy()
            assert self._count(f"{self._topic}-copy") == ROWS + MORE
        with self._timed("stream, idle"):
            self._copy()
            assert self._count(f"{self._topic}-copy") == ROWS + MORE

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        begin = time.monotonic()
        yield
        self.seconds[what] = round(time.monotonic() - begin, 1)

    def _write(self, topic: str, rows: int) -> None:
        frame = self._spark.range(rows).selectExpr("CAST(id AS STRING) AS key", "repeat('x', 100) AS value")
        frame.write.format("penstock").mode("append").options(**self._options(topic=topic)).save()

    def _count(self, topic: str) -> int:
        frame: DataFrame = self._spark.read.format("penstock").options(**self._options(subscribe=topic)).load()
        return int(frame.selectExpr("count(key) AS keys").collect()[0].keys)

    def _copy(self) -> None:
        options = self._options(subscribe=self._topic, startingOffsets="earliest")
        frame = self._spark.readStream.format("penstock").options(**options).load().select("key", "value")
        place = f"{self._folder}/{self._topic}"
        writer = frame.writeStream.format("penstock").options(**self._options(topic=f"{self._topic}-copy"))
        query = writer.option("checkpointLocation", place).trigger(availableNow=True).start()
        assert query.awaitTermination(300)
        assert query.exception() is None

    def _options(self, **options: str) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self._servers} | options


def main() -> None:
    servers, topic, folder = sys.argv[1:]
    begin = time.monotonic()
    spark: Any = SparkSession.builder.appName("trial").getOrCreate()
    trial = Trial(spark, servers, topic, folder)
    trial.seconds["session"] = round(time.monotonic() - begin, 1)
    trial.run()
    print(json.dumps({"version": spark.version, "seconds": trial.seconds}))


if __name__ == "__main__":
    main()
