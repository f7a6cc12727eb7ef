"""A pipeline as a job on a Spark cluster: an executor, a worker of Spark and one of Penstock are killed under load."""

import os
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from signal import SIGKILL
from typing import Final, Self

import psutil
import pyarrow.parquet as pq
import pyspark
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.drills.replication import DrillError
from bench.drills.workers import BROKER, Worker, worker_properties
from bench.measure import Budget, Measure, measure
from penstock.pipeline.committed_files import committed_files
from penstock.pipeline.session import prepare_environment
from penstock.testing import Cluster
from penstock.testing.ports import ReservedPort
from penstock.testing.quorum_view import wait_until

SECONDS: Final = 600.0
RECORDS_A_SECOND: Final = 500
TICK_S: Final = 0.05
JOB: Final = "numbers"
DEPLOY: Final = "org.apache.spark.deploy"
EXECUTOR: Final = "CoarseGrainedExecutorBackend"
VICTIMS: Final = ("an executor", "a worker of Spark", "a worker of Penstock")
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
        port = _port(stack)
        self.url = f"spark://127.0.0.1:{port}"
        self._start(f"{DEPLOY}.master.Master", "--port", str(port), "--webui-port", "0")

    def worker(self) -> psutil.Process:
        """One more worker, with two cores."""
        more = ("--cores", "2", "--memory", "2g", "--work-dir", str(self._folder / "work"), "--webui-port", "0")
        return self._start(f"{DEPLOY}.worker.Worker", *more, self.url)

    def _start(self, name: str, *words: str) -> psutil.Process:
        program = Path(pyspark.__file__).parent / "bin" / "spark-class"
        log = self._stack.enter_context((self._folder / "spark.log").open("a"))
        command = [str(program), name, "--host", "127.0.0.1", *words]
        started = subprocess.Popen(command, env={**os.environ, "SPARK_NO_DAEMONIZE": "1"}, stdout=log, stderr=log)
        self._stack.callback(started.wait)
        self._stack.callback(started.kill)
        return psutil.Process(started.pid)


class Feed:
    """Numbers from 0 on, at an even rate, until it ends."""

    def __init__(self, servers: str) -> None:
        self.count = 0
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._feed)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        if self._producer.flush(SECONDS):
            raise DrillError("not all numbers were taken")

    def _feed(self) -> None:
        while not self._ended.wait(TICK_S):
            for _ in range(round(RECORDS_A_SECOND * TICK_S)):
                self._producer.produce(JOB, str(self.count).encode())
                self.count += 1
            self._producer.poll(0)


def spark_cluster_killed(rounds: int, say: Callable[[str], None]) -> list[Measure]:
    """A job on a Spark cluster of two workers, fed all the time; an executor, a worker of each kind are killed."""
    took: dict[str, list[float]] = {victim: [] for victim in VICTIMS}
    wrong: list[float] = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
            cluster = stack.enter_context(Cluster(process=True, config=BROKER))
            drill = _Drill(Path(directory), cluster.bootstrap_servers, stack)
            with Feed(cluster.bootstrap_servers) as feed:
                drill.until_more_than(0)
                for victim, kill in zip(
                    VICTIMS, (drill.kill_executor, drill.kill_spark, drill.kill_worker), strict=True
                ):
                    begun = time.monotonic()
                    kill()
                    drill.until_more_than(feed.count)
                    took[victim].append(time.monotonic() - begun)
                    say(f"{victim} was killed: what came afterwards is in Parquet after {took[victim][-1]:.1f} s")
            wrong.append(drill.wrong(feed.count))
            say(f"of {feed.count:,} numbers {wrong[-1]:.0f} are missing or there twice")
    return [
        *(measure(f"{victim} killed, until later records are in Parquet", "s", took[victim]) for victim in VICTIMS),
        measure("records missing or twice in Parquet after all that", "", wrong, Budget(0)),
    ]


class _Drill:
    def __init__(self, folder: Path, servers: str, stack: ExitStack) -> None:
        self._out = folder / JOB
        topic = NewTopic(JOB, num_partitions=4, replication_factor=1)
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([topic])[JOB].result()
        self._spark = SparkCluster(folder, stack)
        self._spark_workers = [self._spark.worker() for _ in range(2)]
        config = folder / "worker.properties"
        config.write_text(worker_properties(servers, 0))
        self._workers = [Worker(config, _port(stack)) for _ in range(2)]
        for worker in self._workers:
            stack.callback(worker.end, SIGKILL)
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
        owner.end(SIGKILL)
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


def _port(stack: ExitStack) -> int:
    """One that nobody else is given."""
    reserved = ReservedPort()
    stack.callback(reserved.release)
    return reserved.port
