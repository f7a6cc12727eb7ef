"""A pipeline as a job of two workers, on real Spark: the worker that runs it is killed, and it goes on on the other."""

import os
import signal
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from tests.cluster.connect_processes import BROKER, SECONDS, a_worker, ask, is_healthy, worker_file

from penstock.cli.main import main
from penstock.pipeline.committed_files import committed_files
from penstock.testing import Cluster
from penstock.testing.quorum_view import wait_until

QUICKLY = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
ROWS = 200
SESSION_MS = 6_000

PIPELINE = """
source:
  bootstrap.servers: SERVERS
  subscribe: numbers
  startingOffsets: earliest
sql: SELECT CAST(CAST(value AS STRING) AS INT) AS number FROM source
sink: {format: parquet, path: FOLDER/numbers}
trigger: 100 milliseconds
spark: {spark.sql.shuffle.partitions: 1}
"""

MODULE = """
def number(value):
    return int(value)
"""

PYTHON = """
from digits import number
from pyspark.sql.functions import udf

SOURCE = {"bootstrap.servers": "SERVERS", "subscribe": "numbers", "startingOffsets": "earliest"}
SINK = {"format": "parquet", "path": "FOLDER/numbers"}
TRIGGER = "100 milliseconds"
SPARK = {"spark.sql.shuffle.partitions": "1"}


def pipeline(source):
    print("numbers begin", flush=True)
    return source.select(udf(number, "int")(source.value.cast("string")).alias("number"))
"""


