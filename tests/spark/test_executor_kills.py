"""An executor of a standalone cluster, or its worker of Python, is killed at each step of a task, which runs again.

The steps are those that leave something at the brokers: a transaction that has begun, rows in it, all rows in it. One
query goes on all the time, and loses one in each of its batches.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pyspark
import pytest
from tests.spark.once_campaign import KILLS, SETTINGS, check, keeping_cluster
from tests.spark.topics import new_topic

from penstock.pipeline.session import prepare_environment
from penstock.testing.ports import ReservedPort

pytestmark = [pytest.mark.soak, pytest.mark.timeout(10_000)]
ROOT: Final = Path(__file__).parents[2]
STEPS: Final = {
    "it has begun": "penstock.client.blocking.transactions:TransactionCoordinators._begun",
    "some rows are sent": "penstock.pipeline.datasource.writer:RowWriter.write",
    "all rows are stored": "penstock.pipeline.datasource.writer:RowWriter.flush",
}
VICTIMS: Final = ("executor", "worker")
BATCHES: Final = max(KILLS, 3)
KILLER = '''
"""Each Python worker of an executor loads this first: it is killed behind one call of a function in each batch."""
import importlib.abc, importlib.util, os, signal, sys

place, victim, folder = (os.environ.get(name, "") for name in ("KILLED_BEHIND", "VICTIM", "KILLED"))


def parent_of(process):
    with open(f"/proc/{process}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def kills(function):
    def killing(*arguments, **named):
        from pyspark import TaskContext

        answer = function(*arguments, **named)
        batch = TaskContext.get().getLocalProperty("streaming.sql.batchId")
        try:
            os.close(os.open(os.path.join(folder, batch), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return answer
        process = os.getpid()
        while victim == "executor" and "java" not in os.readlink(f"/proc/{process}/exe"):
            process = parent_of(process)
        os.kill(process, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    return killing


class Planting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        module, _, attribute = place.partition(":")
        if name != module:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def planting(made):
            execute(made)
            owner, _, function = attribute.partition(".")
            cls = getattr(made, owner)
            setattr(cls, function, kills(getattr(cls, function)))

        spec.loader.exec_module = planting
        return spec


if place:
    sys.meta_path.insert(0, Planting())
'''
DRIVER = f"""
import sys, time
from pathlib import Path
from tests.spark.once_campaign import begin, written
from penstock.pipeline.session import spark_session

master, servers, checkpoints, target, *settings = sys.argv[1:]
session = spark_session("killed", master=master, config=dict(one.split("=") for one in settings))
(query,) = begin(session, servers, Path(checkpoints), [target])
while written[target] < {BATCHES}:
    time.sleep(0.2)
    assert query.isActive, query.exception()
query.stop()
"""


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """A master and a worker of Spark's own cluster manager, with two cores; yields the master's address."""
    prepare_environment()
    spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    with ExitStack() as stack:
        port = ReservedPort()
        host, number = port.address.rsplit(":", 1)
        port.release()
        address = f"spark://{host}:{number}"
        environment = os.environ | {"SPARK_MASTER_OPTS": "-Dspark.deploy.maxExecutorRetries=-1"}
        for name, arguments in {
            "master.Master": ["--host", host, "--port", number, "--webui-port", "0"],
            "worker.Worker": [
                *("--host", host, "--webui-port", "0", "--cores", "2", "--memory", "2g", "--work-dir", str(folder)),
                address,
            ],
        }.items():
            log = stack.enter_context((folder / f"{name}.log").open("w"))
            command = [spark_class, f"org.apache.spark.deploy.{name}", *arguments]
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=environment)
            stack.callback(process.wait)
            stack.callback(process.kill)  # our launcher of Java lets none end it more gently
        yield address


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with keeping_cluster() as cluster:
        yield cluster.bootstrap_servers


@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("step", STEPS)
def test_each_row_is_there_once_whenever_an_executor_dies(servers: str, tmp_path: Path, step: str, victim: str) -> None:
    (tmp_path / "killer").mkdir()
    (tmp_path / "killer" / "sitecustomize.py").write_text(KILLER)
    killed, target = tmp_path / "killed", new_topic(servers, 2)
    killed.mkdir()
    path = ":".join(map(str, (tmp_path / "killer", ROOT / "src", ROOT)))
    variables = {"PYTHONPATH": path, "KILLED_BEHIND": STEPS[step], "VICTIM": victim, "KILLED": str(killed)}
    settings = {f"spark.executorEnv.{name}": value for name, value in variables.items()}
    settings |= SETTINGS | {
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "1g",
        "spark.task.maxFailures": "10",
    }
    with standalone(tmp_path) as master:
        words = [master, servers, str(tmp_path / "checkpoints"), target]
        words += [f"{name}={value}" for name, value in settings.items()]
        done = subprocess.run(
            [sys.executable, "-c", DRIVER, *words], capture_output=True, check=False, text=True, cwd=ROOT
        )
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(list(killed.iterdir())) >= BATCHES, "one was to be killed in each batch"
    check(servers, target, BATCHES)
