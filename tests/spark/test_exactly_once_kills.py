"""Queries are killed behind each step of a decision, by their process, its JVM or both: each row is there once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.spark.once_campaign import PATIENCE_S, QUERIES, ROUNDS, check, keeping_cluster, steps_of
from tests.spark.topics import new_topic

pytestmark = [pytest.mark.soak, pytest.mark.timeout(10_000)]
ROOT = Path(__file__).parents[2]
VICTIMS = ("python", "jvm", "both")
BATCHES = 2
"""That all queries write in the last life, in which none is killed."""
ALL_THERE = "all are at their steps"
PROGRAM = f"""
import os, signal, sys, threading, time
from pathlib import Path
from pyspark import SparkContext
from tests.spark.once_campaign import SETTINGS, begin, topic_of, written
from penstock.pipeline.datasource.decider import Decider
from penstock.pipeline.session import spark_session

victim, servers, folder, *targets_and_steps = sys.argv[1:]
step_of = dict(one.split("=") for one in targets_and_steps)
take = Decider._take


def kill():
    print({ALL_THERE!r}, flush=True)
    if victim != "python":
        os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
    if victim != "jvm":
        os.kill(os.getpid(), signal.SIGKILL)


all_there = threading.Barrier(len(step_of), kill)


def taken(decider, one):
    answer = take(decider, one)
    if type(one).__name__ == step_of[topic_of(decider._query)]:
        all_there.wait()
    return answer


Decider._take = taken
session = spark_session("killed", master="local[2]", config=SETTINGS)
queries = begin(session, servers, Path(folder), list(step_of))
if victim:
    queries[0].awaitTermination()
while any(written[target] < {BATCHES} for target in step_of):
    time.sleep(0.2)
    assert all(query.isActive for query in queries)
for query in queries:
    query.stop()
"""


def run(*arguments: str, log: Path) -> tuple[int, str]:
    """Its exit code, and what it said. One whose JVM is gone may wait for it for ever, and is ended then."""
    with log.open("w+") as file:
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments], stdout=file, stderr=file, cwd=ROOT)
        try:
            code = process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        file.seek(0)
        return code, file.read()


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with keeping_cluster() as cluster:
        yield cluster.bootstrap_servers


@pytest.mark.parametrize("victim", VICTIMS)
def test_each_row_is_there_once_at_whatever_step_it_is_killed(servers: str, tmp_path: Path, victim: str) -> None:
    targets, log = [new_topic(servers, 2) for _ in range(QUERIES)], tmp_path / "log"
    for round_ in range(ROUNDS):
        steps = [f"{target}={step}" for target, step in zip(targets, steps_of(round_), strict=True)]
        _, said = run(victim, servers, str(tmp_path), *steps, log=log)
        assert ALL_THERE in said, said[-4000:]
    code, said = run("", servers, str(tmp_path), *(f"{target}=" for target in targets), log=log)
    assert code == 0, said[-4000:]
    for target in targets:
        check(servers, target, BATCHES)
