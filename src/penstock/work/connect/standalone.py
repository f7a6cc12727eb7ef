"""A worker that runs connectors alone, by Kafka's `connect-standalone.properties`: sources' offsets are in a file."""

import asyncio
import json
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from penstock.work.connect.config import ConfigKey, parse
from penstock.work.connect.jobs import Job, OnChange
from penstock.work.connect.making import Around
from penstock.work.connect.offsets import OffsetFile

SHARED_KEYS: Final = (
    ConfigKey("bootstrap.servers", default="localhost:9092", documentation="Where to reach the cluster."),
    ConfigKey("key.converter", "class", "org.apache.kafka.connect.json.JsonConverter", "What keys are in topics."),
    ConfigKey("value.converter", "class", "org.apache.kafka.connect.json.JsonConverter", "What values are in topics."),
    ConfigKey(
        "header.converter",
        "class",
        "org.apache.kafka.connect.storage.SimpleHeaderConverter",
        "What headers are in topics.",
    ),
    ConfigKey(
        "offset.flush.interval.ms", "long", 60_000, "How often it is written down how far sources were read.", least=1
    ),
    ConfigKey("task.shutdown.graceful.timeout.ms", "long", 5_000, "How long tasks may take to end.", least=0),
)
"""What standalone and distributed workers understand alike."""
KEYS: Final = (
    *SHARED_KEYS,
    ConfigKey(
        "offset.storage.file.filename", required=True, documentation="the file that keeps how far sources were read"
    ),
)


class JobFileError(ValueError):
    """A connector's file cannot be read."""


def read_job(path: Path, read_properties: Callable[[Path], dict[str, str]]) -> dict[str, str]:
    """The configuration of a connector: properties, or JSON with or without `name` and `config` around it."""
    if path.suffix != ".json":
        return read_properties(path)
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise JobFileError(f"{path} cannot be read as JSON: {error}") from error
    inner = document.get("config", document) if isinstance(document, dict) else None
    if not isinstance(inner, dict):
        raise JobFileError(f"{path} is not a connector: an object with its keys, or with name and config")
    return {
        **{key: str(value) for key, value in inner.items()},
        "name": str(document.get("name", inner.get("name", ""))),
    }


class StandaloneWorker:
    """Runs some jobs until it is stopped."""

    def __init__(self, config: Mapping[str, str], on_change: OnChange) -> None:
        settings = parse(KEYS, config)
        self._around = Around(
            bootstrap_servers=settings["bootstrap.servers"],
            config=config,
            flush_interval_ms=settings["offset.flush.interval.ms"],
            shutdown_timeout_s=settings["task.shutdown.graceful.timeout.ms"] / 1000,
        )
        self._store = OffsetFile(Path(settings["offset.storage.file.filename"]))
        self._on_change = on_change
        self.jobs: dict[str, Job] = {}

    async def start(self, config: Mapping[str, str]) -> Job:
        """Start a connector; ConfigError, PluginError, or what the connector raises."""
        job = Job(config, self._around, self._store, self._on_change)
        try:
            await job.start()
        except BaseException:
            await job.stop()
            raise
        self.jobs[job.name] = job
        return job

    async def stop(self) -> None:
        """Stop all connectors."""
        jobs, self.jobs = self.jobs, {}
        await asyncio.gather(*(job.stop() for job in jobs.values()))


async def run_standalone(config: Mapping[str, str], jobs: Sequence[Mapping[str, str]], on_change: OnChange) -> None:
    """Run these connectors until SIGINT or SIGTERM."""
    worker, stopped = StandaloneWorker(config, on_change), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    try:
        for job in jobs:
            await worker.start(job)
        await stopped.wait()
    finally:
        await worker.stop()
