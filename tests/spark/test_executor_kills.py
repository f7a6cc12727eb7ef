"""An executor of a standalone cluster is killed at each step of a task, which runs again: each row is there once.

The steps are those that leave something at the brokers: a transaction that has begun, rows in it, all rows in it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pyspark
import pytest
from pyspark.sql import SparkSession
from tests.spark.test_exactly_once import committed, numbered
from tests.spark.topics import filled_topic, new_topic

from penstock.pipeline.session import prepare_environment
from penstock.testing.ports import ReservedPort

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1_200)]
ROOT: Final = Path(__file__).parents[2]
STEPS: Final = {
    "it has begun": "penstock.client.blocking.transactions:TransactionCoordinators.begin",
    "some rows are sent": "penstock.pipeline.datasource.writer:RowWriter.write",
    "all rows are stored": "penstock.pipeline.datasource.writer:RowWriter.flush",
}
ROUNDS: Final = 3
ROWS: Final = 24
KILLER = '''
"""Each Python worker of an executor loads this first: behind one call of a function the executor is killed, once."""
import importlib.abc, importlib.util, os, signal, sys

place, once = os.environ.get("KILLED_BEHIND", ""), os.environ.get("KILLED_ONCE", "")


def parent_of(process):
    with open(f"/proc/{process}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def kills(function):
    def killing(*arguments, **named):
        answer = function(*arguments, **named)
        try:
            os.close(os.open(once, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return answer
        process = os.getpid()
        while "java" not in os.readlink(f"/proc/{process}/exe"):
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
DRIVER = """
import sys
from pathlib import Path
from penstock.pipeline.running.run import run_pipeline
from penstock.pipeline.spec.files import load_yaml

run_pipeline(load_yaml(Path(sys.argv[1]).read_text(), "killed"), master=sys.argv[2])
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
        for name, arguments in {
            "master.Master": ["--host", host, "--port", number, "--webui-port", "0"],
            "worker.Worker": [
                *("--host", host, "--webui-port", "0", "--cores", "2", "--memory", "2g", "--work-dir", str(folder)),
                address,
            ],
        }.items():
            log = stack.enter_context((folder / f"{name}.log").open("w"))
            command = [spark_class, f"org.apache.spark.deploy.{name}", *arguments]
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
            stack.callback(process.wait)
            stack.callback(process.kill)  # our launcher of Java lets none end it more gently
        yield address


@pytest.mark.parametrize("step", STEPS)
def test_each_row_is_there_once_whenever_an_executor_dies(
    spark: SparkSession, servers: str, tmp_path: Path, step: str
) -> None:
    (tmp_path / "killer").mkdir()
    (tmp_path / "killer" / "sitecustomize.py").write_text(KILLER)
    path = ":".join(map(str, (tmp_path / "killer", ROOT / "src", ROOT)))
    with standalone(tmp_path) as master:
        for number in range(ROUNDS):
            source, target = filled_topic(servers, [ROWS // 2, ROWS // 2]), new_topic(servers, 2)
            once, file = tmp_path / f"killed-{number}", tmp_path / f"{number}.yaml"
            file.write_text(
                f"source: {{bootstrap.servers: '{servers}', subscribe: {source}, startingOffsets: earliest, "
                "maxOffsetsPerTrigger: 8}\n"
                "sql: SELECT key, value FROM source\n"
                f"sink: {{bootstrap.servers: '{servers}', topic: {target}, delivery: exactly-once}}\n"
                f"trigger: available-now\ncheckpoint: {tmp_path}/checkpoint-{number}\n"
                "spark:\n"
                f"  spark.executorEnv.PYTHONPATH: '{path}'\n"
                f"  spark.executorEnv.KILLED_BEHIND: '{STEPS[step]}'\n"
                f"  spark.executorEnv.KILLED_ONCE: '{once}'\n"
                "  spark.driver.host: 127.0.0.1\n  spark.executor.memory: 1g\n"
            )
            done = subprocess.run(
                [sys.executable, "-c", DRIVER, str(file), master], capture_output=True, check=False, text=True
            )
            assert done.returncode == 0, done.stderr[-2000:]
            assert once.exists(), "an executor was to be killed"
            assert committed(spark, servers, target) == numbered(ROWS)
