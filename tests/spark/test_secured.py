"""A secured cluster, over SASL_SSL: Spark's own source and sink beside ours, each reads what the other wrote."""

from __future__ import annotations

import os
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from bench.child import Child
from bench.versus.kafka import fetch
from tests.spark.conftest import START_QUICKLY

from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.client.properties import with_properties
from penstock.client.settings import ClientSettings
from penstock.pipeline.session import spark_session
from penstock.testing import Cluster

FORMATS = ("kafka", "penstock")
COUNT = 1_000
LIMIT_S = 600


def through_spark(properties: dict[str, str], folder: Path) -> dict[tuple[str, str, str], list[int]]:
    """What each source reads of what each sink wrote, in a batch and as a stream; the process has a JVM of its own."""
    os.environ["JDK_JAVA_OPTIONS"] = START_QUICKLY
    jars = ",".join(map(str, fetch("spark")))
    spark = spark_session("secured", master="local[2]", config={"spark.jars": jars}, log_file=folder / "spark.log")
    options = {f"kafka.{key}": text for key, text in properties.items()}
    rows = spark.range(0, COUNT, 1, 2).selectExpr("CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value")
    for sink in FORMATS:
        rows.write.format(sink).mode("append").options(**options).option("topic", f"by-{sink}").save()
    found = {}
    for sink, source in product(FORMATS, FORMATS):
        asked = options | {"subscribe": f"by-{sink}", "startingOffsets": "earliest"}
        found[sink, source, "batch"] = numbers(spark.read.format(source).options(**asked).load())
        name = f"{sink}_{source}"
        stream = spark.readStream.format(source).options(**asked).load().writeStream.format("memory")
        stream = stream.queryName(name).option("checkpointLocation", str(folder / name)).trigger(availableNow=True)
        stream.start().awaitTermination()
        found[sink, source, "stream"] = numbers(spark.table(name))
    spark.stop()
    return found


def numbers(frame: Any) -> list[int]:
    return sorted(int(row.value) for row in frame.select("value").collect())


@pytest.mark.soak
@pytest.mark.timeout(800)
async def test_sparks_own_source_and_ours_read_what_each_wrote_over_sasl_ssl(tmp_path: Path) -> None:
    if shutil.which("mvn") is None:
        pytest.skip("Maven fetches Spark's own source")
    with Cluster(secure=True, nodes=3, process=True) as cluster:
        properties = cluster.client_properties("app")
        security = {key: text for key, text in properties.items() if key != "bootstrap.servers"}
        settings = with_properties(ClientSettings(), security)
        async with Admin(cluster.bootstrap_servers, settings) as admin:
            for sink in FORMATS:
                await admin.topics.create(NewTopic(name=f"by-{sink}", partitions=3, replication_factor=3))
        found = Child(through_spark, properties, tmp_path).result(LIMIT_S)
    assert found == {
        (*each, way): list(range(COUNT)) for each in product(FORMATS, FORMATS) for way in ("batch", "stream")
    }
    password = properties["sasl.password"].encode()
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(kept) > len(FORMATS), "the log and the checkpoints"
    assert not [path for path in kept if password in path.read_bytes()]
