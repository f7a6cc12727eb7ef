"""Where `penstock pipeline run` runs: here in a process of its own, which signals end; or in one that others share."""

import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.pipeline.running.run import BesideOthers


class Place:
    beside: "BesideOthers | None" = None

    def given(self) -> str:
        """The standard input."""
        return sys.stdin.read()

    @contextmanager
    def session(
        self, name: str, master: str, settings: Mapping[str, str], log_file: Path | None
    ) -> Iterator["SparkSession"]:
        """PipelineError."""
        session = spark_session(name, master=master, config=settings, log_file=log_file)
        try:
            yield session
        finally:
            session.stop()

    def explained(self, error: PipelineError) -> str:
        """Why a pipeline has failed, with what is different here."""
        return str(error)

    def stop(self) -> threading.Event:
        """Set when the pipeline is to end after its batch."""
        stop = threading.Event()

        def end(*_: object) -> None:
            if stop.is_set():
                raise KeyboardInterrupt
            stop.set()

        signal.signal(signal.SIGINT, end)
        signal.signal(signal.SIGTERM, lambda *_: stop.set())
        return stop
