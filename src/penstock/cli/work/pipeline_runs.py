"""Pipelines side by side in one session of Spark: each in a thread, with a session of its own below that."""

import json
import os
import socket
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, TextIO

import click
from pyspark.sql import SparkSession

from penstock.cli.terminal.lines import printable_json, say
from penstock.cli.work.pipeline_place import Place
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jvm import forget, has_ended, tasks_of
from penstock.pipeline.running.run import BesideOthers
from penstock.pipeline.spec.user_code import plain_message

LOOK_EVERY_S: Final = 0.5
PAUSE_S: Final = 0.1
GONE_WITHIN_S: Final = 20.0
MOST_OF_A_LINE: Final = 1 << 20
MOST_PLANNED: Final = 4
"""At a time."""
READ_BYTES: Final = 1 << 16
OF_A_SESSION: Final = "spark.sql."
DRIVER_HAS_ENDED: Final = "Java or Spark has ended, and with it all that this driver runs"


class RunIn(Protocol):
    def __call__(self, place: Place, arguments: list[str]) -> None:
        """Run `penstock pipeline run` with these arguments."""


def serve(session: SparkSession, channel: socket.socket, run_in: RunIn, out: TextIO) -> None:
    """Until the worker closes the channel, or Java has ended; what runs then ends with the process."""
    told = Told(out)
    runs: dict[int, SharedPlace] = {}
    with (
        redirect_stdout(told),
        redirect_stderr(told),
        tempfile.TemporaryDirectory(prefix="penstock-fetches-", ignore_cleanup_errors=True) as folder,
    ):
        beside = BesideOthers(folder, threading.Semaphore(MOST_PLANNED))
        for message in _messages(session, channel):
            if "begin" in message:
                runs[message["begin"]] = SharedPlace(session, message["given"], beside)
                what = [runs, message["begin"], partial(run_in, arguments=message["arguments"]), told]
                threading.Thread(target=_run, args=what, daemon=True).start()
            elif (place := runs.get(message.get("stop", message.get("interrupt", 0)))) is not None:
                place.end(at_once="interrupt" in message)  # one that is over is not there any more
        if has_ended(session):
            end_process(DRIVER_HAS_ENDED)


def _messages(session: SparkSession, channel: socket.socket) -> Iterator[dict[str, Any]]:
    channel.settimeout(LOOK_EVERY_S)
    rest = b""
    while not has_ended(session):
        try:
            read = channel.recv(READ_BYTES)
        except TimeoutError:
            continue
        if not read:
            return
        *lines, rest = (rest + read).split(b"\n")
        yield from map(json.loads, lines)


def _run(runs: dict[int, "SharedPlace"], number: int, run_in: Callable[[Place], None], told: "Told") -> None:
    told.run.number, place = number, runs[number]
    code = 1
    try:
        run_in(place)
        code = 0
    except BaseException as error:  # sys.exit in a pipeline's own Python ends that pipeline
        if place.driver_has_ended:
            told.flush()
            told.run.number = None  # that is why each run fails, and no run's own words
            end_process(DRIVER_HAS_ENDED)
        elif isinstance(error, click.ClickException):
            told.failed(error.format_message())
        else:
            traceback.print_exc()
            told.failed(plain_message(error) if isinstance(error, Exception) else repr(error))
    finally:
        runs.pop(number)
        told.flush()
        told.say({"run": number, "over": code})


class SharedPlace(Place):
    """Of one pipeline among others."""

    beside: BesideOthers

    def __init__(self, session: SparkSession, given: str, beside: BesideOthers) -> None:
        self.beside = beside.replace(begun=[])
        self._driver, self._given = session, given
        self._own: SparkSession | None = None
        self._stop = threading.Event()

    @property
    def driver_has_ended(self) -> bool:
        return has_ended(self._driver)

    def given(self) -> str:
        return self._given

    @contextmanager
    def session(
        self, name: str, master: str, settings: Mapping[str, str], log_file: Path | None
    ) -> Iterator[SparkSession]:
        self._own = session = self._driver.newSession()
        for key, value in settings.items():
            self._set(session, key, value)
        try:
            yield session
        finally:
            _end_all(session, self.beside.begun)
            forget(session)
            self._own = None

    def stop(self) -> threading.Event:
        return self._stop

    def end(self, *, at_once: bool) -> None:
        self._stop.set()
        own = self._own
        if at_once and own is not None:
            threading.Thread(target=_interrupt, args=[own], daemon=True).start()

    def _set(self, session: SparkSession, key: str, value: str) -> None:
        if key.startswith(OF_A_SESSION) and session.conf.isModifiable(key):
            session.conf.set(key, value)
        elif self._driver.sparkContext.getConf().get(key) != value:
            raise PipelineError(
                f"{key} is a setting of the driver that this worker's pipelines share: say pipeline.driver.{key} in "
                "the worker's configuration as well, or let this job have a process of its own (--driver own)."
            )


def _end_all(session: SparkSession, begun: Collection[str]) -> None:
    """A run is over when none of its queries goes on, and no task of them, whatever has ended it: another worker may
    begin them then. Spark waits neither for tasks nor, with `spark.sql.streaming.stopTimeout`, for queries.
    """
    deadline_s = time.monotonic() + GONE_WITHIN_S
    while (active := session.streams.active) or tasks_of(session, begun):
        if time.monotonic() >= deadline_s:
            end_process("a query, or a task of it, goes on though it was stopped: so all ends that this driver runs")
        for query in active:
            with suppress(Exception):
                query.stop()
        time.sleep(PAUSE_S)


def end_process(why: str) -> None:
    say(why)
    os._exit(1)


def _interrupt(session: SparkSession) -> None:
    for query in session.streams.active:
        query.stop()


class Told:
    """Stands for the standard output and error: a line of a run's thread is told with its number."""

    encoding = "utf-8"

    def __init__(self, out: TextIO) -> None:
        self.run = threading.local()
        self._out, self._lock = out, threading.Lock()

    def write(self, text: str) -> int:
        *lines, rest = (getattr(self.run, "rest", "") + text).split("\n")
        whole = len(rest) - len(rest) % MOST_OF_A_LINE
        self.run.rest = rest[whole:]
        lines += [rest[:whole]] if whole else []
        number = getattr(self.run, "number", None)
        for line in lines:
            self.say({"line": line} if number is None else {"run": number, "line": line})
        return len(text)

    def failed(self, why: str) -> None:
        """On a line of its own, else nobody reads it."""
        self.flush()
        self.write(printable_json({"event": "failed", "error": why}) + "\n")

    def flush(self) -> None:
        if getattr(self.run, "rest", ""):
            self.write("\n")

    def isatty(self) -> bool:
        return False

    def say(self, message: Mapping[str, Any]) -> None:
        with self._lock:
            self._out.write(json.dumps(message) + "\n")
            self._out.flush()
