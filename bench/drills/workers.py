"""Drills of workers: five with a thousand tasks, and a pipeline as a job on a Spark cluster; some are killed."""

import json
import os
import re
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import psutil
import pyarrow.parquet as pq
import pyspark

from bench.drills.traffic import Drill, DrillError
from bench.load import Stream
from bench.measure import Budget
from bench.process import AS_INSTALLED, AT_ONCE, Process, scratch, source_environment
from bench.topics import create_topic
from penstock.pipeline.committed_files import committed_files
from penstock.pipeline.session import prepare_environment
from penstock.testing import Cluster
from penstock.testing.ports import ReservedPort
from penstock.testing.quorum_view import wait_until

WORKERS: Final = 5
CONNECTORS: Final = 10
TASKS_OF_EACH: Final = 100
SECONDS: Final = 240.0
SECONDS_TO_RUN: Final = 60.0
WORKER_SESSION_S: Final = 20.0
WORKER: Final = Path(__file__).with_name("worker.properties").read_text()


class Worker:
    """`penstock worker` as a process, at the same port after each start, until the stack is closed."""

    def __init__(self, config: Path, stack: ExitStack) -> None:
        self.url = f"http://{reserved(stack)}"
        self._config = config
        self.start()
        stack.callback(lambda: self.process.kill())

    def start(self) -> None:
        command = [sys.executable, "-m", "penstock", "worker", "--set", f"listeners={self.url}", str(self._config)]
        said = self._config.with_name(f"worker-{time.time_ns()}.out")
        self.process = Process(command, said, source_environment())

        def listens() -> bool | None:
            if self.process.exit_code is not None:
                raise DrillError(f"a worker has ended: {self.process.last_words()}")
            return "REST at" in said.read_text() or None

        wait_until(listens, SECONDS, "a worker that listens")

    def ask(self, verb: str, path: str, body: object = None) -> Any:
        """None if the workers rebalance."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, {"Content-Type": "application/json"}, method=verb)
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            if error.code not in (409, 503):
                raise
            return None

    def owners(self) -> dict[str, str] | None:
        found = self.ask("GET", "/connectors?expand=status") or {}
        tasks = {f"{name}-{task['id']}": task for name, one in found.items() for task in one["status"]["tasks"]}
        if len(tasks) < CONNECTORS * TASKS_OF_EACH or any(task["state"] != "RUNNING" for task in tasks.values()):
            return None
        return {name: task["worker_id"] for name, task in tasks.items()}


def reserved(stack: ExitStack) -> str:
    """An address that no other process gets until the stack is closed."""
    port = ReservedPort()
    stack.callback(port.release)
    return port.address


def workers_with_tasks(drill: Drill) -> None:
    """1,000 tasks on five workers: one of them is stopped, one killed, and so are brokers; no other task stops."""
    for _ in drill.rounds():
        brokers = Cluster(process=True, nodes=3, config=AT_ONCE | AS_INSTALLED)
        with scratch() as directory, brokers as cluster, ExitStack() as stack:
            notes = directory / "notes"
            notes.mkdir()
            config = worker_properties(directory, cluster.bootstrap_servers, 120_000)
            workers = [Worker(config, stack) for _ in range(WORKERS)]
            name = "1,000 tasks of ten connectors, from the first request until all run"
            ran = drill.add(name, "s", _create(workers[0], notes), Budget(SECONDS_TO_RUN))
            drill.say(f"{CONNECTORS * TASKS_OF_EACH:,} tasks run on {WORKERS} workers after {ran:.1f} s")
            for end, worker in (("stopped", workers[1]), ("killed", workers[2])):
                took, others = _go_and_come_back(workers, worker, end, notes)
                drill.add(f"a worker of five {end} and started: until its tasks run", "s", took)
                drill.add("tasks of other workers that this stopped", "", others, Budget(0))
                drill.say(f"one was {end}: its tasks run again {took:.1f} s later, {others} of the others stopped")
            for node in cluster.nodes:
                for end, leave, back in (("killed", node.kill, node.start), ("paused", node.pause, node.resume)):
                    stopped = _while_away(leave, back, workers, notes)
                    drill.add(f"tasks that stopped when a broker of three was {end}", "", stopped, Budget(0))
                    drill.say(f"a broker was {end}: {stopped} tasks stopped")


def _create(worker: Worker, notes: Path) -> float:
    wait_until(lambda: worker.ask("GET", "/health") is not None or None, SECONDS, "a healthy worker")
    begun = time.monotonic()
    idle = {"connector.class": "bench.drills.idle:Idle", "tasks.max": str(TASKS_OF_EACH), "notes": str(notes)}
    for number in range(CONNECTORS):
        wait_until(lambda n=number: worker.ask("PUT", f"/connectors/idle-{n}/config", idle), SECONDS, "a leader")  # type: ignore[misc]
    wait_until(worker.owners, SECONDS, "all tasks running")
    return time.monotonic() - begun


def _go_and_come_back(workers: list[Worker], one: Worker, end: str, notes: Path) -> tuple[float, int]:
    """How long its tasks take to run again, and how many of the others were stopped meanwhile."""
    before = wait_until(workers[0].owners, SECONDS, "all tasks running")
    its = {name for name, owner in before.items() if one.url.endswith(owner)}
    others = {worker.process.pid for worker in workers if worker is not one}
    ended = _ended(notes, others)
    one.process.stop() if end == "stopped" else one.process.kill()
    begun = time.monotonic()
    one.start()
    mine = notes / str(one.process.pid)
    wait_until(lambda: len(_lines(mine)) >= len(its) or None, SECONDS, "its tasks running")
    took = time.monotonic() - begun
    after = wait_until(workers[0].owners, SECONDS, "all tasks running")
    if after != before:
        raise DrillError(f"{sum(before[name] != after[name] for name in before)} tasks run elsewhere now")
    return took, _ended(notes, others) - ended


def _while_away(leave: Callable[[], None], back: Callable[[], None], workers: list[Worker], notes: Path) -> int:
    """How many tasks stop while a broker is away for longer than a worker's session lasts."""
    ended = _ended(notes, everybody := {worker.process.pid for worker in workers})
    leave()
    time.sleep(WORKER_SESSION_S * 1.5)
    back()
    wait_until(workers[0].owners, SECONDS, "all tasks running")
    return _ended(notes, everybody) - ended


