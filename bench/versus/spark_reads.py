"""Reads of one topic by Spark, the JVM connector and ours in turn, in one session; called in a process of its own."""

import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench.versus.kafka import SPARK_CONNECTOR, fetch
from bench.versus.systems import Samples
from penstock.pipeline.session import spark_session

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")
FORMATS = ("kafka", "penstock")


def reads(address: str, topic: str, records: int, pairs: int, folder: Path) -> Samples:
    """Records a second of each format, into a count and into Parquet."""
    jars = ",".join(str(jar) for jar in fetch("spark", SPARK_CONNECTOR))
    spark = spark_session("versus", master="local[2]", config={"spark.jars": jars}, log_file=folder / "spark.log")
    found = _frame(spark, "kafka", address, topic).count()
    if found != records:
        raise RuntimeError(f"the topic has {found} records, not {records}")
    rates: Samples = {name: [] for name in FORMATS}
    for number in range(pairs + 1):
        for name in FORMATS:
            table, path = _frame(spark, name, address, topic), str(folder / name)
            # A count of the bare frame would let Spark leave the records' fields out: count what has a value.
            counted = _seconds_of(table.where("value is not null").count)
            written = _seconds_of(lambda table=table, path=path: table.write.mode("overwrite").parquet(path))  # type: ignore[misc]
            if number:
                rates[name].append({"count": records / counted, "parquet": records / written})
    spark.stop()
    return rates


def _frame(spark: SparkSession, name: str, address: str, topic: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": address, "subscribe": topic}
    return spark.read.format(name).options(**options).load().select(*COLUMNS)


def _seconds_of(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
