"""A pipeline is deployed again and again while records come: none is missing in the end, and none is there twice.

    DEPLOYS=50 RATE=1000 python -m pytest -m soak -n 0 -s tests/cluster/test_pipeline_deploys.py

One test deploys versions, the other tries each, takes it, and goes back. `MINUTES` ends either sooner; what was
deployed by then is checked.
"""

import json
import os
import threading
import time
import urllib.error
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
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


class Deployed:
    """A pipeline on a worker that gets numbers, deployed as often as one likes."""

    def __init__(self, folder: Path, servers: str, url: str) -> None:
        self._folder, self._servers, self.url = folder, servers, url
        self._took_s, self._began_s = list[float](), time.monotonic()
        self._pid: int | None = None
        wait_until(partial(is_healthy, url), SECONDS, "a healthy worker")
        self._numbers = Numbers(servers)
        self._numbers.start()

    def has_time(self) -> bool:
        return time.monotonic() - self._began_s < 60 * MINUTES

    def file(self, version: int) -> Path:
        file = self._folder / f"numbers-{version}.yaml"
        text = PIPELINE.replace("SERVERS", self._servers).replace("FOLDER", str(self._folder))
        file.write_text(text.replace("VERSION", str(version)))
        return file

    def submit(self, file: Path, *options: str) -> None:
        """Returns when its process has written a batch."""
        deployed_s, places = time.monotonic(), ["--checkpoint-root", str(self._folder / "checkpoints")]

        def submitted() -> str | None:
            result = told("submit", str(file), *places, "--master", "local[1]", "--worker", self.url, *options)
            assert result.exit_code == 0 or "rebalance" in result.output, result.output
            return None if result.exit_code else result.output

        wait_until(submitted, SECONDS, "workers that agree who leads")
        self._pid, _ = wait_until(partial(progress, self.url, self._pid), PATIENCE_S, f"a batch of {file.name}")
        self._took_s.append(time.monotonic() - deployed_s)
        shown = f"first batch after {self._took_s[-1]:.1f} s, {self._numbers.count:,} records so far"
        print(f"{len(self._took_s) - 1}: {file.name}: {shown}", flush=True)

    def check(self) -> None:
        """Each number that was stored has one row."""
        count = self._numbers.end()
        wait_until(lambda: self._rows() >= count or None, PATIENCE_S, "as many rows as there are records")
        found: Counter[int] = Counter()
        versions = set()
        for file in committed_files(self._folder / "numbers"):
            rows = pq.read_table(file, partitioning=None)
            found.update(rows.column("number").to_pylist())
            versions |= set(rows.column("version").to_pylist())
        missing, twice = count - len(found), sum(times - 1 for times in found.values())
        deploys = f"{len(self._took_s) - 1} deploys, {count:,} records"
        print(f"{deploys}: {missing} missing, {twice} twice; versions {sorted(versions)}")
        took_s = sorted(self._took_s)
        print(f"from submit to the first batch: {took_s[len(took_s) // 2]:.1f} s (median), {took_s[-1]:.1f} s at most")
        assert (missing, twice) == (0, 0)

    def _rows(self) -> int:
        """What a batch tells of its lag is from before it: only the files say when all has come."""
        return sum(pq.read_metadata(file).num_rows for file in committed_files(self._folder / "numbers"))


def told(*words: str) -> Result:
    return CliRunner().invoke(main, ["pipeline", *words])


@pytest.fixture
def deployed(tmp_path: Path) -> Iterator[Deployed]:
    with Cluster(config=BROKER) as cluster, ExitStack() as stack:
        _, url = stack.enter_context(a_worker(worker_file(tmp_path, cluster.bootstrap_servers, 30_000)))
        yield Deployed(tmp_path, cluster.bootstrap_servers, url)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_each_number_is_there_once(deployed: Deployed) -> None:
    deployed.submit(deployed.file(0))
    for version in range(1, DEPLOYS + 1):
        if deployed.has_time():
            deployed.submit(deployed.file(version), "--replace", "--unchecked")
    deployed.check()


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_each_number_is_there_once_when_versions_are_tried_taken_and_left(deployed: Deployed, tmp_path: Path) -> None:
    """Every second cut-over goes back, to what `show` has said before."""
    before, kept = deployed.file(0), tmp_path / "before.yaml"
    deployed.submit(before)
    for version in range(1, DEPLOYS // 2 + 1):
        if not deployed.has_time():
            break
        new = deployed.file(version)
        tried = told("try", str(new), "--job", "numbers", "--since", "20s", "--json", "--worker", deployed.url)
        assert tried.exit_code == 1, tried.output
        (sink,) = json.loads(tried.stdout)["sinks"]
        assert sink["gone"] == sink["come"] == sink["rows"]["new"] > 0, "each row has another version"
        kept.write_text(told("show", "numbers", "--worker", deployed.url).stdout)
        assert kept.read_text().strip() == before.read_text().strip()
        deployed.submit(new, "--replace")
        deployed.submit(kept, "--replace")
    deployed.check()