def _ended(notes: Path, processes: set[int]) -> int:
    return sum(line.startswith("ended") for pid in processes for line in _lines(notes / str(pid)))


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def worker_properties(folder: Path, bootstrap: str, delay_ms: int) -> Path:
    """The tasks of a lost worker wait for `delay_ms`."""
    path = folder / "worker.properties"
    path.write_text(f"{WORKER}bootstrap.servers={bootstrap}\nscheduled.rebalance.max.delay.ms={delay_ms}\n")
    return path


SPARK_SECONDS: Final = 600.0
RECORDS_A_SECOND: Final = 500
JOB: Final = "numbers"
PARTITIONS: Final = 4
DEPLOY: Final = "org.apache.spark.deploy"
EXECUTOR: Final = "CoarseGrainedExecutorBackend"
JOB_CONFIG: Final = Path(__file__).with_name("spark_job.json").read_text()


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
        more = ("--cores", "2", "--memory", "2g", "--work-dir", str(self._folder / "work"), "--webui-port", "0")
        return self._start(f"{DEPLOY}.worker.Worker", *more, self.url)

    def _start(self, name: str, *words: str) -> psutil.Process:
        program = Path(pyspark.__file__).parent / "bin" / "spark-class"
        command = [str(program), name, "--host", "127.0.0.1", *words]
        process = Process(command, self._folder / "spark.log", {**os.environ, "SPARK_NO_DAEMONIZE": "1"})
        self._stack.callback(process.kill)
        return psutil.Process(process.pid)


