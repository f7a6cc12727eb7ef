"""One driver for all tasks of a worker that share it: a process with a JVM, in which their queries run side by side.

It lives as long as any of them may run, and a while longer, so that the next query finds it warm. Its lease is the
shortest of those of its runs: where one of them is not the worker's any more and has not ended, the driver is killed.
"""

import asyncio
import json
import math
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from penstock.pipeline.jobs.child import LOOK_EVERY_S, MARGIN_S, GuardedProcess, Listener, take_line
from penstock.pipeline.jobs.commands import ROCKSDB, RUN, conf_arguments, run_arguments
from penstock.pipeline.jobs.driver_runs import DriverRuns, Message
from penstock.pipeline.jobs.keys import DRAIN_MS, DRIVER, KEYS, OF_A_WORKER
from penstock.pipeline.jobs.launching import Run
from penstock.work.connect.api import WorkerContext
from penstock.work.connect.config import parse, with_prefix
from penstock.work.connect.runtime.kinds import SHUTDOWN

IDLE_S: Final = 60.0
"""How long a driver without runs is kept."""
DEFAULTS: Final = {f"{ROCKSDB}.boundedMemoryUsage": "true", "python.factory.idleWorkerMaxPoolSize": "4"}
"""State of all queries has together what Spark gives it, 500 MB unless something else is said. Of Python's workers few
are kept that have nothing to do: when many queries begin there are many.
"""


class SharedDriver:
    """Of one worker."""

    def __init__(self, worker: WorkerContext) -> None:
        master = parse(OF_A_WORKER, worker.config)[f"{DRIVER}.master"]
        settings = DEFAULTS | with_prefix(worker.config, f"{DRIVER}.spark.")
        self._command = [*RUN, "driver", "--master", master, *conf_arguments(settings)]
        self._driver: Driver | None = None

    def launch(self, config: Mapping[str, str], owned_until_s: Callable[[], float], listener: Listener) -> Run:
        driver = self._driver
        if driver is None or not driver.process.is_alive:
            driver = self._driver = Driver(self._command)
        return SharedRun(driver, config, owned_until_s, listener)


class Driver:
    """A driver's process. What it prints of a run is told as {"run": 7, "line": "…"}, its end as {"run": 7, "over": 0}.
    Other lines, {"line": "…"} among them, are no run's own, and all get them.
    """

    def __init__(self, command: list[str]) -> None:
        self.known: dict[int, SharedRun] = {}
        self.last_line = ""
        self._loop = asyncio.get_running_loop()
        self.runs = DriverRuns()
        self._idle_since_s = time.monotonic()
        self._looked_at_s = -math.inf
        self._unsent = bytearray()
        self._channel, theirs = socket.socketpair()
        self._channel.setblocking(False)
        with theirs:
            self.process = GuardedProcess(command, "", self._until_s, self, channel=theirs.fileno())

    # Called in threads that read what it prints

    def event(self, said: dict[str, Any]) -> None:
        if "run" not in said:
            self.line(str(said.get("line", said)))
            return
        run = self.known.get(said["run"])
        if run is None:
            return
        if "over" in said:
            run.exit_code = int(said["over"])
            with suppress(RuntimeError):  # the worker's loop is closed
                self._loop.call_soon_threadsafe(self._forget, said["run"])
        elif run.exit_code is None:
            take_line(str(said.get("line", "")), run.listener)

    def line(self, line: str) -> None:
        self.last_line = line
        for run in list(self.known.values()):
            run.listener.line(line)

    # Called in the worker's loop

    def begin(self, run: "SharedRun", arguments: list[str], given: str) -> int:
        number, message = self.runs.begin(arguments, given)
        self.known[number] = run
        self.process.renew()  # its guardian knows until when before the run begins
        self._say(message)
        return number

    def say_stop(self, number: int, patience_s: float) -> None:
        for message in self.runs.stop(number, time.monotonic(), patience_s):
            self._say(message)

    def look(self) -> None:
        """Whatever is due; all runs call it."""
        now_s = time.monotonic()
        if now_s - self._looked_at_s < LOOK_EVERY_S:
            return
        self._looked_at_s = now_s
        for message in self.runs.due(now_s):
            self._say(message)
        if self.runs.is_stuck(now_s):
            self.kill()
        self._send()
        self.process.renew()

    def kill(self) -> None:
        if self.process.is_alive:
            self.process.kill()

    def _forget(self, number: int) -> None:
        """The run is over."""
        self.known.pop(number, None)
        self.runs.over(number)
        self.process.renew()
        if not self.known:
            self._idle_since_s = time.monotonic()
            self._loop.call_later(IDLE_S, self._end_if_idle)

    def _end_if_idle(self) -> None:
        if not self.known and time.monotonic() - self._idle_since_s >= IDLE_S:
            self.kill()

    def _until_s(self) -> float:
        return min((run.owned_until_s() for run in self.known.values()), default=math.inf)

    def _say(self, message: Message) -> None:
        self._unsent += json.dumps(message).encode() + b"\n"
        self._send()

    def _send(self) -> None:
        """As much as it takes at the moment; the rest follows."""
        with suppress(OSError):  # it is busy, or has ended: `is_alive` will tell
            del self._unsent[: self._channel.send(self._unsent) if self._unsent else 0]


class SharedRun:
    """The queries of one task in a driver."""

    def __init__(
        self, driver: Driver, config: Mapping[str, str], owned_until_s: Callable[[], float], listener: Listener
    ) -> None:
        self.exit_code: int | None = None
        self.owned_until_s, self.listener = owned_until_s, listener
        self._driver = driver
        self._patience_s = float(config.get(SHUTDOWN.name, DRAIN_MS)) / 1000
        self._number = driver.begin(self, run_arguments(config), parse(KEYS, config)["pipeline"] or "")

    @property
    def pid(self) -> int:
        return self._driver.process.pid

    @property
    def is_alive(self) -> bool:
        return self.exit_code is None and self._driver.process.is_alive

    def renew(self) -> None:
        self._driver.look()

    async def stop(self) -> None:
        try:
            self._driver.say_stop(self._number, self._patience_s)
            while self.is_alive and time.monotonic() < self.owned_until_s() - MARGIN_S:
                await asyncio.sleep(LOOK_EVERY_S)
                self._driver.look()
        finally:
            if self.is_alive:
                self._driver.kill()
        await self.last_words()

    async def last_words(self) -> None:
        """Where the driver has ended, its end is why the run has."""
        if self.exit_code is None:
            await self._driver.process.last_words()
        if self.exit_code is None:
            code = self._driver.process.exit_code
            how = "was killed" if code is None else f"ended with code {code}"
            how += f"; it last said: {self._driver.last_line}" if self._driver.last_line else ""
            self.listener.event({"event": "failed", "error": f"the driver that this worker's pipelines share {how}"})
