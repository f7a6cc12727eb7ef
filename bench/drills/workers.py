"""Five workers with a thousand tasks: how long until all run, and whom it disturbs that one goes and comes back."""

import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals
from typing import Any, Final

from bench.drills.traffic import DrillError
from bench.measure import Budget, Measure, measure
from bench.node import AT_ONCE, scratch, source_environment
from bench.process import Process
from penstock.testing import Cluster
from penstock.testing.ports import ReservedPort
from penstock.testing.quorum_view import wait_until

WORKERS: Final = 5
CONNECTORS: Final = 10
TASKS_OF_EACH: Final = 100
SECONDS: Final = 240.0
SECONDS_TO_RUN: Final = 60.0


class Worker:
    """`penstock worker` as a process, each life of it at the same port, until the stack is closed."""

    def __init__(self, config: Path, stack: ExitStack) -> None:
        self.url = f"http://{reserved(stack)}"
        self._config = config
        self.start()
        stack.callback(lambda: self.process.kill())

    def start(self) -> None:
        """Start it, and wait until it listens."""
        command = [sys.executable, "-m", "penstock", "worker", "--set", f"listeners={self.url}", str(self._config)]
        said = self._config.with_name(f"worker-{time.time_ns()}.out")
        self.process = Process(command, said, source_environment())

        def listens() -> bool | None:
            if self.process.exit_code is not None:
                raise DrillError(f"a worker has ended: {self.process.last_words()}")
            return "REST at" in said.read_text() or None

        wait_until(listens, SECONDS, "a worker that listens")

    def ask(self, verb: str, path: str, body: object = None) -> Any:
        """A request; None if the workers rebalance."""
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
        """Who runs each task, when all of them run."""
        found = self.ask("GET", "/connectors?expand=status") or {}
        tasks = {f"{name}-{task['id']}": task for name, one in found.items() for task in one["status"]["tasks"]}
        if len(tasks) < CONNECTORS * TASKS_OF_EACH or any(task["state"] != "RUNNING" for task in tasks.values()):
            return None
        return {name: task["worker_id"] for name, task in tasks.items()}


def reserved(stack: ExitStack) -> str:
    """An address that nobody else is given until the stack is closed."""
    port = ReservedPort()
    stack.callback(port.release)
    return port.address


def workers_with_tasks(rounds: int, say: Callable[[str], None]) -> list[Measure]:
    """1,000 tasks on five workers: until all run; one worker is stopped, then one killed, and each is back in time."""
    ran: list[float] = []
    back: dict[Signals, list[float]] = {SIGTERM: [], SIGKILL: []}
    stopped: list[float] = []
    for _ in range(rounds):
        with scratch() as directory, Cluster(process=True, config=AT_ONCE) as cluster, ExitStack() as stack:
            notes = directory / "notes"
            notes.mkdir()
            config = worker_properties(directory, cluster.bootstrap_servers, 120_000)
            workers = [Worker(config, stack) for _ in range(WORKERS)]
            ran.append(_create(workers[0], notes))
            say(f"{CONNECTORS * TASKS_OF_EACH:,} tasks run on {WORKERS} workers after {ran[-1]:.1f} s")
            for number, signal in enumerate(back, start=1):
                took, others = _go_and_come_back(workers, workers[number], signal, notes)
                back[signal].append(took)
                stopped.append(others)
                say(f"one had {signal.name}: its tasks run again {took:.1f} s later, {others} of the others stopped")
    name = "1,000 tasks of ten connectors, from the first request until all run"
    return [
        measure(name, "s", ran, Budget(SECONDS_TO_RUN)),
        measure("a worker of five stopped and started: until its tasks run", "s", back[SIGTERM]),
        measure("a worker of five killed and started: until its tasks run", "s", back[SIGKILL]),
        measure("tasks of other workers that this stopped", "", stopped, Budget(0)),
    ]


def _create(worker: Worker, notes: Path) -> float:
    wait_until(lambda: worker.ask("GET", "/health") is not None or None, SECONDS, "a healthy worker")
    begun = time.monotonic()
    idle = {"connector.class": "bench.drills.idle:Idle", "tasks.max": str(TASKS_OF_EACH), "notes": str(notes)}
    for number in range(CONNECTORS):
        wait_until(lambda n=number: worker.ask("PUT", f"/connectors/idle-{n}/config", idle), SECONDS, "a leader")  # type: ignore[misc]
    wait_until(worker.owners, SECONDS, "all tasks running")
    return time.monotonic() - begun


def _go_and_come_back(workers: list[Worker], one: Worker, signal: Signals, notes: Path) -> tuple[float, int]:
    """How long its tasks take to run again, and how many of the others were stopped meanwhile."""
    before = wait_until(workers[0].owners, SECONDS, "all tasks running")
    its = {name for name, owner in before.items() if one.url.endswith(owner)}
    others = {worker.process.pid for worker in workers if worker is not one}
    ended = _ended(notes, others)
    one.process.stop() if signal == SIGTERM else one.process.kill()
    begun = time.monotonic()
    one.start()
    mine = notes / str(one.process.pid)
    wait_until(lambda: len(_lines(mine)) >= len(its) or None, SECONDS, "its tasks running")
    took = time.monotonic() - begun
    after = wait_until(workers[0].owners, SECONDS, "all tasks running")
    if after != before:
        raise DrillError(f"{sum(before[name] != after[name] for name in before)} tasks run elsewhere now")
    return took, _ended(notes, others) - ended


def _ended(notes: Path, processes: set[int]) -> int:
    return sum(line.startswith("ended") for pid in processes for line in _lines(notes / str(pid)))


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def worker_properties(folder: Path, bootstrap: str, delay_ms: int) -> Path:
    """What workers are told; so long a lost one's tasks wait for it."""
    stores = "".join(
        f"{store}.storage.topic=connect-{store}\n{store}.storage.replication.factor=1\n"
        for store in ("config", "offset", "status")
    )
    path = folder / "worker.properties"
    path.write_text(
        f"bootstrap.servers={bootstrap}\ngroup.id=connect\n{stores}scheduled.rebalance.max.delay.ms={delay_ms}\n"
        "task.shutdown.graceful.timeout.ms=20000\n"
    )
    return path
