"""One Spark session and one cluster for all tests of this folder; both take seconds to start."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.pipeline.session import spark_session
from penstock.testing import Cluster

START_QUICKLY = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on two cores."""
    os.environ["JDK_JAVA_OPTIONS"] = START_QUICKLY
    folder: Path = tmp_path_factory.mktemp("spark")
    session = spark_session(
        "tests",
        master="local[2]",
        config={
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.sql.session.timeZone": "UTC",
        },
        log_file=folder / "spark.log",
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def servers() -> Iterator[str]:
    """The address of a cluster."""
    with Cluster() as cluster:
        yield cluster.bootstrap_servers
