"""Many small pipelines in the driver that jobs of a worker share: their cost, and what a crash and a kill do to them.

    QUERIES=50 python -m pytest -m soak -n 0 -s tests/cluster/test_many_pipelines.py

Figures are printed; times are worth something on a calm machine only.
"""

import json
import os
import signal
import time
import urllib.error
from collections import Counter
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.cluster.connect_processes import BROKER, SECONDS, a_worker, ask, is_healthy, worker_file

from penstock.pipeline.committed_files import committed_files
from penstock.testing import Cluster
from penstock.testing.quorum_view import wait_until

QUERIES = int(os.environ.get("QUERIES", "50"))
MOST_MB = 4096
PATIENCE_S = 20 * SECONDS
WELL = """
source: {bootstrap.servers: SERVERS, subscribe: numbers, startingOffsets: earliest}
sql: SELECT CAST(CAST(value AS STRING) AS BIGINT) AS number FROM source
sink: {format: parquet, path: FOLDER/out/NAME}
trigger: TRIGGER
"""
TO_A_TOPIC = WELL.replace("{format: parquet, path: FOLDER/out/NAME}", "{bootstrap.servers: SERVERS, topic: NAME}")
CRASHES = WELL.replace("FROM source", "FROM source WHERE assert_true(CAST(value AS STRING) <> '7', 'seven') IS NULL")


class Many:
    """A worker with a shared driver, and its jobs."""

    def __init__(self, folder: Path, servers: str) -> None:
        self.folder, self.servers, self.url = folder, servers, ""
        self.rows = 0
        self._trigger = f"{max(1, QUERIES // 10)} seconds"

    def produce(self, count: int) -> None:
        producer = Producer({"bootstrap.servers": self.servers})
        for number in range(self.rows, self.rows + count):
            producer.produce("numbers", str(number).encode())
        assert producer.flush(SECONDS) == 0
        self.rows += count

    def submit(self, name: str, text: str) -> None:
        for word, value in {
            "SERVERS": f'"{self.servers}"', "FOLDER": str(self.folder), "NAME": name, "TRIGGER": self._trigger
        }.items():  # fmt: skip
            text = text.replace(word, value)
        config = {
            "connector.class": "penstock.pipeline",
            "pipeline": text,
            "checkpoint.root": str(self.folder / "checkpoints"),
        }

        def put() -> bool | None:
            try:
                ask("PUT", f"{self.url}/connectors/{name}/config", config)
            except urllib.error.HTTPError as error:
                if error.code != 409:  # workers settle who leads
                    raise
                return None
            return True

        wait_until(put, SECONDS, "a worker that takes it")

    def report(self, name: str) -> dict[str, Any]:
        try:
            return dict(ask("GET", f"{self.url}/connectors/{name}/tasks/0/report")["report"])
        except urllib.error.HTTPError:
            return {}

    def has_run(self, name: str) -> bool:
        return any(query["batches"] for query in self.report(name).get("queries", {}).values())

    def numbers_in(self, name: str) -> list[int]:
        """What a reader of its output finds."""
        if name.startswith("topic"):
            return self._numbers_of(name)
        folder = self.folder / "out" / name
        files = committed_files(folder) if (folder / "_spark_metadata").is_dir() else []
        return [one for file in files for one in pq.read_table(file, partitioning=None).column("number").to_pylist()]

    def _numbers_of(self, topic: str) -> list[int]:
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "reader", "enable.auto.commit": False})
        partition = TopicPartition(topic, 0, 0)
        try:
            consumer.assign([partition])
            end = consumer.get_watermark_offsets(partition, timeout=SECONDS)[1]
            found = consumer.consume(end, timeout=SECONDS) if end else []
        finally:
            consumer.close()
        return [json.loads(one.value() or b"")["number"] for one in found if one.error() is None]

    def until_all_have_all(self, names: list[str], what: str) -> float:
        """How long it took, in s. One is looked at after the other: looking at all took a quarter of the machine."""
        began_s, left = time.monotonic(), list(names)

        def have_all() -> bool | None:
            while left and len(set(self.numbers_in(left[-1]))) == self.rows:
                left.pop()
            return not left or None

        try:
            wait_until(have_all, PATIENCE_S, f"all rows in all outputs, {what}")
        except BaseException:
            print(left, [self.report(name) for name in left[:2]])
            raise
        return time.monotonic() - began_s

    def driver(self, name: str) -> psutil.Process:
        """The guardian above the driver that has this job."""
        return psutil.Process(wait_until(lambda: self.report(name).get("pid"), PATIENCE_S, "a driver"))