class _Job:
    def __init__(self, folder: Path, servers: str, stack: ExitStack) -> None:
        self._out = folder / JOB
        create_topic(servers, JOB, PARTITIONS)
        self._spark = SparkCluster(folder, stack)
        self._spark_workers = [self._spark.worker() for _ in range(2)]
        config = worker_properties(folder, servers, 0)
        self._workers = [Worker(config, stack) for _ in range(2)]
        places = {"SERVERS": servers, "FOLDER": str(folder), "SPARK": self._spark.url}
        job = json.loads(re.sub("|".join(places), lambda found: places[found[0]], JOB_CONFIG))
        wait_until(lambda: self._workers[0].ask("PUT", f"/connectors/{JOB}/config", job), SPARK_SECONDS, "the job")

    def until_more_than(self, number: int) -> None:
        wait_until(
            lambda: max(self._written(), default=-1) > number or None, SPARK_SECONDS, f"more than {number} in Parquet"
        )

    def wrong(self, count: int) -> int:
        """How many of `count` numbers do not appear exactly once."""
        try:
            wait_until(lambda: len(self._written()) >= count or None, SPARK_SECONDS, "the end of it")
        except TimeoutError:
            pass  # then some are missing
        written = self._written()
        return sum(written[number] != 1 for number in {*range(count), *written})

    def kill_executor(self) -> None:
        """One of the two, where there is one."""
        wait_until(lambda: self._executors() or None, SPARK_SECONDS, "an executor")[0].kill()

    def kill_spark(self) -> None:
        """A worker of Spark with an executor, which ends with it; another worker comes."""
        owner = wait_until(lambda: self._executors() or None, SPARK_SECONDS, "an executor")[0].parent()
        assert owner is not None
        owner.kill()
        self._spark_workers = [worker for worker in self._spark_workers if worker != owner] + [self._spark.worker()]

    def kill_worker(self) -> None:
        status = self._workers[0].ask("GET", f"/connectors/{JOB}/status")
        (owner,) = (one for one in self._workers if one.url.endswith(status["tasks"][0]["worker_id"]))
        owner.process.kill()
        owner.start()

    def _executors(self) -> list[psutil.Process]:
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
        return False  # a process that has ended, and was not waited for


VICTIMS: Final[dict[str, Callable[[_Job], None]]] = {
    "an executor": _Job.kill_executor,
    "a worker of Spark": _Job.kill_spark,
    "a worker of Penstock": _Job.kill_worker,
}


def spark_cluster_killed(drill: Drill) -> None:
    """A job on a Spark cluster of two workers, fed all the time; an executor, a worker of each kind are killed."""
    for _ in drill.rounds():
        with scratch() as directory, ExitStack() as stack:
            cluster = stack.enter_context(Cluster(process=True, config=AT_ONCE))
            job = _Job(directory, cluster.bootstrap_servers, stack)
            with Stream(cluster.bootstrap_servers, JOB, PARTITIONS, rate=RECORDS_A_SECOND, linger_ms=5) as numbers:
                job.until_more_than(0)
                for victim, kill in VICTIMS.items():
                    begun = time.monotonic()
                    kill(job)
                    job.until_more_than(numbers.sent)
                    name = f"{victim} killed, until later records are in Parquet"
                    took = drill.add(name, "s", time.monotonic() - begun)
                    drill.say(f"{victim} was killed: what came afterwards is in Parquet after {took:.1f} s")
            if numbers.unanswered or numbers.refused:
                raise DrillError("not all numbers were taken")
            wrong = drill.add(
                "records missing or twice in Parquet after all that", "", job.wrong(numbers.sent), Budget(0)
            )
            drill.say(f"of {numbers.sent:,} numbers {wrong:.0f} are missing or there twice")
