"""The files sink in a process that is killed again and again: each record is in exactly one file."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from confluent_kafka import Producer
from tests.cluster.started import environment

from penstock.testing import Cluster
from penstock.testing.quorum_view import wait_until

SECONDS = 60
RECORDS = 400
DEATHS = ("before the commit", "after the move", "before the move")
BROKER = {"num.partitions": "2", "group.min.session.timeout.ms": "1000", "group.initial.rebalance.delay.ms": "0"}


def rows(folder: Path) -> list[int]:
    """All that is in files that a reader sees."""
    found: list[int] = []
    for path in folder.rglob("lines+*"):
        found += [json.loads(line)["n"] for line in path.read_text().splitlines()]
    return sorted(found)


def a_worker(folder: Path, bootstrap: str) -> "subprocess.Popen[bytes]":
    (folder / "worker.properties").write_text(
        f"bootstrap.servers={bootstrap}\noffset.storage.file.filename={folder}/offsets\noffset.flush.interval.ms=10\n"
        "value.converter=JsonConverter\nvalue.converter.schemas.enable=false\nconsumer.max.poll.records=7\n"
        "listeners=http://127.0.0.1:0\n"
    )
    job = {
        "name": "files",
        "connector.class": "tests.cluster.dying_files_sink:Dying",
        "topics": "lines",
        "store.url": str(folder / "lake"),
        "flush.size": 10,
        "notes": str(folder / "notes"),
        "deaths": ",".join(DEATHS),
        "format": "json",
        "consumer.override.session.timeout.ms": 2000,
        "consumer.override.heartbeat.interval.ms": 200,
    }
    (folder / "job.json").write_text(json.dumps(job))
    files = [str(folder / name) for name in ("worker.properties", "job.json")]
    return subprocess.Popen([sys.executable, "-m", "penstock", "worker", "--standalone", *files], env=environment())


def test_nothing_is_missing_and_nothing_twice(tmp_path: Path) -> None:
    with Cluster(config=BROKER) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for number in range(RECORDS):
            producer.produce("lines", json.dumps({"n": number}), partition=number % 2)
        assert producer.flush(SECONDS) == 0
        (tmp_path / "notes").touch()
        for _ in DEATHS:
            assert a_worker(tmp_path, cluster.bootstrap_servers).wait(SECONDS) == -signal.SIGKILL
        last = a_worker(tmp_path, cluster.bootstrap_servers)
        try:
            wait_until(lambda: len(rows(tmp_path / "lake")) >= RECORDS or None, SECONDS, "all records in files")
            os.kill(last.pid, signal.SIGTERM)
            assert last.wait(SECONDS) == 0
        finally:
            last.kill()
            last.wait(SECONDS)
        assert (tmp_path / "notes").read_text().splitlines() == list(DEATHS)
        assert rows(tmp_path / "lake") == list(range(RECORDS))
