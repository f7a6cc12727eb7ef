"""A pipeline as a job on a Spark cluster: an executor, a worker of Spark and one of Penstock are killed under load."""

import os
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import psutil
import pyarrow.parquet as pq
import pyspark

from bench.drills.traffic import DrillError
from bench.drills.workers import Worker, reserved, worker_properties
from bench.measure import Budget, Measure, measure
from bench.node import AT_ONCE, scratch
from bench.process import Process
from bench.stream import Stream
from bench.topics import create_topic
from penstock.pipeline.committed_files import committed_files
from penstock.pipeline.session import prepare_environment
from penstock.testing import Cluster
from penstock.testing.quorum_view import wait_until

SECONDS: Final = 600.0
RECORDS_A_SECOND: Final = 500
JOB: Final = "numbers"
PARTITIONS: Final = 4
DEPLOY: Final = "org.apache.spark.deploy"
EXECUTOR: Final = "CoarseGrainedExecutorBackend"
PIPELINE: Final = """
source: {bootstrap.servers: "SERVERS", subscribe: numbers, startingOffsets: earliest}
sql: SELECT CAST(CAST(value AS STRING) AS BIGINT) AS number FROM source
sink: {format: parquet, path: "FOLDER/numbers"}
trigger: 500 milliseconds
"""
SPARK: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
}


class SparkCluster:
    """A master and workers, from PySpark's wheel."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        prepare_environment()
        self._folder = folder
        self._stack = stack
        address = reserved(stack)
        self.url = f"spark://{address}"
        self._start(f"{DEPLOY}.master.Master", "--port", address.rpartition(":")[2], "--webui-port", "0")

    def worker(self) -> psutil.Process:
        """One more worker, with two cores."""
        more = ("--cores", "2", "--memory", "2g", "--work-dir", str(self._folder / "work"), "--webui-port", "0")
        return self._start(f"{DEPLOY}.worker.Worker", *more, self.url)

    def _start(self, name: str, *words: str) -> psutil.Process:
        program = Path(pyspark.__file__).parent / "bin" / "spark-class"
        command = [str(program), name, "--host", "127.0.0.1", *words]
        process = Process(command, self._folder / "spark.log", {**os.environ, "SPARK_NO_DAEMONIZE": "1"})
        self._stack.callback(process.kill)
        return psutil.Process(process.pid)


class _Drill:
    def __init__(self, folder: Path, servers: str, stack: ExitStack) -> None:
        self._out = folder / JOB
        create_topic(servers, JOB, PARTITIONS)
        self._spark = SparkCluster(folder, stack)
        self._spark_workers = [self._spark.worker() for _ in range(2)]
        config = worker_properties(folder, servers, 0)
        self._workers = [Worker(config, stack) for _ in range(2)]
        job = {
            "connector.class": "penstock.pipeline",
            "pipeline": PIPELINE.replace("SERVERS", servers).replace("FOLDER", str(folder)),
            "checkpoint.root": str(folder / "checkpoints"),
            "master": self._spark.url,
            **SPARK,
        }
        wait_until(lambda: self._workers[0].ask("PUT", f"/connectors/{JOB}/config", job), SECONDS, "the job")

    def until_more_than(self, number: int) -> None:
        """Wait until a later number is in Parquet."""
        wait_until(lambda: max(self._written(), default=-1) > number or None, SECONDS, f"more than {number} in Parquet")

    def wrong(self, count: int) -> int:
        """How many of so many numbers are not there once, when all should be."""
        try:
            wait_until(lambda: len(self._written()) >= count or None, SECONDS, "the end of it")
        except TimeoutError:
            pass  # then some are missing
        written = self._written()
        return sum(written[number] != 1 for number in {*range(count), *written})

    def kill_executor(self) -> None:
        """One of the two, where there is one."""
        wait_until(lambda: self._executors() or None, SECONDS, "an executor")[0].kill()

    def kill_spark(self) -> None:
        """A worker of Spark that has an executor, which ends with it; another worker comes."""
        owner = wait_until(lambda: self._executors() or None, SECONDS, "an executor")[0].parent()
        assert owner is not None
        owner.kill()
        self._spark_workers = [worker for worker in self._spark_workers if worker != owner] + [self._spark.worker()]

    def kill_worker(self) -> None:
        """The one of Penstock that runs the query."""
        status = self._workers[0].ask("GET", f"/connectors/{JOB}/status")
        (owner,) = (one for one in self._workers if one.url.endswith(status["tasks"][0]["worker_id"]))
        owner.process.kill()
        owner.start()

    def _executors(self) -> list[psutil.Process]:
        """Those of all workers of Spark."""
        return [child for worker in self._spark_workers for child in worker.children() if _is_executor(child)]

    def _written(self) -> Counter[int]:
        found: Counter[int] = Counter()
        for file in committed_files(self._out):
            found.update(pq.read_table(file, partitioning=None).column("number").to_pylist())
        return found


def _is_executor(process: psutil.Process) -> bool:
    try:
        return EXECUTOR in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False  # one that has ended, and was not waited for


VICTIMS: Final[dict[str, Callable[[_Drill], None]]] = {
    "an executor": _Drill.kill_executor,
    "a worker of Spark": _Drill.kill_spark,
    "a worker of Penstock": _Drill.kill_worker,
}


def spark_cluster_killed(rounds: int, say: Callable[[str], None]) -> list[Measure]:
    """A job on a Spark cluster of two workers, fed all the time; an executor, a worker of each kind are killed."""
    took: dict[str, list[float]] = {victim: [] for victim in VICTIMS}
    wrong: list[float] = []
    for _ in range(rounds):
        with scratch() as directory, ExitStack() as stack:
            cluster = stack.enter_context(Cluster(process=True, config=AT_ONCE))
            drill = _Drill(directory, cluster.bootstrap_servers, stack)
            with Stream(cluster.bootstrap_servers, JOB, PARTITIONS, rate=RECORDS_A_SECOND, linger_ms=5) as numbers:
                drill.until_more_than(0)
                for victim, kill in VICTIMS.items():
                    begun = time.monotonic()
                    kill(drill)
                    drill.until_more_than(numbers.sent)
                    took[victim].append(time.monotonic() - begun)
                    say(f"{victim} was killed: what came afterwards is in Parquet after {took[victim][-1]:.1f} s")
            if numbers.unanswered or numbers.refused:
                raise DrillError("not all numbers were taken")
            wrong.append(drill.wrong(numbers.sent))
            say(f"of {numbers.sent:,} numbers {wrong[-1]:.0f} are missing or there twice")
    return [
        *(measure(f"{victim} killed, until later records are in Parquet", "s", took[victim]) for victim in VICTIMS),
        measure("records missing or twice in Parquet after all that", "", wrong, Budget(0)),
    ]
