"""What the campaigns of kills share: queries that write exactly once, and what readers may find then.

Several queries of one session wait at the steps that they were given, and one kill meets them all. So a JVM that is
started anew, which is what takes long, serves all of them. KILLS says how many are killed of each kind at each step,
AT_EACH how many queries wait at each, and PATIENCE_S for how long one life may last: where the machine has much else to
do, few queries and more patience tell what is wrong from what is late.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.client.admin import Admin
from penstock.client.admin.features import UpgradeType
from penstock.metadata.features import TRANSACTION_VERSION
from penstock.pipeline.datasource.foreach_batch import write_once
from penstock.pipeline.once.deciding import End, Fence, ListOpen, Look, Write
from penstock.testing import Cluster

STEPS: Final = tuple(step.__name__ for step in (Fence, Look, ListOpen, Write, End))
AT_EACH: Final = int(os.environ.get("AT_EACH", "4"))
"""So many queries wait at each step."""
QUERIES: Final = AT_EACH * len(STEPS)
KILLS: Final = int(os.environ.get("KILLS", str(AT_EACH)))
ROUNDS: Final = -(-KILLS // AT_EACH)
PARTITIONS, KEYS, ROWS_OF_BATCH = 2, 6, 4
UUID_LENGTH: Final = 36
PATIENCE_S: Final = float(os.environ.get("PATIENCE_S", "600"))
SETTINGS: Final = {"spark.sql.codegen.wholeStage": "false", "spark.python.authenticate.socketTimeout": "300s"}
"""Of a session that starts quickly, on a machine that may have much to do."""
written: Final = Counter[str]()
"""How many batches this process has written, by the topic."""


@contextmanager
def keeping_cluster(nodes: int = 1, config: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """Its processes keep what is prepared until it is decided about."""
    two_phases = {"transaction.two.phase.commit.enable": "true"}
    with Cluster(nodes=nodes, process=True, config=two_phases | dict(config or {})) as cluster:
        asyncio.run(_with_two_phases(cluster.bootstrap_servers))
        yield cluster


async def _with_two_phases(servers: str) -> None:
    async with Admin(servers) as admin:
        await admin.features.update({TRANSACTION_VERSION: 2}, UpgradeType.UPGRADE)


def steps_of(round_: int) -> list[str]:
    """For each query, where it waits; another step in each round."""
    return [STEPS[(number + round_) % len(STEPS)] for number in range(QUERIES)]


def topic_of(query: str) -> str:
    """Of a query as deciders call it: its id, and the topic that it writes to."""
    return query[UUID_LENGTH + 1 :]


def begin(spark: SparkSession, servers: str, folder: Path, targets: Sequence[str]) -> list[StreamingQuery]:
    """A query for each target, from its checkpoint on: rows with ascending numbers, those of a key in one partition.

    Spark's own source says the same of a batch that runs again, and needs no process of Python.
    """
    options = {"rowsPerBatch": ROWS_OF_BATCH, "numPartitions": PARTITIONS}
    rows = spark.readStream.format("rate-micro-batch").options(**options).load()
    frame = rows.selectExpr(f"concat('k', value % {KEYS}) AS key", "cast(value AS string) AS value")
    return [_begun(frame, servers, folder / target, target) for target in targets]


def _begun(frame: DataFrame, servers: str, checkpoint: Path, target: str) -> StreamingQuery:
    options = {"kafka.bootstrap.servers": servers, "topic": target}

    def write(batch: DataFrame, batch_id: int) -> None:
        write_once(batch, batch_id, options)
        written[target] += 1

    writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint))
    return writer.trigger(processingTime="1 second").start()


def check(servers: str, target: str, batches: int) -> None:
    """Who reads what is committed gets each row of at least so many batches once, and those of a key in their order."""
    found: dict[bytes, list[int]] = {}
    for key, number in _committed(servers, target):
        found.setdefault(key, []).append(number)
    rows = sum(map(len, found.values()))
    assert rows >= batches * ROWS_OF_BATCH, target
    assert found == {b"k%d" % key: list(range(key, rows, KEYS)) for key in range(min(KEYS, rows))}, target


def _committed(servers: str, target: str) -> list[tuple[bytes, int]]:
    settings = {"bootstrap.servers": servers, "group.id": "checks", "enable.partition.eof": True}
    consumer = Consumer(settings | {"isolation.level": "read_committed", "enable.auto.commit": False})
    consumer.assign([TopicPartition(target, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    rows: list[tuple[bytes, int]] = []
    left = PARTITIONS
    while left:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, f"{target} is not read to its end"
        error, key, value = message.error(), message.key(), message.value()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            left -= 1
        elif isinstance(key, bytes) and isinstance(value, bytes):
            rows.append((key, int(value)))
    consumer.close()
    return rows
