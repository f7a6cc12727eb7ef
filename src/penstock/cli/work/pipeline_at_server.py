"""Where `penstock pipeline run` runs for a task whose queries are at a server of Spark Connect (`AT_SERVER`)."""

import json
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.cli.terminal.lines import printable_json, say
from penstock.cli.work.pipeline_place import Place
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.running.server_session import apply, is_out_of_reach, missing_there, open_session, take_along
from penstock.pipeline.server_address import server_address
from penstock.pipeline.spec.user_code import plain_message

CLOSE_BEFORE_S: Final = 6.0
"""Before the time for the last batch is over; of less than twice as much it is a part."""


class ServerPlace(Place):
    def __init__(self, said: str) -> None:
        words = json.loads(said)
        self._server, self._id, self._patience_s = words["server"], words["session"], float(words["patience_s"])
        self._modules = [Path(folder) for folder in words["modules"]]
        self._taken: list[str] = []
        self._session: Any = None
        self._closing = threading.Lock()

    @contextmanager
    def session(
        self, name: str, master: str, settings: Mapping[str, str], log_file: Path | None
    ) -> Iterator[SparkSession]:
        place = server_address(self._server).place
        self._session = session = open_session(self._server, self._id)
        try:
            try:
                apply(session, settings)
                self._taken = [name for folder in self._modules for name in take_along(folder)]
            except PySparkException as error:
                raise PipelineError(f"{place}: {plain_message(error)}") from error
            yield session
        except BaseException as error:
            if is_out_of_reach(error):
                say(printable_json({"event": "out of reach"}))
            raise
        finally:
            self._close()

    def explained(self, error: PipelineError) -> str:
        return missing_there(error, self._taken) or str(error)

    def stop(self) -> threading.Event:
        """What does not end in time is ended with its session."""
        stop = threading.Event()

        def end(*_: object) -> None:
            if not stop.is_set():
                stop.set()
                late = threading.Timer(max(self._patience_s - CLOSE_BEFORE_S, self._patience_s / 2), self._end)
                late.daemon = True
                late.start()

        signal.signal(signal.SIGINT, end)
        signal.signal(signal.SIGTERM, end)
        return stop

    def _end(self) -> None:
        self._close()
        os._exit(1)

    def _close(self) -> None:
        """Told to the worker, which else has it closed by another process."""
        with self._closing:
            session, self._session = self._session, None
            if session is None:
                return
            try:
                session.client.release_session()
            except Exception as error:
                say(f"session {self._id} is not closed: {error}")
            else:
                say(printable_json({"event": "closed", "session": self._id}))
            session.stop()
