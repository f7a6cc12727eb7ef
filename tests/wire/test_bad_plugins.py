"""Plugins that behave badly on workers that share connectors: the worker lives, others run on, the status says it."""

import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, ClassVar

import pytest
from tests.wire.connect_workers import Workers

from penstock.work.connect import calls
from penstock.work.connect.api import SourceConnector, SourceContext, SourceRecord, SourceTask
from penstock.work.connect.runtime import supervisor

HERE = __name__


class Never:
    """What is waited for until the test is over."""

    event: ClassVar[threading.Event] = threading.Event()


class BadTask(SourceTask):
    """Behaves as `how` says."""

    def start(self, config: Mapping[str, str], context: SourceContext) -> None:
        self.how = config["how"]
        if self.how == "task start raises":
            raise RuntimeError("it does not start")

    def poll(self) -> Sequence[SourceRecord]:
        if self.how == "poll raises":
            raise RuntimeError("it does not read")
        if self.how == "poll ends the process":
            raise SystemExit(3)
        if self.how == "poll returns garbage":
            return 42  # type: ignore[return-value]
        if self.how == "poll blocks":
            Never.event.wait()
        return []

    def stop(self) -> None:
        if self.how == "stop hangs":
            Never.event.wait()
        if self.how == "stop raises":
            raise RuntimeError("it does not stop")


class Bad(SourceConnector):
    task_class = BadTask

    def start(self, config: Mapping[str, str]) -> None:
        self.config = dict(config)
        if config["how"] == "connector blocks":
            Never.event.wait()
        if config["how"] == "connector raises":
            raise RuntimeError("it cannot be reached")

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        if self.config["how"] == "configs are garbage":
            return {"not": "a list"}  # type: ignore[return-value]
        return [self.config]

    def stop(self) -> None:
        if self.config["how"] == "connector hangs in stop":
            Never.event.wait()


class Good(Bad):
    task_class = BadTask


def bad(how: str) -> dict[str, str]:
    return {"name": "bad", "connector.class": f"{HERE}:Bad", "how": how, "task.restarts.max": "1"}


@pytest.fixture
async def workers(bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Workers]:
    """One worker with a good connector; what lasts for 0.2 s is told of."""
    monkeypatch.setattr(calls, "LONG_S", 0.2)
    monkeypatch.setattr(supervisor, "FIRST_RESTART_S", 0.01)
    workers = Workers(bootstrap, topic, task_shutdown_graceful_timeout_ms="300")
    await workers.add("one:1")
    await workers.create({"name": "good", "connector.class": f"{HERE}:Good", "how": ""})
    await workers.until_running("good")
    yield workers
    try:
        await workers.stop()
    finally:
        Never.event.set()
        Never.event = threading.Event()


async def lives(workers: Workers) -> None:
    """The worker goes on: the good one still runs, and takes another configuration."""
    await workers.create({"name": "good", "connector.class": f"{HERE}:Good", "how": "", "x": "2"})
    await workers.until(lambda: (workers.all[0].state.task_config("task-good-0") or {}).get("x") == "2")
    await workers.until_running("good")


def told(status: Any, state: str, words: str) -> bool:
    return status is not None and status.state == state and words in (status.trace or "")


@pytest.mark.parametrize(
    ("how", "state", "words"),
    [
        ("task start raises", "FAILED", "it does not start; it is not started again"),
        ("poll raises", "FAILED", "it does not read; it is not started again"),
        ("poll ends the process", "FAILED", "SystemExit"),
        ("poll returns garbage", "FAILED", "not iterable"),
        ("poll blocks", "RUNNING", "poll has not returned"),
    ],
)
async def test_a_task_that_behaves_badly(workers: Workers, how: str, state: str, words: str) -> None:
    await workers.create(bad(how))
    await workers.until(lambda: told(workers.statuses.tasks("bad").get(0), state, words))
    await lives(workers)


@pytest.mark.parametrize(
    ("how", "state", "words"),
    [
        ("connector raises", "FAILED", "it cannot be reached; it is not started again"),
        ("connector blocks", "UNASSIGNED", "start has not returned"),
        ("configs are garbage", "FAILED", "a list of dicts is needed"),
    ],
)
async def test_a_connector_that_behaves_badly(workers: Workers, how: str, state: str, words: str) -> None:
    await workers.create(bad(how))
    await workers.until(lambda: told(workers.statuses.connector("bad"), state, words))
    await lives(workers)


@pytest.mark.parametrize("how", ["stop hangs", "stop raises", "connector hangs in stop", "poll blocks"])
async def test_what_does_not_end_is_left_behind(workers: Workers, how: str) -> None:
    await workers.create(bad(how))
    await workers.until_running("bad")
    await workers.create(bad(""))
    await workers.until(lambda: (workers.all[0].state.task_config("task-bad-0") or {}).get("how") == "")
    await workers.until_running("bad")
    await workers.all[0].leading.delete_connector("bad")
    await workers.until(lambda: "bad" not in workers.statuses.connectors())
    await lives(workers)


async def test_what_blocked_and_goes_on_says_so(workers: Workers) -> None:
    await workers.create(bad("poll blocks"))
    await workers.until(lambda: told(workers.statuses.tasks("bad").get(0), "RUNNING", "poll has not returned"))
    Never.event.set()
    await workers.until(lambda: workers.statuses.tasks("bad")[0].trace is None)