def produce(servers: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for number in numbers:
        producer.produce("numbers", str(number).encode())
    assert producer.flush(SECONDS) == 0


def written(folder: Path) -> Counter[int]:
    found: Counter[int] = Counter()
    for file in committed_files(folder / "numbers"):
        found.update(pq.read_table(file, partitioning=None).column("number").to_pylist())
    return found


def group_of(leader: int) -> set[str]:
    """The names of the programs in a process group that are not dead."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
        except (OSError, ValueError):
            continue
        state, _, group = rest.split()[:3]
        if entry.name.isdecimal() and int(group) == leader and state not in "ZX":
            found.add(name)
    return found


def penstock(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["pipeline", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def settled(*arguments: str) -> str | None:
    """What a command says, when the workers do not rebalance any more."""
    result = CliRunner().invoke(main, ["pipeline", *arguments])
    assert result.exit_code == 0 or "rebalance" in result.output, result.output
    return None if result.exit_code else result.output


def until(condition: Callable[[], Any], what: str, url: str) -> Any:
    try:
        return wait_until(condition, 3 * SECONDS, what)
    except BaseException:
        print(penstock("status", "numbers", "--worker", url), penstock("logs", "numbers", "--worker", url))
        raise


def test_a_query_goes_on_where_it_was_when_its_worker_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stopped while it starts, gets another file and is resumed before: Spark takes long to start each time."""
    monkeypatch.setenv("JDK_JAVA_OPTIONS", QUICKLY)
    with Cluster(config=BROKER) as cluster, ExitStack() as stack:
        config = worker_file(tmp_path, cluster.bootstrap_servers, SESSION_MS)
        workers = dict(stack.enter_context(a_worker(config))[::-1] for _ in range(2))
        for url in workers:
            wait_until(partial(is_healthy, url), SECONDS, "a healthy worker")
        first = next(iter(workers))
        produce(cluster.bootstrap_servers, range(ROWS))
        files = {"numbers.yaml": PIPELINE, "numbers.py": PYTHON, "digits.py": MODULE}
        for name, text in files.items():
            (tmp_path / name).write_text(
                text.replace("SERVERS", cluster.bootstrap_servers).replace("FOLDER", str(tmp_path))
            )
        options = ("--checkpoint-root", str(tmp_path / "checkpoints"), "--master", "local[1]", "--worker", first)

        def submitted(*arguments: str) -> str:
            submitting = partial(settled, "submit", *arguments, *options)
            return str(wait_until(submitting, SECONDS, "workers that agree who leads"))

        assert submitted(str(tmp_path / "numbers.yaml")) == "pipeline numbers: submitted, 1 tasks\n"
        begun = until(lambda: process_with_spark(first), "its process", first)
        said = wait_until(lambda: settled("stop", "numbers", "--worker", first), SECONDS, "a worker that leads")
        assert said == "pipeline numbers: stops\n"
        wait_until(lambda: not group_of(begun) or None, SECONDS, "the end of the stopped processes")
        wait_until(lambda: "STOPPED" in penstock("list", "--worker", first) or None, SECONDS, "its state")

        replacing = ("--replace", "--unchecked", "--module", str(tmp_path / "digits.py"))
        assert submitted(*replacing, str(tmp_path / "numbers.py")) == "pipeline numbers: submitted, 1 tasks\n"
        for name in files:
            (tmp_path / name).unlink()  # the workers have them
        said = wait_until(lambda: settled("resume", "numbers", "--worker", first), SECONDS, "a worker that leads")
        assert said == "pipeline numbers: is to run\n"
        until(lambda: len(written(tmp_path)) == ROWS or None, "all numbers", first)
        before = until(lambda: caught_up(first), "a report", first)
        assert "java" in group_of(before["report"]["pid"])

        killed = f"http://{before['worker_id']}"
        left = next(url for url in workers if url != killed)
        produce(cluster.bootstrap_servers, range(ROWS, 2 * ROWS))
        os.kill(workers[killed].pid, signal.SIGKILL)
        wait_until(lambda: not group_of(before["report"]["pid"]) or None, SECONDS, "the end of its processes")
        produce(cluster.bootstrap_servers, range(2 * ROWS, 3 * ROWS))
        until(lambda: len(written(tmp_path)) == 3 * ROWS or None, "all numbers", left)
        assert written(tmp_path) == Counter(range(3 * ROWS))
        last = until(lambda: caught_up(left), "a report", left)
        shown = f"numbers  RUNNING  running  {left.removeprefix('http://')}"
        until(lambda: shown in penstock("status", "numbers", "--worker", left) or None, "its status", left)
        assert "0: numbers begin\n" in penstock("logs", "numbers", "--worker", left)
        assert_figures(left)

        said = wait_until(lambda: settled("delete", "numbers", "--worker", left), SECONDS, "a worker that leads")
        assert said == "pipeline numbers: deleted\n"
        wait_until(lambda: not group_of(last["report"]["pid"]) or None, SECONDS, "the end of the deleted processes")
        assert penstock("list", "--worker", left) == "there are no pipelines\n"


def assert_figures(url: str) -> None:
    """What was under way when the other worker was killed may have been done already."""
    with urllib.request.urlopen(f"{url}/metrics") as page:
        figures = page.read().decode()
    query = 'connector="numbers",task="0",query="numbers: numbers"'
    rows = figures.partition(f"penstock_pipeline_input_rows_total{{{query}}} ")[2].partition("\n")[0]
    assert ROWS <= int(rows) <= 2 * ROWS
    assert f'penstock_pipeline_lag_records{{{query},partition="numbers-0",topic="numbers"}} 0\n' in figures


def process_with_spark(url: str) -> int | None:
    """The process of its task, when Java runs there; None before."""
    try:
        leader: int = ask("GET", f"{url}/connectors/numbers/tasks/0/report")["report"].get("pid", 0)
    except urllib.error.HTTPError:
        return None
    return leader if leader and "java" in group_of(leader) else None


def caught_up(url: str) -> dict[str, Any] | None:
    """What its task tells, when nothing waits; None as long as it starts or moves."""
    try:
        found: dict[str, Any] = ask("GET", f"{url}/connectors/numbers/tasks/0/report")
    except urllib.error.HTTPError:
        return None
    queries = found["report"].get("queries", {})
    is_done = queries.get("numbers: numbers", {}).get("last", {}).get("lags") == {"numbers-0": 0}
    return found if is_done and found["report"]["state"] == "running" else None
