"""Reads of one topic by Spark, the JVM connector and ours in turn, in one session; a process of its own."""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench.child import answer
from bench.versus.kafka import SPARK_CONNECTOR
from bench.versus.maven import fetch
from penstock.pipeline.session import spark_session

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")
FORMATS = ("kafka", "penstock")
Result = dict[str, dict[str, list[float]]]


def frame(spark: SparkSession, name: str, address: str, topic: str) -> DataFrame:
    """The topic as a table."""
    options = {"kafka.bootstrap.servers": address, "subscribe": topic}
    return spark.read.format(name).options(**options).load().select(*COLUMNS)


def seconds_of(work: Callable[[], object]) -> float:
    """How long it took."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def reads(spark: SparkSession, address: str, topic: str, records: int, pairs: int, folder: Path) -> Result:
    """Records a second of each format, into a count and into Parquet."""
    rates: Result = {name: {"count": [], "parquet": []} for name in FORMATS}
    for number in range(pairs + 1):
        for name in FORMATS:
            table = frame(spark, name, address, topic)
            # A count of the bare frame would let Spark leave the records' fields out: count what has a value.
            counted = seconds_of(lambda table=table: table.where("value is not null").count())  # type: ignore[misc]
            path = str(folder / name)
            written = seconds_of(lambda table=table, path=path: table.write.mode("overwrite").parquet(path))  # type: ignore[misc]
            if number:
                rates[name]["count"].append(records / counted)
                rates[name]["parquet"].append(records / written)
    return rates


def main() -> None:
    """Read as the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("topic")
    parser.add_argument("records", type=int)
    parser.add_argument("pairs", type=int)
    parser.add_argument("folder", type=Path)
    words = parser.parse_args()
    jars = ",".join(str(jar) for jar in fetch("spark", SPARK_CONNECTOR))
    spark = spark_session("versus", master="local[2]", config={"spark.jars": jars}, log_file=words.folder / "spark.log")
    found = frame(spark, "kafka", words.address, words.topic).count()
    if found != words.records:
        raise RuntimeError(f"the topic has {found} records, not {words.records}")
    answer(reads(spark, words.address, words.topic, words.records, words.pairs, words.folder))
    spark.stop()


if __name__ == "__main__":
    main()
