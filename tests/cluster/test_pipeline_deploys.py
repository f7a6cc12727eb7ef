"""A pipeline is deployed again and again while records come: none is missing in the end, and none is there twice.

    DEPLOYS=50 RATE=1000 python -m pytest -m soak -n 0 -s tests/cluster/test_pipeline_deploys.py

`MINUTES` ends it sooner; what was deployed by then is checked.
"""

import os
import threading
import time
import urllib.error
from collections import Counter
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

DEPLOYS = int(os.environ.get("DEPLOYS", "50"))
RATE = int(os.environ.get("RATE", "1000"))
MINUTES = float(os.environ.get("MINUTES", "120"))
TICKS = 20
"""In a second."""
PATIENCE_S = 10 * SECONDS
PIPELINE = """
name: numbers
source: {bootstrap.servers: SERVERS, subscribe: numbers, startingOffsets: earliest}
sql: SELECT CAST(CAST(value AS STRING) AS BIGINT) AS number, VERSION AS version FROM source
sink: {format: parquet, path: FOLDER/numbers}
trigger: 1 second
spark: {spark.sql.shuffle.partitions: 1}
"""


class Numbers(threading.Thread):
    """Produces 0, 1, 2 … at the rate until it is told to end."""

    def __init__(self, servers: str) -> None:
        super().__init__(daemon=True)
        self.count = 0
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
        self._is_over = threading.Event()

    def run(self) -> None:
        began_s = time.monotonic()
        while not self._is_over.wait(1 / TICKS):
            until = int((time.monotonic() - began_s) * RATE)
            for number in range(self.count, until):
                self._producer.produce("numbers", str(number).encode())
            self.count = max(self.count, until)
            self._producer.poll(0)

    def end(self) -> int:
        self._is_over.set()
        self.join()
        assert self._producer.flush(SECONDS) == 0
        return self.count


def report(url: str) -> dict[str, Any]:
    """What its task tells; empty while it moves."""
    try:
        found: dict[str, Any] = ask("GET", f"{url}/connectors/numbers/tasks/0/report")["report"]
        return found
    except urllib.error.HTTPError:
        return {}


def progress(url: str, other_than: int | None) -> tuple[int, dict[str, Any]] | None:
    """The process and its query, when another process than that has written a batch."""
    told = report(url)
    query = told.get("queries", {}).get("numbers: numbers", {})
    return (told["pid"], query) if query.get("batches") and told["pid"] != other_than else None


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_each_number_is_there_once(tmp_path: Path) -> None:
    with Cluster(config=BROKER) as cluster, ExitStack() as stack:
        _, url = stack.enter_context(a_worker(worker_file(tmp_path, cluster.bootstrap_servers, 30_000)))
        _deploy_again_and_again(tmp_path, cluster.bootstrap_servers, url)


def _deploy_again_and_again(folder: Path, servers: str, url: str) -> None:
    wait_until(partial(is_healthy, url), SECONDS, "a healthy worker")
    numbers, took_s, pid, began_s = Numbers(servers), list[float](), None, time.monotonic()
    numbers.start()
    for version in range(DEPLOYS + 1):
        if time.monotonic() - began_s > 60 * MINUTES:
            break
        deployed_s = time.monotonic()
        _deploy(folder, servers, url, version)
        pid, _ = wait_until(partial(progress, url, pid), PATIENCE_S, f"a batch of version {version}")
        took_s.append(time.monotonic() - deployed_s)
        print(f"version {version}: first batch after {took_s[-1]:.1f} s, {numbers.count:,} records so far", flush=True)
    count = numbers.end()
    wait_until(lambda: _rows_in(folder) >= count or None, PATIENCE_S, "as many rows as there are records")
    found: Counter[int] = Counter()
    versions = set()
    for file in committed_files(folder / "numbers"):
        rows = pq.read_table(file, partitioning=None)
        found.update(rows.column("number").to_pylist())
        versions |= set(rows.column("version").to_pylist())
    missing, twice = count - len(found), sum(times - 1 for times in found.values())
    print(
        f"{len(took_s) - 1} deploys, {count:,} records: {missing} missing, {twice} twice; versions {sorted(versions)}"
    )
    took_s.sort()
    print(f"from submit to the first batch: {took_s[len(took_s) // 2]:.1f} s (median), {took_s[-1]:.1f} s at most")
    assert (missing, twice) == (0, 0)


def _deploy(folder: Path, servers: str, url: str, version: int) -> None:
    file = folder / "numbers.yaml"
    text = PIPELINE.replace("SERVERS", servers).replace("FOLDER", str(folder)).replace("VERSION", str(version))
    file.write_text(text)
    options = ["--checkpoint-root", str(folder / "checkpoints"), "--master", "local[1]", "--worker", url]
    options += ["--replace", "--unchecked"] if version else []

    def submitted() -> str | None:
        result = CliRunner().invoke(main, ["pipeline", "submit", str(file), *options])
        assert result.exit_code == 0 or "rebalance" in result.output, result.output
        return None if result.exit_code else result.output

    wait_until(submitted, SECONDS, "workers that agree who leads")


def _rows_in(folder: Path) -> int:
    """What a batch tells of its lag is from before it: only the files say when all has come."""
    return sum(pq.read_metadata(file).num_rows for file in committed_files(folder / "numbers"))
