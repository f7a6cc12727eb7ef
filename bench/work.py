"""What one worker takes a second: lines of a file into a topic, through a Python function, and out into a file."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench.measure import Measure, measure
from bench.process import AT_ONCE, running_node, scratch, source_environment
from bench.topics import create_topic, end_of
from penstock.testing.quorum_view import wait_until

LINES: Final = 100_000
SIZE: Final = 100
SECONDS: Final = 120.0
JOBS: Final = {
    "file source": {"connector.class": "FileStreamSource", "file": "before", "topic": "lines"},
    "Python function": {
        "connector.class": "penstock.FunctionConnector",
        "function": "bench.work:shouted",
        "topics": "lines",
        "output.topic": "shouted",
    },
    "file sink": {"connector.class": "FileStreamSink", "file": "after", "topics": "shouted"},
}


def shouted(record: object) -> str:
    value: str = record.value  # type: ignore[attr-defined]
    return value.upper()


def connectors(runs: int) -> list[Measure]:
    """What does a worker take a second: file source, Python function, file sink, 100,000 lines of 100 B each?"""
    found: dict[str, list[float]] = {name: [] for name in JOBS}
    for _ in range(runs + 1):
        with scratch() as folder, running_node(AT_ONCE) as node:
            (folder / "before").write_text(f"{'x' * (SIZE - 1)}\n" * LINES)
            for topic in ("lines", "shouted"):
                create_topic(node.address, topic)
            done = (
                end_of(node.address, "lines"),
                end_of(node.address, "shouted"),
                lambda folder=folder: (folder / "after").stat().st_size // SIZE,
            )
            for name, count in zip(JOBS, done, strict=True):
                found[name].append(_rate(folder, node.address, name, count))
    return [measure(f"{name}, one task", "records/s", rates[1:]) for name, rates in found.items()]


def _rate(folder: Path, bootstrap: str, name: str, count: Callable[[], int]) -> float:
    worker, job = folder / "worker.properties", folder / "job.properties"
    worker.write_text(
        f"bootstrap.servers={bootstrap}\noffset.storage.file.filename={folder}/offsets\n"
        "key.converter=StringConverter\nvalue.converter=StringConverter\nlisteners=http://127.0.0.1:0\n"
    )
    job.write_text("".join(f"{key}={value}\n" for key, value in {"name": "measured", **JOBS[name]}.items()))
    command = [sys.executable, "-m", "penstock", "worker", "--standalone", str(worker), str(job)]
    process = subprocess.Popen(command, cwd=folder, env=source_environment(), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        said = "\n"
        while said and not said.startswith("task measured-0: running"):
            said = process.stdout.readline()
        assert said, "the worker has ended"
        begun = time.monotonic()
        wait_until(lambda: count() >= LINES or None, SECONDS, f"all records of the {name}")
        return LINES / (time.monotonic() - begun)
    finally:
        process.terminate()
        process.communicate(timeout=SECONDS)
