"""What a request to start a connector again starts, by what has failed, and levels of loggers that come by."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.work.connect.runtime.config_state import LoggerLevel, RestartRequest
from penstock.work.connect.runtime.records import TaskId
from penstock.work.connect.runtime.worker import ConnectWorker

TASKS = [TaskId("c", number) for number in range(3)]


class Worker:
    """As much of one as takes news; `states` are of the connector and its tasks, None where nothing is known."""

    def __init__(self, *states: str | None) -> None:
        connector, *tasks = [None if state is None else SimpleNamespace(state=state) for state in states]
        known = {number: status for number, status in enumerate(tasks) if status is not None}
        self.restarted: list[object] = []
        self.levels: list[tuple[str, str]] = []
        self.statuses = SimpleNamespace(connector=lambda name: connector, tasks=lambda name: known)
        self.state = SimpleNamespace(task_ids=lambda name: TASKS)
        self.leading = self.tasks = SimpleNamespace(restart=self.restarted.append)
        self.loggers = SimpleNamespace(set=self._set)

    def _set(self, logger: str, level: str) -> None:
        if logger == "unknown":
            raise KeyError(logger)
        self.levels.append((logger, level))

    def take(self, news: Any) -> None:
        ConnectWorker._take(cast("ConnectWorker", self), news)


@pytest.mark.parametrize(
    ("connector", "include_tasks", "only_failed", "expected"),
    [
        ("RUNNING", False, False, ["c"]),
        ("FAILED", False, True, ["c"]),
        ("RUNNING", False, True, []),
        (None, False, True, []),
        ("RUNNING", True, False, ["c", *TASKS]),
        ("RUNNING", True, True, [TASKS[1]]),
        ("FAILED", True, True, ["c", TASKS[1]]),
    ],
)
def test_what_is_asked_for_starts_again(
    connector: str | None, include_tasks: bool, only_failed: bool, expected: list[object]
) -> None:
    """Of the tasks the first one runs, the second has failed, and of the third nothing is known."""
    worker = Worker(connector, "RUNNING", "FAILED", None)
    worker.take(RestartRequest("c", include_tasks, only_failed))
    assert worker.restarted == expected


def test_a_level_is_set_unless_nobody_here_knows_it() -> None:
    worker = Worker(None)
    worker.take(LoggerLevel("penstock", "DEBUG"))
    worker.take(LoggerLevel("unknown", "DEBUG"))
    assert worker.levels == [("penstock", "DEBUG")]
    assert worker.restarted == []