KINDS = {"java": "Java", "warm_planners": "planners", "warm_workers": "workers", "pipeline driver": "driver"}


def memory_mb(guardian: psutil.Process) -> dict[str, int]:
    """Of the driver's processes by kinds, with their number; what is shared is counted once (PSS)."""
    found: Counter[str] = Counter()
    for process in [guardian, *guardian.children(recursive=True)]:
        with suppress(psutil.Error):
            command = " ".join(process.cmdline())
            kind = next((name for word, name in KINDS.items() if word in command.partition(" -cp ")[0]), "others")
            found[kind] += process.memory_full_info().pss // (1 << 20)
            found[f"{kind}, number"] += 1
            found["all"] += process.memory_full_info().pss // (1 << 20)
    return dict(found)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_many_pipelines_share_a_driver(tmp_path: Path) -> None:
    with Cluster(config=BROKER) as cluster, ExitStack() as stack:
        config = worker_file(tmp_path, cluster.bootstrap_servers, 6_000)
        with config.open("a") as file:
            file.write("pipeline.driver=shared\npipeline.driver.master=local[2]\n")
        many = Many(tmp_path, cluster.bootstrap_servers)
        worker, many.url = stack.enter_context(a_worker(config))
        wait_until(partial(is_healthy, many.url), SECONDS, "a healthy worker")
        names = [f"{'topic' if number % 5 == 4 else 'files'}-{number}" for number in range(QUERIES)]
        _begin_all(many, names)
        _one_more(many)
        _one_that_crashes(many, names)
        _kill_the_driver(many, names)
        os.kill(worker.pid, signal.SIGKILL)
        many.produce(10)
        _, many.url = stack.enter_context(a_worker(config))
        took_s = many.until_all_have_all(names, "after the worker was killed")
        print(f"kill -9 of the worker: all have all rows {took_s:.1f} s later, with the start of another worker")
        twice = sum(len(found) - len(set(found)) for name in names[:4] for found in [many.numbers_in(name)])
        assert twice == 0, "each row is in the files once"


def _begin_all(many: Many, names: list[str]) -> None:
    many.produce(100)
    topics = [NewTopic(name, 1) for name in names if name.startswith("topic")]
    admin = AdminClient({"bootstrap.servers": many.servers})
    for made in admin.create_topics(topics).values() if topics else ():
        made.result(SECONDS)
    for name in names:
        many.submit(name, TO_A_TOPIC if name.startswith("topic") else WELL)
    took_s = many.until_all_have_all(names, "at first")
    found = memory_mb(many.driver(names[0]))
    print(
        f"{len(names)} queries had all rows {took_s:.1f} s after the last was submitted; PSS in MB: {found}", flush=True
    )
    assert len({many.driver(name).pid for name in names}) == 1, "they share a driver"
    assert found["all"] <= MOST_MB


def _one_more(many: Many) -> None:
    began_s = time.monotonic()
    many.submit("one-more", WELL)
    wait_until(lambda: many.numbers_in("one-more") or None, PATIENCE_S, "its first row")
    print(f"a new query's first row: {time.monotonic() - began_s:.1f} s after it was submitted", flush=True)


def _one_that_crashes(many: Many, names: list[str]) -> None:
    before, failed = many.driver(names[0]).pid, {name: many.report(name).get("restarts") for name in names}
    many.submit("crashes", CRASHES)

    def why() -> str | None:
        failures = " ".join(many.report("crashes").get("failures", []))
        return failures if "seven" in failures else None

    wait_until(why, PATIENCE_S, "the reason of the crash")
    many.produce(10)
    took_s = many.until_all_have_all(names, "after a crash")
    print(f"beside one that crashes: all have the next rows after {took_s:.1f} s", flush=True)
    assert many.driver(names[0]).pid == before
    assert {name: many.report(name).get("restarts") for name in names} == failed, "no other was begun again"
    ask("DELETE", f"{many.url}/connectors/crashes")


def _kill_the_driver(many: Many, names: list[str]) -> None:
    guardian = many.driver(names[0])
    java = next(one for one in guardian.children(recursive=True) if one.name() == "java")
    java.kill()
    many.produce(10)
    took_s = many.until_all_have_all(names, "after the driver was killed")
    print(f"kill -9 of the driver: all have the next rows {took_s:.1f} s later", flush=True)
    failures = many.report(names[0])["failures"]
    assert any("driver that this worker's pipelines share" in failure for failure in failures), failures
