"""A pipeline remembers ten million keys in a process of two gigabytes, is killed, and its state is spread anew.

KEYS=10000000 python -m pytest -m soak -n 0 -s tests/cluster/test_large_state.py
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Producer
from tests.cluster.started import environment

from penstock.testing import Cluster

KEYS = int(os.environ.get("KEYS", "10000000"))
MOST_MB = 2048
BATCHES = 10
PIPELINE = """
name: counts
source: {bootstrap.servers: SERVERS, subscribe: keys, startingOffsets: earliest, maxOffsetsPerTrigger: AT_A_TIME}
sql: SELECT key, count(*) AS times FROM source GROUP BY key
sink: {format: noop, mode: update}
trigger: available-now
spark:
  spark.sql.shuffle.partitions: PARTITIONS
  spark.driver.memory: 1g
  spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage: true
  spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB: 256
"""


def produce(servers: str, keys: range) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000})
    for key in keys:
        while True:
            try:
                producer.produce("keys", key=b"%d" % key, value=b"")
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(600) == 0


def memory_mb(process: "subprocess.Popen[str]") -> int:
    """What the processes of the pipeline have of their own, together."""
    own = psutil.Process(process.pid)
    total = 0
    for one in (own, *own.children(recursive=True)):
        try:
            total += one.memory_full_info().uss
        except psutil.Error:  # it has just ended
            continue
    return total >> 20


def batches(process: "subprocess.Popen[str]") -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    for line in process.stdout:
        told = json.loads(line) if line.startswith("{") else {}
        if told.get("event") == "batch":
            yield told


def run(arguments: list[str], is_enough: Callable[[int], bool] = lambda _: False) -> tuple[int, int, int]:
    """Batches, rows, and the most memory; killed when there are enough batches."""
    command = [sys.executable, "-m", "penstock", "pipeline", "run", *arguments, "--json", "--master", "local[2]"]
    count, rows, most_mb = 0, 0, 0
    with subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        for batch in batches(process):
            count, rows, most_mb = count + 1, rows + batch["input_rows"], max(most_mb, memory_mb(process))
            if is_enough(count):
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return count, rows, most_mb


def told(*arguments: str) -> str:
    command = [sys.executable, "-m", "penstock", "pipeline", *arguments]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, check=True).stdout


def stored(file: Path, place: str) -> tuple[int, int]:
    """Partitions and keys."""
    (store,) = json.loads(told("state", str(file), "--checkpoint", place, "--json"))
    return int(store["partitions"]), int(store["keys"])


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_no_key_is_lost(tmp_path: Path) -> None:
    file, place = tmp_path / "counts.yaml", str(tmp_path / "checkpoints")
    with Cluster() as cluster:
        text = PIPELINE.replace("SERVERS", cluster.bootstrap_servers).replace("AT_A_TIME", str(KEYS // BATCHES))
        file.write_text(text.replace("PARTITIONS", "2"))
        produce(cluster.bootstrap_servers, range(KEYS))
        begun, rows, _ = run([str(file), "--checkpoint", place], lambda count: count == BATCHES // 3)
        print(f"killed after {begun} batches, {rows:,} rows", flush=True)
        done, rows, most_mb = run([str(file), "--checkpoint", place])
        print(f"went on with {done} batches, {rows:,} rows; at most {most_mb:,} MB", flush=True)
        assert stored(file, place) == (2, KEYS)
        told("repartition", str(file), "16", "--checkpoint", place)
        file.write_text(text.replace("PARTITIONS", "16"))
        assert stored(file, place) == (16, KEYS)
        produce(cluster.bootstrap_servers, range(0, KEYS, BATCHES))
        _, rows, again_mb = run([str(file), "--checkpoint", place])
        print(f"in 16 partitions {rows:,} rows more; at most {again_mb:,} MB", flush=True)
        assert (rows, stored(file, place)) == (KEYS // BATCHES, (16, KEYS))
    assert max(most_mb, again_mb) <= MOST_MB
