"""How long after their acknowledgement 100 records have gone through a streaming query, with each connector in turn.

`python -m bench.versus P21` asks it of Spark's own connector for Kafka and of Penstock's: of queries that write
nothing until their batch has ended, of others until what they wrote is read.
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import Final

from bench.measure import percentile
from bench.topics import create_topic
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import DataFrame, SparkSession

from penstock.pipeline.running.topic_sinks import written_rows
from penstock.pipeline.session import spark_session
from penstock.pipeline.spec.pipeline import SinkSpec
from penstock.testing.quorum_view import wait_until

KAFKA, PENSTOCK = FORMATS = ("kafka", "penstock")
Samples = dict[str, list[dict[str, float]]]
"""By formats: `p50` and `p99`, in ms, of each run."""
RECORDS, VALUE = 100, b"%0100d"
EVERY_S, WARM, SENDS = 0.2, 10, 30
QUIET_S, AFTER_QUIET_S = 90.0, 4.0
TOPICS = 10_000
LIMIT_S = 300.0


@dataclass(frozen=True, slots=True)
class Small:
    """What a query does with 100 records of 100 B that come at once."""

    partitions: int
    to_topic: bool = False
    is_joined: bool = False
    is_quiet: bool = False


CASES: Final = {
    "into nothing, 1 partition": Small(1),
    "into nothing, 12 partitions": Small(12),
    "into a topic, 1 partition": Small(1, to_topic=True),
    "into a topic, 12 partitions": Small(12, to_topic=True),
    "joined with an idle topic, 1 partition": Small(1, is_joined=True),
    "into nothing, after 90 s of quiet": Small(12, is_quiet=True),
    "into a topic, after 90 s of quiet": Small(12, to_topic=True, is_quiet=True),
}
CROWDED: Final = {f"{case}, beside {TOPICS:,} topics": CASES[case] for case in list(CASES)[:4:2]}


def ages(
    jars: str, address: str, cases: dict[str, Small], pairs: int, scale: float, folder: Path
) -> dict[str, Samples]:
    """Samples by cases, each of which has a query of its own for each pair, but for those that are quiet."""
    config = {"spark.jars": jars, "spark.sql.streaming.numRecentProgressUpdates": "10000"}
    spark = spark_session("versus", master="local[2]", config=config, log_file=folder / "spark.log")
    found: dict[str, Samples] = {case: {name: [] for name in FORMATS} for case in cases}
    with ExitStack() as stack:

        def begun(case: str, name: str) -> Stream:
            stream = stack.enter_context(closing(Stream(spark, name, address, cases[case], folder)))
            stream.ages_ms(WARM, EVERY_S)
            return stream

        for case, name in product([case for case in cases if not cases[case].is_quiet] * pairs, FORMATS):
            found[case][name].append(_sample(begun(case, name).ages_ms(max(2, round(SENDS * scale)), EVERY_S)))
            stack.pop_all().close()
        quiet = {(case, name): begun(case, name) for case in cases if cases[case].is_quiet for name in FORMATS}
        for _ in range(pairs if quiet else 0):
            time.sleep(QUIET_S * scale)
            for (case, name), stream in quiet.items():
                found[case][name].append(_sample(stream.ages_ms(1, AFTER_QUIET_S)))
    spark.stop()
    return found


def _sample(ages_ms: Sequence[float]) -> dict[str, float]:
    return {"p50": percentile(ages_ms, 50), "p99": percentile(ages_ms, 99)}


class Stream:
    """A query on a topic of its own, which gets 100 records at a time."""

    def __init__(self, spark: SparkSession, name: str, address: str, small: Small, folder: Path) -> None:
        place = f"{name}-{time.time_ns()}"
        self._topic, self._partitions, self._sent, self._seen = f"in-{place}", small.partitions, 0, 0
        self._producer = Producer({"bootstrap.servers": address, "linger.ms": 0})
        self._output: Consumer | None = None
        rows = self._stream(spark, name, address, self._topic)
        if small.is_joined:
            rows = rows.join(self._stream(spark, name, address, f"idle-{place}").select("key"), "key")
        if small.to_topic:
            create_topic(address, f"out-{place}", small.partitions)
            self._output = Consumer({"bootstrap.servers": address, "group.id": place, "enable.auto.commit": False})
            self._output.assign([TopicPartition(f"out-{place}", index, 0) for index in range(small.partitions)])
        options = {"kafka.bootstrap.servers": address, "topic": f"out-{place}"}
        if small.to_topic and name == PENSTOCK:  # as a pipeline does
            rows = written_rows(rows, SinkSpec(options))
        writer = rows.writeStream.format(KAFKA if small.to_topic and name == KAFKA else "noop").options(**options)
        self._query = writer.option("checkpointLocation", str(folder / place)).start()

    def _stream(self, spark: SparkSession, name: str, address: str, topic: str) -> DataFrame:
        create_topic(address, topic, self._partitions)
        options = {"kafka.bootstrap.servers": address, "subscribe": topic, "startingOffsets": "earliest"}
        return spark.readStream.format(name).options(**options).load().select("key", "value")

    def ages_ms(self, sends: int, every_s: float) -> list[float]:
        """Of each lot, from its last acknowledgement to the end of its batch, or until all of it is read."""
        stored, first, begun = list[float](), self._sent, time.time()
        self._read: list[float] = []
        for number in range(sends):
            for index in range(RECORDS):
                self._producer.produce(self._topic, VALUE % index, b"%d" % index, index % self._partitions)
            assert self._producer.flush(LIMIT_S) == 0
            stored.append(time.time())
            self._sent += RECORDS
            self._look(begun + every_s * (number + 1))
        if self._output is not None:
            self._look(time.time() + LIMIT_S, to=self._sent)
            if self._seen < self._sent:
                raise TimeoutError(
                    f"{self._topic}: {self._seen:,} of {self._sent:,} records were read in {LIMIT_S:g} s"
                )
            return [1000 * (seen - sent) for sent, seen in zip(stored, self._read, strict=True)]
        ends = wait_until(self._ends, LIMIT_S, "the end of the last batch")
        lots = range(first + RECORDS, self._sent + 1, RECORDS)
        done = [next(ended for rows, ended in ends if rows >= lot) for lot in lots]
        return [1000 * (ended - sent) for sent, ended in zip(stored, done, strict=True)]

    def _look(self, until: float, to: int | None = None) -> None:
        """Note when each lot was read, until then; or sooner, when as many records are read."""
        while self._seen != to and (left := until - time.time()) > 0:
            if self._output is None:
                time.sleep(left)
            elif self._output.poll(left) is not None:
                self._seen += 1
                if self._seen % RECORDS == 0:
                    self._read.append(time.time())

    def _ends(self) -> list[tuple[int, float]] | None:
        """Rows until then, and when: of each batch. None while some are missing."""
        rows, ends = 0, list[tuple[int, float]]()
        for batch in self._query.recentProgress:
            rows += batch["numInputRows"]
            begun = datetime.fromisoformat(batch["timestamp"]).timestamp()
            ends.append((rows, begun + batch["durationMs"]["triggerExecution"] / 1000))
        return ends if rows >= self._sent else None

    def close(self) -> None:
        self._query.stop()
        if self._output is not None:
            self._output.close()
