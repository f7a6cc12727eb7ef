"""A pipeline is killed behind each step of a decision, its process, its JVM or both: each row is there once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.test_exactly_once import STEPS, committed, numbered
from tests.spark.topics import filled_topic, new_topic

pytestmark = [pytest.mark.soak, pytest.mark.timeout(2_400)]
VICTIMS = ("python", "jvm", "both")
ROWS = 24
PATIENCE_S = 300
PROGRAM = """
import os, signal, sys
from pathlib import Path
from pyspark import SparkContext
from penstock.pipeline.datasource.decider import Decider
from penstock.pipeline.running.run import run_pipeline
from penstock.pipeline.spec.files import load_yaml

step, victim, file = sys.argv[1:]
take = Decider._take


def taken(decider, one):
    answer = take(decider, one)
    if type(one).__name__ == step:
        if victim != "python":
            os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
        if victim != "jvm":
            os.kill(os.getpid(), signal.SIGKILL)
    return answer


Decider._take = taken
run_pipeline(load_yaml(Path(file).read_text(), "killed"), master="local[2]")
"""


def run(*arguments: str) -> int:
    """Its exit code. One whose JVM is gone may wait for it for ever, and is ended then."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, check=False, timeout=PATIENCE_S
        )
    except subprocess.TimeoutExpired:
        return -1
    return done.returncode


@pytest.mark.parametrize("victim", VICTIMS)
def test_each_row_is_there_once_at_whatever_step_it_is_killed(
    spark: SparkSession, servers: str, tmp_path: Path, victim: str
) -> None:
    source, target = filled_topic(servers, [ROWS // 2, ROWS // 2]), new_topic(servers, 2)
    file = tmp_path / "killed.yaml"
    file.write_text(
        f"source: {{bootstrap.servers: '{servers}', subscribe: {source}, startingOffsets: earliest, "
        "maxOffsetsPerTrigger: 4}\n"
        "sql: SELECT key, value FROM source\n"
        f"sink: {{bootstrap.servers: '{servers}', topic: {target}, delivery: exactly-once}}\n"
        f"trigger: available-now\ncheckpoint: {tmp_path}/checkpoint\n"
    )
    for step in STEPS:
        assert run(step.__name__, victim, str(file)) != 0, "it was to be killed"
    assert run("", "", str(file)) == 0
    assert committed(spark, servers, target) == numbered(ROWS)
