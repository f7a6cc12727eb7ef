"""Where the queries of a task run: the port between a task and what runs them, and processes of their own as one way.

Whatever runs them runs `penstock pipeline run`, and says of it what that prints (`jobs/report.py`).
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from penstock.pipeline.jobs.child import GuardedProcess, Listener
from penstock.pipeline.jobs.commands import prepared
from penstock.pipeline.jobs.keys import KEYS
from penstock.work.connect.api import WorkerContext
from penstock.work.connect.config import parse


class Run(Protocol):
    """The queries of a task, from a launch to their end."""

    exit_code: int | None
    """None as long as they run, and where they were killed."""

    @property
    def pid(self) -> int:
        """Of the process group in which they run."""

    @property
    def is_alive(self) -> bool: ...

    def renew(self) -> None:
        """Called several times in a second: they may run on for as long as the task is the worker's."""

    async def stop(self) -> None:
        """In good order, for as long as the task is the worker's, else at once. They have ended when this returns, also
        where it is cancelled.
        """

    async def last_words(self) -> None:
        """Wait until the listener has been told all that they have said."""


class Launcher(Protocol):
    def launch(self, config: Mapping[str, str], owned_until_s: Callable[[], float], listener: Listener) -> Run:
        """Begin a task's queries by its configuration, which may run until that time, by time.monotonic()."""


class OwnProcesses:
    """A process with a JVM for each task."""

    def __init__(self, worker: WorkerContext) -> None: ...

    def launch(self, config: Mapping[str, str], owned_until_s: Callable[[], float], listener: Listener) -> Run:
        command, environment = prepared(config)
        return GuardedProcess(command, parse(KEYS, config)["pipeline"] or "", owned_until_s, listener, environment)
